"""What a client takes from its machine: the time, and unpredictable bits."""

from __future__ import annotations

import random
from typing import Protocol


class Clock(Protocol):
    """Two readings in microseconds: elapsed time, by which deadlines are judged, and wall time, which is data."""

    def elapsed_us(self) -> int:
        """Microseconds since some fixed moment; never goes back."""
        ...

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
