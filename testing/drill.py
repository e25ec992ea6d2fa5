"""The drill: what a healthy cluster owes its users beside safety. It finds mistakes that only cost time or peace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..replication.messages import Transfer
from .violations import Violation
from .world import MILLISECOND, SECOND, World

if TYPE_CHECKING:
    from .cluster import Cluster
    from .process import Process

SETTLE_US = 4 * SECOND
HANDOVER_US = 450 * MILLISECOND
FAILOVER_US = 1_500 * MILLISECOND


class Drill:
    """A sequence of exercises, each with a time in which it must succeed."""

    def __init__(self, cluster: Cluster, world: World) -> None:
        self._cluster = cluster
        self._world = world

    def run(self) -> None:
        """All exercises, one after the other."""
        self._settle()
        self._cut_off_follower_returns_quietly()
        self._settle()
        self._transfer_is_quick()
        self._settle()
        self._failed_transfer_resumes()
        self._settle()
        self._failover_is_quick()
        self._settle()

    # --- exercises ---

    def _cut_off_follower_returns_quietly(self) -> None:
        """*probe-first*: a node that was cut off does not raise the epoch of a healthy cluster when it returns."""
        leader = self._leader()
        epoch, follower = leader.role.epoch, self._follower(leader)
        others = [id for id in self._cluster.hosts if id != follower]
        self._cluster.network.isolate([follower], others)
        self._wait(3 * SECOND)
        self._cluster.network.mend()
        self._wait(2 * SECOND)
        now = self._leader()
        if (now, now.role.epoch) != (leader, epoch):
            raise Violation("probe-first", f"{follower} returned, and epoch {epoch} became {now.role.epoch}")

    def _transfer_is_quick(self) -> None:
        """*release*: others need not wait for a lease that its holder gave back."""
        leader = self._leader()
        target = self._follower(leader)
        leader.feed(Transfer(target))
        if not self._until(HANDOVER_US, lambda: self._leads(target)):
            raise Violation("release", f"{target} does not serve {HANDOVER_US} µs after a transfer to it")

    def _failed_transfer_resumes(self) -> None:
        """*transfer-drops-the-lease*: a transfer to somebody who does not take over ends, and the leader serves on."""
        leader = self._leader()
        target = self._follower(leader)
        self._cluster.network.sever([target], [leader.me])
        leader.feed(Transfer(target))
        before = self._acknowledged()
        self._wait(SECOND)
        self._cluster.network.mend()
        if not self._until(FAILOVER_US, lambda: self._acknowledged() > before):
            raise Violation("transfer ends", f"nothing is written after a failed transfer to {target}")

    def _failover_is_quick(self) -> None:
        """A dead leader is replaced once its lease has run out."""
        leader = self._leader()
        leader.host.crash()
        served = self._until(FAILOVER_US, lambda: self._cluster.leader is not None)
        leader.host.start()
        if not served:
            raise Violation("failover", f"nobody serves {FAILOVER_US} µs after {leader.me} died")

    # --- waiting ---

    def _settle(self) -> None:
        """Wait until one leader serves and every member has what it has."""
        if not self._until(SETTLE_US, lambda: self._cluster.leader is not None and self._lag() == 0):
            raise Violation("a healthy cluster settles", f"no leader that all follow within {SETTLE_US} µs")

    def _wait(self, duration_us: int) -> None:
        self._world.run(self._world.now_us + duration_us)

    def _until(self, duration_us: int, reached: Callable[[], bool]) -> bool:
        return self._world.run(self._world.now_us + duration_us, reached)

    def _lag(self) -> int:
        return max(self._cluster.checks.history.length - process.host.fold.applied.index for process in self._members())

    def _members(self) -> list[Process]:
        return self._cluster.members

    def _acknowledged(self) -> int:
        return self._cluster.checks.checked.counts["commands acknowledged"]

    def _leads(self, node: str) -> bool:
        leader = self._cluster.leader
        return leader is not None and leader.me == node

    def _leader(self) -> Process:
        leader = self._cluster.leader
        if leader is None:
            raise Violation("a healthy cluster has a leader", "nobody serves")
        return leader

    def _follower(self, leader: Process) -> str:
        voters = self._cluster.configuration.voters
        return next(id for id in sorted(voters) if id != leader.me and self._cluster.hosts[id].process is not None)
