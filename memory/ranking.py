"""What comes first in a recall (MEMORY § 7): relevance, reachability, belief and trust, added and never multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from .lifecycle import Weighed, strength_ppm
from .record import CANDIDATE, PPM, VERIFIED, Record

RELEVANCE_WEIGHT: Final = 0.5
STRENGTH_WEIGHT: Final = 0.2
CONFIDENCE_WEIGHT: Final = 0.3
TRUST_WEIGHT: Final = 0.35
NARROWEST_SPAN: Final = 0.5

_DECIMALS: Final = 9  # far below any meaningful difference, far above what processors may differ by


_Id = TypeVar("_Id", bytes, str)
_Hit = TypeVar("_Hit")


def is_recallable(record: Record) -> bool:
    """Whether a record's trust allows it in a recall at all."""
    return record.trust in (CANDIDATE, VERIFIED)


def rank(record: Weighed, relevance: float, now_us: int) -> float:
    """The rank of a record whose relevance to the query is between 0 and 1; the higher, the earlier."""
    strength = strength_ppm(record, now_us) / PPM
    confidence = record.confidence_ppm / PPM
    trust = 1.0 if record.trust == VERIFIED else 0.0
    score = (
        RELEVANCE_WEIGHT * relevance
        + STRENGTH_WEIGHT * strength
        + CONFIDENCE_WEIGHT * confidence
        + TRUST_WEIGHT * trust
    )
    return round(score, _DECIMALS)


def order(score: float, id: _Id) -> tuple[float, _Id]:
    """The sort key of a hit: best score first, ties by id, so that every node gives the same list.

    Ids all as bytes, or all as hex digits of one case.
    """
    return (-score, id)


def normalised(scores: Sequence[float]) -> list[float]:
    """Scores of one list of candidates, none below 0, spread over 0 to 1 (higher is better); equal scores all become 1.

    Scores that lie closer together than `NARROWEST_SPAN` of the best are not pulled further apart: among records that
    fit a question about equally well, trust decides.
    """
    if not scores:
        return []
    highest = max(scores)
    span = max(highest - min(scores), NARROWEST_SPAN * highest)
    return [1.0 - (highest - score) / span if span else 1.0 for score in scores]


def best_of(ordered: Sequence[_Hit], k: int, is_verified: Callable[[_Hit], bool]) -> list[_Hit]:
    """The first `k` by rank. Where there is room for more than one, the best verified hit is among them.

    The rank alone does not promise that: a better fit of the words can weigh more than trust, and candidates are many.
    """
    best = list(ordered[:k])
    if k > 1 and len(ordered) > k and not any(map(is_verified, best)):
        best[-1:] = [next(filter(is_verified, ordered), best[-1])]
    return best
