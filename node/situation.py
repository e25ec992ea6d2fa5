"""Where one node stands: whether it serves, who leads as far as it knows, and if not, why not.

The parts of a node (`runtime`, `ingress`) share it and change it on the node's loop alone.
"""

from __future__ import annotations

import asyncio

import structlog

from ..memory.errors import Unavailable
from ..replication.messages import Role, RoleChanged
from .engine import Engine
from .members import Members
from .settings import MILLISECOND_US, SECOND_US
from .system import Clock

OUTSIDE = "not a member of the cluster; `veridical member add` takes it in"
REROUTE_PAUSE_S = 0.02
READY_AGE_LIMIT_US = 2 * SECOND_US


class Situation:
    """What all parts of a node have to know of it.

    `condition` says why the node does not serve yet, empty when it does. `dead`: why its process must end. `draining`:
    it takes its leave; `closed`: it takes nobody in any more; `stopped`: it answers nobody. `removed`: another member
    says that this node has no place any more.
    """

    def __init__(self, members: Members, clock: Clock, lease_ttl_ms: int, log: structlog.stdlib.BoundLogger) -> None:
        self.members = members
        self.condition = "starting"
        self.dead = ""
        self.draining = False
        self.closed = False
        self.stopped = False
        self.removed = False
        self.engine: Engine | None = None
        self.role = RoleChanged(Role.FOLLOWER, 0, None, False)
        self.settled = asyncio.Event()
        self._role_changed = asyncio.Event()
        self._clock = clock
        self._spoken_within_us = lease_ttl_ms * MILLISECOND_US
        self._log = log

    # --- changes ------------------------------------------------------------------------------------------------------

    def say(self, condition: str) -> None:
        """Why this node does not serve yet, for its status and its log."""
        if condition != self.condition and not self.stopped:
            self.condition = condition
            self._log.warning("not serving", condition=condition) if condition else self._log.info("in its place")

    def stop(self, condition: str) -> None:
        """Answer nobody from now on, for that reason."""
        self.condition, self.stopped = condition, True

    def lead(self, role: RoleChanged) -> bool:
        """The core's role changed; whether it now knows another leader, or the same one of a later epoch."""
        known, self.role = self.role, role
        leader = self.members.name(role.leader) if role.leader else None
        self._log.info("role", role=role.role.value, epoch=role.epoch, leader=leader, serves=role.serves)
        self._wake()
        return role.leader is not None and (role.leader, role.epoch) != (known.leader, known.epoch)

    def lose(self, reason: str) -> None:
        """Give up all that is under way, and know no leader any more."""
        if self.engine is not None:
            self.engine.lose(reason)
        self.role = RoleChanged(Role.FOLLOWER, self.role.epoch, None, False)
        self._wake()

    def _wake(self) -> None:
        """Wake everybody who waits for another leader."""
        self._role_changed.set()
        self._role_changed.clear()

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def other_leader(self, seen: RoleChanged) -> None:
        """Wait for another role than `seen`, a little while at most: a peer may come back without any change here."""
        if self.role != seen:
            return
        try:
            async with asyncio.timeout(REROUTE_PAUSE_S):
                await self._role_changed.wait()
        except TimeoutError:
            pass

    async def engine_in_time(self, timeout_us: int) -> Engine:
        """The engine, once this node has found its place. Raises `Unavailable` when that is not in time, or never."""
        if self.engine is not None:
            return self.engine
        try:
            async with asyncio.timeout(timeout_us / SECOND_US):
                await self.settled.wait()
        except TimeoutError as error:
            raise Unavailable(self.condition) from error
        return self.running

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def running(self) -> Engine:
        """The engine. Raises `Unavailable` where there is none."""
        if self.engine is None:
            raise Unavailable(self.condition)
        return self.engine

    @property
    def live(self) -> frozenset[str]:
        """Members that have spoken within a lease, this node among them."""
        return self.members.live(self._clock.elapsed_us(), self._spoken_within_us)

    @property
    def silent(self) -> tuple[str, ...]:
        """Members that have not, by name."""
        live = self.live
        return tuple(member.name for member in self.members.all if member.id not in live)

    @property
    def leader_endpoint(self) -> str | None:
        """Where the leader is reached, if one is known."""
        leader = self.role.leader
        return self.members.endpoint(leader) or None if leader else None

    @property
    def is_outside(self) -> bool:
        """Whether the newest configuration known does not name this node: it was removed, or not added yet."""
        if self.removed and self.role.leader is None:
            return True
        return self.members.configuration is not None and self.members.member(self.members.me) is None

    @property
    def unready(self) -> str:
        """Why this node may not be sent traffic; empty when it may."""
        if self.draining:
            return "draining"
        engine = self.engine
        if self.condition or engine is None:
            return self.condition or "starting"
        if engine.replica.kernel.full:
            return "disk full"
        if self.is_outside:
            return OUTSIDE
        if self.role.leader is None:
            return "no leader is known"
        if engine.lacks_texts:
            return "behind an erasure"
        age_us = engine.age_us()
        if age_us is None or age_us > READY_AGE_LIMIT_US:
            return "behind the leader"
        return ""

    async def ready(self, sync_timeout_us: int) -> str:
        """The same once all is applied that is committed now, or the time is up; without a time-out, at once."""
        target = self.engine.replica.kernel.commit_index if self.engine else 0
        if not sync_timeout_us:
            return self.unready
        try:
            async with asyncio.timeout(sync_timeout_us / SECOND_US):
                while self.unready or self._applied_index < target:  # noqa: ASYNC110 (many things must come true)
                    await asyncio.sleep(REROUTE_PAUSE_S)
        except TimeoutError:
            return self.unready or f"entry {target} is not applied yet"
        return ""

    @property
    def _applied_index(self) -> int:
        return self.engine.replica.kernel.applied_index if self.engine else 0
