"""The drill: what a healthy cluster owes its users beside safety. It finds mistakes that only cost time or peace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..replication.messages import ReadMode, Transfer
from .clients import Client, signed
from .disk import WATCHDOG_US
from .requests import Query, Reply, Value
from .violations import Violation
from .workload import register_id, register_write
from .world import MILLISECOND, SECOND, World

if TYPE_CHECKING:
    from .cluster import Cluster
    from .process import Process

SETTLE_US = 4 * SECOND
HANDOVER_US = 450 * MILLISECOND
FAILOVER_US = 1_500 * MILLISECOND
STUCK_US = 2_600 * MILLISECOND


class Drill:
    """A sequence of exercises under load, each with a time in which it must succeed; the last one without load."""

    def __init__(self, cluster: Cluster, world: World, clients: Sequence[Client]) -> None:
        self._cluster = cluster
        self._world = world
        self._clients = clients
        self._choices = world.stream("drill")

    def run(self) -> None:
        """All exercises, one after the other."""
        for exercise in (
            self._cut_off_follower_returns_quietly,
            self._transfer_is_quick,
            self._failed_transfer_resumes,
            self._full_leader_makes_room,
            self._stuck_leader_is_replaced,
            self._lonely_leader_says_so,
            self._failover_is_quick,
            self._stop_clients,
            self._quorum_reads_need_no_writes,
        ):
            self._settle()
            exercise()
        self._settle()

    # --- exercises ---

    def _cut_off_follower_returns_quietly(self) -> None:
        """*probe-first*: a node that was cut off does not raise the epoch of a healthy cluster when it returns."""
        leader = self._leader()
        epoch, follower = leader.role.epoch, self._follower(leader)
        self._cluster.network.isolate([follower], self._others(follower))
        self._wait(2 * SECOND)
        self._cluster.network.mend()
        self._wait(SECOND)
        now = self._leader()
        if (now, now.role.epoch) != (leader, epoch):
            raise Violation("probe-first", f"{follower} returned, and epoch {epoch} became {now.role.epoch}")

    def _transfer_is_quick(self) -> None:
        """A transfer carries the release of the epoch: the next leader need not wait for anything."""
        leader = self._leader()
        target = self._follower(leader)
        leader.feed(Transfer(target))
        if not self._until(HANDOVER_US, lambda: self._leads(target)):
            raise Violation("release", f"{target} does not serve {HANDOVER_US} µs after a transfer to it")

    def _failed_transfer_resumes(self) -> None:
        """*transfer-drops-the-lease*: a transfer to somebody who cannot take over ends, and the leader serves on."""
        leader = self._leader()
        target = self._follower(leader)
        self._cluster.network.isolate([target], self._others(target))
        self._wait(300 * MILLISECOND)
        leader.feed(Transfer(target))
        self._wait(SECOND)
        self._demand_writes("transfer ends", f"after a failed transfer to {target}")
        self._cluster.network.mend()

    def _full_leader_makes_room(self) -> None:
        """*release*: a leader that can write no more steps down at once, and others need not wait for its lease.

        Two may ask at the same time then, and have to ask again.
        """
        leader = self._leader()
        epoch = leader.role.epoch
        leader.host.disk.is_full = True
        replaced = self._until(HANDOVER_US, lambda: self._somebody_else_leads(leader))
        if not replaced and self._cluster.checks.elections.was_split_after(epoch):
            replaced = self._until(HANDOVER_US, lambda: self._somebody_else_leads(leader))
        leader.host.heal()
        if not replaced:
            raise Violation("release", f"nobody serves {HANDOVER_US} µs after the disk of {leader.me} was full")

    def _stuck_leader_is_replaced(self) -> None:
        """*lease-follows-progress*: a leader whose disk does not answer resigns, and in the end its process ends."""
        leader = self._leader()
        leader.host.disk.is_stalled = True
        if not self._until(STUCK_US, lambda: self._somebody_else_leads(leader)):
            raise Violation("lease-follows-progress", f"{leader.me} still leads {STUCK_US} µs after its disk stalled")
        if not self._until(WATCHDOG_US, lambda: leader.is_dead):
            raise Violation("lease-follows-progress", f"{leader.me} lives {WATCHDOG_US} µs after its disk stalled")
        leader.host.heal()

    def _lonely_leader_says_so(self) -> None:
        """*quorum-contact*: a leader that hears nobody steps down by itself."""
        leader = self._leader()
        self._cluster.network.isolate([leader.me], self._others(leader.me))
        self._wait(FAILOVER_US)
        if leader.role.serves:
            raise Violation("quorum-contact", f"{leader.me} still serves {FAILOVER_US} µs after it heard anybody")
        self._cluster.network.mend()

    def _failover_is_quick(self) -> None:
        """A dead leader is replaced once its lease has run out."""
        leader = self._leader()
        leader.host.crash()
        served = self._until(FAILOVER_US, lambda: self._cluster.leader is not None)
        leader.host.start()
        if not served:
            raise Violation("failover", f"nobody serves {FAILOVER_US} µs after {leader.me} died")

    def _stop_clients(self) -> None:
        for client in self._clients:
            client.stop()
        self._wait(5 * SECOND)

    def _quorum_reads_need_no_writes(self) -> None:
        """Positions are compared by epoch first: entries that nobody will ever commit hold up no quorum read."""
        old = self._leader()
        self._cluster.network.isolate([old.me], self._others(old.me))
        for number in range(5):
            submission = signed(self._cluster, "drill", [register_write(0, f"never committed {number}")], self._choices)
            self._cluster.submit("drill", old.me, submission, lambda reply: None)
        if not self._until(FAILOVER_US, lambda: self._somebody_else_leads(old)):
            raise Violation("failover", f"nobody serves {FAILOVER_US} µs after {old.me} fell silent")
        self._cluster.network.mend()
        self._cluster.network.sever([self._leader().me], [old.me])
        replies: list[Reply] = []
        query = Query(ReadMode.QUORUM, register_id(0), SECOND)
        self._cluster.query("drill", old.me, query, replies.append)
        if not self._until(SECOND, lambda: bool(replies)) or not isinstance(replies[0], Value):
            raise Violation("quorum reads need no writes", f"{old.me} with an uncommitted tail gets no answer")
        self._cluster.network.mend()

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

    def _demand_writes(self, rule: str, when: str) -> None:
        before = self._acknowledged()
        if not self._until(FAILOVER_US, lambda: self._acknowledged() > before):
            raise Violation(rule, f"nothing is written {when}")

    def _others(self, node: str) -> list[str]:
        return [id for id in self._cluster.hosts if id != node]

    def _somebody_else_leads(self, process: Process) -> bool:
        leader = self._cluster.leader
        return leader is not None and leader is not process

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
