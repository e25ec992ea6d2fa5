"""An event loop on a thread of its own, that gets out of the way of `fork`.

gRPC does not survive a fork: what it has open is of no use in the child, and its threads are missing there, so that
even new connections hang. Nothing of it may be open at that moment. Before each fork of this process every loop here
is wound down, with its connections; the parent and the child each begin a new one at their next call, and calls that
were under way in other threads go on there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

CLOSE_TIMEOUT_S: Final = 2.0
LAST_TASKS_TIMEOUT_S: Final = 0.2

Resource = TypeVar("Resource")
Result = TypeVar("Result")


class Interrupted(Exception):
    """The loop was wound down under a call, for a fork or by `close`: ask again if there is still time."""


class LoopThread(Generic[Resource]):
    """A resource that belongs to an event loop, and the thread that the loop runs on; both are made when first used."""

    def __init__(
        self,
        make: Callable[[], Resource],
        close: Callable[[Resource], Awaitable[None]],
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        self._make = make
        self._close = close
        self._close_timeout_s = close_timeout_s
        self._lock = threading.RLock()
        self._running: _Running[Resource] | None = None
        _loops.add(self)

    def submit(self, call: Callable[[Resource], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Run `call` on the loop. The future ends in `Interrupted` when the loop is wound down before it is done."""
        with self._lock:
            if self._running is None:
                self._running = _Running(self._make)
            return self._running.submit(call)

    def wind_down(self) -> None:
        """End loop, thread and resource; the next `submit` begins anew."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None:
                running.stop(self._close, self._close_timeout_s)

    # --- around a fork: nobody else holds the lock while there are two processes of one memory ---

    def before_fork(self) -> bool:
        """Wind down and keep the lock. Whether there was anything to wind down."""
        self._lock.acquire()
        was_running = self._running is not None
        self.wind_down()
        return was_running

    def after_fork_in_parent(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Give the lock back, here too."""
        self._lock.release()


class _Running(Generic[Resource]):
    """One run of a loop on its thread."""

    def __init__(self, make: Callable[[], Resource]) -> None:
        self._loop = asyncio.new_event_loop()
        self._make = make
        self._resource: Resource | None = None
        self._tasks: dict[asyncio.Task[Any], Future[Any]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="veridical-loop", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[Resource], Coroutine[Any, Any, Result]]) -> Future[Result]:
        future: Future[Result] = Future()
        self._loop.call_soon_threadsafe(self._begin, call, future)
        return future

    def _begin(self, call: Callable[[Resource], Coroutine[Any, Any, Result]], future: Future[Result]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            if self._resource is None:
                self._resource = self._make()
        except Exception as error:  # noqa: BLE001 - whoever asked first hears why it cannot be made
            future.set_exception(error)
            return
        task = self._loop.create_task(call(self._resource))
        self._tasks[task] = future
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        future = self._tasks.pop(task)
        if task.cancelled():
            future.set_exception(Interrupted())
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def stop(self, close: Callable[[Resource], Awaitable[None]], timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._wind_down(close), self._loop).result(timeout_s)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._loop.close()

    async def _wind_down(self, close: Callable[[Resource], Awaitable[None]]) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        resource, self._resource = self._resource, None
        if resource is not None:
            await close(resource)
        await self._loop.shutdown_asyncgens()  # streams that nobody reads just now: those that are read have ended
        await _ended(asyncio.all_tasks() - {asyncio.current_task()})


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Let gRPC's own tasks end, which outlive their channel by a moment; asyncio complains of them otherwise."""
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_TASKS_TIMEOUT_S)


_loops: WeakSet[LoopThread[Any]] = WeakSet()
_held: list[LoopThread[Any]] = []


def _before_fork() -> None:
    _held[:] = list(_loops)
    were_running = [loop.before_fork() for loop in _held]
    if any(were_running):
        # What is closed is in cycles; gRPC ends its own threads only when the last of it is gone.
        gc.collect()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _held:
        _held.pop().after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
