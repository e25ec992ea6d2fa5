"""The client's own end of the seam: it runs where no node is installed, and so brings its clock and its entropy."""

from __future__ import annotations

import os
import random
import time

NANOSECONDS_A_MICROSECOND = 1000


class SystemClock:
    """The machine's clocks."""

    def elapsed_us(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns() // NANOSECONDS_A_MICROSECOND  # noqa: TID251 - this module is the seam

    def wall_us(self) -> int:
        """See `Clock`."""
        return time.time_ns() // NANOSECONDS_A_MICROSECOND  # noqa: TID251 - this module is the seam


class SystemEntropy:
    """The operating system's generator."""

    def bytes(self, count: int) -> bytes:
        """See `Entropy`."""
        return os.urandom(count)  # noqa: TID251 - this module is the seam

    def random(self) -> random.Random:
        """See `Entropy`."""
        return random.Random(os.urandom(16))  # noqa: TID251 - this module is the seam
