"""A scene: a whole cluster in fair weather under load, in which one thing happens after the other, as a test says.

It is a run of the simulator without a schedule of faults: all invariants are checked at every step, `end` demands what
every run owes in the end, and equal seeds give equal scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..memory import commands
from ..replication.messages import ReadMode
from .clients import Write, signed
from .faults import HOUR_US
from .host import Host
from .network import FAIR
from .process import Process
from .profiles import Profile
from .requests import Query, Reply, Value, Written
from .simulator import ELECTION_TIMEOUT_US, Simulation
from .violations import Violation
from .workload import Command, register_id, register_write
from .world import MILLISECOND, SECOND

PATIENCE_US = 4 * SECOND
NARRATOR = "scene"
"""Who writes and reads on behalf of the script."""


class Scene:
    """Begins with a founded cluster whose leader serves. Times are true ones, in microseconds from now."""

    def __init__(
        self, seed: int = 1, size: int = 3, clients: int = 4, settings: Mapping[str, int | bool] | None = None
    ) -> None:
        profile = Profile(
            "scene", {"crash": 1}, size=size, first_fault_us=24 * HOUR_US, clients=clients, settings=settings or {}
        )
        self.simulation = Simulation(seed, profile)
        self.cluster = self.simulation.cluster
        self.world = self.simulation.world
        self.network = self.cluster.network
        self.operator = self.simulation.operator
        self._choices = self.world.stream(NARRATOR)
        self.network.weather = FAIR
        self.simulation.begin()
        self.settle()

    # --- who there is ---

    @property
    def leader(self) -> Process:
        """The one that serves; waits until there is one."""
        self.demand(PATIENCE_US, lambda: self.cluster.leader is not None, "nobody leads")
        assert self.cluster.leader is not None
        return self.cluster.leader

    def followers(self) -> list[Host]:
        """The hosts of all other voters, in the order of their ids."""
        leader = self.leader.me
        return [self.cluster.hosts[id] for id in sorted(self.cluster.configuration.voters) if id != leader]

    def others(self, *nodes: str) -> list[str]:
        """All nodes but these."""
        return [id for id in self.cluster.hosts if id not in nodes]

    @property
    def epoch(self) -> int:
        """The epoch of the leader."""
        return self.leader.role.epoch

    @property
    def acknowledged(self) -> int:
        """How many commands clients were told to be done."""
        return self.cluster.checks.checked.counts["commands acknowledged"]

    # --- time ---

    def wait(self, duration_us: int) -> None:
        """Let time pass."""
        self.world.run(self.world.now_us + duration_us)

    def until(self, duration_us: int, reached: Callable[[], object]) -> bool:
        """Let time pass until something is so; whether it came to be."""
        return bool(reached()) or self.world.run(self.world.now_us + duration_us, lambda: bool(reached()))

    def demand(self, duration_us: int, reached: Callable[[], object], otherwise: str) -> None:
        """The same; a violation where it did not come to be."""
        if not self.until(duration_us, reached):
            raise Violation("scene", f"{otherwise} after {duration_us} µs")

    def settle(self) -> None:
        """Wait until somebody serves and every living member holds and has applied what is committed."""
        self.demand(
            4 * PATIENCE_US, lambda: self.cluster.leader and self.cluster.has_converged(), "the cluster is not settled"
        )

    def progress(self, within_us: int = 3 * ELECTION_TIMEOUT_US) -> None:
        """Clients must be told of a write that is done, within that time."""
        before = self.acknowledged
        self.demand(within_us, lambda: self.acknowledged > before, "nothing is written")

    def new_leader(self, than: Process, within_us: int = 3 * ELECTION_TIMEOUT_US) -> Process:
        """Another process must serve within that time."""
        self.demand(within_us, lambda: self.cluster.leader not in (None, than), f"{than.holder.run} has no successor")
        return self.leader

    # --- what happens ---

    def cut_off(self, *nodes: str) -> None:
        """These nodes hear no other node any more, and no other hears them; clients reach all."""
        self.network.isolate(nodes, self.others(*nodes))

    def mend(self) -> None:
        """All links work again, and all machines."""
        self.simulation.mend(list(self.cluster.hosts.values()))

    def stop_clients(self) -> None:
        """Nobody writes or reads any more but the script."""
        for client in self.simulation.clients:
            client.stop()
        self.wait(5 * SECOND)

    def end(self) -> None:
        """Everything works again, and is what it should be: one state, one history, whole, explained by its clients."""
        self.mend()
        self.simulation.finish()

    # --- writing and reading ---

    def submit(self, node: str, *batch: Command) -> list[Reply]:
        """Send an envelope to that node, once. The answers come into the list that is returned."""
        replies: list[Reply] = []
        self.cluster.submit(NARRATOR, node, signed(self.cluster, NARRATOR, batch, self._choices), replies.append)
        return replies

    def write_register(self, value: str) -> list[Reply]:
        """Ask the leader to write a value to register 0, which clients read and write too."""
        submission = signed(self.cluster, NARRATOR, [register_write(0, value)], self._choices)
        write = Write(submission, 0, value, self.world.now_us)
        self.simulation.records.writes.append(write)
        replies: list[Reply] = []

        def heard(reply: Reply) -> None:
            if isinstance(reply, Written):
                write.reply, write.ended_us = reply, self.world.now_us
            replies.append(reply)

        self.cluster.submit(NARRATOR, self.leader.me, submission, heard)
        return replies

    def write(self, text: str, node: str | None = None) -> Written:
        """Write a value to a topic of the script's own; waits for the acknowledgement."""
        replies = self.submit(node or self.leader.me, narrated(text))
        self.demand(PATIENCE_US, lambda: replies, f"{text!r} is not answered")
        if not isinstance(replies[0], Written):
            raise Violation("scene", f"{text!r} is answered {replies[0]}")
        return replies[0]

    def read(self, node: str, mode: ReadMode, register: int = 0, timeout_us: int = SECOND) -> Reply | None:
        """Ask a node for a register; None where it does not answer in time. What it answers is checked."""
        replies: list[Reply] = []
        query, known = Query(mode, register_id(register), timeout_us), self.cluster.checks.history.length
        self.cluster.query(NARRATOR, node, query, replies.append)
        self.until(2 * timeout_us, lambda: replies)
        if replies and isinstance(replies[0], Value):
            self.cluster.checks.answers.read(query, replies[0], known)
        return replies[0] if replies else None

    def text(self, node: str, id: bytes) -> str | None:
        """What that node's projection holds under an id."""
        return self.cluster.hosts[node].fold.text(id)

    def appended_to(self, node: str) -> list[int]:
        """Indexes of all entries that are sent to that node from now on, as they are sent."""
        sent: list[int] = []
        deliver = self.cluster.deliver

        def counted(sender: str, receiver: str, message: Any) -> None:
            if receiver == node:
                sent.extend(entry.index for entry in getattr(message, "entries", ()))
            deliver(sender, receiver, message)

        self.cluster.deliver = counted
        return sent


def narrated(text: str) -> Command:
    """Write a value to the script's own topic."""
    return commands.WRITE, commands.WriteBody("fact", NARRATOR, "says", NARRATOR, text)


__all__ = ["ELECTION_TIMEOUT_US", "MILLISECOND", "PATIENCE_US", "SECOND", "Scene", "narrated"]
