"""`make bench`: this cluster beside etcd, PySyncObj and one SQLite, in one run on this machine.

Clusters run as three processes on loopback and are driven from here by closed loops after a warm-up. Absolute figures
depend on the machine and on what else it does; compare the ratios. PySyncObj never waits for a disk.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from figures import Figures, say, this_machine
from rig import Rig
from scale import FULL, QUICK
from table import full_table
from works import failover, found, growth, idle, large, recall, replay, scopes, writes

WORKS: dict[str, Callable[[Rig], Awaitable[None]]] = {
    "writes": writes.run,
    "fsync": writes.on_slow_disk,
    "failover": failover.run,
    "recall": recall.run,
    "idle": idle.run,
    "growth": growth.run,
    "replay": replay.run,
    "scopes": scopes.run,
    "found": found.run,
    "large": large.run,
}
"""In the order in which they run: those that share the filled cluster stand together, the last of them ends it."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=WORKS, metavar="NAME", help=f"one of {', '.join(WORKS)}")
    parser.add_argument("--large", action="store_true", help=f"also with {FULL.most_facts} facts in one projection")
    parser.add_argument("--quick", action="store_true", help="short loops: shows that all works, not how fast it is")
    parser.add_argument("--fsync-ms", type=float, default=FULL.simulated_fsync_ms, help="how much slower an fsync is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


async def main() -> int:
    """Measure, and print the table. Work that fails keeps no other from being done; returns the exit code."""
    options = _parser().parse_args()
    scale = replace(QUICK if options.quick else FULL, simulated_fsync_ms=options.fsync_ms)
    figures = Figures(scale, this_machine())
    wanted = options.only or [name for name in WORKS if name != "large" or options.large]
    with tempfile.TemporaryDirectory(prefix="veridical-bench-") as folder:
        rig = Rig(scale, figures, Path(folder))
        try:
            failed = [name for name in WORKS if name in wanted and not await _is_done(name, rig)]
        finally:
            await rig.close()
    if options.json:
        figures.store(options.json)
    print(full_table(figures))
    for missing in (*(f"{name} failed" for name in failed), *(f"{peer} took no part" for peer in figures.skipped)):
        say(f"!! {missing}")
    return 1 if failed else 0


async def _is_done(name: str, rig: Rig) -> bool:
    say(name)
    try:
        await WORKS[name](rig)
    except Exception:  # noqa: BLE001  whatever it was, ten minutes of other work are not to be lost
        traceback.print_exc()
        await rig.close()
        return False
    return True


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
