"""The gRPC side of a node: thin services that turn calls into values, and values into answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
import structlog
from grpc_reflection.v1alpha import reflection

from ..antientropy.digests import Snapshot
from ..antientropy.standing import Standing
from ..log.configuration import Configuration
from ..log.entry import Entry
from ..log.seal import Seal
from ..memory.context import ADMIN
from ..memory.errors import Invalid
from ..proto.channel import SERVER_OPTIONS
from ..proto.generated import (
    admin_pb2,
    admin_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    replication_pb2,
    replication_pb2_grpc,
)  # fmt: skip
from ..replication.messages import Message, ReadMode
from ..security.tokens import BearerToken
from . import calls, feed_wire, questions, repairs, wire
from .access import Caller
from .bearer import bearer_of, caller_shown
from .errors import abort, failed
from .feed import ChangePage, WatchRequest
from .grpc_health import HEALTH, serve_health
from .membership import Change
from .ports import (
    BareCommand,
    CompareRequest,
    HelloReply,
    KeyRequest,
    NodeStatus,
    ReadReply,
    ReadRequest,
    RefetchRequest,
    Submission,
    SubmitResult,
    Verb,
    Wait,
)  # fmt: skip
from .tls import certified_node

SUBMISSIONS_PER_STREAM_LIMIT: Final = 1024
BUNDLE_BYTES_LIMIT: Final = 1 << 20
CALLS_LIMIT: Final = 10_000
LEADER_HINT_PERIOD_S: Final = 0.02
BUCKETS_TIMEOUT_US: Final = 10_000_000
EXPORT_BYTES: Final = 1 << 20

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
        self,
        commands: Sequence[BareCommand],
        timeout_us: int,
        wait: Wait = Wait.QUORUM,
        token: BearerToken | None = None,
    ) -> SubmitResult:
        """See `Node.submit_anonymous`."""
        ...

    async def read(self, request: ReadRequest) -> ReadReply:
        """See `Node.read`."""
        ...

    def watch(self, request: WatchRequest) -> AsyncGenerator[ChangePage]:
        """See `Node.watch`."""
        ...

    async def transfer(self, target: str | None = None) -> str:
        """See `Node.transfer`."""
        ...

    async def change_members(self, change: Change, caller: Caller, timeout_us: int) -> Configuration:
        """See `Node.change_members`."""
        ...

    def knows(self, id: str, name: str) -> bool:
        """See `Node.knows`."""
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

    async def require_everywhere(self, caller: Caller, right: str) -> None:
        """See `Node.require_everywhere`."""
        ...

    def compare(self, request: CompareRequest) -> Snapshot:
        """See `Node.compare`."""
        ...

    async def refetch(self, request: RefetchRequest) -> tuple[list[Entry], list[Seal]]:
        """See `Node.refetch`."""
        ...

    def antientropy(self, run: bool) -> AsyncGenerator[tuple[Standing, bool]]:
        """See `Node.antientropy`."""
        ...

    async def export(self, first: int, max_bytes: int, last: int) -> tuple[Sequence[Entry], Sequence[Seal]]:
        """See `Node.export`."""
        ...


class LeaderHint:
    """The leader's endpoint as this node last knew it: looked up now and then, not for every result."""

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
    """One `Submit` stream: every submission is a task of its own, results leave in bundles of whatever is ready.

    A caller that does not take its results is not read from any more.
    """

    def __init__(self, node: Served, hint: LeaderHint, closing: asyncio.Event, shown: Callable[[], Caller]) -> None:
        """`shown` says who holds the token beside the stream, if there is one; it may raise `Refused`."""
        self._node = node
        self._shown = shown
        self._hint = hint
        self._closing = closing
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: deque[memory_pb2.SubmitResult] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()

    async def bundles(
        self, submissions: AsyncIterator[memory_pb2.Submissions]
    ) -> AsyncIterator[memory_pb2.SubmitResults]:
        """Until the caller ends the stream, or the node does; by then everything received is answered."""
        reading = asyncio.ensure_future(self._read(submissions))
        closing = asyncio.ensure_future(self._closing.wait())
        for ending in (reading, closing):
            ending.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                while self._results:
                    yield self._bundle()
                if (reading.done() or closing.done()) and not self._tasks:
                    return
                await self._wake.wait()
                self._wake.clear()
        finally:
            for task in (reading, closing, *self._tasks):
                task.cancel()
            await asyncio.gather(reading, closing, *self._tasks, return_exceptions=True)

    async def _read(self, submissions: AsyncIterator[memory_pb2.Submissions]) -> None:
        async for bundle in submissions:
            for submission in bundle.submissions:
                while len(self._tasks) + len(self._results) >= SUBMISSIONS_PER_STREAM_LIMIT:
                    self._room.clear()
                    await self._room.wait()
                self._begin(submission)

    def _begin(self, raw: memory_pb2.Submission) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(raw))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _answer(self, raw: memory_pb2.Submission) -> None:
        try:
            result = await self._result(raw)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
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
        return await self._node.submit_anonymous(calls.bare_commands(raw), raw.timeout_us, wait, self._shown().token)

    def _put(self, result: memory_pb2.SubmitResult) -> None:
        self._results.append(result)
        self._wake.set()

    def _bundle(self) -> memory_pb2.SubmitResults:
        bundle, size = memory_pb2.SubmitResults(), 0
        while self._results and size < BUNDLE_BYTES_LIMIT:
            result = self._results.popleft()
            bundle.results.append(result)
            size += result.ByteSize()
        self._room.set()
        return bundle


class MemoryService(memory_pb2_grpc.MemoryServicer):
    """`veridical.v1.Memory`."""

    def __init__(self, node: Served, closing: asyncio.Event) -> None:
        self._node = node
        self._closing = closing
        self._hint = LeaderHint(node)

    async def Submit(
        self, request_iterator: AsyncIterator[memory_pb2.Submissions], context: Context
    ) -> AsyncIterator[memory_pb2.SubmitResults]:
        """A conversation of submissions and results. The headers say at once that it has begun."""
        await context.send_initial_metadata(())
        conversation = Conversation(self._node, self._hint, self._closing, lambda: bearer_of(context))
        async for bundle in conversation.bundles(request_iterator):
            yield bundle

    async def Read(self, request: memory_pb2.ReadRequest, context: Context) -> memory_pb2.ReadReply:
        """One query, one answer."""

        async def answer() -> memory_pb2.ReadReply:
            asked = replace(questions.read_request_from_wire(request), caller=caller_shown(request, context))
            return questions.read_reply_to_wire(asked.verb, await self._node.read(asked))

        return await _or_abort(context, answer)

    async def Watch(self, request: memory_pb2.WatchRequest, context: Context) -> AsyncIterator[memory_pb2.WatchReply]:
        """The change feed. The next page is made once the one before it has left."""
        try:
            asked = replace(feed_wire.watch_request_from_wire(request), caller=caller_shown(request, context))
            async with aclosing(self._node.watch(asked)) as pages:
                async for page in pages:
                    yield feed_wire.change_page_to_wire(page)
        except Exception as error:  # noqa: BLE001 - every error becomes a status
            _noted(error)
            await abort(context, error)


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
            await self._node.require_everywhere(questions.caller_of(request), ADMIN)
            return admin_pb2.TransferReply(reason=await self._node.transfer(request.target or None))

        return await _or_abort(context, transfer)

    async def ChangeMembers(
        self, request: admin_pb2.ChangeMembersRequest, context: Context
    ) -> admin_pb2.ChangeMembersReply:
        """Change who is a member."""

        async def change() -> admin_pb2.ChangeMembersReply:
            wanted, caller = calls.change_from_wire(request), questions.caller_of(request)
            changed = await self._node.change_members(wanted, caller, request.timeout_us)
            return admin_pb2.ChangeMembersReply(configuration=wire.configuration_to_wire(changed))

        return await _or_abort(context, change)

    async def Export(self, request: admin_pb2.ExportRequest, context: Context) -> AsyncIterator[admin_pb2.ExportReply]:
        """The history from `first` to `last`, in chunks that end at a seal."""
        try:
            await self._node.require_everywhere(caller_shown(request, context), ADMIN)
            async for chunk in self._chunks(max(1, request.first), request.last or None):
                yield chunk
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            _noted(error)
            await abort(context, error)

    async def _chunks(self, first: int, last: int | None) -> AsyncIterator[admin_pb2.ExportReply]:
        status = self._node.status()
        known = self._node.hello().configuration
        yield admin_pb2.ExportReply(
            cluster=status.cluster,
            cluster_id=status.cluster_id,
            configuration=None if known is None else wire.configuration_to_wire(known),
        )
        last = min(last or status.commit_index, status.commit_index)
        while first <= last:
            entries, seals = await self._node.export(first, EXPORT_BYTES, last)
            if not entries:
                return
            yield admin_pb2.ExportReply(entries=map(wire.entry_to_wire, entries), seals=map(wire.seal_to_wire, seals))
            first = entries[-1].index + 1

    async def Buckets(self, request: admin_pb2.BucketsRequest, context: Context) -> admin_pb2.BucketsReply:
        """The digests of this node's projection, as it stands."""

        async def buckets() -> admin_pb2.BucketsReply:
            caller = caller_shown(request, context)
            asked = ReadRequest(Verb.DIGEST, {}, ReadMode.LOCAL, BUCKETS_TIMEOUT_US, caller=caller)
            reply = await self._node.read(asked)
            return admin_pb2.BucketsReply(applied_index=reply.index, digests=reply.value.buckets)

        return await _or_abort(context, buckets)

    async def AntiEntropy(
        self, request: admin_pb2.AntiEntropyRequest, context: Context
    ) -> AsyncIterator[admin_pb2.AntiEntropyReply]:
        """How comparing, looking and repairing stand; with `run`, until all of it was done once more."""
        try:
            if request.run:
                await self._node.require_everywhere(questions.caller_of(request), ADMIN)
            name = self._node.status().name
            async with aclosing(self._node.antientropy(request.run)) as standings:
                async for standing, done in standings:
                    yield repairs.standing_to_wire(name, standing, done)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            _noted(error)
            await abort(context, error)


class ReplicationService(replication_pb2_grpc.ReplicationServicer):
    """`veridical.v1.Replication`: what other members have to say comes in here; answers leave on our own streams."""

    def __init__(self, node: Served, cluster: str, heard: Callable[[str], None]) -> None:
        self._node = node
        self._cluster = cluster
        self._heard = heard
        self._streams: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End all streams: no peer ends one by itself."""
        for stream in self._streams:
            stream.cancel()

    async def Exchange(
        self, request_iterator: AsyncIterator[replication_pb2.Parcel], context: Context
    ) -> AsyncIterator[replication_pb2.Parcel]:
        """Greet, then take messages until the stream ends."""
        parcels = aiter(request_iterator)
        sender = await self._greeted(await anext(parcels, None), context)
        mine = replication_pb2.Greeting(cluster=self._cluster, node=self._node.node_id, receiver=sender)
        yield replication_pb2.Parcel(greeting=mine)
        self._heard(sender)
        receiving = asyncio.ensure_future(self._receive(sender, parcels))
        self._streams.add(receiving)
        try:
            await receiving
        except asyncio.CancelledError:
            if not receiving.cancelled():
                raise
        except wire.Malformed as error:
            _log.warning("malformed message", peer=sender, reason=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            receiving.cancel()
            self._streams.discard(receiving)

    async def Compare(self, request: replication_pb2.CompareRequest, context: Context) -> replication_pb2.CompareReply:
        """The digests that another member compares its own with."""
        asked = repairs.compare_request_from_wire(request)
        return await _or_abort(context, _later(lambda: repairs.snapshot_to_wire(self._node.compare(asked))))

    async def Refetch(self, request: replication_pb2.RefetchRequest, context: Context) -> replication_pb2.RefetchReply:
        """Entries for a member whose own are damaged."""

        async def fetched() -> replication_pb2.RefetchReply:
            entries, seals = await self._node.refetch(repairs.refetch_request_from_wire(request))
            return repairs.refetched_to_wire(entries, seals)

        return await _or_abort(context, fetched)

    async def _receive(self, sender: str, parcels: AsyncIterator[replication_pb2.Parcel]) -> None:
        receive = self._node.receive
        async for parcel in parcels:
            for message in parcel.messages:
                receive(sender, wire.decode(message))

    async def _greeted(self, first: replication_pb2.Parcel | None, context: Context) -> str:
        """Who speaks; ends the stream when it means another cluster or another node."""
        greeting = replication_pb2.Greeting() if first is None else first.greeting
        if not greeting.node:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first parcel carries no greeting")
        if greeting.cluster != self._cluster:
            reason = f"this node belongs to cluster {self._cluster!r}, not to {greeting.cluster!r}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        if greeting.receiver != self._node.node_id:
            reason = f"this is node {self._node.node_id}, not {greeting.receiver}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        name = certified_node(context.auth_context())
        if name is not None and not self._node.knows(greeting.node, name):
            reason = f"the certificate is of {name or 'no node'}, which is not member {greeting.node} of this cluster"
            _log.warning("a peer is refused", peer=greeting.node, reason=reason)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        return greeting.node


class Server:
    """The gRPC server of one node. `address` is where it listens (host:port; port 0 chooses one).

    `heard` is told of every member that dials in.
    """

    def __init__(
        self,
        node: Served,
        cluster: str,
        address: str,
        heard: Callable[[str], None],
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._closing = asyncio.Event()
        self._replication = ReplicationService(node, cluster, heard)
        self._server = grpc.aio.server(options=SERVER_OPTIONS, maximum_concurrent_rpcs=CALLS_LIMIT)
        memory_pb2_grpc.add_MemoryServicer_to_server(MemoryService(node, self._closing), self._server)
        admin_pb2_grpc.add_AdminServicer_to_server(AdminService(node), self._server)
        replication_pb2_grpc.add_ReplicationServicer_to_server(self._replication, self._server)
        serve_health(node, SERVICES, self._server)
        names = (*SERVICES, HEALTH, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.port = self._listen(address, credentials)

    async def start(self) -> None:
        """Accept calls."""
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Accept no new calls, answer those under way within `grace_s`, end the streams."""
        self._closing.set()
        self._replication.close()
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
