"""What a client takes from its machine: wall time for ids and signatures, and unpredictable bits."""

from __future__ import annotations

import random
from typing import Protocol


class Clock(Protocol):
    """Wall time. Deadlines are counted on the event loop's own clock."""

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC, as the machine believes it."""
        ...


class Entropy(Protocol):
    """Where unpredictable bits come from."""

    def bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes, fit for ids and salts."""
        ...

    def random(self) -> random.Random:
        """A generator seeded unpredictably, for jitter only."""
        ...
