"""The change feed as callers see it: one stream of changes, whichever nodes it comes from.

A stream that breaks is taken up at another node from the last cursor: nothing is left out and nothing comes twice. Only
when no node has answered for as long as a call may take, it ends in `Unavailable`; its `cursor` is where to go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, Self, TypeAlias

from ..memory.changes import WHOLE_ENTRY, Cursor
from ..memory.errors import Invalid, NotLeader, Refused, Retry, Unavailable
from ..memory.scope import normal_scope
from ..memory.view import MemoryRecord, datetime_of
from ..proto.generated import memory_pb2
from . import answers
from .bearer import Asking
from .requests import record_id

PAUSE_S: Final = 0.05
TICKET: Final = "ticket"

Place: TypeAlias = Cursor | tuple[str, int] | str
"""Where to begin: a cursor, as it is or as `spelled`, or a history and the last index seen of it."""

BEGINNING: Final = Cursor("", 0)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what a command did to one record, or to the memory as a whole (then `id` is empty).

    `kind` is what happened, by the name of its event (`asserted`, `superseded`, `forgotten`, …), `kinds` all that
    happened at once. `record` is what was held from then on, in the earliest state that history keeps; None when it was
    removed (`gone`), or is not to be seen any more. `author` is a key in hex, empty for an anonymous one. To go on
    behind this change, begin after `cursor`.
    """

    cursor: Cursor
    kind: str
    kinds: tuple[str, ...]
    id: str
    scope: str
    record: MemoryRecord | None
    gone: bool
    author: str
    time: datetime
    epoch: int
    command_id: str


class Watched(Protocol):
    """The way to nodes that can be watched."""

    def watch(self, request: memory_pb2.WatchRequest, asking: Asking | None) -> AsyncGenerator[memory_pb2.WatchReply]:
        """What one node tells, until it ends or falls silent. Raises what the node says, or `Unavailable`."""
        ...


class ChangeStream:
    """Changes in order, for `async for`; begun by the first of them, or by `async with`.

    It ends behind the index that `end` finds, where there is one. `cursor` is up to where the changes that were handed
    out, and those that the filter left out, go: begin there to go on. None before it has begun at the present.
    """

    def __init__(
        self,
        way: Watched,
        asking: Asking | None,
        request: memory_pb2.WatchRequest,
        timeout_s: float,
        end: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.cursor = _cursor(request.after) if request.HasField("after") else None
        self._pages = _resumed(way, asking, request, timeout_s)
        self._end = end
        self._end_index: int | None = None
        self._reached = self.cursor
        self._waiting: deque[Change] = deque()

    async def __aenter__(self) -> Self:
        await self.turn()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._waiting:
            if self.is_done:
                raise StopAsyncIteration
            await self.turn()
        return self.take()

    @property
    def is_done(self) -> bool:
        """Whether all that was there at the beginning is handed out, and nothing more is asked for."""
        if self._end_index is None or self._reached is None or self._waiting:
            return False
        return self._reached.next_index > self._end_index

    @property
    def has_changes(self) -> bool:
        """Whether a change can be taken at once."""
        return bool(self._waiting)

    def take(self) -> Change:
        """The next change that has come."""
        change = self._waiting.popleft()
        self.cursor = change.cursor if self._waiting else self._reached
        return change

    async def turn(self) -> None:
        """Wait for the next page; it may hold no changes, and comes within a second or so."""
        if self._end is not None and self._end_index is None:
            self._end_index = await self._end()
        reply = await anext(self._pages)
        self._reached = _cursor(reply.cursor)
        self._waiting.extend(_change(raw, reply.now_us) for raw in reply.changes)
        if not self._waiting:
            self.cursor = self._reached

    async def aclose(self) -> None:
        """Let go of the node that is listened to."""
        await self._pages.aclose()


async def _resumed(
    way: Watched, asking: Asking | None, request: memory_pb2.WatchRequest, timeout_s: float
) -> AsyncGenerator[memory_pb2.WatchReply]:
    """Pages of whichever node answers, each from the cursor of the one before."""
    loop = asyncio.get_running_loop()
    heard_at, is_begun, pause_s = loop.time(), False, PAUSE_S
    while True:
        try:
            async with aclosing(way.watch(request, asking)) as replies:
                async for reply in replies:
                    request.after.CopyFrom(reply.cursor)
                    yield reply
                    heard_at, is_begun = loop.time(), True
        except (Unavailable, NotLeader, Retry) as error:
            if loop.time() - heard_at >= timeout_s:
                raise
            pause_s = max(PAUSE_S, error.retry_after_s if isinstance(error, Retry) else 0)
        except Refused as error:
            if error.rule != TICKET or not is_begun:
                raise
            is_begun = False  # one more try, with another ticket
        await asyncio.sleep(pause_s)


def watch_request(
    after: Place | None,
    scope: str | Sequence[str] | None,
    kinds: Iterable[str] | None,
    ids: Iterable[str] | None,
) -> memory_pb2.WatchRequest:
    """What is watched for, as a node is asked. Raises `Invalid`."""
    scopes = (scope,) if isinstance(scope, str) else scope or ()
    request = memory_pb2.WatchRequest(
        scopes=dict.fromkeys(map(normal_scope, scopes)),
        has_scopes=scope is not None,
        kinds=dict.fromkeys(_listed("kinds", kinds)),
        ids=dict.fromkeys(map(record_id, _listed("ids", ids))),
    )
    if after is not None:
        begin = cursor_of(after)
        request.after.history, request.after.index = begin.history, begin.index
        request.after.place, request.after.part = begin.place, begin.part
    return request


def cursor_of(after: Place) -> Cursor:
    """A place in history. Raises `Invalid`."""
    if isinstance(after, str):
        return Cursor.read(after)
    begin = after if isinstance(after, Cursor) else Cursor(*after)
    if min(begin.index, begin.place, begin.part) < 0 or begin.place > WHOLE_ENTRY:
        raise Invalid("after", f"{begin.spelled()} is no place in a history")
    return begin


def _listed(field: str, chosen: Iterable[str] | None) -> Sequence[str]:
    if chosen is None:
        return ()
    listed = [chosen] if isinstance(chosen, str) else list(chosen)
    if not listed:
        raise Invalid(field, "names nothing; leave it out to watch for anything")
    return listed


def _cursor(raw: memory_pb2.Cursor) -> Cursor:
    return Cursor(raw.history, raw.index, raw.place, raw.part)


def _change(raw: memory_pb2.Change, now_us: int) -> Change:
    return Change(
        _cursor(raw.cursor),
        raw.kinds[0],
        tuple(raw.kinds),
        raw.id.hex(),
        raw.scope,
        answers.record_of(raw.row, now_us) if raw.row else None,
        raw.gone,
        raw.author.hex(),
        datetime_of(raw.time_us),
        raw.epoch,
        raw.command_id.hex(),
    )
