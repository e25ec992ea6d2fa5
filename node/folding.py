"""When what is committed gets folded: at once where somebody waits for it, else a little later, with what follows it.

A transaction of one fact costs as much as five more facts in a large one. Under load every round fills one; a
trickle of single writes is gathered for a few milliseconds. A follower acknowledges first and folds then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

LINGER_S = 0.025
COMMANDS_TO_LINGER_FOR = 128


@dataclass(frozen=True, slots=True)
class FoldPort:
    """What the schedule asks of the engine: to fold up to an index, whether somebody waits for that, whether an
    acknowledgement comes first, and how many commands lie between what was folded and an index.
    """

    fold: Callable[[int], None]
    is_awaited: Callable[[], bool]
    is_acknowledging: Callable[[], bool]
    commands_up_to: Callable[[int], int]


class FoldSchedule:
    """Decides when to fold. Belongs to one loop."""

    def __init__(self, port: FoldPort) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._index = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False

    def committed(self, index: int) -> None:
        """Everything up to `index` may be folded."""
        self._index = index
        self._is_due = self._is_due or self._port.commands_up_to(index) >= COMMANDS_TO_LINGER_FOR
        self.look()

    def look(self) -> None:
        """Something has happened: fold now, or see to it that it is done in time."""
        if not self._index:
            return
        if self._port.is_awaited() or (self._is_due and not self._port.is_acknowledging()):
            self._fold()
        elif self._timer is None and not self._is_due:
            self._timer = self._loop.call_later(LINGER_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._is_due = None, True
        self.look()

    def _fold(self) -> None:
        index, self._index, self._is_due = self._index, 0, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._port.fold(index)
