"""Watches over a node: how late its loop is, whether a write hangs, whether there is room on the disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .identity import Places
from .system import Clock

SECOND_US = 1_000_000
LAG_PERIOD_S = 0.1
DISK_PERIOD_TICKS = 10
UNLIMITED_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class HealthPort:
    """What is watched, and who hears: the age of the write under way, and findings about the disk."""

    stuck_us: Callable[[], int]
    room: Callable[[bool], None]
    fatal: Callable[[str], None]


class Health:
    """Ten looks a second at the loop and the write under way, one at the disk (on a thread)."""

    def __init__(
        self, places: Places | None, reserve_bytes: int, disk_timeout_us: int, clock: Clock, port: HealthPort
    ) -> None:
        self._places = places
        self._reserve_bytes = reserve_bytes
        self._disk_timeout_us = disk_timeout_us
        self._clock = clock
        self._port = port
        self.loop_lag_us = 0
        self.free_bytes = UNLIMITED_BYTES
        self.log_bytes = 0
        self.wal_bytes = 0
        self._looked_us = clock.elapsed_us()

    @property
    def alive(self) -> bool:
        """Whether the loop turned within the last seconds, and the disk answers."""
        late = self._clock.elapsed_us() - self._looked_us > 5 * SECOND_US
        return not late and self._port.stuck_us() < self._disk_timeout_us

    async def watch(self) -> None:
        """Look until cancelled."""
        ticks = 0
        while True:
            if ticks % DISK_PERIOD_TICKS == 0:
                await self._look_at_disk()
            ticks += 1
            before_us = self._clock.elapsed_us()
            await asyncio.sleep(LAG_PERIOD_S)
            self._looked_us = self._clock.elapsed_us()
            self.loop_lag_us = max(0, self._looked_us - before_us - int(LAG_PERIOD_S * SECOND_US))
            stuck_us = self._port.stuck_us()
            if stuck_us >= self._disk_timeout_us:
                self._port.fatal(f"a write of the log has not returned for {stuck_us // SECOND_US} s")

    async def _look_at_disk(self) -> None:
        if self._places is None:
            return
        sizes = await asyncio.get_running_loop().run_in_executor(None, _sizes, self._places)
        self.free_bytes, self.log_bytes, self.wal_bytes = sizes
        self._port.room(self.free_bytes > self._reserve_bytes)


def _sizes(places: Places) -> tuple[int, int, int]:
    wal = sum(_size(path.with_name(f"{path.name}-wal")) for path in (places.log, places.projection))
    return shutil.disk_usage(places.log.parent).free, _size(places.log), wal


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
