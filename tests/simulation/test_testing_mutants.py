"""The simulator tells the protocol from what is left of it when a rule is taken away."""

from __future__ import annotations

import pytest

from veridical.testing.mutants import MUTANTS, Mutant
from veridical.testing.profiles import PROFILES
from veridical.testing.report import Report
from veridical.testing.sim_command import hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: Mutant) -> None:
    """One of the mutant's seeds breaks a promise: of safety, or for mistakes that only cost time, of liveness."""
    _, report = hunt(mutant.name)
    assert report is not None, f"{mutant.name} survived {mutant.seeds} seeds of {mutant.profile}"


def test_a_mutant_leaves_nothing_behind() -> None:
    """After the hunt the real methods are in force again."""
    mutant = MUTANTS[0]
    before = [owner.__dict__[name] for owner, name, _ in mutant.patches]
    with mutant.alive():
        assert [owner.__dict__[name] for owner, name, _ in mutant.patches] != before
    assert [owner.__dict__[name] for owner, name, _ in mutant.patches] == before


def test_a_mutant_that_does_not_fit_the_code_is_not_killed() -> None:
    """What fails for another reason than its mistake proves nothing."""
    mutant = MUTANTS[0]
    report = Report(0, mutant.profile, broken_rule="exception", violation="Traceback\nAttributeError: no such thing\n")
    assert not mutant.is_killed_by(report)
    report.violation = "Traceback\nIndexError: list index out of range\n"
    assert mutant.is_killed_by(report)
    report.violation = ""
    assert not mutant.is_killed_by(report)


def test_names_and_profiles_of_mutants_exist() -> None:
    """Each mutant can be named on the command line and runs under a profile that there is."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.profile in PROFILES for mutant in MUTANTS)
