"""The command that runs seeds, replays one, and hunts mutants.

sim                         1000 seeds over all profiles, then every mutant
sim --seed 17               one seed again, with its report
sim --seed 17 --narrate     … telling everything that happens
sim --seed 17 --without 3,5 … leaving out two of its faults
sim --mutants               every mutant, none may survive its budget
sim --seeds 20000 --state build/simulation.json --out docs/simulation.md
                            a long run: the file is where it goes on after an interruption, the page says what it saw
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ..node.system import Clock, SystemClock
from .campaign import Campaign, CampaignMisfit, Fate, duration, page, version
from .mutants import MUTANTS, Mutant, mutant_named
from .profiles import PROFILES, profile_of
from .report import Report, Summary
from .rules import EXPECTED_CHECKS, EXPECTED_FAULTS, EXPECTED_RULES
from .simulator import simulate
from .world import SECOND

SEEDS = 1000
CHUNK = 4
PROGRESS_US = 10 * SECOND
"""How often a long run says how far it is, and keeps it."""

Say = Callable[[str], None]


@contextmanager
def uncollected() -> Generator[None]:
    """No search for cyclic garbage meanwhile: a run makes little, and searching through all that it holds takes a tenth
    of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()


def run_seed(task: tuple[int, str]) -> Report:
    """Run one seed under the profile of that name; an empty name means the seed's own."""
    seed, profile = task
    with uncollected():
        return simulate(seed, PROFILES[profile] if profile else profile_of(seed))


def run_seeds(seeds: Iterable[int], profile: str, jobs: int) -> Iterator[Report]:
    """Run many seeds on `jobs` processes, reports in order."""
    tasks = [(seed, profile) for seed in seeds]
    if jobs == 1:
        yield from map(run_seed, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(run_seed, tasks, chunksize=CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)


def hunt(name: str) -> tuple[str, Report | None]:
    """Run seeds with a mutant alive until one kills it; the report of that run, or None when it survives its budget."""
    mutant = mutant_named(name)
    with mutant.alive():
        for seed in range(mutant.seeds):
            report = run_seed((seed, mutant.profile))
            if mutant.is_killed_by(report):
                return name, report
    return name, None


def hunt_all(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[str, Report | None]]:
    """Hunt all mutants on `jobs` processes, those with the largest budgets first; the results are in their order."""
    if jobs == 1:
        yield from (hunt(mutant.name) for mutant in mutants)
        return
    with ProcessPoolExecutor(jobs) as pool:
        longest_first = sorted(mutants, key=lambda mutant: -mutant.seeds)
        hunts = {mutant.name: pool.submit(hunt, mutant.name) for mutant in longest_first}
        yield from (hunts[mutant.name].result() for mutant in mutants)


def shrink(seed: int, profile: str) -> tuple[int, ...]:
    """Places of the schedule whose faults a failing seed does not need: each is left out while the run still fails.

    Empty for a seed that does not fail.
    """
    chosen = PROFILES[profile] if profile else profile_of(seed)
    whole = simulate(seed, chosen)
    without: list[int] = []
    for place in range(1, whole.places + 1) if whole.violation else ():
        if simulate(seed, chosen, (*without, place)).violation:
            without.append(place)
    return tuple(without)


def main(arguments: Sequence[str] | None = None, say: Say | None = None, clock: Clock | None = None) -> int:
    """Run the command; 0 when every promise was kept, every rule fired and every mutant was killed; 2 for a request
    that cannot be met.
    """
    options, say = _options(arguments), say or _print
    if options.mutant:
        return _mutants([mutant_named(options.mutant)], 1, say, [])
    if options.seed is not None:
        return _one(options, say)
    if options.mutants:
        return _mutants(MUTANTS, options.jobs, say, [])
    try:
        return _campaign(options, say, clock or SystemClock())
    except CampaignMisfit as misfit:
        say(f"Not run: {misfit}")
        return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds (default %(default)s)")
    parser.add_argument("--from", "--first", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--seeds-only", action="store_true", help="do not hunt mutants afterwards")
    profiles = f"run every seed under one profile: {', '.join(PROFILES)}"
    parser.add_argument("--profile", default="", choices=["", *PROFILES], metavar="NAME", help=profiles)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep how far it is, and go on from there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a page of Markdown about it")
    parser.add_argument("--seed", type=int, help="replay this one seed")
    parser.add_argument("--narrate", action="store_true", help="tell everything that happens in it")
    parser.add_argument("--without", default="", help="leave out the faults at these places, for example 3,5")
    parser.add_argument("--shrink", action="store_true", help="find the faults that the seed's failure does not need")
    parser.add_argument("--mutants", action="store_true", help="hunt all mutants")
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--mutant", default="", choices=["", *names], metavar="NAME", help="hunt one mutant")
    return parser.parse_args(arguments)


def _one(options: argparse.Namespace, say: Say) -> int:
    profile = PROFILES[options.profile] if options.profile else profile_of(options.seed)
    without = tuple(int(place) for place in options.without.split(",") if place)
    if options.shrink:
        without = shrink(options.seed, options.profile)
        say(f"not needed: --without {','.join(map(str, without))}")
    report = simulate(options.seed, profile, without, _narrate if options.narrate else None)
    summary = Summary()
    summary.add(report)
    for line in summary.lines():
        say(line)
    say(f"trace {report.trace_hash}")
    return _failures(summary, say)


# --- many seeds -------------------------------------------------------------------------------------------------------


def _campaign(options: argparse.Namespace, say: Say, clock: Clock) -> int:
    campaign = Campaign(options.first, options.seeds, options.profile, version())
    if options.state:
        campaign = campaign.resumed(options.state)
        if campaign.summary.runs:
            say(f"going on from seed {campaign.next}: {options.state}")
            _failures(campaign.summary, say)
    _run(campaign, options, say, clock)
    summary = campaign.summary
    for line in summary.lines():
        say(line)
    silent: list[str] | None = None
    if not options.profile and summary.runs >= SEEDS:
        silent = summary.silent(EXPECTED_FAULTS, EXPECTED_RULES, EXPECTED_CHECKS)
    for name in silent or ():
        say(f"never seen: {name}")
    failed, fates = int(bool(summary.failures or silent)), list[Fate]()
    if not (options.profile or options.seeds_only):
        failed |= _mutants(MUTANTS, options.jobs, say, fates)
    if options.out:
        options.out.write_text(page(campaign, fates, silent))
        say(f"written: {options.out}")
    return failed


def _run(campaign: Campaign, options: argparse.Namespace, say: Say, clock: Clock) -> None:
    """Run what is left of a campaign; every few seconds say how far it is, and keep it."""
    began, before_s, began_at = clock.elapsed_us(), campaign.wall_s, campaign.next
    said = began
    try:
        for report in run_seeds(range(campaign.next, campaign.end), campaign.profile, options.jobs):
            campaign.summary.add(report)
            now = clock.elapsed_us()
            campaign.wall_s = before_s + (now - began) / SECOND
            if report.violation:
                _failure(report, say)
            if now - said >= PROGRESS_US:
                said = now
                say(_progress(campaign, (campaign.next - began_at) * SECOND / (now - began)))
                if options.state:
                    campaign.save(options.state)
    finally:
        if options.state:
            campaign.save(options.state)


def _progress(campaign: Campaign, speed: float) -> str:
    """How far a campaign is, at so many seeds a second."""
    summary = campaign.summary
    left_s = (campaign.count - summary.runs) / speed
    return (
        f"{summary.runs} of {campaign.count} seeds, {len(summary.failures)} violations,"
        f" {speed:.1f} seeds/s, {duration(left_s)} left"
    )


def _mutants(mutants: Sequence[Mutant], jobs: int, say: Say, fates: list[Fate]) -> int:
    survivors = 0
    for name, report in hunt_all(mutants, jobs):
        survivors += report is None
        fate = "SURVIVED" if report is None else f"killed by seed {report.seed}: {report.broken_rule}"
        fates.append(Fate(name, None, "") if report is None else Fate(name, report.seed, report.broken_rule))
        say(f"  {name:<50} {fate}")
    say(f"{len(mutants)} mutants, {survivors} survived")
    return int(survivors > 0)


def _failures(summary: Summary, say: Say) -> int:
    for report in summary.failures:
        _failure(report, say)
    return int(bool(summary.failures))


def _failure(report: Report, say: Say) -> None:
    say(f"seed {report.seed} ({report.profile}) after {report.simulated_us} µs: {report.violation}")
    say(f"  replay: {report.replay}")


def _narrate(line: str) -> None:
    sys.stdout.write(line)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
