"""What a run found out: a figure for each system and each work, and under which conditions."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scale import Scale

FORMAT = 1
OURS = "veridical"


@dataclass
class Figures:
    """Figures by system and by the name of the work; `scale` and `machine` say where they come from."""

    scale: Scale
    machine: dict[str, str]
    systems: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Systems that could not take part, and why."""

    def note(self, system: str, work: str, value: float) -> None:
        """Keep a figure, and show it while the rest still runs."""
        self.systems.setdefault(system, {})[work] = float(f"{value:.4g}")
        say(f"  {system:16} {work:56} {shown(value):>9}")

    def skip(self, system: str, reason: str) -> None:
        """A system takes no part."""
        if system not in self.skipped:
            say(f"!! {system} is left out: {reason}")
        self.skipped[system] = reason

    def of(self, system: str, work: str) -> float | None:
        """The figure, or None where there is none."""
        return self.systems.get(system, {}).get(work)

    def store(self, path: Path) -> None:
        """Write them down as JSON."""
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n")

    @staticmethod
    def load(path: Path) -> Figures:
        """Read them back. Raises `ValueError` for another format."""
        fields: dict[str, Any] = json.loads(path.read_text())
        if fields.pop("format") != FORMAT:
            raise ValueError(f"{path}: not figures of format {FORMAT}")
        return Figures(Scale(**fields.pop("scale")), **fields)


def this_machine() -> dict[str, str]:
    """What absolute figures depend on."""
    import sqlite3  # not before the projection had its chance to set it up (see projection/sqlite.py)

    return {
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }


def shown(value: float) -> str:
    """A figure with as many digits as it deserves."""
    if value >= 1000:
        return f"{round(value):,}".replace(",", " ")
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


_BEGAN = time.perf_counter()


def say(line: str) -> None:
    """Progress, beside the result: standard output is for that."""
    print(f"{time.perf_counter() - _BEGAN:6.1f} s {line}", file=sys.stderr, flush=True)
