"""The simulated cluster: hosts, the network between them, and the doors that clients and operators come in by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..log.configuration import Configuration, founding
from ..node import wire
from ..proto.generated import replication_pb2
from ..replication.messages import Message, ReadReady
from ..replication.settings import Settings
from .checkers import Checks
from .clocks import NodeClock
from .host import Host
from .network import Network
from .process import Process
from .profiles import Profile
from .report import Tally
from .requests import Answer, Query, Reply, Submission
from .violations import Violation
from .world import MILLISECOND, SECOND, World

NAME = "simulated"


def through_the_wire(message: Message) -> Message:
    """The message as a member reads it from the bytes that another one sent: what is not in them does not arrive."""
    return wire.decode(replication_pb2.Message.FromString(wire.encode(message).SerializeToString()))


class Cluster:
    """All hosts by id. An `ambush` awaits every process that begins to lead, a `forger` may change any message."""

    def __init__(self, world: World, profile: Profile, settings: Settings, rules: Tally, faults_seen: Tally) -> None:
        self.name = NAME
        self.world = world
        self.profile = profile
        self.settings = settings
        self.rules = rules
        self.faults_seen = faults_seen
        self.network = Network(world)
        self.checks = Checks(self)
        self.first_members = [f"n{number}" for number in range(1, profile.size + 1)]
        self._clock_choices = world.stream("clocks")
        self.ambush: Callable[[Process], None] | None = None
        self.on_lost: Callable[[Host], None] | None = None
        self.forger: Callable[[Any], Any] | None = None
        self.hosts: dict[str, Host] = {}
        for id in self.first_members:
            self.add_host(id, is_first=True)

    def add_host(self, id: str, is_first: bool = False) -> Host:
        """A new machine with an empty disk, and a clock that may be as fast or as slow as is allowed."""
        choices, fastest_ppm = self._clock_choices, self.profile.rate_ppm
        clock = NodeClock(
            self.world,
            choices.choice((-fastest_ppm, fastest_ppm, choices.randint(-fastest_ppm, fastest_ppm))),
            choices.randrange(SECOND, 100 * SECOND),
            choices.randint(-20 * MILLISECOND, 20 * MILLISECOND),
        )
        self.hosts[id] = Host(self, id, is_first, clock)
        return self.hosts[id]

    def founding_configuration(self) -> Configuration:
        """What the first members found their cluster with."""
        agreed = founding([self.hosts[id].member for id in self.first_members], self.profile.write_quorum)
        return replace(agreed, lease_ttl_ms=self.profile.lease_ttl_ms)

    # --- who there is ---

    @property
    def processes(self) -> list[Process]:
        """All processes that live, paused ones too."""
        return [host.process for host in self.hosts.values() if host.process is not None]

    @property
    def members(self) -> list[Process]:
        """Processes of the members of the present configuration, learners too."""
        configuration = self.configuration
        return [process for process in self.processes if configuration.member(process.me)]

    @property
    def leader(self) -> Process | None:
        """The serving leader of the highest epoch, if any."""
        serving = [process for process in self.processes if process.role.serves]
        return max(serving, key=lambda process: process.role.epoch, default=None)

    @property
    def configuration(self) -> Configuration:
        """The newest configuration known to be committed, or the founding one."""
        return self.checks.history.configuration or self.founding_configuration()

    def reachable_from(self, id: str) -> Iterable[Host]:
        """Hosts that answer a question of `id` now."""
        severed = self.network.severed
        for host in self.hosts.values():
            if host.id != id and host.running and (id, host.id) not in severed and (host.id, id) not in severed:
                yield host

    def lost(self, host: Host) -> None:
        """A member was told that its disk is an older copy: it comes back as a new one."""
        if not host.is_older:
            raise Violation("only an older disk is called one", f"{host.id} is told that it is lost")
        self.faults_seen.count("older disk noticed")
        host.wipe()
        if self.on_lost is not None:
            self.on_lost(host)

    def leader_begins(self, process: Process) -> None:
        """A process has been granted an epoch."""
        if self.ambush is not None:
            self.ambush(process)

    # --- messages ---

    def deliver(self, sender: str, receiver: str, message: Any) -> None:
        """Carry a message between members; it reaches whatever run lives at its end by then."""
        host = self.hosts.get(receiver)
        message = through_the_wire(message) if self.forger is None else self.forger(message)
        if host is not None:
            self.network.carry(sender, receiver, lambda: self._hand_over(host, sender, message))

    def _hand_over(self, host: Host, sender: str, message: Any) -> None:
        if host.process is not None:
            host.process.receive(sender, message)

    def forward_read(self, asker: str, ready: ReadReady, query: Query, answer: Answer) -> None:
        """A read whose barrier was found at `asker` is answered by another member."""
        host = self.hosts[ready.member]
        self.network.carry(asker, host.id, lambda: self._forwarded(host, ready, query, answer))

    def _forwarded(self, host: Host, ready: ReadReady, query: Query, answer: Answer) -> None:
        process = host.process
        if process is not None:
            process.whenever_runs(lambda: process.query_at(ready, query, answer))

    def submit(self, client: str, node: str, submission: Submission, answer: Answer) -> None:
        """A client sends an envelope to a node."""
        host, back = self.hosts[node], self._way_back(node, client, answer)
        self.network.carry(client, node, lambda: self._at_desk(host, submission, back))

    def _at_desk(self, host: Host, submission: Submission, answer: Answer) -> None:
        process = host.process
        if process is not None:
            process.whenever_runs(lambda: process.desk.submit(submission, answer))

    def query(self, client: str, node: str, query: Query, answer: Answer) -> None:
        """A client asks a node."""
        host, back = self.hosts[node], self._way_back(node, client, answer)
        self.network.carry(client, node, lambda: self._at_reads(host, query, back))

    def _at_reads(self, host: Host, query: Query, answer: Answer) -> None:
        process = host.process
        if process is not None:
            process.whenever_runs(lambda: process.query(query, answer))

    def _way_back(self, node: str, client: str, answer: Answer) -> Answer:
        def carry_back(reply: Reply) -> None:
            self.network.carry(node, client, lambda: answer(reply))

        return carry_back

    # --- ends ---

    def has_converged(self) -> bool:
        """Whether all living members hold and have applied everything that is committed."""
        length = self.checks.history.length
        hosts = [process.host for process in self.members]
        return all(host.fold.applied.index == length <= host.disk.last_index for host in hosts)
