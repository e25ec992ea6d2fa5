"""How a node reaches the others over gRPC: one long-lived stream of parcels to each, and calls beside it.

A slow or dead peer costs its own queue and nothing else: `send` never waits, the queue is bounded, and what does not
fit is dropped, oldest first, because the newest message is the one that still matters. Messages that carry entries
travel in a lane of their own, so that a heartbeat never waits behind megabytes.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc
import grpc.aio
import structlog

from ..antientropy.digests import Snapshot
from ..log.canonical import NotCanonical
from ..log.entry import Entry, Envelope
from ..log.seal import Seal
from ..memory.errors import OutcomeUnknown, Refused, Unavailable
from ..proto.channel import open_channel
from ..proto.generated import admin_pb2, admin_pb2_grpc, memory_pb2_grpc, replication_pb2, replication_pb2_grpc
from ..proto.submissions import StreamBroken, SubmissionStream
from ..replication.messages import Append, Fetched, Message
from ..security.tokens import authorization
from . import calls, questions, repairs, wire
from .access import TOKEN_EXPOSED, Caller
from .addresses import is_loopback
from .errors import failure_of, raised
from .ports import (
    CompareRequest,
    HelloReply,
    KeyRequest,
    ReadReply,
    ReadRequest,
    RefetchRequest,
    Submission,
    SubmitResult,
)  # fmt: skip

OUTBOX_MESSAGES_LIMIT: Final = 4096
OUTBOX_BYTES_LIMIT: Final = 32 << 20
PARCEL_BYTES_LIMIT: Final = 1 << 20
MESSAGE_WEIGHT_BYTES: Final = 128
GREETING_TIMEOUT_S: Final = 2.0
LAST_CALLS_S: Final = 1.0
"""Calls that still wait for a connection on a channel that was replaced get so long to end by themselves."""

BACKOFF_FIRST_S: Final = 0.05
BACKOFF_LAST_S: Final = 1.0
SECOND_US: Final = 1_000_000

Credentials = Callable[[], grpc.ChannelCredentials | None]
"""What to dial with at the moment; None: without TLS."""

Answer = TypeVar("Answer")
ParcelStream = grpc.aio.StreamStreamCall[replication_pb2.Parcel, replication_pb2.Parcel]

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.transport")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who greets: the name of the cluster, and the node's id."""

    cluster: str
    node: str


class Outbox:
    """What waits for one peer, bounded in messages and bytes. Two lanes: bulk (entries) yields to everything else."""

    def __init__(self) -> None:
        self._prompt: deque[tuple[Message, int]] = deque()
        self._bulk: deque[tuple[Message, int]] = deque()
        self._size_bytes = 0
        self.dropped = 0
        self.wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._prompt) + len(self._bulk)

    def put(self, message: Message) -> None:
        """Let it wait; over the bounds the oldest of its lane goes, or else the oldest of the other one."""
        weight = weight_of(message)
        lane = self._bulk if weight > MESSAGE_WEIGHT_BYTES else self._prompt
        lane.append((message, weight))
        self._size_bytes += weight
        while len(self) > OUTBOX_MESSAGES_LIMIT or (self._size_bytes > OUTBOX_BYTES_LIMIT and len(self) > 1):
            self._drop(lane if len(lane) > 1 else self._bulk or self._prompt)
        self.wake.set()

    def take(self) -> list[Message]:
        """All prompt messages and as much bulk as fits a parcel, at least one message when any waits."""
        taken, size = [message for message, _ in self._prompt], 0
        self._prompt.clear()
        while self._bulk and (size == 0 or size + self._bulk[0][1] <= PARCEL_BYTES_LIMIT):
            message, weight = self._bulk.popleft()
            taken.append(message)
            size += weight
        self._size_bytes = sum(weight for _, weight in self._bulk)
        return taken

    def clear(self) -> None:
        """Forget everything: the connection it waited for is gone, and the core sends anew what still matters."""
        self._prompt.clear()
        self._bulk.clear()
        self._size_bytes = 0

    def _drop(self, lane: deque[tuple[Message, int]]) -> None:
        _, weight = lane.popleft()
        self._size_bytes -= weight
        self.dropped += 1


def weight_of(message: Message) -> int:
    """What a message weighs against the bounds, in bytes: over `MESSAGE_WEIGHT_BYTES` only if it carries entries."""
    if isinstance(message, Append | Fetched):
        return MESSAGE_WEIGHT_BYTES + sum(entry.size_bytes for entry in message.entries)
    return MESSAGE_WEIGHT_BYTES


class Peer:
    """The connection to one other member: a stream of parcels kept open, and a channel for calls."""

    def __init__(
        self,
        me: Identity,
        member: str,
        endpoint: str,
        name: str,
        credentials: Credentials,
        jitter: random.Random,
    ) -> None:
        self.endpoint = endpoint
        self._name = name
        self._me = me
        self._member = member
        self._credentials = credentials
        self._jitter = jitter
        self._outbox = Outbox()
        self._hurry = asyncio.Event()
        self._patience: asyncio.Timeout | None = None
        self._submissions: SubmissionStream | None = None
        self.channel = open_channel(endpoint, credentials(), name)
        self._closing: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    def send(self, message: Message) -> None:
        """See `Transport.send`."""
        self._outbox.put(message)

    def hurry(self) -> None:
        """The peer was heard from: do not pause before the next attempt to reach it, nor wait for an earlier dial."""
        self._hurry.set()
        patience = self._patience
        if patience is None or patience.expired():
            return
        if self.channel.get_state() is grpc.ChannelConnectivity.CONNECTING:
            patience.reschedule(asyncio.get_running_loop().time())

    def submissions(self) -> SubmissionStream:
        """The open stream for relayed submissions, opened anew when it broke."""
        if self._submissions is None or not self._submissions.is_open:
            self._submissions = SubmissionStream(self.channel)
        return self._submissions

    async def close(self) -> None:
        """End everything that goes to this peer."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._submissions is not None:
            await self._submissions.close()
        await self.channel.close()
        await asyncio.gather(*self._closing)

    async def _stay_connected(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            started = asyncio.get_running_loop().time()
            self._hurry.clear()
            self._renew_channel()
            reason = await self._connect_once()
            self._outbox.clear()
            if asyncio.get_running_loop().time() - started > BACKOFF_LAST_S:
                backoff_s = BACKOFF_FIRST_S
            _log.debug("peer stream ended", peer=self._member, endpoint=self.endpoint, reason=reason)
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff_s * (0.5 + self._jitter.random())):
                    await self._hurry.wait()
            backoff_s = min(2 * backoff_s, BACKOFF_LAST_S)

    def _renew_channel(self) -> None:
        """Replace a channel that failed: gRPC waits by itself before it dials again, and cannot be hurried."""
        if self.channel.get_state() in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE):
            return
        channel, submissions = self.channel, self._submissions
        self.channel, self._submissions = open_channel(self.endpoint, self._credentials(), self._name), None
        task = asyncio.get_running_loop().create_task(_closed(channel, submissions))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _connect_once(self) -> str:
        """Dial, greet, and send until it breaks; says why it did."""
        stub: replication_pb2_grpc.ReplicationAsyncStub = replication_pb2_grpc.ReplicationStub(self.channel)
        stream = stub.Exchange()
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S) as self._patience:
                await stream.write(replication_pb2.Parcel(greeting=self._greeting()))
                answer = await stream.read()
            self._patience = None
            if not isinstance(answer, replication_pb2.Parcel) or answer.greeting.node != self._member:
                return f"no greeting from {self._member}"
            _log.info("peer connected", peer=self._member, endpoint=self.endpoint)
            return await self._send_until_broken(stream)
        except TimeoutError:
            return "no greeting in time"
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            return str(error)
        finally:
            self._patience = None
            stream.cancel()

    async def _send_until_broken(self, stream: ParcelStream) -> str:
        """The other side says nothing more on this stream: reading it tells when it ends."""
        sending = asyncio.ensure_future(self._send(stream))
        ended = asyncio.ensure_future(stream.read())
        try:
            await asyncio.wait({sending, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, ended):
                task.cancel()
            await asyncio.gather(sending, ended, return_exceptions=True)
        return "ended by the peer"

    async def _send(self, stream: ParcelStream) -> None:
        outbox = self._outbox
        while True:
            await outbox.wake.wait()
            outbox.wake.clear()
            while len(outbox):
                await stream.write(wire.parcel_of(outbox.take()))

    def _greeting(self) -> replication_pb2.Greeting:
        return replication_pb2.Greeting(cluster=self._me.cluster, node=self._me.node, receiver=self._member)


class GrpcTransport:
    """`Transport` over gRPC. Belongs to one loop; `attach` tells it who it speaks for before anything is sent."""

    def __init__(self, credentials: Credentials, jitter: random.Random) -> None:
        self._credentials = credentials
        self._jitter = jitter
        self._me: Identity | None = None
        self._names: Mapping[str, str] = {}
        self._peers: dict[str, Peer] = {}
        self._endpoints: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def attach(self, me: Identity) -> None:
        """Speak in this name."""
        self._me = me

    def addresses(self, endpoints: Mapping[str, str], names: Mapping[str, str]) -> None:
        """See `Transport`. A member whose endpoint changed is dialed anew, one that is gone is let go of."""
        self._names = names
        known = {member: endpoint for member, endpoint in endpoints.items() if endpoint}
        for member, endpoint in self._endpoints.items():
            if known.get(member) != endpoint:
                self._let_go(member)
        self._endpoints = known
        for member in known:
            self._reach(member)

    def send(self, member: str, message: Message) -> None:
        """See `Transport`."""
        peer = self._reach(member)
        if peer is not None:
            peer.send(message)

    def heard(self, member: str) -> None:
        """That member has just dialed this node, and so can be dialed."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.hurry()

    async def relay(self, member: str, submission: Submission) -> SubmitResult:
        """See `Transport`."""
        peer = self._reached(member)
        try:
            async with asyncio.timeout(submission.timeout_us / SECOND_US):
                result = await peer.submissions().call(calls.submission_to_wire(submission, relayed=True))
        except StreamBroken as error:
            if not error.delivered:
                raise Unavailable("the leader was not reached", (member,)) from error
            raise OutcomeUnknown(first_command(submission), error.reason) from error
        except TimeoutError as error:
            raise OutcomeUnknown(first_command(submission)) from error
        if result.HasField("failure"):
            raise raised(result.failure)
        return calls.submit_result_from_wire(result)

    async def read(self, member: str, request: ReadRequest) -> ReadReply:
        """See `Transport`."""
        peer = self._reached(member)
        memory: memory_pb2_grpc.MemoryAsyncStub = memory_pb2_grpc.MemoryStub(peer.channel)
        raw = questions.read_request_to_wire(request)
        metadata = self.shown(request.caller, self._endpoints[member])
        call = memory.Read
        reply = await _answered(member, lambda: call(raw, timeout=request.timeout_us / SECOND_US, metadata=metadata))
        return questions.read_reply_from_wire(request.verb, reply)

    async def hello(self, endpoint: str, timeout_us: int) -> HelloReply:
        """See `Transport`."""
        channel = open_channel(endpoint, self._credentials())
        try:
            admin: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(channel)
            call = admin.Hello
            reply = await _answered(endpoint, lambda: call(admin_pb2.HelloRequest(), timeout=timeout_us / SECOND_US))
        finally:
            await channel.close()
        return calls.hello_from_wire(reply)

    async def keys(self, member: str, request: KeyRequest, timeout_us: int) -> bytes:
        """See `Transport`."""
        admin: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(self._reached(member).channel)
        raw = calls.key_request_to_wire(request)
        reply = await _answered(member, lambda: admin.Keys(raw, timeout=timeout_us / SECOND_US))
        return reply.sealed

    async def compare(self, member: str, request: CompareRequest, timeout_us: int) -> Snapshot:
        """See `Transport`."""
        plane = _plane(self._reached(member).channel)
        raw = repairs.compare_request_to_wire(request)
        reply = await _answered(member, lambda: plane.Compare(raw, timeout=timeout_us / SECOND_US))
        return repairs.snapshot_from_wire(reply)

    async def refetch(self, endpoint: str, request: RefetchRequest, timeout_us: int) -> tuple[list[Entry], list[Seal]]:
        """See `Transport`."""
        channel = open_channel(endpoint, self._credentials())
        try:
            plane = _plane(channel)
            raw = repairs.refetch_request_to_wire(request)
            reply = await _answered(endpoint, lambda: plane.Refetch(raw, timeout=timeout_us / SECOND_US))
        finally:
            await channel.close()
        return repairs.refetched_from_wire(reply)

    async def close(self) -> None:
        """See `Transport`."""
        for member in list(self._peers):
            self._let_go(member)
        while self._closing:
            await asyncio.gather(*self._closing)

    def shown(self, caller: Caller, endpoint: str) -> tuple[tuple[str, str], ...]:
        """The token of a read that is passed on, which nobody on the way may read."""
        if caller.token is None:
            return ()
        if self._credentials() is None and not is_loopback(endpoint):
            raise Refused(TOKEN_EXPOSED, "this node reaches the one that could answer without TLS")
        return (authorization(caller.token),)

    def _reach(self, member: str) -> Peer | None:
        peer = self._peers.get(member)
        if peer is None and member in self._endpoints:
            peer = self._open(member, self._endpoints[member])
        return peer

    def _reached(self, member: str) -> Peer:
        peer = self._reach(member)
        if peer is None:
            raise Unavailable("no address is known", (member,))
        return peer

    def _open(self, member: str, endpoint: str) -> Peer:
        if self._me is None:
            raise RuntimeError("a transport sends nothing before it is attached")
        peer = self._peers[member] = Peer(
            self._me, member, endpoint, self._names.get(member, ""), self._credentials, self._jitter
        )
        return peer

    def _let_go(self, member: str) -> None:
        peer = self._peers.pop(member, None)
        if peer is not None:
            task = asyncio.get_running_loop().create_task(peer.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _plane(channel: grpc.aio.Channel) -> replication_pb2_grpc.ReplicationAsyncStub:
    return replication_pb2_grpc.ReplicationStub(channel)


async def _closed(channel: grpc.aio.Channel, submissions: SubmissionStream | None) -> None:
    if submissions is not None:
        await submissions.close()
    await channel.close(LAST_CALLS_S)


async def _answered(who: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        return await call()
    except grpc.aio.AioRpcError as error:
        raise _raised(error, who) from error


def _raised(error: grpc.aio.AioRpcError, who: str) -> Exception:
    failure = failure_of(error)
    return raised(failure) if failure is not None else Unavailable(error.code().name.lower(), (who,))


def first_command(submission: Submission) -> str:
    """The hex id of the first command, by which the outcome of the envelope can be asked for."""
    with suppress(NotCanonical, IndexError):
        return Envelope.parse(submission.envelope).commands[0].id.hex()
    return ""
