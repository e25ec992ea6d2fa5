"""A long run of seeds: how far it has come, kept in a file from which it goes on, and the page about it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from .report import Summary

FORM = 1
GIT_TIMEOUT_S = 10
ROOT = Path(__file__).parents[1]


class CampaignMisfit(Exception):
    """The file holds another campaign than the one that was asked for; the message says which, and what to do."""


class Fate(NamedTuple):
    """What became of a mutant: the seed that killed it, and the promise that it broke; none when it survived."""

    mutant: str
    seed: int | None
    broken_rule: str


@dataclass(slots=True)
class Campaign:
    """Seeds `first` to `first + count - 1` under `profile` (empty: each seed's own), of the code that `version` names.

    `wall_s` is how long it has run, over all its parts.
    """

    first: int
    count: int
    profile: str
    version: str
    summary: Summary = field(default_factory=Summary)
    wall_s: float = 0.0

    @property
    def next(self) -> int:
        """The seed that comes next."""
        return self.first + self.summary.runs

    @property
    def end(self) -> int:
        """The seed behind the last one."""
        return self.first + self.count

    def save(self, path: Path) -> None:
        """Keep it, whole or not at all."""
        fields = {
            "form": FORM, "first": self.first, "count": self.count, "profile": self.profile, "version": self.version,
            "wall_s": self.wall_s, "summary": self.summary.as_fields(),
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".part")
        draft.write_text(json.dumps(fields))
        draft.replace(path)

    def resumed(self, path: Path) -> Campaign:
        """This campaign as the file has it, this one where there is no such file.

        Raises `CampaignMisfit` for one of other seeds or of other code: sums of both would say nothing of either.
        """
        if not path.exists():
            return self
        try:
            fields: dict[str, Any] = json.loads(path.read_text())
            kept = Campaign(
                fields["first"], fields["count"], fields["profile"], fields["version"],
                Summary.of_fields(fields["summary"]), fields["wall_s"],
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise CampaignMisfit(f"{path} holds no campaign ({error}); name another file, or delete it") from error
        if (kept.first, kept.profile, kept.version) != (self.first, self.profile, self.version):
            raise CampaignMisfit(
                f"{path} holds seeds from {kept.first} of {kept.version}, profile {kept.profile or 'of each seed'!r};"
                f" asked for are seeds from {self.first} of {self.version}: name another file, or delete it"
            )
        kept.count = max(self.count, kept.summary.runs)
        return kept


def version() -> str:
    """What names the code that runs: `git describe` of its checkout, else the version of the package."""
    released = metadata.version("veridical")
    if not (ROOT / ".git").exists():
        return released
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--tags", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return released
    return f"{released} ({found.stdout.strip()})"


def page(campaign: Campaign, fates: Sequence[Fate], silent: Sequence[str] | None) -> str:
    """The page about a campaign: what ran, what struck, what was checked, and what was found.

    `silent` names what should have been seen and was not; None for too few seeds to expect everything.
    """
    summary, checked = campaign.summary, campaign.summary.checked
    survivors = [fate.mutant for fate in fates if fate.seed is None]
    commands = checked["commands acknowledged"]
    rows = [
        ("seeds", f"{_number(summary.runs)} ({campaign.first} to {campaign.next - 1})"),
        ("violations", _number(len(summary.failures))),
        ("steps", _number(summary.steps)),
        ("simulated time", f"{_number(summary.simulated_us // 1_000_000)} s"),
        ("commands acknowledged", _number(commands)),
        ("entries committed", _number(checked["entries committed"])),
        ("faults", _number(sum(_struck(summary).values()))),
        ("elections won", _number(checked["leaders that serve"])),
        ("process runs", _number(checked["process runs"])),
        ("mutants caught", f"{len(fates) - len(survivors)} of {len(fates)}" if fates else "not asked for"),
        ("wall time", duration(campaign.wall_s)),
        ("CPU time of the seeds", duration(summary.cpu_us / 1e6)),
        ("code", f"`{campaign.version}`"),
        ("run by", f"Python {platform.python_version()}, {sys.platform}, {os.cpu_count()} cores"),
    ]
    lines = [
        "# Simulated clusters",
        "",
        "Written by `veridical sim` (`make sim-nightly`). Each seed is a whole cluster in one thread: the real"
        " replication core, decider and memory rules over a fake network, disks and clocks, under faults, then"
        " healed. Every promise is checked at every step; see `testing/DESIGN.md`. Equal seeds give equal runs.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
    ]
    lines += _findings(campaign, survivors, silent)
    for title, counts in (
        ("Faults", _struck(summary)),
        ("Messages", {n[9:]: c for n, c in summary.faults.items() if n.startswith("messages ")}),
        ("Rules of the core that fired", summary.rules),
        ("Checked", checked),
    ):
        lines += [f"## {title}", "", "| what | times |", "| --- | --: |"]
        lines += [f"| {name} | {_number(count)} |" for name, count in sorted(counts.items())] + [""]
    if fates:
        lines += ["## Mutants", "", "The protocol with one rule taken away each.", ""]
        lines += ["| without | killed by seed | broken promise |", "| --- | --: | --- |"]
        lines += [f"| {f.mutant} | {'-' if f.seed is None else f.seed} | {f.broken_rule} |" for f in fates] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _findings(campaign: Campaign, survivors: Sequence[str], silent: Sequence[str] | None) -> list[str]:
    failures = campaign.summary.failures
    if not (failures or survivors or silent):
        rest = "" if silent is None else " Every fault struck, every named rule fired, and every check had work."
        return [f"No promise was broken.{rest}", ""]
    lines = ["## Findings", ""]
    for report in failures:
        what = report.violation.strip().rpartition("\n")[2]
        lines.append(f"- seed {report.seed} ({report.profile}): {what}; `{report.replay}`")
    lines += [f"- the mutant “{name}” survived" for name in survivors]
    lines += [f"- never seen: {name}" for name in silent or ()]
    return [*lines, ""]


def _struck(summary: Summary) -> dict[str, int]:
    return {name: count for name, count in summary.faults.items() if not name.startswith("messages ")}


def _number(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def duration(seconds: float) -> str:
    """In the two units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
