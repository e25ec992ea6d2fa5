"""When calls must end: many of them share one timer, so that a call costs none of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

TICK_S: Final = 0.01
"""Calls end at the end of the tick in which their deadline lies: this much later at most."""


class Timed(Protocol):
    """What must end by `deadline`, in the loop's time."""

    @property
    def deadline(self) -> float:
        """When it must have ended."""
        ...


Item = TypeVar("Item", bound=Timed)


class Deadlines(Generic[Item]):
    """Holds what has not ended yet, and calls `expire` with what is late. Belongs to `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Item], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._ticks: dict[int, set[Item]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0

    def add(self, item: Item) -> None:
        """From now on it is waited for."""
        tick = int(item.deadline / TICK_S) + 1
        items = self._ticks.get(tick)
        if items is not None:
            items.add(item)
            return
        self._ticks[tick] = {item}
        if self._timer is None or tick < self._armed:
            self._arm(tick)

    def discard(self, item: Item) -> None:
        """It has ended."""
        tick = int(item.deadline / TICK_S) + 1
        items = self._ticks.get(tick)
        if items is not None:
            items.discard(item)
            if not items:
                del self._ticks[tick]

    def take_all(self) -> list[Item]:
        """Everything that has not ended, which is held no longer; no timer is left."""
        items = [item for items in self._ticks.values() for item in items]
        self._ticks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return items

    def _arm(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = tick
        self._timer = self._loop.call_at(tick * TICK_S, self._passed)

    def _passed(self) -> None:
        self._timer = None
        now = self._loop.time()
        for tick in sorted(tick for tick in self._ticks if tick * TICK_S <= now):
            for item in self._ticks.pop(tick):
                self._expire(item)
        if self._ticks:
            self._arm(min(self._ticks))
