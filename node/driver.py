"""Turns the crank of one replica: gives it inputs with the time, and its effects to whoever carries them out.

Inputs that arise while effects are carried out wait their turn, so that effects keep the order the core gave them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..replication.messages import Effect, Input, Tick
from ..replication.replica import Replica
from .system import Clock

SECOND_US = 1_000_000
SLEEP_LIMIT_US = 3600 * SECOND_US

Handlers = Mapping[type[Any], Callable[[Any], None]]


class Driver:
    """Owns the replica and its timer. `fatal` hears of anything that the core raises: an exception there is a bug.
    `settled` is called when all that an input led to is carried out.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        handlers: Handlers,
        fatal: Callable[[str], None],
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.replica = replica
        self._clock = clock
        self._handlers = handlers
        self._fatal = fatal
        self._settled = settled
        self._loop = asyncio.get_running_loop()
        self._inputs: deque[Input] = deque()
        self._stepping = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed_us = SLEEP_LIMIT_US << 16

    def step(self, input: Input) -> None:
        """Give the core an input; its effects are carried out before this returns, unless it is called from one."""
        self._inputs.append(input)
        if self._stepping or self._stopped:
            return
        self._stepping = True
        try:
            while self._inputs and not self._stopped:
                self._take(self._inputs.popleft())
            self._settled()
        except Exception as error:  # noqa: BLE001 (the core never raises: whatever this is, it is a bug)
            self._stopped = True
            self._fatal(f"the replication core failed: {error!r}")
        finally:
            self._stepping = False
        self._arm()

    def stop(self) -> None:
        """Take no more inputs."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _take(self, input: Input) -> None:
        effects: list[Effect] = self.replica.step(input, self._clock.elapsed_us(), self._clock.wall_us())
        for effect in effects:
            self._handlers[type(effect)](effect)

    def _arm(self) -> None:
        """Have a tick come when the core wants one. A timer that is early by now is left alone: it arms the next."""
        deadline_us = self.replica.deadline_us
        if self._stopped or deadline_us >= self._armed_us:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_us = deadline_us
        delay_us = min(max(0, deadline_us - self._clock.elapsed_us()), SLEEP_LIMIT_US)
        self._timer = self._loop.call_later(delay_us / SECOND_US, self._tick)

    def _tick(self) -> None:
        self._timer, self._armed_us = None, SLEEP_LIMIT_US << 16
        self.step(Tick())
