"""Nodes of one process that reach each other by calls: for embedded use and for tests. No sockets, one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from ..antientropy.digests import Snapshot
from ..log.entry import Entry
from ..log.seal import Seal
from ..memory.errors import Unavailable
from ..replication.messages import Message
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

SECOND_US = 1_000_000

Answer = TypeVar("Answer")


class Reachable(Protocol):
    """The side of a node that others call."""

    node_id: str

    def receive(self, sender: str, message: Message) -> None:
        """See `Node.receive`."""
        ...

    async def submit(self, submission: Submission, relayed: bool = False) -> SubmitResult:
        """See `Node.submit`."""
        ...

    async def read(self, request: ReadRequest) -> ReadReply:
        """See `Node.read`."""
        ...

    def hello(self) -> HelloReply:
        """See `Node.hello`."""
        ...

    def keys(self, request: KeyRequest) -> bytes:
        """See `Node.keys`."""
        ...

    def compare(self, request: CompareRequest) -> Snapshot:
        """See `Node.compare`."""
        ...

    async def refetch(self, request: RefetchRequest) -> tuple[list[Entry], list[Seal]]:
        """See `Node.refetch`."""
        ...


class InProcessNetwork:
    """The nodes of a process by endpoint. `severed` holds directed pairs of endpoints between which nothing passes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Reachable] = {}
        self.severed: set[tuple[str, str]] = set()

    def transport(self, endpoint: str) -> InProcessTransport:
        """The transport of the node that lives at `endpoint`."""
        return InProcessTransport(self, endpoint)

    def attach(self, endpoint: str, node: Reachable) -> None:
        """From now on `node` answers at `endpoint`."""
        self._nodes[endpoint] = node

    def detach(self, endpoint: str) -> None:
        """Nobody answers at `endpoint` any more."""
        self._nodes.pop(endpoint, None)

    def isolate(self, endpoint: str) -> None:
        """Cut every link of `endpoint`, in both directions."""
        for other in self._nodes:
            self.severed |= {(endpoint, other), (other, endpoint)}

    def heal(self) -> None:
        """Join everything again."""
        self.severed.clear()

    def node(self, source: str, target: str) -> Reachable | None:
        """Who answers at `target` when `source` asks."""
        return None if (source, target) in self.severed else self._nodes.get(target)


class InProcessTransport:
    """`Transport` by calls. Messages are delivered by the loop, one after the other, never within `send`."""

    def __init__(self, network: InProcessNetwork, endpoint: str) -> None:
        self._network = network
        self._endpoint = endpoint
        self._endpoints: dict[str, str] = {}
        self._member = ""
        self._closed = False

    def attach(self, node: Reachable) -> None:
        """Make `node` answer at this endpoint."""
        self._member = node.node_id
        self._network.attach(self._endpoint, node)

    def addresses(self, endpoints: Mapping[str, str], names: Mapping[str, str]) -> None:
        """See `Transport`."""
        self._endpoints = dict(endpoints)

    def send(self, member: str, message: Message) -> None:
        """See `Transport`."""
        if not self._closed:
            asyncio.get_running_loop().call_soon(self._deliver, member, message)

    async def relay(self, member: str, submission: Submission) -> SubmitResult:
        """See `Transport`."""
        return await self._call(member, submission.timeout_us, lambda node: node.submit(submission, relayed=True))

    async def read(self, member: str, request: ReadRequest) -> ReadReply:
        """See `Transport`."""
        return await self._call(member, request.timeout_us, lambda node: node.read(request))

    async def hello(self, endpoint: str, timeout_us: int) -> HelloReply:
        """See `Transport`."""
        node = self._network.node(self._endpoint, endpoint)
        if node is None:
            raise Unavailable("nobody is there", (endpoint,))
        return node.hello()

    async def keys(self, member: str, request: KeyRequest, timeout_us: int) -> bytes:
        """See `Transport`."""
        return self._reached(member).keys(request)

    async def compare(self, member: str, request: CompareRequest, timeout_us: int) -> Snapshot:
        """See `Transport`."""
        return self._reached(member).compare(request)

    async def refetch(self, endpoint: str, request: RefetchRequest, timeout_us: int) -> tuple[list[Entry], list[Seal]]:
        """See `Transport`."""
        node = self._network.node(self._endpoint, endpoint)
        if node is None:
            raise Unavailable("nobody is there", (endpoint,))
        return await _in_time(endpoint, timeout_us, node.refetch(request))

    async def close(self) -> None:
        """See `Transport`."""
        self._closed = True
        self._network.detach(self._endpoint)

    def _deliver(self, member: str, message: Message) -> None:
        node = self._network.node(self._endpoint, self._endpoints.get(member, ""))
        if node is not None and node.node_id == member and not self._closed:
            node.receive(self._member, message)

    def _reached(self, member: str) -> Reachable:
        node = self._network.node(self._endpoint, self._endpoints.get(member, ""))
        if node is None or node.node_id != member:
            raise Unavailable("nobody is there", (member,))
        return node

    async def _call(self, member: str, timeout_us: int, call: Callable[[Reachable], Awaitable[Answer]]) -> Answer:
        return await _in_time(member, timeout_us, call(self._reached(member)))


async def _in_time(who: str, timeout_us: int, answer: Awaitable[Answer]) -> Answer:
    try:
        async with asyncio.timeout(timeout_us / SECOND_US):
            return await answer
    except TimeoutError as error:
        raise Unavailable("no answer in time", (who,)) from error
