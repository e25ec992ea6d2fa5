"""The gRPC side of a node: thin services that turn calls into values, and values into answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ..memory.errors import Invalid, Retry
from ..proto.channel import MESSAGE_BYTES_LIMIT, SERVER_OPTIONS
from ..proto.generated import (
    admin_pb2, admin_pb2_grpc, memory_pb2, memory_pb2_grpc, replication_pb2, replication_pb2_grpc,
)  # fmt: skip
from ..replication.messages import Message
from . import calls, wire
from .errors import abort, failed
from .ports import (
    BareCommand, HelloReply, KeyRequest, NodeStatus, ReadReply, ReadRequest, Submission, SubmitResult, Wait,
)  # fmt: skip

SUBMISSIONS_PER_STREAM_LIMIT: Final = 1024
BUNDLE_BYTES_LIMIT: Final = 1 << 20
OVERLOAD_HINT_S: Final = 0.02
LEADER_HINT_PERIOD_S: Final = 0.1
HEALTH_PERIOD_S: Final = 0.5
HEADROOM_BYTES: Final = 1 << 16

SERVICES: Final = ("veridical.v1.Memory", "veridical.v1.Admin", "veridical.v1.Replication")

Context = grpc.aio.ServicerContext[Any, Any]
Result = TypeVar("Result")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.server")


class Served(Protocol):
    """The side of a node that the services call (`node.runtime.Node`)."""

    node_id: str

    async def submit(self, submission: Submission, relayed: bool = False) -> SubmitResult:
        """See `Node.submit`."""
        ...

    async def submit_anonymous(
        self, commands: Sequence[BareCommand], timeout_us: int, wait: Wait = Wait.QUORUM
    ) -> SubmitResult:
        """See `Node.submit_anonymous`."""
        ...

    async def read(self, request: ReadRequest) -> ReadReply:
        """See `Node.read`."""
        ...

    async def transfer(self, target: str | None = None) -> str:
        """See `Node.transfer`."""
        ...

    def receive(self, sender: str, message: Message) -> None:
        """See `Node.receive`."""
        ...

    def hello(self) -> HelloReply:
        """See `Node.hello`."""
        ...

    def keys(self, request: KeyRequest) -> bytes:
        """See `Node.keys`."""
        ...

    def status(self) -> NodeStatus:
        """See `Node.status`."""
        ...

    async def ready(self, sync_timeout_us: int = 0) -> str:
        """See `Node.ready`."""
        ...


class LeaderHint:
    """The leader's endpoint as this node last knew it: looked up a few times a second, not for every result."""

    def __init__(self, node: Served) -> None:
        self._node = node
        self._endpoint = ""
        self._looked = float("-inf")

    def endpoint(self) -> str:
        """Where the leader is, or empty."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= LEADER_HINT_PERIOD_S:
            self._looked = now
            status = self._node.status()
            known = (member.endpoint for member in status.members if member.id == status.leader)
            self._endpoint = next(known, "")
        return self._endpoint


class Conversation:
    """One `Submit` stream: every submission is a task of its own, results leave in bundles of whatever is ready."""

    def __init__(self, node: Served, hint: LeaderHint, context: Context, closing: asyncio.Event) -> None:
        self._node = node
        self._hint = hint
        self._context = context
        self._closing = closing
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: deque[memory_pb2.SubmitResult] = deque()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Serve until the caller ends the stream, or the node does and everything received is answered."""
        await self._context.send_initial_metadata(())
        writing = asyncio.ensure_future(self._write())
        reading = asyncio.ensure_future(self._read())
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({reading, writing, closing}, return_when=asyncio.FIRST_COMPLETED)
            while self._tasks:
                await asyncio.wait(self._tasks)
            await self._write_waiting()
        finally:
            for task in (reading, writing, closing, *self._tasks):
                task.cancel()
            await asyncio.gather(reading, writing, closing, *self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        while (bundle := await self._context.read()) is not grpc.aio.EOF:
            for submission in bundle.submissions:
                self._begin(submission)

    def _begin(self, raw: memory_pb2.Submission) -> None:
        if len(self._tasks) >= SUBMISSIONS_PER_STREAM_LIMIT:
            full = Retry(f"{SUBMISSIONS_PER_STREAM_LIMIT} submissions wait on this stream", OVERLOAD_HINT_S)
            self._put(memory_pb2.SubmitResult(request=raw.request, failure=failed(full)))
            return
        task = asyncio.get_running_loop().create_task(self._answer(raw))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, raw: memory_pb2.Submission) -> None:
        try:
            result = await self._result(raw)
        except Exception as error:
            self._put(memory_pb2.SubmitResult(request=raw.request, failure=_noted(error), leader=self._hint.endpoint()))
        else:
            self._put(calls.submit_result_to_wire(raw.request, result, self._hint.endpoint()))

    async def _result(self, raw: memory_pb2.Submission) -> SubmitResult:
        if raw.timeout_us <= 0:
            raise Invalid("timeout_us", "is not positive")
        if not raw.commands:
            return await self._node.submit(calls.submission_from_wire(raw), raw.relayed)
        if len(raw.commands) != len(raw.bodies):
            raise Invalid("bodies", f"{len(raw.bodies)} bodies for {len(raw.commands)} commands")
        wait = calls.WAITS.get(raw.wait, Wait.QUORUM)
        return await self._node.submit_anonymous(calls.bare_commands(raw), raw.timeout_us, wait)

    def _put(self, result: memory_pb2.SubmitResult) -> None:
        self._results.append(result)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._write_waiting()

    async def _write_waiting(self) -> None:
        while self._results:
            bundle, size = memory_pb2.SubmitResults(), 0
            while self._results and size < BUNDLE_BYTES_LIMIT:
                result = self._results.popleft()
                bundle.results.append(result)
                size += result.ByteSize()
            await self._context.write(bundle)


class MemoryService(memory_pb2_grpc.MemoryServicer):
    """`veridical.v1.Memory`."""

    def __init__(self, node: Served, closing: asyncio.Event) -> None:
        self._node = node
        self._closing = closing
        self._hint = LeaderHint(node)

    async def Submit(
        self, request_iterator: AsyncIterator[memory_pb2.Submissions], context: Context
    ) -> None:
        """A conversation of submissions and results."""
        await Conversation(self._node, self._hint, context, self._closing).run()

    async def Read(self, request: memory_pb2.ReadRequest, context: Context) -> memory_pb2.ReadReply:
        """One query, one answer."""

        async def answer() -> memory_pb2.ReadReply:
            asked = calls.read_request_from_wire(request)
            return calls.read_reply_to_wire(asked.verb, await self._node.read(asked))

        return await _or_abort(context, answer)


class AdminService(admin_pb2_grpc.AdminServicer):
    """`veridical.v1.Admin`."""

    def __init__(self, node: Served) -> None:
        self._node = node

    async def Hello(self, request: admin_pb2.HelloRequest, context: Context) -> admin_pb2.HelloReply:
        """Who this node is."""
        return await _or_abort(context, _later(lambda: calls.hello_to_wire(self._node.hello())))

    async def Keys(self, request: admin_pb2.KeysRequest, context: Context) -> admin_pb2.KeysReply:
        """The digest key, sealed to a member that proves its node key."""
        asked = calls.key_request_from_wire(request)
        return await _or_abort(context, _later(lambda: admin_pb2.KeysReply(sealed=self._node.keys(asked))))

    async def Status(self, request: admin_pb2.StatusRequest, context: Context) -> admin_pb2.StatusReply:
        """What this node knows of itself and the members."""
        return await _or_abort(context, _later(lambda: calls.status_to_wire(self._node.status())))

    async def Transfer(self, request: admin_pb2.TransferRequest, context: Context) -> admin_pb2.TransferReply:
        """Hand leadership over."""

        async def transfer() -> admin_pb2.TransferReply:
            return admin_pb2.TransferReply(reason=await self._node.transfer(request.target or None))

        return await _or_abort(context, transfer)


class ReplicationService(replication_pb2_grpc.ReplicationServicer):
    """`veridical.v1.Replication`: what other members have to say comes in here; answers leave on our own streams."""

    def __init__(self, node: Served, cluster: str) -> None:
        self._node = node
        self._cluster = cluster

    async def Exchange(
        self, request_iterator: AsyncIterator[replication_pb2.Parcel], context: Context
    ) -> None:
        """Greet, then take messages until the stream ends."""
        first = await context.read()
        sender = await self._greeted(first, context)
        mine = replication_pb2.Greeting(cluster=self._cluster, node=self._node.node_id, receiver=sender)
        await context.write(replication_pb2.Parcel(greeting=mine))
        receive = self._node.receive
        try:
            while (parcel := await context.read()) is not grpc.aio.EOF:
                for message in parcel.messages:
                    receive(sender, wire.decode(message))
        except wire.Malformed as error:
            _log.warning("malformed message", peer=sender, reason=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def _greeted(self, first: Any, context: Context) -> str:
        """Who speaks; ends the stream when it means another cluster or another node."""
        if first is grpc.aio.EOF or not first.greeting.node:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first parcel carries no greeting")
        greeting = first.greeting
        if greeting.cluster != self._cluster:
            reason = f"this node belongs to cluster {self._cluster!r}, not to {greeting.cluster!r}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        if greeting.receiver != self._node.node_id:
            reason = f"this is node {self._node.node_id}, not {greeting.receiver}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        return str(greeting.node)


class HealthService(health_pb2_grpc.HealthServicer):
    """`grpc.health.v1.Health`: serving is what `/readyz` calls ready."""

    def __init__(self, node: Served) -> None:
        self._node = node

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        """The state of the whole node, or of one of its services."""
        if request.service and request.service not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service!r} here")
        return health_pb2.HealthCheckResponse(status=await self._state())

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The state, and from then on every change of it."""
        told = None
        while True:
            known = not request.service or request.service in SERVICES
            state = await self._state() if known else health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            if state != told:
                told = state
                yield health_pb2.HealthCheckResponse(status=state)
            await asyncio.sleep(HEALTH_PERIOD_S)

    async def _state(self) -> health_pb2.HealthCheckResponse.ServingStatus:
        unready = await self._node.ready()
        response = health_pb2.HealthCheckResponse
        return response.NOT_SERVING if unready else response.SERVING


class Server:
    """The gRPC server of one node. `address` is where it listens (host:port; port 0 chooses one)."""

    def __init__(
        self, node: Served, cluster: str, address: str, credentials: grpc.ServerCredentials | None = None
    ) -> None:
        self._closing = asyncio.Event()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        memory_pb2_grpc.add_MemoryServicer_to_server(MemoryService(node, self._closing), self._server)
        admin_pb2_grpc.add_AdminServicer_to_server(AdminService(node), self._server)
        replication_pb2_grpc.add_ReplicationServicer_to_server(ReplicationService(node, cluster), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(node), self._server)
        names = (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.port = self._listen(address, credentials)

    async def start(self) -> None:
        """Accept calls."""
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Accept no new calls, answer those under way within `grace_s`, end the streams."""
        self._closing.set()
        await self._server.stop(grace_s)

    def _listen(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        if credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, credentials)


def _later(call: Callable[[], Result]) -> Callable[[], Awaitable[Result]]:
    async def answer() -> Result:
        return call()

    return answer


async def _or_abort(context: Context, answer: Callable[[], Awaitable[Result]]) -> Result:
    """The answer, or the error as a status."""
    try:
        return await answer()
    except Exception as error:
        _noted(error)
        await abort(context, error)
        raise  # `abort` has raised already


def _noted(error: Exception) -> Any:
    """The failure for the caller; what nobody foresaw goes to the log with its traceback."""
    failure = failed(error)
    if failure.kind == failure.BUG:
        _log.error("unexpected error", exc_info=error)
    return failure
