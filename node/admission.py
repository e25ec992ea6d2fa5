"""Who may come in, and when those who wait go together: what stands in front of the decider.

One round is decided and replicated at a time, and the next one fills meanwhile (measured: many small rounds cost more
than they hide). When a round ends, the callers it answered are about to come back, so that the queue lingers until as
many have come as went before. A lone caller expects nobody, and never lingers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..memory.errors import Retry

SECOND_US = 1_000_000
RATE_SMOOTHING = 0.3
RETRY_HINT_FLOOR_S = 0.005
RETRY_HINT_LIMIT_S = 1.0


class Sized(Protocol):
    """What can wait: it weighs something."""

    @property
    def commands(self) -> int:
        """How many commands it holds."""
        ...

    @property
    def size_bytes(self) -> int:
        """What it weighs."""
        ...


Item = TypeVar("Item", bound=Sized)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one round, and how long it may linger."""

    batch_commands: int
    batch_bytes: int
    linger_min_us: int
    linger_max_us: int


class Gate:
    """Bounds what a node has in hand, in commands and in bytes, from arrival to answer."""

    def __init__(self, commands_limit: int, bytes_limit: int) -> None:
        self._commands_limit = commands_limit
        self._bytes_limit = bytes_limit
        self.commands = 0
        self.size_bytes = 0
        self.empty = asyncio.Event()
        self.empty.set()

    def enter(self, commands: int, size_bytes: int, hint_s: float) -> None:
        """Let a caller in. Raises `Retry` when there is no room; an empty house takes anything."""
        full = self.commands + commands > self._commands_limit or self.size_bytes + size_bytes > self._bytes_limit
        if full and self.commands:
            raise Retry(f"{self.commands} commands ({self.size_bytes} bytes) are in hand already", hint_s)
        self.commands += commands
        self.size_bytes += size_bytes
        self.empty.clear()

    def leave(self, commands: int, size_bytes: int) -> None:
        """The caller was answered."""
        self.commands -= commands
        self.size_bytes -= size_bytes
        if not self.commands:
            self.empty.set()


class Admission(Generic[Item]):
    """A first-in, first-out queue that knows when its next batch is due. Times are the node's elapsed microseconds."""

    def __init__(self, bounds: Bounds, now_us: int) -> None:
        self._bounds = bounds
        self._waiting: deque[Item] = deque()
        self.commands = 0
        self.size_bytes = 0
        self._expected = 1
        self._rate_a_us = 0.0
        self._taken_us = now_us
        self._opened_us = now_us

    def __len__(self) -> int:
        return len(self._waiting)

    def retry_hint_s(self) -> float:
        """How long somebody who found no room should wait: about as long as half of what waits will take."""
        needed_us = len(self._waiting) / self._rate_a_us / 2 if self._rate_a_us else 0.0
        return min(max(RETRY_HINT_FLOOR_S, needed_us / SECOND_US), RETRY_HINT_LIMIT_S)

    def add(self, item: Item, now_us: int) -> None:
        """Let `item` wait."""
        if not self._waiting:
            self._opened_us = max(self._opened_us, now_us)
        self._waiting.append(item)
        self.commands += item.commands
        self.size_bytes += item.size_bytes

    def round_ended(self, now_us: int) -> None:
        """The round under way is over: lingering counts from here."""
        self._opened_us = now_us

    def due_us(self) -> int | None:
        """When the next batch should be taken; None while nobody waits. In the past: now."""
        if not self._waiting:
            return None
        full = self.commands >= self._bounds.batch_commands or self.size_bytes >= self._bounds.batch_bytes
        if full or len(self._waiting) >= self._expected:
            return 0
        return self._opened_us + self._linger_us()

    def take(self, now_us: int) -> list[Item]:
        """The next batch: as many as fit one round, at least one when any waits."""
        batch: list[Item] = []
        commands = size = 0
        while self._waiting:
            item = self._waiting[0]
            commands, size = commands + item.commands, size + item.size_bytes
            if batch and (commands > self._bounds.batch_commands or size > self._bounds.batch_bytes):
                break
            batch.append(self._waiting.popleft())
            self.commands -= item.commands
            self.size_bytes -= item.size_bytes
        self._learn(len(batch), now_us)
        return batch

    def take_all(self) -> list[Item]:
        """Everything that waits, for when this node cannot serve it any more."""
        items = list(self._waiting)
        self._waiting.clear()
        self.commands = self.size_bytes = 0
        return items

    def _linger_us(self) -> int:
        """As long as the expected number takes to come at the present rate, within the limits."""
        if self._rate_a_us <= 0:
            return self._bounds.linger_min_us
        needed = int(self._expected / self._rate_a_us)
        return min(max(needed, self._bounds.linger_min_us), self._bounds.linger_max_us)

    def _learn(self, count: int, now_us: int) -> None:
        elapsed = max(1, now_us - self._taken_us)
        self._rate_a_us += RATE_SMOOTHING * (count / elapsed - self._rate_a_us)
        self._taken_us = now_us
        self._expected = max(1, count)
