"""One member of a cluster in the caller's process: a node with its lease, and the calls of a memory answered by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from pydantic import ValidationError

from ..antientropy.standing import Standing
from ..client.surface import AsyncMemory, Session
from ..lease.sources import LeaseSource
from ..log.errors import LogError
from ..memory.errors import Invalid, Unavailable
from ..node import calls
from ..node.identity import DirectoryInUse, StartRefused
from ..node.inprocess import InProcessNetwork
from ..node.keeper import Keeper
from ..node.runtime import Node
from ..node.settings import MILLISECOND_US, SECOND_US, Settings, Timings
from ..node.system import Clock, SystemClock, SystemEntropy
from ..proto.generated import admin_pb2
from .logs import join_logging
from .places import make_folder
from .route import NodeRoute

ALONE: Final = Timings(heartbeat_ms=50, lease_ttl_ms=150, election_jitter_ms=1, linger_min_ms=0)
"""A member without others has nobody to wait for, except what it forgot when it was last closed."""

TOGETHER: Final = Timings(linger_min_ms=0)
HAND_OVER_US: Final = SECOND_US // 2

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.embedded")


@dataclass(frozen=True)
class Enrolment:
    """What is known of a member before there is a node: its cluster, its name there, its file, and its lease source."""

    cluster: str
    owner: str
    file: Path | None
    source: LeaseSource | None = None
    write_quorum: int | None = None
    names_peers: bool = False
    embedder: str = ""

    @property
    def has_log(self) -> bool:
        """Whether there is a history already."""
        return self.file is not None and self.file.exists()

    def settings(self, owners: Iterable[str]) -> Settings:
        """The node's settings in the company of these owners. Raises `Invalid` for names that cannot be used."""
        peers = {owner: endpoint_of(owner) for owner in owners}
        try:
            return Settings(
                name=self.owner,
                cluster=self.cluster,
                file=self.file,
                endpoint=endpoint_of(self.owner),
                peers=peers,
                write_quorum=self.write_quorum,
                embedder=self.embedder,
                external_lease=self.source is not None,
                timings=TOGETHER if len(peers) > 1 else ALONE,
            )
        except ValidationError as error:
            [first, *_] = error.errors()
            raise Invalid(str(first["loc"][-1] if first["loc"] else "settings"), str(first["msg"])) from error


def endpoint_of(owner: str) -> str:
    """Where a member is found inside its process."""
    return f"in-process:{owner}"


class Member:
    """A node that runs on the loop that made it. `gate` is passed before each write that this member is asked for.

    Raises `Unavailable` when its files are in use, `Invalid` when they cannot be used as they are.
    """

    def __init__(
        self,
        enrolment: Enrolment,
        owners: Iterable[str],
        network: InProcessNetwork,
        gate: Callable[[Member], Awaitable[None]],
    ) -> None:
        join_logging()
        settings = enrolment.settings(owners)
        clock, entropy = SystemClock(), SystemEntropy()
        transport = network.transport(settings.endpoint)
        self.endpoint = settings.endpoint
        self.node = _made(settings, lambda: Node(settings, transport, clock, entropy, self._ended))
        transport.attach(self.node)
        self.route = NodeRoute(self.node, lambda: gate(self), clock, entropy)
        self._keeper = self._kept(enrolment, settings.timings, clock)
        self._tasks = [asyncio.create_task(self.node.start())]

    def _kept(self, enrolment: Enrolment, timings: Timings, clock: Clock) -> Keeper | None:
        if enrolment.source is None:
            return None
        ttl_us, node = timings.lease_ttl_ms * MILLISECOND_US, self.node
        return Keeper(enrolment.source, enrolment.cluster, enrolment.owner, ttl_us, clock, node.status, node.may_try)

    @property
    def needs_lease(self) -> bool:
        """Whether an external lease source decides who may lead."""
        return self._keeper is not None

    @property
    def serves(self) -> bool:
        """Whether this member leads and takes writes."""
        return self.node.status().serves

    async def renew_claim(self) -> None:
        """Take or renew this member's claim on the lease. Raises `Unavailable` when the lease's store is down."""
        if self._keeper is not None:
            await self._keeper.renewed()

    def keep_claim(self) -> None:
        """From now on take the claim whenever nobody leads, and keep it while this member does."""
        if self._keeper is not None:
            self._tasks.append(asyncio.create_task(self._keeper.keep()))

    async def close(self, hand_over: bool, gives_back: bool) -> None:
        """Hand leadership over, give the claim back, finish what is being written, and let go of the files."""
        if hand_over:
            await self.node.drain(HAND_OVER_US)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._keeper is not None and gives_back:
            await self._keeper.release()
        await self.node.stop()

    def _ended(self, reason: str) -> None:
        _log.critical("a memory in this process must end", endpoint=self.endpoint, reason=reason)


class MemberMemory(AsyncMemory):
    """The calls of a memory, answered by a member: by the one that `at` names."""

    _member: Member

    def at(self, member: Member) -> MemberMemory:
        """The same memory, for calls to that member; what it sees of a session is its own."""
        there = copy(self)
        there._member = member
        there._session = Session()
        return there

    @property
    def _route(self) -> NodeRoute:
        return self._member.route

    async def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """What this member's node says of itself, by its endpoint. Reads what is known, and changes nothing."""
        return {self._member.endpoint: calls.status_to_wire(self._member.node.status())}

    async def look_after(self, run: bool, timeout_s: float) -> tuple[str, Standing]:
        """This member's name, and how its anti-entropy stands; with `run`, after doing all of it. See `Node`."""
        node = self._member.node
        last = Standing()
        try:
            async with asyncio.timeout(timeout_s), aclosing(node.antientropy(run)) as standings:
                async for standing, _ in standings:
                    last = standing
        except TimeoutError as error:
            raise Unavailable("not all was looked at in time", (self._member.endpoint,)) from error
        return node.status().name, last


def _made(settings: Settings, make: Callable[[], Node]) -> Node:
    if settings.file is not None:
        make_folder(settings.file)
    try:
        return make()
    except DirectoryInUse as error:
        raise Unavailable(str(error)) from error
    except (StartRefused, LogError) as error:
        raise Invalid("path", str(error)) from error
    except OSError as error:
        raise Invalid("path", f"{settings.file} cannot be opened: {error.strerror}") from error
