"""What a run says of itself: how often each fault struck and each named rule fired, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


class Tally:
    """Counts by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, times: int = 1) -> None:
        """`name` happened."""
        self.counts[name] += times

    def fired(self, name: str) -> None:
        """The named rule fired; the shape that a replica's `trace` has."""
        self.counts[name] += 1


@dataclass(slots=True)
class Report:
    """One run. `violation` is empty when every promise was kept; `places` is how long the schedule of faults was."""

    seed: int
    profile: str
    violation: str = ""
    broken_rule: str = ""
    simulated_us: int = 0
    steps: int = 0
    places: int = 0
    trace_hash: str = ""
    faults: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    checked: Counter[str] = field(default_factory=Counter[str])

    @property
    def replay(self) -> str:
        """The command that repeats this run."""
        return f"veridical sim --seed {self.seed} --profile '{self.profile}'"


@dataclass(slots=True)
class Summary:
    """Many runs together."""

    runs: int = 0
    failures: list[Report] = field(default_factory=list[Report])
    faults: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    checked: Counter[str] = field(default_factory=Counter[str])
    fewest: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, report: Report) -> None:
        """Take in one run."""
        self.runs += 1
        self.faults += report.faults
        self.rules += report.rules
        self.checked += report.checked
        if report.violation:
            self.failures.append(report)
        sizes = {
            "commands": report.checked["commands acknowledged"],
            "faults": sum(count for name, count in report.faults.items() if not name.startswith("messages ")),
            "simulated seconds": report.simulated_us // 1_000_000,
        }
        for name, size in sizes.items():
            self.fewest[name] = min(size, self.fewest.get(name, size))

    def silent(self, expected_faults: Iterable[str], expected_rules: Iterable[str]) -> list[str]:
        """Faults that never struck and rules that never fired, of those that should have."""
        faults = [f"fault {name}" for name in expected_faults if not self.faults[name]]
        return faults + [f"rule {name}" for name in expected_rules if not self.rules[name]]

    def lines(self) -> list[str]:
        """The summary for people."""
        lines = [f"{self.runs} seeds, {len(self.failures)} violations"]
        lines.append("fewest in one seed: " + ", ".join(f"{size} {name}" for name, size in sorted(self.fewest.items())))
        for title, counts in (("faults", self.faults), ("rules", self.rules), ("checked", self.checked)):
            lines.append(f"{title}:")
            lines += [f"  {count:>9}  {name}" for name, count in sorted(counts.items())]
        return lines
