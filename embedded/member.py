"""One member of a cluster in the caller's process: a node, and the calls of a memory answered by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import ValidationError

from ..client.surface import AsyncMemory
from ..lease.sources import LeaseSource
from ..log.errors import LogError
from ..memory.errors import Invalid, Unavailable
from ..node import calls
from ..node.identity import StartRefused
from ..node.inprocess import InProcessNetwork
from ..node.runtime import Node
from ..node.settings import MILLISECOND_US, Settings, Timings
from ..proto.generated import admin_pb2
from .keeper import LEASE_STORE, Keeper
from .logs import join_logging
from .places import make_folder
from .route import NodeRoute

ALONE: Final = Timings(heartbeat_ms=50, lease_ttl_ms=150, election_jitter_ms=1)
"""A member without others has nobody to wait for, except what it forgot when it was last closed."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.embedded")


@dataclass(frozen=True)
class Enrolment:
    """What is known of a member before there is a node: its cluster, its name there, its file, and its lease source."""

    cluster: str
    owner: str
    file: Path | None
    source: LeaseSource | None = None
    write_quorum: int | None = None

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
                external_lease=self.source is not None,
                timings=Timings() if len(peers) > 1 else ALONE,
            )
        except ValidationError as error:
            [first, *_] = error.errors()
            raise Invalid(str(first["loc"][-1] if first["loc"] else "settings"), str(first["msg"])) from error


def endpoint_of(owner: str) -> str:
    """Where a member is found inside its process."""
    return f"in-process:{owner}"


class Member(AsyncMemory):
    """A memory whose node runs on the loop that made it. Raises `Unavailable` when its files cannot be had."""

    def __init__(self, enrolment: Enrolment, owners: Iterable[str], network: InProcessNetwork, **options: Any) -> None:
        super().__init__(**options)
        join_logging()
        settings = enrolment.settings(owners)
        if enrolment.file is not None:
            make_folder(enrolment.file)
        transport = network.transport(settings.endpoint)
        try:
            self._node = Node(settings, transport, self._clock, self._entropy, self._ended)
        except (StartRefused, LogError, OSError) as error:
            raise Unavailable(str(error)) from error
        transport.attach(self._node)
        self._endpoint = settings.endpoint
        self._keeper = self._kept(enrolment, settings)
        self._way = NodeRoute(self._node, self._pass, self._clock, self._entropy)
        self._tasks = [asyncio.create_task(self._node.start())]
        if self._keeper is not None:
            self._tasks.append(asyncio.create_task(self._keeper.keep()))

    def _kept(self, enrolment: Enrolment, settings: Settings) -> Keeper | None:
        if enrolment.source is None:
            return None
        ttl_us = settings.timings.lease_ttl_ms * MILLISECOND_US
        node = self._node
        return Keeper(
            enrolment.source, enrolment.cluster, enrolment.owner, ttl_us, self._clock, node.status, node.may_try
        )

    @property
    def _route(self) -> NodeRoute:
        return self._way

    async def _pass(self) -> None:
        """Writes need the lease's own store; reads do not."""
        if self._keeper is not None and self._keeper.is_down:
            raise Unavailable("the lease store does not answer", (LEASE_STORE,))

    async def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """What this member's node says of itself, by its endpoint."""
        return {self._endpoint: calls.status_to_wire(self._node.status())}

    async def close(self) -> None:
        """Give the lease back, finish what is being written, and let go of the files."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._keeper is not None:
            await self._keeper.release()
        await self._node.stop()

    def _ended(self, reason: str) -> None:
        _log.critical("a memory in this process must end", endpoint=self._endpoint, reason=reason)
