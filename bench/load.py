"""Closed loops of callers, and what they measured."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

WARM_UP_S = 1.0


@dataclass(frozen=True)
class Measured:
    """Operations a second, and latencies in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float


async def closed_loop(
    operation: Callable[[int], Awaitable[object]], in_flight: int, seconds: float, weight: int = 1
) -> Measured:
    """Keep `in_flight` calls under way for `seconds` after a warm-up; `weight` is how many facts one call carries."""
    taken_ms: list[float] = []
    number = 0
    start = time.perf_counter() + WARM_UP_S
    end = start + seconds

    async def caller() -> None:
        nonlocal number
        while (began := time.perf_counter()) < end:
            number += 1
            await operation(number)
            if began >= start:
                taken_ms.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    taken_ms.sort()
    return Measured(weight * len(taken_ms) / seconds, statistics.median(taken_ms), taken_ms[int(len(taken_ms) * 0.99)])


async def first_success_after(operation: Callable[[], Awaitable[object]], disturb: Callable[[], object]) -> float:
    """Seconds from `disturb` to the first operation that started after it and was acknowledged."""
    disturb()
    began = time.perf_counter()
    while True:
        try:
            await operation()
            return time.perf_counter() - began
        except Exception:  # noqa: BLE001  any failure of a peer in its failover counts as not yet
            await asyncio.sleep(0.005)


class Gaps:
    """The longest time between two acknowledgements of a steady trickle of operations."""

    def __init__(self, operation: Callable[[], Awaitable[object]]) -> None:
        self.operation = operation
        self.acknowledged: list[float] = []
        self.done = False

    async def run(self) -> None:
        """Call one after the other until told to stop."""
        while not self.done:
            try:
                await self.operation()
                self.acknowledged.append(time.perf_counter())
            except Exception:  # noqa: BLE001  a failed call is a gap, which is what is measured
                await asyncio.sleep(0.002)

    @property
    def longest_ms(self) -> float:
        """The longest gap so far."""
        return (
            max(later - earlier for earlier, later in zip(self.acknowledged, self.acknowledged[1:], strict=False))
            * 1000
        )
