"""What a run says of itself: how often each fault struck and each named rule fired, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

COUNTS = ("faults", "rules", "checked")


def _fields(row: Report | Summary) -> dict[str, Any]:
    return {each.name: getattr(row, each.name) for each in fields(row)}


def _with_counts(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{name: Counter[str](row[name]) for name in COUNTS}}


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
    cpu_us: int = 0
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
    """Many runs together. `cpu_us` is what they cost; the simulated time and the steps are all of theirs."""

    runs: int = 0
    steps: int = 0
    simulated_us: int = 0
    cpu_us: int = 0
    failures: list[Report] = field(default_factory=list[Report])
    faults: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    checked: Counter[str] = field(default_factory=Counter[str])
    fewest: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, report: Report) -> None:
        """Take in one run."""
        self.runs += 1
        self.steps += report.steps
        self.simulated_us += report.simulated_us
        self.cpu_us += report.cpu_us
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

    def as_fields(self) -> dict[str, Any]:
        """Everything, as a JSON object."""
        return {**_fields(self), "failures": [_fields(report) for report in self.failures]}

    @staticmethod
    def of_fields(fields: dict[str, Any]) -> Summary:
        """What `as_fields` gave. Raises `KeyError` and `TypeError` for anything else."""
        summary = Summary(**_with_counts(fields))
        summary.failures = [Report(**_with_counts(failed)) for failed in fields["failures"]]
        return summary

    def silent(self, faults: Iterable[str], rules: Iterable[str], checks: Iterable[str]) -> list[str]:
        """Faults that never struck, rules that never fired and things that never were checked, of those given."""
        expected = (("fault", faults, self.faults), ("rule", rules, self.rules), ("check", checks, self.checked))
        return [f"{kind} {name}" for kind, names, counts in expected for name in names if not counts[name]]

    def lines(self) -> list[str]:
        """The summary for people."""
        lines = [f"{self.runs} seeds, {len(self.failures)} violations"]
        lines.append("fewest in one seed: " + ", ".join(f"{size} {name}" for name, size in sorted(self.fewest.items())))
        for title, counts in (("faults", self.faults), ("rules", self.rules), ("checked", self.checked)):
            lines.append(f"{title}:")
            lines += [f"  {count:>9}  {name}" for name, count in sorted(counts.items())]
        return lines
