"""Fakes of the seams: a clock that is set by hand and an entropy that is drawn from a seed."""

from __future__ import annotations

import random

START_WALL_US = 1_750_000_000_000_000


class ManualClock:
    """A `Clock` that moves only when it is told to. Elapsed and wall time move together unless set apart."""

    def __init__(self, elapsed_us: int = 1_000_000, wall_us: int = START_WALL_US) -> None:
        self._elapsed_us = elapsed_us
        self._wall_us = wall_us

    def elapsed_us(self) -> int:
        """Microseconds, as set."""
        return self._elapsed_us

    def wall_us(self) -> int:
        """Microseconds since 1970, as set."""
        return self._wall_us

    def advance(self, microseconds: int) -> None:
        """Let time pass on both clocks."""
        assert microseconds >= 0, "elapsed time does not go back"
        self._elapsed_us += microseconds
        self._wall_us += microseconds

    def step_wall(self, microseconds: int) -> None:
        """Let wall time jump, as when somebody sets the machine's clock."""
        self._wall_us += microseconds


class SeededEntropy:
    """An `Entropy` whose every bit follows from `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        """`count` bytes that look unpredictable and are not."""
        return self._random.randbytes(count)

    def random(self) -> random.Random:
        """A generator of its own, seeded from this one."""
        return random.Random(self._random.getrandbits(64))
