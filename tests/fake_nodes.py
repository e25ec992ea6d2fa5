"""Nodes that only pretend: gRPC servers in this process that answer as a test says, as real ones do too rarely."""
# ruff: noqa: N802 - gRPC names methods as the .proto files do

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from veridical.memory.commands import WriteBody, decode_body
from veridical.memory.record import Record, Version
from veridical.node.errors import abort, failed
from veridical.node.rows import row_of
from veridical.proto.generated import admin_pb2, admin_pb2_grpc, memory_pb2, memory_pb2_grpc

CLUSTER_ID = "c" * 32
TIME_US = 1_700_000_000_000_000

Answer = Callable[[memory_pb2.Submission], Awaitable[memory_pb2.SubmitResult | None]]


@dataclass
class FakeNode:
    """What it says of itself, and how it answers. `submit` may return None: then it never answers."""

    id: str
    leader: str = "n1"
    epoch: int = 1
    submit: Answer | None = None
    read: Callable[[memory_pb2.ReadRequest], Awaitable[memory_pb2.ReadReply]] | None = None
    watch: Callable[[memory_pb2.WatchRequest], AsyncIterator[memory_pb2.WatchReply]] | None = None
    endpoint: str = ""
    submissions: list[memory_pb2.Submission] = field(default_factory=list[memory_pb2.Submission])
    bundles: int = 0
    reads: list[memory_pb2.ReadRequest] = field(default_factory=list[memory_pb2.ReadRequest])
    watches: list[memory_pb2.WatchRequest] = field(default_factory=list[memory_pb2.WatchRequest])
    peers: Mapping[str, FakeNode] = field(default_factory=dict[str, "FakeNode"])
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def status(self) -> admin_pb2.StatusReply:
        members = [
            admin_pb2.MemberStatus(id=id, name=id, endpoint=peer.endpoint, voting=True)
            for id, peer in self.peers.items()
        ]
        return admin_pb2.StatusReply(
            id=self.id, name=self.id, cluster_id=CLUSTER_ID, epoch=self.epoch, leader=self.leader, members=members
        )


class Memory(memory_pb2_grpc.MemoryServicer):
    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._tasks: set[asyncio.Future[None]] = set()

    async def Submit(self, request_iterator: Any, context: Any) -> AsyncIterator[memory_pb2.SubmitResults]:
        await context.send_initial_metadata(())
        results: asyncio.Queue[memory_pb2.SubmitResult | None] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(request_iterator, results))
        stopping = asyncio.ensure_future(self._node.stopped.wait())
        stopping.add_done_callback(lambda _: results.put_nowait(None))
        try:
            while (result := await results.get()) is not None:
                yield memory_pb2.SubmitResults(results=[result])
        finally:
            reading.cancel()
            stopping.cancel()

    async def _read(self, bundles: Any, results: asyncio.Queue[memory_pb2.SubmitResult | None]) -> None:
        async for bundle in bundles:
            self._node.bundles += 1
            for submission in bundle.submissions:
                self._node.submissions.append(submission)
                answer = self._node.submit or accepted
                self._tasks.add(asyncio.ensure_future(self._answer(answer, submission, results)))

    async def _answer(self, answer: Answer, submission: memory_pb2.Submission, results: Any) -> None:
        result = await answer(submission)
        if result is not None:
            result.request = submission.request
            results.put_nowait(result)

    async def Read(self, request: memory_pb2.ReadRequest, context: Any) -> memory_pb2.ReadReply:
        self._node.reads.append(request)
        try:
            if self._node.read is None:
                return memory_pb2.ReadReply(epoch=1, index=1, member=self._node.id)
            return await self._node.read(request)
        except Exception as error:
            await abort(context, error)
            raise

    async def Watch(self, request: memory_pb2.WatchRequest, context: Any) -> AsyncIterator[memory_pb2.WatchReply]:
        self._node.watches.append(memory_pb2.WatchRequest.FromString(request.SerializeToString()))
        try:
            if self._node.watch is None:
                await self._node.stopped.wait()
                return
            async for reply in self._node.watch(request):
                yield reply
        except Exception as error:  # noqa: BLE001 - as a node does
            await abort(context, error)


class Admin(admin_pb2_grpc.AdminServicer):
    def __init__(self, node: FakeNode) -> None:
        self._node = node

    async def Status(self, request: admin_pb2.StatusRequest, context: Any) -> admin_pb2.StatusReply:
        return self._node.status()


@asynccontextmanager
async def fake_nodes(*nodes: FakeNode) -> AsyncGenerator[list[FakeNode]]:
    """Serve these nodes on loopback; their endpoints are known inside."""
    servers: list[grpc.aio.Server] = []
    for node in nodes:
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        memory_pb2_grpc.add_MemoryServicer_to_server(Memory(node), server)
        admin_pb2_grpc.add_AdminServicer_to_server(Admin(node), server)  # pyright: ignore[reportAbstractUsage]
        node.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        servers.append(server)
    for node in nodes:
        node.peers = {peer.id: peer for peer in nodes}
    for server in servers:
        await server.start()
    try:
        yield list(nodes)
    finally:
        await asyncio.gather(*(server.stop(0) for server in servers))


async def accepted(submission: memory_pb2.Submission) -> memory_pb2.SubmitResult:
    """Every command asserted, in one entry."""
    count = len(submission.bodies)
    salted = bool(submission.envelope)
    rows = [row_of(record_of(body[16:] if salted else body)) for body in submission.bodies]
    outcomes = [memory_pb2.Outcome(code="asserted", record_id=bytes(16)) for _ in range(count)]
    return memory_pb2.SubmitResult(epoch=1, index=7, time_us=TIME_US, outcomes=outcomes, records=rows)


def refusing(error: Exception) -> Answer:
    """Answer everything with that error."""

    async def refuse(submission: memory_pb2.Submission) -> memory_pb2.SubmitResult:
        return memory_pb2.SubmitResult(failure=failed(error))

    return refuse


def record_of(content: bytes) -> Record:
    """The record that a write makes of nothing."""
    body = decode_body("memory.write", content)
    assert isinstance(body, WriteBody)
    named: dict[str, Any] = {name: getattr(body, name) for name in ("kind", "subject", "predicate", "scope", "text")}
    empty: dict[str, Any] = dict.fromkeys(("source", "reason", "author", "cause"), "")
    numbers = {name: 0 for name in Record._fields if name.endswith(("_ppm", "support", "_count"))}
    times = {name: TIME_US for name in Record._fields if name.endswith("_us")}
    absent = dict.fromkeys(("valid_from_us", "valid_to_us", "expires_at_us", "volatile_until_us"))
    lists = dict.fromkeys(
        ("provenance", "sources", "principals", "authenticated", "corroborators", "contradictors", "grounds"), ()
    )
    return Record(
        **named, **empty, **numbers, **(times | absent), **lists, id=bytes(16), follows=b"", value_digest=bytes(16),
        metadata="{}", detail="{}", trust="candidate", doubted=False, confirmed=False, pinned=False,
        version=Version(1, 7, 0),
    )  # fmt: skip
