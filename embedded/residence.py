"""A loop thread that stays in the process that opened it: the files behind it are locked by that one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final

from ..client.loops import LoopThread, Resource, Result
from ..memory.errors import Unavailable

CLOSE_TIMEOUT_S: Final = 35.0
"""Somewhat longer than a node waits for a disk that does not answer."""


class Residence(LoopThread[Resource]):
    """A `LoopThread` that a fork leaves in peace. In the child, what was open in the parent answers `Unavailable`."""

    _left_in = 0

    def submit(self, call: Callable[[Resource], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """See `LoopThread.submit`."""
        if self._left_in:
            raise Unavailable(f"this memory is open in process {self._left_in}, from which this one was forked")
        return super().submit(call)

    @property
    def is_running(self) -> bool:
        """Whether anything is open, in this process."""
        return self._running is not None

    def before_fork(self) -> bool:
        """Let nobody open or close it meanwhile."""
        self._lock.acquire()
        return False

    def after_fork_in_child(self) -> None:
        """Leave what is open to the parent: never used here again, nor freed, which would disturb the files."""
        if self._running is not None:
            _left_behind.append(self._running)
            self._running, self._left_in = None, os.getppid()
        super().after_fork_in_child()


_left_behind: list[object] = []
