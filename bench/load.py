"""Closed loops of callers, and what they measured."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from scale import Scale

Operation = Callable[[int], Awaitable[object]]
"""One call, told a number that no other call of its loop is told."""

RETRY_S = 0.005
FAILOVER_LIMIT_S = 60.0


@dataclass(frozen=True)
class Measured:
    """Operations a second, and latencies in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float


async def closed_loop(operations: Sequence[Operation], scale: Scale, first: int = 0) -> Measured:
    """One caller for each of `operations`, who calls again as soon as it is answered; measured after a warm-up.

    Calls are numbered from `first` on. Every caller gets its last answer, however long that takes.
    """
    taken_ms: list[float] = []
    numbers = count(first)
    start = time.perf_counter() + scale.warm_up_s
    end = start + scale.seconds

    async def caller(operation: Operation) -> None:
        while (began := time.perf_counter()) < end:
            await operation(next(numbers))
            ended = time.perf_counter()
            if ended > start:
                taken_ms.append((ended - began) * 1000)

    await asyncio.gather(*map(caller, operations))
    taken_s = time.perf_counter() - start
    taken_ms.sort()
    return Measured(len(taken_ms) / taken_s, statistics.median(taken_ms), taken_ms[math.ceil(len(taken_ms) * 0.99) - 1])


async def rate(operation: Operation, in_flight: int, calls: int, first: int = 0) -> float:
    """Calls a second over exactly `calls` calls, numbered from `first` on."""
    numbers = iter(range(first, first + calls))

    async def caller() -> None:
        for number in numbers:
            await operation(number)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return calls / (time.perf_counter() - began)


async def first_success_after(disturb: Callable[[], object], operation: Operation) -> float:
    """Seconds from `disturb` to the end of the first operation that began after it and was acknowledged."""
    disturb()
    began = time.perf_counter()
    for number in count():
        try:
            await operation(number)
            break
        except Exception as error:  # a peer in its failover may fail in any way; it counts as not yet
            if time.perf_counter() > began + FAILOVER_LIMIT_S:
                raise TimeoutError(f"nothing was acknowledged within {FAILOVER_LIMIT_S} s") from error
            await asyncio.sleep(RETRY_S)
    return time.perf_counter() - began


@dataclass
class Acknowledgements:
    """Callers who call one after the other until `done`, and when any of them was answered."""

    operation: Operation
    times: list[float] = field(default_factory=list[float])
    done: bool = False

    async def run(self, callers: int) -> None:
        """Call until told to stop."""
        numbers = count()

        async def caller() -> None:
            while not self.done:
                try:
                    await self.operation(next(numbers))
                    self.times.append(time.perf_counter())
                except Exception:  # noqa: BLE001  a failed call is part of a gap, which is what is measured
                    await asyncio.sleep(RETRY_S)

        await asyncio.gather(*(caller() for _ in range(callers)))

    def longest_gap_ms(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement, from the last one before `since` on; it may end with `until`."""
        before = [time for time in self.times if time <= since][-1:]
        within = [time for time in self.times if since < time < until]
        return 1000 * max(later - earlier for earlier, later in pairwise([*(before or [since]), *within, until]))
