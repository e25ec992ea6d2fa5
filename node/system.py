"""The one module that reads clocks and draws randomness; everything else receives a `Clock` and an `Entropy`.

The fakes live in `testing`, and pass the same test class as these two.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

NANOSECONDS_A_MICROSECOND = 1000


class Clock(Protocol):
    """Two readings in microseconds: elapsed time, by which leases are judged; wall time, which is data."""

    def elapsed_us(self) -> int:
        """Microseconds since some fixed moment of this machine's run; never goes back, also runs while suspended."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC, as the machine believes it; may jump."""
        ...


class Entropy(Protocol):
    """Where unpredictable bits come from."""

    def bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes, fit for keys and salts."""
        ...

    def random(self) -> random.Random:
        """A generator seeded unpredictably, for jitter only."""
        ...


class SystemClock:
    """The machine's clocks: `CLOCK_BOOTTIME` where the system has it (Linux), else the monotonic clock."""

    def __init__(self) -> None:
        self._elapsed: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def elapsed_us(self) -> int:
        """See `Clock`."""
        return time.clock_gettime_ns(self._elapsed) // NANOSECONDS_A_MICROSECOND

    def wall_us(self) -> int:
        """See `Clock`."""
        return time.time_ns() // NANOSECONDS_A_MICROSECOND


class SystemEntropy:
    """The operating system's generator."""

    def bytes(self, count: int) -> bytes:
        """See `Entropy`."""
        return os.urandom(count)

    def random(self) -> random.Random:
        """See `Entropy`."""
        return random.Random(os.urandom(16))
