"""Work that may take long, each piece on a thread of its own, which an interpreter that exits does not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from .storage import post

Result = TypeVar("Result")


class Daemons:
    """Belongs to the loop that made it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._threads: set[threading.Thread] = set()

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """What `work` comes to; whatever it raises is raised where that is awaited."""
        future: asyncio.Future[Result] = self._loop.create_future()

        def carry_out() -> None:
            try:
                done = partial(_succeed, future, work())
            except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
                done = partial(_fail, future, error)
            post(self._loop, done)
            self._threads.discard(thread)

        thread = threading.Thread(target=carry_out, name=self._name, daemon=True)
        self._threads.add(thread)
        thread.start()
        return future

    def join(self) -> None:
        """Wait for all that is under way. Blocks; not to be called on the loop."""
        for thread in tuple(self._threads):
            thread.join()


def _succeed(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
