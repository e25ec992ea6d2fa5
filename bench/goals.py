"""What the figures are to reach: ratios to peers of the same run where there are any, else absolute ones."""

from __future__ import annotations

from dataclasses import dataclass

import names
from figures import Figures
from names import P50, P99, QUERIES
from scale import Scale

ETCD, PYSYNCOBJ, SQLITE = "etcd", "PySyncObj", "SQLite"


@dataclass(frozen=True)
class Bound:
    """A figure is at least (or at most) `value`, or so many times that of the system `times`."""

    value: float
    times: str = ""
    at_most: bool = False

    def holds(self, figure: float, theirs: float | None) -> bool | None:
        """Whether a figure is within the bound; None where there is nothing to compare it with."""
        if self.times and theirs is None:
            return None
        bound = self.value * (theirs or 0) if self.times else self.value
        return figure <= bound if self.at_most else figure >= bound

    def __str__(self) -> str:
        value = f"{self.value:,.0f}".replace(",", " ") if self.value >= 1000 else f"{self.value:g}"
        return ("≤ " if self.at_most else "≥ ") + value + (f" × {self.times}" if self.times else "")


def at_least(value: float, times: str = "") -> Bound:
    """The more the better."""
    return Bound(value, times)


def at_most(value: float, times: str = "") -> Bound:
    """The less the better."""
    return Bound(value, times, at_most=True)


def goals(scale: Scale) -> dict[str, tuple[Bound, ...]]:
    """The bounds, all of which are to hold, by the name of the work."""
    many, bulk = scale.many_facts, names.bulk(scale)
    return {
        names.singles(64): (at_least(1, ETCD), at_least(3, PYSYNCOBJ)),
        names.latency(1): (at_most(2, ETCD),),
        bulk: (at_least(12_000), at_least(0.3, ETCD), at_least(2.5, SQLITE)),
        names.on_slow_disk(scale, names.singles(64)): (at_least(4_000),),
        names.on_slow_disk(scale, bulk): (at_least(8_000),),
        names.FAILOVER_MEDIAN: (at_most(0.8, ETCD),),
        names.HANDOVER_WORST: (at_most(100),),
        names.recall(many, 8, False, QUERIES): (at_least(400),),
        names.recall(many, 8, True, QUERIES): (at_least(300),),
        names.recall(many, 1, True, P50): (at_most(8),),
        names.recall(many, 1, True, P99): (at_most(40),),
        names.recall_in_process(scale): (at_most(40),),
        names.over_empty(scale, names.singles(64)): (at_least(0.8),),
        names.over_empty(scale, bulk): (at_least(0.8),),
        names.REPLAY: (at_least(20_000),),
        names.IDLE_CORE: (at_most(2),),
        names.IDLE_MEMORY: (at_most(120),),
    } | _in_scopes(scale)


def _in_scopes(scale: Scale) -> dict[str, tuple[Bound, ...]]:
    bounds = {
        f"{names.RECALL}, {P50}": (at_most(15),),
        f"{names.LATTICE_RECALL}, {P50}": (at_most(15),),
        names.over(names.singles(1)): (at_least(0.8),),
        names.over(names.bulk(scale)): (at_least(0.8),),
    }
    return {
        names.in_scopes(scale, embedder, work): bound
        for embedder in ("lexical", "local")
        for work, bound in bounds.items()
    }


def is_met(bounds: tuple[Bound, ...], figures: Figures, work: str, ours: float) -> bool | None:
    """Whether all bounds hold; None where none fails and one cannot be judged."""
    verdicts = [bound.holds(ours, figures.of(bound.times, work)) for bound in bounds]
    return False if False in verdicts else None if None in verdicts else True
