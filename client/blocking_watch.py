"""The change feed for programs without an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Self

from ..memory.changes import Cursor
from ..memory.errors import Unavailable
from .loops import Interrupted
from .surface import AsyncMemory
from .watching import Change, ChangeStream, Place

Begin = Callable[[Callable[[AsyncMemory], Coroutine[Any, Any, None]]], "Future[None]"]
Open = Callable[[AsyncMemory, Place | None], ChangeStream]


class BlockingChanges(Iterator[Change]):
    """A `ChangeStream` for a thread: it has begun when it is made, and waits in `next`.

    It ends when it is closed, by `close` or at the end of `with`, and in `Unavailable` with its memory. A fork in
    between ends nothing: each side goes on from its own `cursor`.
    """

    def __init__(self, begin: Begin, closings: Callable[[], int], opened: Open, after: Place | None) -> None:
        self.cursor: Cursor | None = None
        self._begin = begin
        self._closings = closings
        self._closings_before = closings()
        self._open = opened
        self._after = after
        self._reached: Cursor | None = None
        self._stream: ChangeStream | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_turning = False
        self._is_done = False
        self._waiting: deque[Change] = deque()
        self._turn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Change:
        while not self._waiting:
            if self._is_done:
                raise StopIteration
            self._turn()
        change = self._waiting.popleft()
        self.cursor = change.cursor if self._waiting else self._reached
        return change

    def close(self) -> None:
        """End it, from any thread: whoever waits in `next` hears of it within a second or so."""
        self._is_done = True
        self._waiting.clear()
        if self._stream is not None and not self._is_closed:
            self._begin(self._released).result()

    @property
    def _is_closed(self) -> bool:
        return self._closings() != self._closings_before

    def _turn(self) -> None:
        """Wait for the next page, on whatever loop the memory has by now."""
        while not self._is_closed:
            try:
                return self._begin(self._turned).result()
            except Interrupted:
                continue
        raise Unavailable("the memory was closed")

    async def _turned(self, memory: AsyncMemory) -> None:
        loop = asyncio.get_running_loop()
        if self._stream is None or self._loop is not loop:
            self._stream, self._loop = self._open(memory, self.cursor or self._after), loop
        self._is_turning = True
        try:
            await self._stream.turn()
        finally:
            self._is_turning = False
        await self._taken_over(self._stream)

    async def _taken_over(self, stream: ChangeStream) -> None:
        """Hand over what has come; nothing, where it was closed meanwhile."""
        while stream.has_changes and not self._is_done:
            self._waiting.append(stream.take())
        if self._is_done or stream.is_done:
            self._is_done, self._stream = True, None
            await stream.aclose()
        self._reached = stream.cursor
        if not self._waiting:
            self.cursor = self._reached

    async def _released(self, memory: AsyncMemory) -> None:
        del memory
        if self._stream is not None and not self._is_turning and self._loop is asyncio.get_running_loop():
            stream, self._stream = self._stream, None
            await stream.aclose()
