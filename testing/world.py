"""The simulated world: one heap of things that will happen, one true time, and one seed behind every choice."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]
MILLISECOND = 1_000
SECOND = 1_000_000


class World:
    """True time and what happens in it. Equal seeds give equal runs, in any process and under any `PYTHONHASHSEED`.

    `now_us` is the time that no node can see; nodes read clocks of their own (`clocks.py`).
    """

    def __init__(self, seed: int, narrator: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.narrator = narrator
        self._heap: list[tuple[int, int, Action]] = []
        self._scheduled = 0
        self._trace = hashlib.blake2b(digest_size=16)

    def stream(self, name: str) -> random.Random:
        """A source of choices for one part of the world: a change in one part leaves the others as they were."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, time_us: int, action: Action) -> None:
        """Let `action` happen at `time_us`; things of one time happen in the order in which they were planned."""
        self._scheduled += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), self._scheduled, action))

    def after(self, delay_us: int, action: Action) -> None:
        """Let `action` happen `delay_us` from now."""
        self.at(self.now_us + delay_us, action)

    def run(self, until_us: int, finished: Callable[[], bool] | None = None) -> bool:
        """Let everything happen up to `until_us`, or until `finished`. Says whether it finished."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(heap)
            self.steps += 1
            action()
            if finished is not None and finished():
                return True
        self.now_us = max(self.now_us, until_us)
        return finished is not None and finished()

    def note(self, what: str) -> None:
        """Add a line to the trace: two runs are the same run when their trace hashes are equal."""
        line = f"{self.now_us} {what}\n"
        self._trace.update(line.encode())
        if self.narrator is not None:
            self.narrator(line)

    def tell(self, what: str) -> None:
        """Tell a reader more than the trace needs; free when nobody listens."""
        if self.narrator is not None:
            self.narrator(f"{self.now_us}   {what}\n")

    @property
    def trace_hash(self) -> str:
        """Names the run so far, 32 hex digits."""
        return self._trace.hexdigest()
