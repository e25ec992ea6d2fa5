"""Which nodes there are, who leads them, and which history they hold: asked of all of them at once, whoever is first.

A node that accepts a connection and says nothing costs nothing here: its answer is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import grpc
import grpc.aio

from ..proto.channel import open_channel
from ..proto.generated import admin_pb2, admin_pb2_grpc, memory_pb2_grpc
from ..proto.submissions import SubmissionStream
from .bearer import Asking, metadata_of

STATUS_TIMEOUT_S: Final = 1.0
MEMBERS_LIMIT: Final = 64


class Connection:
    """A channel to one node with what is opened on it."""

    def __init__(
        self, endpoint: str, credentials: grpc.ChannelCredentials | None, asking: Asking | None = None
    ) -> None:
        self.endpoint = endpoint
        self._asking, self._is_encrypted = asking, credentials is not None
        self._channel = open_channel(endpoint, credentials)
        self.memory: memory_pb2_grpc.MemoryAsyncStub = memory_pb2_grpc.MemoryStub(self._channel)
        self.admin: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(self._channel)
        self._submissions: SubmissionStream | None = None

    def submissions(self) -> SubmissionStream:
        """The stream of submissions, opened anew when it broke. Raises `Invalid` for a token that could be read."""
        if self._submissions is None or not self._submissions.is_open:
            shown = metadata_of(self._asking, self.endpoint, self._is_encrypted)
            self._submissions = SubmissionStream(self._channel, shown)
        return self._submissions

    async def close(self) -> None:
        """End everything that goes to this node."""
        if self._submissions is not None:
            await self._submissions.close()
        await self._channel.close()


@dataclass(slots=True)
class Knowledge:
    """What the nodes have said. `reached` are endpoints by node id as they answered, `advertised` as members name them.

    An endpoint that answered is preferred to an advertised one: between client and node there may be mapped ports.
    """

    cluster_id: str = ""
    epoch: int = 0
    leader: str = ""
    reached: dict[str, str] = field(default_factory=dict[str, str])
    advertised: dict[str, str] = field(default_factory=dict[str, str])

    def learn(self, endpoint: str, status: admin_pb2.StatusReply) -> None:
        """Take in the answer that came from `endpoint`; of two leaders, the one of the later epoch."""
        self.cluster_id = status.cluster_id or self.cluster_id
        self.reached[status.id] = endpoint
        if status.members:
            self.advertised = {member.id: member.endpoint for member in status.members[:MEMBERS_LIMIT]}
            self.reached = {id: at for id, at in self.reached.items() if id in self.advertised or id == status.id}
        if status.epoch > self.epoch or (status.epoch == self.epoch and status.leader):
            self.epoch, self.leader = status.epoch, status.leader

    def endpoint(self, node: str) -> str | None:
        """Where that node can be reached."""
        return self.reached.get(node) or self.advertised.get(node)

    def endpoints(self) -> list[str]:
        """All members' endpoints."""
        return [at for node in self.advertised if (at := self.endpoint(node))]


class Directory:
    """The nodes of one cluster. Belongs to one loop. `endpoints` is where to begin; the members are learned there."""

    def __init__(
        self,
        endpoints: Sequence[str],
        credentials: grpc.ChannelCredentials | None,
        asking: Asking | None = None,
    ) -> None:
        self._given = tuple(dict.fromkeys(endpoints))
        self._credentials = credentials
        self._asking = asking
        self._connections: dict[str, Connection] = {}
        self._known = Knowledge()
        self._last_failures: dict[str, float] = {}
        self._last_answered = ""
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether nodes are reached with TLS."""
        return self._credentials is not None

    @property
    def cluster_id(self) -> str:
        """The identity of the history, empty until a node has told it."""
        return self._known.cluster_id

    @property
    def is_known(self) -> bool:
        """Whether the members are known, beside the endpoints that were given."""
        return bool(self._known.advertised)

    @property
    def leader(self) -> str | None:
        """The leader's endpoint, while one is known that has not failed since."""
        endpoint = self._known.endpoint(self._known.leader) if self._known.leader else None
        return None if endpoint in self._last_failures else endpoint

    @property
    def answering(self) -> str | None:
        """A node that has answered, and has not failed since."""
        answering = set(self._known.reached.values()) - set(self._last_failures)
        return next((endpoint for endpoint in self.endpoints() if endpoint in answering), None)

    def endpoints(self) -> list[str]:
        """All nodes, those first that have answered, those last that failed most recently."""
        every = dict.fromkeys((*self._known.reached.values(), *self._known.endpoints(), *self._given))
        return sorted(every, key=self._rank)

    def silent(self) -> list[str]:
        """The nodes that have not answered, or not lately."""
        answering = set(self._known.reached.values()) - set(self._last_failures)
        return [endpoint for endpoint in self.endpoints() if endpoint not in answering]

    def connection(self, endpoint: str) -> Connection:
        """The connection to a node, opened when it is first wanted."""
        connection = self._connections.get(endpoint)
        if connection is None:
            connection = self._connections[endpoint] = Connection(endpoint, self._credentials, self._asking)
        return connection

    def redirect(self, endpoint: str) -> None:
        """A node says that this one leads. Where nobody is known to live, the members have changed: ask again."""
        known = self._known
        for node, at in (*known.reached.items(), *known.advertised.items()):
            if at == endpoint:
                known.leader = node
                self._last_failures.pop(known.endpoint(node) or endpoint, None)
                return
        known.leader = ""

    def answered(self, endpoint: str) -> None:
        """That node is well."""
        self._last_answered = endpoint
        if self._last_failures:
            self._last_failures.pop(endpoint, None)

    def failed(self, endpoint: str) -> None:
        """That node did not answer: it is asked last, and does not count as the leader, until it has."""
        self._last_failures[endpoint] = asyncio.get_running_loop().time()

    async def refresh(self) -> None:
        """Ask all nodes, until one has named a leader, or all have answered or failed. Callers share one round."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._ask_all())
        await asyncio.shield(self._refreshing)

    async def statuses(self) -> dict[str, admin_pb2.StatusReply]:
        """What every node that answers says of itself, by endpoint."""
        endpoints = self.endpoints()
        answers = await asyncio.gather(*map(self._ask, endpoints))
        return {endpoint: status for endpoint, status in zip(endpoints, answers, strict=True) if status is not None}

    async def close(self) -> None:
        """Close every connection."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.close() for connection in connections))

    async def _ask_all(self) -> None:
        questions = {asyncio.ensure_future(self._ask(endpoint)) for endpoint in self.endpoints()}
        try:
            for question in asyncio.as_completed(questions):
                status = await question
                if status is not None and status.leader and self.leader is not None:
                    return
        finally:
            await _cancelled(questions)

    async def _ask(self, endpoint: str) -> admin_pb2.StatusReply | None:
        try:
            status = await self.connection(endpoint).admin.Status(admin_pb2.StatusRequest(), timeout=STATUS_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            self.failed(endpoint)
            return None
        self._known.learn(endpoint, status)
        self._last_failures.pop(endpoint, None)
        return status

    def _rank(self, endpoint: str) -> tuple[float, bool]:
        return (self._last_failures.get(endpoint, 0.0), endpoint != self._last_answered)


async def _cancelled(tasks: Iterable[asyncio.Future[admin_pb2.StatusReply | None]]) -> None:
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
