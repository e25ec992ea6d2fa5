"""Whole clusters under faults. Each seed is one run; a failure prints the command that replays it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import veridical.replication
from veridical.testing.mutants import mutant_named
from veridical.testing.profiles import PROFILES, profile_of
from veridical.testing.report import Report
from veridical.testing.rules import EXPECTED_RULES
from veridical.testing.sim_command import main, shrink
from veridical.testing.simulator import simulate

SEEDS = 64
ONCE_BROKEN = (
    ("echoes", 0),  # an answer to a question of the run before was taken for one of this run
    ("rifts", 0),  # a quorum read counted R in a change that only an outvoted leader had
    ("disks", 1588),  # the healed members did not come to one state, by a fault of the simulated disk
    ("disks", 1636),
    ("drill", 113),  # entries that lack a body which was erased in their own envelope were not taken
    ("drill", 1291),  # the drill gave a vote that was split no time to be held again
    ("wide", 126),  # a member that was cutting for a new leader was told that its disk is an older copy
    ("slow grants", 180),
)
PRINT_TRACE = (
    "from veridical.testing.simulator import simulate; from veridical.testing.profiles import PROFILES;"
    "print(simulate(7, PROFILES['everything']).trace_hash)"
)


def said(report: Report) -> str:
    """What a failure prints."""
    return f"{report.violation}\nreplay: {report.replay}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_promise_is_kept(seed: int) -> None:
    """Safety at every step, progress of a healed quorum, and one state in the end."""
    report = simulate(seed, profile_of(seed))
    assert not report.violation, said(report)
    faults = sum(count for name, count in report.faults.items() if not name.startswith("messages "))
    assert report.checked["commands acknowledged"] >= 200
    assert faults >= 10
    assert report.simulated_us >= 20_000_000


@pytest.mark.parametrize(("profile", "seed"), ONCE_BROKEN, ids=[f"{name}-{seed}" for name, seed in ONCE_BROKEN])
def test_what_was_once_broken_stays_mended(profile: str, seed: int) -> None:
    """Runs that found a mistake of the core or of the simulator."""
    report = simulate(seed, PROFILES[profile])
    assert not report.violation, said(report)


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Nothing depends on the order of hashed sets, on the process, or on the clock of this machine."""
    traces: set[str] = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", PRINT_TRACE]
        traces.add(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)
    assert len(traces) == 1


def test_leaving_out_a_fault_leaves_the_rest_of_the_schedule() -> None:
    """A failing schedule can be shrunk, since the faults that stay are chosen as before."""
    notes: list[str] = []
    whole = simulate(3, PROFILES["crashes"], narrator=notes.append)
    shorter = simulate(3, PROFILES["crashes"], without=(2,))
    assert any("fault 2:" in note for note in notes)
    assert whole.trace_hash != shorter.trace_hash
    assert not shorter.violation, said(shorter)


def test_named_rules_of_the_core_are_all_expected_to_fire() -> None:
    """A rule that the core names and nobody expects would never be missed."""
    room = Path(next(iter(veridical.replication.__path__)))
    named = {name for path in room.glob("*.py") for name in re.findall(r'rule\("([a-z-]+)"\)', path.read_text())}
    assert named, "the core names no rules where this test looks for them"
    assert named <= set(EXPECTED_RULES), sorted(named - set(EXPECTED_RULES))


def test_the_command_runs_seeds_and_replays_one() -> None:
    """`veridical sim` says what it saw, and the same trace for the same seed."""
    lines: list[str] = []
    assert main(["--seeds", "2", "--seeds-only", "--jobs", "1"], lines.append) == 0
    assert lines[0] == "2 seeds, 0 violations"
    traces: set[str] = set()
    for _ in range(2):
        said_now: list[str] = []
        assert main(["--seed", "1", "--profile", "crashes"], said_now.append) == 0
        traces.add(said_now[-1])
    assert len(traces) == 1


def test_a_failing_seed_is_reported_with_its_replay_and_shrinks() -> None:
    """With a mutant alive the command fails, names the broken rule, and finds faults that the failure does not need."""
    mutant = mutant_named("acknowledge before fsync")
    lines: list[str] = []
    with mutant.alive():
        assert main(["--seed", "0", "--profile", mutant.profile], lines.append) == 1
        report = simulate(0, PROFILES[mutant.profile])
        assert shrink(0, mutant.profile) == tuple(range(1, report.places + 1))
    assert any("ack-what-matches" in line for line in lines)
    assert any("replay: veridical sim --seed 0" in line for line in lines)
    assert shrink(0, mutant.profile) == ()
