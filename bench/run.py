"""`make bench`: this cluster beside etcd and PySyncObj, in one run on this machine, as ratios.

Each peer runs three processes on loopback and is driven from here by closed loops after a warm-up. Absolute figures
depend on the machine and on what else it does; compare the ratios. PySyncObj never waits for a disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from load import Gaps, closed_loop, first_success_after
from ours import Ours, fact
from peers import Etcd, PySyncObj, cpu_seconds, resident_mb

VALUE = b"x" * 250
BULK = 64
WORDS = 2000


@dataclass
class Figures:
    """What one system did, by the name of the work."""

    name: str
    values: dict[str, float] = field(default_factory=dict[str, float])

    def note(self, work: str, value: float) -> None:
        """Keep a figure and show it while the rest still runs."""
        self.values[work] = value
        print(f"  {self.name:18} {work:44} {value:12.2f}", file=sys.stderr, flush=True)


async def single_facts(figures: Figures, put: Callable[[int, bytes], Awaitable[object]], seconds: float) -> None:
    """Single facts with 1, 8 and 64 calls under way."""
    for in_flight in (1, 8, 64):
        base = in_flight * 10_000_000
        measured = await closed_loop(lambda number, base=base: put(base + number, VALUE), in_flight, seconds)
        figures.note(f"facts/s, {in_flight} in flight", measured.per_second)
        figures.note(f"p50 ms, {in_flight} in flight", measured.p50_ms)


async def bench_etcd(folder: Path, seconds: float, trials: int) -> Figures:
    """etcd from the machine's packages."""
    figures, peer = Figures("etcd"), Etcd(folder)
    try:
        await peer.start()
        await idle(figures, [process.pid for process in peer.processes])
        await single_facts(figures, peer.put, seconds)
        bulk = await closed_loop(lambda number: peer.put_many(number, VALUE, BULK), 8, seconds, BULK)
        figures.note("facts/s, bulk of 64", bulk.per_second)
        taken: list[float] = []
        for _ in range(trials):
            killed = peer.leader
            taken.append(await first_success_after(peer.put_somewhere, peer.kill_leader))
            await peer.restart(killed)
        figures.note("failover s, median", statistics.median(taken))
    finally:
        await peer.stop()
    return figures


async def bench_pysyncobj(folder: Path, seconds: float) -> Figures:
    """PySyncObj, tuned for speed."""
    figures, peer = Figures("PySyncObj tuned"), PySyncObj(folder, tuned=True)
    try:
        await peer.start()
        await single_facts(figures, peer.put, seconds)
    finally:
        await peer.stop()
    return figures


async def bench_ours(folder: Path, seconds: float, trials: int, sizes: list[int]) -> Figures:
    """Veridical: facts signed, replicated, on disk, folded and searchable."""
    figures, peer = Figures("veridical"), Ours(folder)
    try:
        await peer.start()
        await idle(figures, peer.pids())
        await single_facts(figures, peer.put, seconds)
        bulk = await closed_loop(lambda number: peer.put_many(number, BULK), 16, seconds, BULK)
        figures.note("facts/s, bulk of 64", bulk.per_second)
        filled = 0
        for size in sizes:
            filled = await fill(peer, filled, size)
            await recall(figures, peer, size, seconds)
        await failovers(figures, peer, trials)
    finally:
        await peer.stop()
    return figures


async def fill(peer: Ours, filled: int, size: int) -> int:
    """Write facts of random words until there are `size` of them."""
    chance = random.Random(size)

    async def chunk(first: int) -> None:
        records = [fact(10**9 + n, words(chance, 12)) for n in range(first, min(first + BULK, size))]
        await peer.client.write_many(records, timeout_s=30)

    for first in range(filled, size, BULK * 8):
        await asyncio.gather(*(chunk(start) for start in range(first, min(first + BULK * 8, size), BULK)))
    return size


def words(chance: random.Random, count: int) -> str:
    """Words of a vocabulary in which few are common and most are rare."""
    return " ".join(f"word{min(int(chance.paretovariate(0.6)), WORDS)}" for _ in range(count))


async def recall(figures: Figures, peer: Ours, size: int, seconds: float) -> None:
    """Three-term questions, alone and while facts are written."""
    chance = random.Random(7)

    async def ask(_: int) -> None:
        await peer.client.recall(words(chance, 3), scope="repo:bench", k=5)

    label = f"{size // 1000} k facts"
    alone = await closed_loop(ask, 8, seconds)
    figures.note(f"recall q/s at {label}, 8 clients", alone.per_second)
    done = False

    async def write() -> None:
        number = 3 * 10**9 + size
        while not done:
            await peer.put(number := number + 1)

    writers = [asyncio.create_task(write()) for _ in range(2)]
    busy = await closed_loop(ask, 8, seconds)
    one = await closed_loop(ask, 1, seconds)
    done = True
    await asyncio.gather(*writers)
    figures.note(f"recall q/s at {label}, 8 clients, under writes", busy.per_second)
    figures.note(f"recall p50 ms at {label}, under writes", one.p50_ms)
    figures.note(f"recall p99 ms at {label}, under writes", one.p99_ms)


async def failovers(figures: Figures, peer: Ours, trials: int) -> None:
    """The leader killed, and asked to end."""
    taken: list[float] = []
    for _ in range(trials):
        taken.append(await first_success_after(peer.put_somewhere, peer.signal_leader))
        peer.nodes = (await asyncio.to_thread(peer.command, "up"))["nodes"]
    figures.note("failover s, median", statistics.median(taken))
    gaps: list[float] = []
    for _ in range(trials):
        watch = Gaps(peer.put_somewhere)
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(0.5)
        await asyncio.to_thread(peer.signal_leader, signal.SIGTERM)
        await asyncio.sleep(1.0)
        watch.done = True
        await task
        gaps.append(watch.longest_ms)
        peer.nodes = (await asyncio.to_thread(peer.command, "up"))["nodes"]
    figures.note("longest gap ms on SIGTERM, median", statistics.median(gaps))


async def idle(figures: Figures, pids: Sequence[int], seconds: float = 5.0) -> None:
    """Share of a core that a node uses when nobody asks, and its memory."""
    await asyncio.sleep(1)
    before, begun = sum(map(cpu_seconds, pids)), time.perf_counter()
    await asyncio.sleep(seconds)
    used = (sum(map(cpu_seconds, pids)) - before) / (time.perf_counter() - begun)
    figures.note("idle % of a core, a node", 100 * used / len(pids))
    figures.note("resident MB, a node", max(map(resident_mb, pids)))


def ratios(ours: Figures, peers: list[Figures]) -> dict[str, dict[str, float]]:
    """Ours over each peer's, where both did the work."""
    return {
        work: {peer.name: value / peer.values[work] for peer in peers if peer.values.get(work)}
        for work, value in ours.values.items()
    }


def table(ours: Figures, peers: list[Figures]) -> str:
    """All figures in Markdown, a ratio behind each peer's."""
    names = [peer.name for peer in peers]
    lines = [
        f"| work | veridical | {' | '.join(f'{name} | ratio' for name in names)} |",
        "|---" * (2 + 2 * len(names)) + "|",
    ]
    for work, value in ours.values.items():
        cells = [
            f"{peer.values[work]:.2f} | {value / peer.values[work]:.2f}" if peer.values.get(work) else "– | –"
            for peer in peers
        ]
        lines.append(f"| {work} | {value:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


async def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each loop is measured")
    parser.add_argument("--trials", type=int, default=5, help="how often a leader is killed")
    parser.add_argument(
        "--facts", type=int, nargs="*", default=[10_000, 100_000], help="sizes at which recall is asked"
    )
    parser.add_argument("--only", choices=["veridical"], help="leave the peers out")
    parser.add_argument("--json", action="store_true", help="print figures and ratios as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="veridical-bench-") as name:
        folder = Path(name)
        peers: list[Figures] = []
        if options.only is None and Etcd.is_installed():
            peers.append(await bench_etcd(folder, options.seconds, options.trials))
        elif options.only is None:
            print(
                "etcd is not installed (on Debian: apt-get install etcd-server); measured without it", file=sys.stderr
            )
        if options.only is None:
            peers.append(await bench_pysyncobj(folder, options.seconds))
        ours = await bench_ours(folder, options.seconds, options.trials, options.facts)
    if options.json:
        figures = {each.name: each.values for each in [ours, *peers]}
        print(json.dumps({"figures": figures, "ratios": ratios(ours, peers)}, indent=2))
    else:
        print(table(ours, peers))


asyncio.run(main())
