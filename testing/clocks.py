"""Fake clocks: every node has its own, at a rate of its own, with wall time that steps while elapsed time does not."""

from __future__ import annotations

from .world import SECOND, World

MILLION = 1_000_000
WALL_START_US = 1_800_000_000 * SECOND


class NodeClock:
    """The two clocks of one machine. `elapsed_us` never goes back while the machine is up; `wall_us` may do anything.

    `rate_ppm` is how much faster (or slower) than true time the elapsed clock runs.
    """

    def __init__(self, world: World, rate_ppm: int = 0, elapsed_us: int = 0, wall_offset_us: int = 0) -> None:
        self._world = world
        self.rate_ppm = rate_ppm
        self.wall_offset_us = wall_offset_us
        self._base_true_us = world.now_us
        self._base_elapsed_us = elapsed_us

    def elapsed_us(self) -> int:
        """What the machine's monotonic clock shows now."""
        passed = self._world.now_us - self._base_true_us
        return self._base_elapsed_us + passed * (MILLION + self.rate_ppm) // MILLION

    def wall_us(self) -> int:
        """What the machine takes the date to be now."""
        return WALL_START_US + self._world.now_us + self.wall_offset_us

    def true_us(self, elapsed_us: int) -> int:
        """The first true time at which the elapsed clock will show at least `elapsed_us`."""
        missing = max(0, elapsed_us - self._base_elapsed_us)
        return self._base_true_us + -(-missing * MILLION // (MILLION + self.rate_ppm))

    def change_rate(self, rate_ppm: int) -> None:
        """Run faster or slower from now on."""
        self._rebase(self.elapsed_us())
        self.rate_ppm = rate_ppm

    def freeze(self, duration_us: int) -> None:
        """The whole machine was stopped and its clock with it: the elapsed clock lost `duration_us`."""
        self._rebase(max(0, self.elapsed_us() - duration_us))

    def reboot(self, elapsed_us: int) -> None:
        """The machine restarted: the elapsed clock starts again, at `elapsed_us`."""
        self._rebase(elapsed_us)

    def _rebase(self, elapsed_us: int) -> None:
        self._base_true_us, self._base_elapsed_us = self._world.now_us, elapsed_us
