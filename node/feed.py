"""The change feed: what was committed and is folded here, in the order of the log, for whoever goes on from a cursor.

A feed has no queue. Each page is read from the log and the projection when the one before it was taken, so that a slow
consumer costs nothing but its own time, and any node can go on where another one ended: a cursor says all there is to
say about how far a consumer has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgpack

from ..log.entry import Entry
from ..log.store import LogStore
from ..log.value import value
from ..memory.changes import KINDS, QUIET, Cursor, Effect, effects_of, scope_erased
from ..memory.context import READ, Digester
from ..memory.errors import Compacted, HistoryChanged, Invalid, Retry, TooLarge, Unavailable
from ..memory.limits import BATCH_IDS_LIMIT
from ..memory.principals import Reach
from ..memory.record import Version
from ..memory.sources import scope_digest
from ..projection.errors import ProjectionError
from ..projection.reader import Reader
from .access import NOBODY, Access, Caller, is_all
from .metrics import Metrics
from .queries import require_whole
from .reading import Readers
from .rows import row_of

HEARTBEAT_S: Final = 1.0
WATCHERS_LIMIT: Final = 1_000
PAGE_LOG_BYTES: Final = 256 << 10
PAGE_ROW_BYTES: Final = 1 << 20
PAGE_CHANGES: Final = 512
OVERLOAD_HINT_S: Final = 1.0


@value()
class WatchRequest:
    """What is watched for. None of a filter means any; without a cursor it is all that happens from now on."""

    after: Cursor | None = None
    scopes: tuple[str, ...] | None = None
    kinds: frozenset[str] | None = None
    ids: frozenset[bytes] | None = None
    caller: Caller = NOBODY


@value()
class Change:
    """One change, and the record in the earliest state that history keeps from then on (`memory.rows`), or empty."""

    cursor: Cursor
    epoch: int
    kinds: tuple[str, ...]
    id: bytes
    scope: str
    row: bytes
    gone: bool
    author: bytes
    time_us: int
    command_id: bytes


@value()
class ChangePage:
    """Changes in order, and up to where nothing else was to be told. `age_us`: as that of a read's answer.

    `applied_index` is how far this node had folded: what lies between is still to come.
    """

    cursor: Cursor
    changes: tuple[Change, ...]
    applied_index: int
    age_us: int | None
    now_us: int


@dataclass(frozen=True, slots=True)
class FeedPort:
    """What a feed is told by its node: the history's id, how old its state may be, the wall clock, the digest key."""

    history: str
    age_us: Callable[[], int | None]
    wall_us: Callable[[], int]
    digests: Callable[[], Digester | None]


class Feed:
    """The feed of one node. Belongs to the node's loop; pages are made on the readers' threads."""

    def __init__(self, store: LogStore, readers: Readers, access: Access, metrics: Metrics, port: FeedPort) -> None:
        self._store = store
        self._readers = readers
        self._access = access
        self._metrics = metrics
        self._port = port
        self._news = asyncio.Event()
        self._applied = 0
        self._positions: dict[object, int] = {}
        self._closed = False
        metrics.watchers.set_function(lambda: self.watchers)
        metrics.watch_lag.set_function(lambda: self.lag_entries)

    def on_applied(self, index: int) -> None:
        """Everything up to that entry is folded."""
        self._applied = index
        if self._positions:
            self._wake()

    def close(self) -> None:
        """End all feeds, each at a page's end, so that their consumers go on at another node."""
        self._closed = True
        self._wake()

    @property
    def watchers(self) -> int:
        """How many consumers there are."""
        return len(self._positions)

    @property
    def lag_entries(self) -> int:
        """By how many entries the slowest consumer is behind the fold."""
        return max((self._applied - index for index in self._positions.values()), default=0)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[ChangePage]:
        """Page after page, at least one a second, the first at once. Ends when the node does, or drains.

        Raises `Invalid`, `Refused` for scopes that are not granted, `Compacted`, `HistoryChanged`, and `Retry` when
        there are too many consumers.
        """
        check(request)
        if len(self._positions) >= WATCHERS_LIMIT:
            raise Retry(f"{WATCHERS_LIMIT} consumers watch this node", OVERLOAD_HINT_S)
        me = object()
        self._positions[me] = self._applied
        try:
            request, page = await self._begun(request)
            while not self._closed:
                self._positions[me] = min(page.cursor.index, self._applied)
                yield page
                page = await self._next(request, page.cursor)
        finally:
            del self._positions[me]

    async def _begun(self, request: WatchRequest) -> tuple[WatchRequest, ChangePage]:
        history = self._port.history
        after = request.after
        if after is not None and after.history not in ("", history):
            raise HistoryChanged(history)
        caller = await self._readers.run(lambda reader: self._access.identified(reader, request.caller))
        request = replace(request, caller=caller)
        if after is None:
            now = await self._readers.run(lambda reader: reader.applied.index)
            return request, await self._page(request, Cursor(history, now))
        return request, await self._page(request, after._replace(history=history))

    async def _next(self, request: WatchRequest, cursor: Cursor) -> ChangePage:
        """The next page with something in it, or whatever there is after a heartbeat."""
        due = asyncio.get_running_loop().time() + HEARTBEAT_S
        while True:
            if self._applied < cursor.next_index:
                await self._news_until(due)
            page = await self._page(request, cursor)
            cursor = page.cursor
            if page.changes or self._closed or asyncio.get_running_loop().time() >= due:
                return page

    async def _news_until(self, due: float) -> None:
        try:
            async with asyncio.timeout_at(due):
                await self._news.wait()
        except TimeoutError:
            pass

    def _wake(self) -> None:
        """Wake all that wait now; who comes later waits for the next news, unless there will be none."""
        self._news.set()
        if not self._closed:
            self._news = asyncio.Event()

    async def _page(self, request: WatchRequest, cursor: Cursor) -> ChangePage:
        maker = _PageMaker(self._store, self._access, self._port.digests(), request, cursor)
        try:
            cursor, told, applied = await self._readers.run(maker.made)
        except ProjectionError as error:
            raise Unavailable(f"this node cannot read its projection: {error}") from error
        self._metrics.watched_changes.inc(len(told))
        return ChangePage(cursor, told, applied, self._port.age_us(), self._port.wall_us())


class _PageMaker:
    """One page, made in one snapshot of the projection."""

    def __init__(
        self, store: LogStore, access: Access, digests: Digester | None, request: WatchRequest, after: Cursor
    ) -> None:
        self._store = store
        self._access = access
        self._digests = digests
        self._request = request
        self._after = after

    def made(self, reader: Reader) -> tuple[Cursor, tuple[Change, ...], int]:
        """The cursor behind the page, its changes, and how far the state that it was made from is folded."""
        with reader.snapshot():
            require_whole(reader)
            seen = self._access.reach(reader, self._request.caller, READ).asked(self._request.scopes)
            applied = reader.applied.index
            entries = self._entries(applied)
            found: list[Change] = []
            room = PAGE_ROW_BYTES
            for change in self._changes(reader, seen, entries):
                found.append(change)
                room -= len(change.row)
                if room <= 0 or len(found) >= PAGE_CHANGES:
                    return change.cursor, tuple(found), applied
        return self._end(entries), tuple(found), applied

    def _end(self, entries: Sequence[Entry]) -> Cursor:
        return Cursor(self._after.history, entries[-1].index) if entries else self._after

    def _entries(self, applied: int) -> Sequence[Entry]:
        first, held_from = max(1, self._after.next_index), self._store.first_index
        if first < held_from:
            raise Compacted(held_from)
        if first > applied:
            return ()
        entries, _ = self._store.read(first, PAGE_LOG_BYTES, applied)
        return entries

    def _changes(self, reader: Reader, seen: Reach, entries: Sequence[Entry]) -> Iterator[Change]:
        for entry in entries:
            _, _, author, _, on_behalf, heads = _unpack(entry.envelope)
            for place, (head, item) in enumerate(zip(heads, _unpack(entry.events), strict=True)):
                for part, effect in enumerate(effects_of(item)):
                    cursor = Cursor(self._after.history, entry.index, place, part)
                    if cursor > self._after and self._is_wanted(effect):
                        change = Change(
                            cursor, entry.epoch, effect.kinds, effect.id, "", b"", effect.gone,
                            b"" if on_behalf else author, entry.time_us, head[0],
                        )  # fmt: skip
                        yield from self._told(reader, seen, change, scope_erased(item, change.id))

    def _is_wanted(self, effect: Effect) -> bool:
        kinds, ids = self._request.kinds, self._request.ids
        if ids is not None and effect.id not in ids:
            return False
        return any(kind not in QUIET for kind in effect.kinds) if kinds is None else not kinds.isdisjoint(effect.kinds)

    def _told(self, reader: Reader, seen: Reach, change: Change, erased: bytes) -> Iterator[Change]:
        """The change with its record, where this consumer may be told of it.

        What was erased has no scope any more: of that, and of what it was before, those hear who may read everything;
        others of the erasure alone, where its digest (`erased`) is that of a scope that they may read.
        """
        at = Version(change.epoch, change.cursor.index, change.cursor.place)
        record = None
        if change.id:
            record = reader.ended_at(change.id, at) if change.gone else reader.held_from(change.id, at)
        if record is None or record.is_erased:
            scope = self._scope_of(reader, seen, erased)
            if scope or is_all(seen):
                yield replace(change, scope=scope)
        elif seen.includes(record.scope):
            yield replace(change, scope=record.scope, row=b"" if change.gone else row_of(record))

    def _scope_of(self, reader: Reader, seen: Reach, digest: bytes) -> str:
        """The scope of that digest, if it may be read; empty otherwise."""
        if not digest or self._digests is None:
            return ""
        names = (name for name in reader.scope_names() if seen.includes(name))
        return next((name for name in names if scope_digest(self._digests, name) == digest), "")


def check(request: WatchRequest) -> None:
    """Raises `Invalid` or `TooLarge` for a filter that could never be meant."""
    unknown = sorted((request.kinds or frozenset()) - KINDS)
    if unknown:
        raise Invalid("kinds", f"{unknown[0]!r} is no kind of change; there are {', '.join(sorted(KINDS))}")
    for field, chosen in (("ids", request.ids), ("scopes", request.scopes)):
        if chosen is not None and len(chosen) > BATCH_IDS_LIMIT:
            raise TooLarge(field, len(chosen), BATCH_IDS_LIMIT, field)


_unpack: Final = cast(Callable[[bytes], Any], msgpack.unpackb)
