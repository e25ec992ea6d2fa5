"""The operator: changes the membership step by step, as people do, and does not give up at the first refusal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..log.configuration import Configuration, Member
from ..replication.membership import with_learner, with_voter, without
from .requests import Reply, Written
from .world import MILLISECOND, SECOND

if TYPE_CHECKING:
    from .cluster import Cluster

POLL_US = 200 * MILLISECOND
PATIENCE_US = 8 * SECOND


@dataclass(slots=True)
class Goal:
    """Make `node` a `learner`, a `voter`, or `gone`; dropped when it was not reached `until_us`."""

    node: str
    wanted: str
    until_us: int = 0


def with_member(configuration: Configuration, member: Member, wanted: str) -> Configuration:
    """The configuration in which that member is a `learner`, a `voter` or `gone`."""
    if wanted == "gone":
        return without(configuration, member.id)
    if wanted == "voter" and configuration.member(member.id) is not None:
        return with_voter(configuration, member.id)
    return with_learner(configuration, member)


class Operator:
    """Works on one goal at a time, through whoever leads. An `ambush` happens just before a new voter is asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._goals: deque[Goal] = deque()
        self._asked_at_us = -PATIENCE_US
        self.ambush: Callable[[str, Collection[str]], None] | None = None
        cluster.world.after(POLL_US, self._poll)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self._goals

    def add(self, node: str) -> None:
        """Bring a new node in: first as a learner, then as a voter."""
        self._goals += [Goal(node, "learner"), Goal(node, "voter")]

    def remove(self, node: str) -> None:
        """Take a member out."""
        self._goals.append(Goal(node, "gone"))

    def _poll(self) -> None:
        world = self._cluster.world
        world.after(POLL_US, self._poll)
        if not self._goals:
            return
        goal = self._goals[0]
        goal.until_us = goal.until_us or world.now_us + PATIENCE_US
        if self._is_reached(goal):
            self._cluster.faults_seen.count(f"membership: {goal.wanted}")
            self._goals.popleft()
        elif world.now_us > goal.until_us:
            self._goals.clear()
        elif world.now_us - self._asked_at_us > 3 * POLL_US:
            self._ask(goal)

    def _is_reached(self, goal: Goal) -> bool:
        member = self._cluster.configuration.member(goal.node)
        if member is None:
            return goal.wanted == "gone"
        return member.voting == (goal.wanted == "voter") and goal.wanted != "gone"

    def _ask(self, goal: Goal) -> None:
        leader = self._cluster.leader
        if leader is None or leader.host.is_paused:
            return
        present = leader.replica.status().configuration
        if present is None:
            return
        self._asked_at_us = self._cluster.world.now_us
        wanted = with_member(present, self._cluster.hosts[goal.node].member, goal.wanted)
        if goal.wanted == "voter" and self.ambush is not None:
            self.ambush(leader.me, wanted.voters)
            self.ambush = None
        leader.desk.reconfigure(wanted, self._heard)

    def _heard(self, reply: Reply) -> None:
        self._asked_at_us = self._cluster.world.now_us if isinstance(reply, Written) else -PATIENCE_US
