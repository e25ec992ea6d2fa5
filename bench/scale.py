"""How much is done: the full run, whose figures count, and the quick one, which shows that every work still works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Lengths and sizes of everything that is measured."""

    seconds: float
    """How long a loop is measured, after `warm_up_s` in which it is not."""
    warm_up_s: float
    idle_s: float
    trials: int
    """How often a leader is killed, and as often asked to end."""
    rounds: int
    """Of what is done several times for its median."""
    some_facts: int
    many_facts: int
    most_facts: int
    round_singles: int
    """Facts written one a call in a round at a given size of the store."""
    round_bulks: int
    """Bulk calls in such a round."""
    simulated_fsync_ms: float = 5.0
    bulk: int = 64
    quick: bool = False


FULL = Scale(
    seconds=5.0,
    warm_up_s=1.0,
    idle_s=5.0,
    trials=10,
    rounds=3,
    some_facts=10_000,
    many_facts=100_000,
    most_facts=1_000_000,
    round_singles=4_000,
    round_bulks=160,
)
QUICK = Scale(
    seconds=0.4,
    warm_up_s=0.1,
    idle_s=0.5,
    trials=1,
    rounds=1,
    some_facts=500,
    many_facts=2_000,
    most_facts=5_000,
    round_singles=300,
    round_bulks=10,
    quick=True,
)


def size(facts: int) -> str:
    """A number of facts as it stands in the name of a figure."""
    for unit, name in ((1_000_000, " M"), (1_000, " k")):
        if facts >= unit and facts % unit == 0:
            return f"{facts // unit}{name}"
    return str(facts)
