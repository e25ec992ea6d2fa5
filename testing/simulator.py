"""One seed, one run: a whole cluster under faults, then healed; every promise checked on the way and at the end.

*Chaos*: faults strike while clients work; safety is checked at every event. *Healing*: in half of the runs only a core
of R members is brought back, which must make progress by itself within a few election timeouts; then everybody is, and
all must come to the same state. A *drill*, where the profile asks for one, then demands of the healthy cluster what
mistakes that are merely slow or unsteady would not give: no election without need, and a short one where it is needed.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from ..log.configuration import LEASE_TTL_MS, Configuration
from ..replication.settings import Settings
from .clients import Client, Records
from .cluster import Cluster
from .drill import Drill
from .faults import Faults
from .host import Host
from .linearizability import is_linearizable
from .network import FAIR
from .operator import Operator
from .profiles import Profile
from .report import Report, Tally
from .violations import Violation
from .workload import REGISTERS, register_id
from .world import MILLISECOND, SECOND, World

ELECTION_TIMEOUT_US = LEASE_TTL_MS * MILLISECOND * 11 // 10 + 200 * MILLISECOND
PROGRESS_TIMEOUTS = 8
CONVERGENCE_TIMEOUTS = 12
FEWEST_COMMANDS = 200
FEWEST_FAULTS = 10
FILL_UP_US = 20 * SECOND
ERASING_US = 2 * SECOND
SETTINGS = Settings(tail_bytes=24 << 10, append_bytes=8 << 10, lease_reads=True)


def simulate(
    seed: int, profile: Profile, without: Collection[int] = (), narrator: Callable[[str], None] | None = None
) -> Report:
    """Run one seed under a profile, leaving out the faults at the places `without` of its schedule."""
    return Simulation(seed, profile, without, narrator).report()


class Simulation:
    """A cluster, its clients, its operator and its faults, from founding to the last comparison."""

    def __init__(
        self, seed: int, profile: Profile, without: Collection[int] = (), narrator: Callable[[str], None] | None = None
    ) -> None:
        self._seed = seed
        self._profile = profile
        self.world = World(seed, narrator)
        self.rules = Tally()
        self.faults_seen = Tally()
        settings = replace(SETTINGS, **profile.settings)
        self.cluster = Cluster(self.world, profile, settings, self.rules, self.faults_seen)
        self.records = Records()
        self.operator = Operator(self.cluster)
        self.faults = Faults(self.cluster, profile, self.operator, without)
        self.clients: list[Client] = []
        self._left_out = len(without)
        self._choices = self.world.stream("healing")

    def report(self) -> Report:
        """Run, and say how it went."""
        report, began = Report(self._seed, self._profile.name), time.process_time_ns()
        try:
            self._run()
        except Violation as violation:
            report.violation, report.broken_rule = str(violation), violation.rule
        except Exception:  # noqa: BLE001 - whatever the core raises is a broken promise, and a finding
            report.violation, report.broken_rule = traceback.format_exc(), "exception"
        report.simulated_us, report.steps, report.trace_hash = (
            self.world.now_us,
            self.world.steps,
            self.world.trace_hash,
        )
        report.cpu_us = (time.process_time_ns() - began) // 1000
        report.places = self.faults.places
        report.faults, report.rules = self._all_faults(), self.rules.counts
        report.checked = self.cluster.checks.checked.counts
        report.checked["states compared"] = self.cluster.checks.digests.compared
        return report

    def _all_faults(self) -> Counter[str]:
        for name, count in self.cluster.network.counts.items():
            if count:
                self.faults_seen.counts[f"messages {name}"] = count
        return self.faults_seen.counts

    def _run(self) -> None:
        self.begin()
        self.world.run(self._profile.chaos_us)
        self.world.run(self.world.now_us + FILL_UP_US, lambda: self.faults.struck + self._left_out >= FEWEST_FAULTS)
        self.faults.stop()
        self._heal()
        if self._profile.drill:
            Drill(self.cluster, self.world, self.clients).run()
        self.finish()

    def finish(self) -> None:
        """All promises that are looked at in the end, of a cluster in which everything works again."""
        self._converge()
        self._check_honesty()
        self._check_registers()

    def begin(self) -> None:
        """Start all nodes and clients."""
        history = self.cluster.checks.history
        for register in range(REGISTERS):
            history.watch(register_id(register))
        for host in list(self.cluster.hosts.values()):
            self.world.after(self._choices.randrange(100 * MILLISECOND), host.start)
        for number in range(1, self._profile.clients + 1):
            reading = 1.0 if number <= self._profile.readers else self._profile.reading
            self.clients.append(Client(self.cluster, f"c{number}", self.records, self._profile, reading))

    # --- healing ---

    def _heal(self) -> None:
        """Bring a core back and demand progress of it; then bring back everybody."""
        everybody = list(self.cluster.hosts.values())
        core = self._core() if self._choices.random() < 0.5 else everybody
        self.mend(core)
        if core is not everybody:
            ids = [host.id for host in core]
            self.cluster.network.isolate(ids, [host.id for host in everybody if host not in core])
        self._demand_progress(core)
        self.mend(everybody)
        self._fill_up()

    def _fill_up(self) -> None:
        """Let clients go on until the run has seen enough commands."""
        counts = self.cluster.checks.checked.counts
        self.world.run(self.world.now_us + FILL_UP_US, lambda: counts["commands acknowledged"] >= FEWEST_COMMANDS)

    def _core(self) -> list[Host]:
        """R members of the newest configuration whose disks are whole, everybody if there are not so many."""
        configuration, hosts = self._newest_configuration(), self.cluster.hosts
        whole = [id for id in sorted(configuration.voters) if hosts[id].is_whole]
        quorum = max(configuration.recovery_quorum, configuration.write_quorum)
        is_founded = self.cluster.checks.history.length > 0  # it takes all first members to found a cluster
        if len(whole) < quorum or not self.operator.is_idle or not is_founded:
            return list(hosts.values())
        return [hosts[id] for id in self._choices.sample(whole, quorum)]

    def _newest_configuration(self) -> Configuration:
        """The newest in any log, committed or not: it is in force where it was appended."""
        known = [found for host in self.cluster.hosts.values() if (found := host.disk.configuration)]
        return max(known, key=lambda configuration: configuration.version, default=self.cluster.configuration)

    def mend(self, hosts: Collection[Host]) -> None:
        """All links and these machines work again."""
        network = self.cluster.network
        network.mend()
        network.weather = FAIR
        for host in hosts:
            host.heal()

    def _demand_progress(self, core: Collection[Host]) -> None:
        counts = self.cluster.checks.checked.counts
        wanted = ("commands acknowledged", "strong reads", "quorum reads")
        before = {name: counts[name] for name in wanted}
        until_us = self.world.now_us + PROGRESS_TIMEOUTS * ELECTION_TIMEOUT_US

        def progressed() -> bool:
            return all(counts[name] > before[name] for name in wanted)

        if not self.world.run(until_us, progressed):
            missing = [name for name in wanted if counts[name] == before[name]]
            healed = ", ".join(host.id for host in core)
            raise Violation("a healed quorum makes progress", f"no {' and no '.join(missing)} with {healed} healed")

    def _converge(self) -> None:
        """Everybody is back: clients stop, the operator finishes, and all members hold the same state."""
        for client in self.clients:
            client.stop()
        until_us = self.world.now_us + CONVERGENCE_TIMEOUTS * ELECTION_TIMEOUT_US
        if not self.world.run(until_us, self._is_quiet):
            raise Violation("healed nodes converge", self._positions())
        if older := [host.id for host in self.cluster.hosts.values() if host.is_older]:
            raise Violation("an older disk is noticed", f"{', '.join(older)} took part as if nothing were missing")
        checks = self.cluster.checks
        self.world.run(self.world.now_us + ERASING_US, lambda: self._is_quiet() and not self._is_erasing())
        for process in self.cluster.members:
            checks.applied(process.host)
            checks.sealed(process)
            checks.erased(process.host)
        checks.grounded()

    def _is_quiet(self) -> bool:
        return self.cluster.leader is not None and self.operator.is_idle and self.cluster.has_converged()

    def _is_erasing(self) -> bool:
        return any(process.host.fold.left for process in self.cluster.members)

    def _positions(self) -> str:
        positions = [f"{process.holder.run} {process.host.fold.applied}" for process in self.cluster.processes]
        return f"{self.cluster.checks.history.length} committed; {', '.join(positions)}"

    # --- the whole history ---

    def _check_honesty(self) -> None:
        """Where nobody forges anything, no member's entries are ever refused as unsound."""
        refused = [rule for rule in ("chain-check", "seal-check") if self.rules.counts[rule]]
        if refused and not self.faults_seen.counts["messages forged"]:
            raise Violation("honest entries are taken", f"{' and '.join(refused)} fired, and nothing was forged")

    def _check_registers(self) -> None:
        happened = frozenset(self.cluster.checks.history.executions)
        for register in range(REGISTERS):
            operations = self.records.history(register, happened)
            self.cluster.checks.checked.count("operations put in order", len(operations))
            if not is_linearizable(operations):
                raise Violation("registers are linearizable", f"no order explains the history of register {register}")
