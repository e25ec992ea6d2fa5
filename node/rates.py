"""How much one principal may write: a token bucket (RFC 2697 without colours) for commands and one for bytes. Pure.

A bucket holds what may come at once, and is filled at its rate. Whoever finds too little in it is told when there will
be enough. What is larger than the bucket itself passes once that is full, and leaves a debt: a bound on the mean, so
that no single write can be too large for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from ..memory.errors import Retry

SECOND_US: Final = 1_000_000
BURST_S: Final = 2.0
"""What has gathered in so many seconds may come at once."""

KNOWN_LIMIT: Final = 10_000
"""So many principals are kept track of; who was silent longest is forgotten, and begins with full buckets."""

RETRY_FLOOR_S: Final = 0.001


class Rate(NamedTuple):
    """What one principal may write in a second, on average; 0 means as much as there is room for."""

    commands_per_s: float = 0.0
    bytes_per_s: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether there is anything to keep track of."""
        return self.commands_per_s > 0 or self.bytes_per_s > 0


class _Bucket:
    """What is left for one principal. Times are elapsed microseconds."""

    __slots__ = ("filled_us", "left")

    def __init__(self, full: float, now_us: int) -> None:
        self.left = full
        self.filled_us = now_us

    def fill(self, rate_per_s: float, full: float, now_us: int) -> None:
        self.left = min(full, self.left + rate_per_s * max(0, now_us - self.filled_us) / SECOND_US)
        self.filled_us = now_us


class Rates:
    """The buckets of all principals at one node. `rate` holds for each of them alone."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._known: OrderedDict[bytes, tuple[_Bucket, _Bucket]] = OrderedDict()

    def take(self, principal: bytes, commands: int, size_bytes: int, now_us: int) -> None:
        """Count a write of that principal. Raises `Retry`, counting nothing, when it is too soon."""
        if not self._rate.is_bounded:
            return
        buckets = self._buckets(principal, now_us)
        asked = tuple(zip(buckets, self._rate, (commands, size_bytes), ("commands", "bytes"), strict=True))
        bounded = [(bucket, rate, wanted, unit) for bucket, rate, wanted, unit in asked if rate > 0]
        for bucket, rate, _, _ in bounded:
            bucket.fill(rate, rate * BURST_S, now_us)
        waits = [
            ((min(wanted, rate * BURST_S) - bucket.left) / rate, f"{rate:g} {unit}")
            for bucket, rate, wanted, unit in bounded
        ]
        wait_s, bound = max(waits)
        if wait_s > 0:
            raise Retry(f"this principal may write {bound} a second", max(RETRY_FLOOR_S, wait_s))
        for bucket, _, wanted, _ in bounded:
            bucket.left -= wanted

    def _buckets(self, principal: bytes, now_us: int) -> tuple[_Bucket, _Bucket]:
        known = self._known.get(principal)
        if known is None:
            known = (
                _Bucket(self._rate.commands_per_s * BURST_S, now_us),
                _Bucket(self._rate.bytes_per_s * BURST_S, now_us),
            )
            self._known[principal] = known
            if len(self._known) > KNOWN_LIMIT:
                self._known.popitem(last=False)
        self._known.move_to_end(principal)
        return known
