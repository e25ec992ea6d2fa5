"""Rifts: faults of several steps, laid out for mistakes that weather alone would find once in thousands of runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..log.configuration import Configuration
from .operator import Operator, with_member
from .requests import Reply
from .world import MILLISECOND, SECOND

if TYPE_CHECKING:
    from .cluster import Cluster
    from .host import Host
    from .process import Process

RESTARTS = 7
SUCCESSION_US = 3 * SECOND
LOOK_US = 10 * MILLISECOND
FEWEST_VOTERS = 4


class Rifts:
    """Each method strikes once, and says whether it could. `mend_later` joins the network again, between two ms."""

    def __init__(
        self, cluster: Cluster, operator: Operator, choices: random.Random, mend_later: Callable[[int, int], None]
    ) -> None:
        self._cluster = cluster
        self._operator = operator
        self._choices = choices
        self._mend_later = mend_later
        self._is_over = False

    def stop(self) -> None:
        """Whatever is under way goes no further."""
        self._is_over = True

    def restarts_behind_a_slow_link(self) -> bool:
        """A follower starts again and again, while answers to its earlier runs are still on their way."""
        leader = self._cluster.leader
        followers = [process for process in self._cluster.members if leader and process is not leader]
        if not followers:
            return False
        host = self._choices.choice(followers).host
        self._cluster.network.slow_down(host.id, self._cluster.hosts, self._choices.randint(50, 160) * MILLISECOND)
        self._restart(host, RESTARTS)
        return True

    def _restart(self, host: Host, times: int) -> None:
        if self._is_over:
            return
        host.crash()
        world = self._cluster.world
        world.after(self._choices.randint(1, 20) * MILLISECOND, host.start)
        if times:
            world.after(self._choices.randint(120, 450) * MILLISECOND, lambda: self._restart(host, times - 1))
        else:
            self._mend_later(100, 300)

    def change_that_nobody_takes_over(self) -> bool:
        """A leader is cut off and removes members; the others elect another, which removes the first.

        One of the others is cut off together with the first before it hears of that: two that do not know that they are
        outvoted. The first would like to remove everybody but itself, which it may not.
        """
        leader, network = self._cluster.leader, self._cluster.network
        if leader is None or not self._is_calm(leader):
            return False
        others = sorted(self._cluster.configuration.voters - {leader.me})
        lost = self._choices.choice(others)
        network.isolate([leader.me], [id for id in self._cluster.hosts if id != leader.me])
        self._remove_alone(leader, [lost, *(id for id in others if id != lost)])
        self._await_successor(leader, [id for id in others if id != lost])
        return True

    def leader_removes_itself_apart(self) -> bool:
        """A leader that is cut off with one other removes itself: by two of four, one of them no longer a member."""
        leader = self._cluster.leader
        if leader is None or not self._is_calm(leader):
            return False
        near = self._choices.choice(sorted(self._cluster.configuration.voters - {leader.me}))
        rest = [id for id in self._cluster.hosts if id not in (leader.me, near)]
        self._cluster.network.isolate([leader.me, near], rest)
        present = leader.replica.status().configuration
        if present is not None:
            leader.desk.reconfigure(self._without(present, leader.me), _unheard)
        self._mend_later(1_500, 2_500)
        self._operator.add(leader.me)
        return True

    def _is_calm(self, leader: Process) -> bool:
        configuration, hosts = self._cluster.configuration, self._cluster.hosts
        up = all(hosts[id].running for id in configuration.voters)
        return up and self._operator.is_idle and leader.me in configuration.voters and self._are_enough(configuration)

    def _are_enough(self, configuration: Configuration) -> bool:
        return len(configuration.voters) >= FEWEST_VOTERS

    def _remove_alone(self, leader: Process, unwanted: list[str]) -> None:
        """First all at once, then one by one: only the first step of the latter is a change that may be made."""
        present = leader.replica.status().configuration
        if present is None:
            return
        alone = present
        for id in unwanted:
            alone = self._without(alone, id)
        leader.desk.reconfigure(alone, _unheard)
        for id in unwanted:
            present = self._without(present, id)
            leader.desk.reconfigure(present, _unheard)

    def _without(self, configuration: Configuration, id: str) -> Configuration:
        return with_member(configuration, self._cluster.hosts[id].member, "gone")

    def _await_successor(self, first: Process, kept: list[str]) -> None:
        """The rift comes when the next leader begins, or only once it serves."""
        world = self._cluster.world
        until_us = world.now_us + SUCCESSION_US
        wants_it_serving = self._choices.random() < 0.6

        def begins(process: Process) -> None:
            self._cluster.ambush = None
            if process.me != first.me:
                world.after(0, lambda: self._part(first, process, kept))

        def look() -> None:
            leader = self._cluster.leader
            if self._is_over:
                return
            if leader is not None and leader.me != first.me:
                self._part(first, leader, kept)
            elif world.now_us < until_us:
                world.after(LOOK_US, look)
            else:
                self._mend_later(1, 2)

        if wants_it_serving:
            look()
        else:
            self._cluster.ambush = begins
            self._mend_later(2_500, 3_000)

    def _part(self, first: Process, successor: Process, kept: list[str]) -> None:
        network = self._cluster.network
        if self._is_over:
            return
        near = self._choices.choice([id for id in kept if id != successor.me])
        network.mend()
        network.isolate([first.me, near], [id for id in self._cluster.hosts if id not in (first.me, near)])
        self._mend_later(1_500, 2_500)
        present = successor.replica.status().configuration
        if present is not None and not successor.is_dead and present.member(first.me):
            successor.desk.reconfigure(self._without(present, first.me), _unheard)
        self._operator.add(first.me)


def _unheard(reply: Reply) -> None:
    """Nobody waits for the answer."""
    del reply
