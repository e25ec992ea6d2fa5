"""Damaged stretches of a log: what to ask peers for, and whether what came is what stood there.

An entry's hash covers the hash of the one before. So the entry behind a gap, or the log's own record of its end,
proves every entry of the gap, whoever sent them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..log.entry import Entry
from ..log.errors import LogDamaged
from .erasures import Erasures


class Gap(NamedTuple):
    """Consecutive entries that are damaged, or whose seals are."""

    first: int
    last: int

    def __str__(self) -> str:
        """How an operator reads it."""
        return f"entry {self.first}" if self.first == self.last else f"entries {self.first} to {self.last}"


def gaps_of(damages: Iterable[LogDamaged], last: int) -> list[Gap]:
    """The gaps that these damages make in a log that ends at `last`, by index. What has no entry makes none."""
    indexes = {damage.index for damage in damages if damage.index is not None and damage.index > 0}
    inside = sorted({min(index, last) for index in indexes} if last else ())
    gaps: list[Gap] = []
    for index in inside:
        if gaps and gaps[-1].last == index - 1:
            gaps[-1] = Gap(gaps[-1].first, index)
        else:
            gaps.append(Gap(index, index))
    return gaps


def beyond_entries(damages: Iterable[LogDamaged]) -> list[LogDamaged]:
    """Damage that belongs to no entry: to the file's structure, or to the log's record of itself."""
    return [damage for damage in damages if damage.index is None]


def misfit(gap: Gap, entries: Sequence[Entry], erasures: Erasures) -> str:
    """Why these entries cannot fill the gap, as far as can be told without the log; empty when they may.

    A body may be missing only where an entry that is known to have been written erased it (PROTOCOL § 8).
    """
    if [entry.index for entry in entries] != list(range(gap.first, gap.last + 1)):
        return f"it does not hold {gap}"
    return next((why for entry in entries if (why := erasures.unexplained(entry))), "")
