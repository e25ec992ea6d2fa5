"""The command that runs seeds, replays one, and hunts mutants.

sim                         300 seeds over all profiles, then every mutant
sim --seed 17               one seed again, with its report
sim --seed 17 --narrate     … telling everything that happens
sim --seed 17 --without 3,5 … leaving out two of its faults
sim --mutants               every mutant, none may survive its budget
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from .mutants import MUTANTS, Mutant, mutant_named
from .profiles import PROFILES, profile_of
from .report import Report, Summary
from .rules import EXPECTED_FAULTS, EXPECTED_RULES
from .simulator import simulate

SEEDS = 300
CHUNK = 4

Say = Callable[[str], None]


def run_seed(task: tuple[int, str]) -> Report:
    """Run one seed under the profile of that name; an empty name means the seed's own."""
    seed, profile = task
    return simulate(seed, PROFILES[profile] if profile else profile_of(seed))


def run_seeds(seeds: Iterable[int], profile: str, jobs: int) -> Iterator[Report]:
    """Run many seeds on `jobs` processes, reports in order."""
    tasks = [(seed, profile) for seed in seeds]
    if jobs == 1:
        yield from map(run_seed, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, tasks, chunksize=CHUNK)


def hunt(name: str) -> tuple[str, Report | None]:
    """Run seeds with a mutant alive until one kills it; the report of that run, or None when it survives its budget."""
    mutant = mutant_named(name)
    with mutant.alive():
        for seed in range(mutant.seeds):
            report = simulate(seed, PROFILES[mutant.profile])
            if mutant.is_killed_by(report):
                return name, report
    return name, None


def hunt_all(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[str, Report | None]]:
    """Hunt all mutants on `jobs` processes, in order."""
    names = [mutant.name for mutant in mutants]
    if jobs == 1:
        yield from map(hunt, names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(hunt, names)


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


def main(arguments: Sequence[str] | None = None, say: Say | None = None) -> int:
    """Run the command; 0 when every promise was kept, every rule fired and every mutant was killed."""
    options, say = _options(arguments), say or _print
    if options.mutant:
        return _mutants([mutant_named(options.mutant)], 1, say)
    if options.seed is not None:
        return _one(options, say)
    if options.mutants:
        return _mutants(MUTANTS, options.jobs, say)
    failed = _many(options, say)
    return failed if options.profile or options.seeds_only else failed | _mutants(MUTANTS, options.jobs, say)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seeds-only", action="store_true", help="do not hunt mutants afterwards")
    profiles = f"run every seed under one profile: {', '.join(PROFILES)}"
    parser.add_argument("--profile", default="", choices=["", *PROFILES], metavar="NAME", help=profiles)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
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


def _many(options: argparse.Namespace, say: Say) -> int:
    summary = Summary()
    for report in run_seeds(range(options.first, options.first + options.seeds), options.profile, options.jobs):
        summary.add(report)
        if report.violation:
            _failure(report, say)
    for line in summary.lines():
        say(line)
    silent = [] if options.profile or options.seeds < SEEDS else summary.silent(EXPECTED_FAULTS, EXPECTED_RULES)
    for name in silent:
        say(f"never seen: {name}")
    return int(bool(summary.failures or silent))


def _mutants(mutants: Sequence[Mutant], jobs: int, say: Say) -> int:
    survivors = 0
    for name, report in hunt_all(mutants, jobs):
        survivors += report is None
        fate = "SURVIVED" if report is None else f"killed by seed {report.seed}: {report.broken_rule}"
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
