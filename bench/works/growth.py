"""Whether writing slows down as the store grows: the same writes on empty stores and on a full one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import names
from load import rate
from ours import Ours
from rig import Rig
from works.writes import BULKS_IN_FLIGHT

SINGLES_IN_FLIGHT = 64
WARM_UP_SHARE = 8
"""A node's first facts are slow; so small a share of what is measured goes before it."""

Rates = Mapping[str, float]


async def run(rig: Rig) -> None:
    """The median of some rounds each; every round on empty has a store of its own."""
    empty: list[Rates] = []
    for _ in range(rig.scale.rounds):
        ours = rig.ours()
        async with rig.started(ours):
            empty.append(await _round(rig, ours))
    ours = await rig.filled(rig.scale.many_facts)
    full = [await _round(rig, ours) for _ in range(rig.scale.rounds)]
    for work in (names.singles(SINGLES_IN_FLIGHT), names.bulk(rig.scale)):
        at_size = _median(full, work)
        rig.figures.note(Ours.name, names.at_size(rig.scale, work), at_size)
        rig.figures.note(Ours.name, names.over_empty(rig.scale, work), at_size / _median(empty, work))


async def _round(rig: Rig, ours: Ours) -> Rates:
    scale, singles, bulks = rig.scale, rig.scale.round_singles, rig.scale.round_bulks
    await rate(ours.put, SINGLES_IN_FLIGHT, singles // WARM_UP_SHARE, rig.block())
    return {
        names.singles(SINGLES_IN_FLIGHT): await rate(ours.put, SINGLES_IN_FLIGHT, singles, rig.block()),
        names.bulk(scale): scale.bulk * await rate(ours.put_many, BULKS_IN_FLIGHT, bulks, rig.block() // scale.bulk),
    }


def _median(rounds: Sequence[Rates], work: str) -> float:
    return statistics.median(rates[work] for rates in rounds)
