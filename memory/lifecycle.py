"""Time's part: decay is computed, never stored, so that replicas agree without an event for it (MEMORY § 4)."""

from __future__ import annotations

from typing import Final, Protocol

from .record import PPM, VERIFIED, Record

DAY_US: Final = 86_400_000_000
HALF_LIFE_US: Final = 7 * DAY_US
STRETCH_LIMIT: Final = 6.0
STRETCH_PER_SUPPORT: Final = 0.5
STRETCH_PER_CONFIDENCE: Final = 2.0
VOLATILE_US: Final = DAY_US
STALE_US: Final = 30 * DAY_US

PRUNE_STRENGTH_PPM: Final = 150_000
PRUNE_CONFIDENCE_PPM: Final = 400_000
PRUNE_SUPPORT: Final = 2

INITIAL_CONFIDENCE_PPM: Final = 500_000
REINFORCED_PPM: Final = 300_000


class Weighed(Protocol):
    """What of a record says how reachable it is, and how it ranks. Every `Record` is one."""

    @property
    def trust(self) -> str:
        """Candidate or verified."""
        ...

    @property
    def confidence_ppm(self) -> int:
        """How far it is believed."""
        ...

    @property
    def support(self) -> int:
        """How many sources state it."""
        ...

    @property
    def pinned(self) -> bool:
        """Whether it does not fade."""
        ...

    @property
    def strength_ppm(self) -> int:
        """How reachable it was at `strength_at_us`."""
        ...

    @property
    def strength_at_us(self) -> int:
        """When that was so."""
        ...


def half_life_us(record: Weighed, half_life_us: int = HALF_LIFE_US) -> float:
    """The record's own half-life: stretched, up to 6 times, by support and by confidence above the initial."""
    belief = max(0, record.confidence_ppm - INITIAL_CONFIDENCE_PPM) / PPM
    stretch = 1.0 + STRETCH_PER_SUPPORT * max(0, record.support - 1) + STRETCH_PER_CONFIDENCE * belief
    return half_life_us * min(STRETCH_LIMIT, stretch)


def faded_ppm(record: Weighed, now_us: int, half_life_base_us: int = HALF_LIFE_US) -> int:
    """Retrieval strength at `now_us`, in parts per million: halved for each half-life since it last changed."""
    elapsed_us = now_us - record.strength_at_us
    if elapsed_us <= 0:
        return record.strength_ppm
    return round(record.strength_ppm * 0.5 ** (elapsed_us / half_life_us(record, half_life_base_us)))


def strength_ppm(record: Weighed, now_us: int) -> int:
    """The strength that ranking sees: verified facts do not decay, pinned ones neither."""
    if record.trust == VERIFIED:
        return PPM
    return record.strength_ppm if record.pinned else faded_ppm(record, now_us)


def is_expired(record: Record, now_us: int) -> bool:
    """Whether its time to live, or its volatile day, is over. An expired record is returned by no read."""
    expiry_us = record.expiry_us
    return expiry_us is not None and expiry_us <= now_us


def is_stale(record: Record, now_us: int) -> bool:
    """Whether nobody has said or used it for 30 days. A flag for the reader, without effect."""
    return now_us - record.last_seen_us > STALE_US


def is_prunable(record: Record, now_us: int, half_life_base_us: int = HALF_LIFE_US) -> bool:
    """Whether prune may remove it: expired; or faded, doubted, alone and unverified at once. Never if pinned."""
    if record.pinned:
        return False
    if is_expired(record, now_us):
        return True
    if record.trust == VERIFIED or record.support >= PRUNE_SUPPORT or record.confidence_ppm >= PRUNE_CONFIDENCE_PPM:
        return False
    return faded_ppm(record, now_us, half_life_base_us) < PRUNE_STRENGTH_PPM
