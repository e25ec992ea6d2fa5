"""Destroying what was erased: on this node, once the erasing entry is folded here, in every file that it keeps.

The fold takes the text out of the rows. What is left then are the bodies in the log, words in older segments of the
full-text index, and copies in the journals of both files. They are destroyed in the background; what is not finished
when a node ends is taken up when it is back, since the projection says what is left.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from ..log.canonical import decode
from ..log.errors import EraseIncomplete, LogDamaged, LogFull
from ..log.store import Erasure, LogStore
from ..memory.changes import erased_by, subjects_of
from ..memory.errors import Unavailable
from ..projection.errors import ProjectionFull, SnapshotRevoked
from ..projection.projection import WORD_TABLES, Projection
from ..projection.reader import Reader
from .metrics import Metrics
from .reading import Readers

RETRY_S: Final = 0.5
CLEANING_STEPS_LIMIT: Final = 1 << 16
"""As many steps clean any index: should a busy one never come to rest, what was there at the beginning is merged."""

OnApplier = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
Left = Sequence[tuple[int, bytes]]
"""What there is to erase: an erasing entry and the record that it is about."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.erasing")


class Eraser:
    """Destroys what is left of erased records. Belongs to the node's loop; the work is done on other threads."""

    def __init__(
        self,
        store: LogStore,
        projection: Projection,
        readers: Readers,
        on_applier: OnApplier,
        metrics: Metrics,
        damaged: Callable[[str], None],
    ) -> None:
        self._store = store
        self._projection = projection
        self._readers = readers
        self._on_applier = on_applier
        self._metrics = metrics
        self._damaged = damaged
        self._work: asyncio.Task[None] | None = None
        metrics.is_erasing.set_function(lambda: float(projection.erasures_left))

    def look(self) -> None:
        """Something was folded: begin to destroy what it may have left."""
        if self._projection.erasures_left and self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._destroy_all())
            self._work.add_done_callback(self._ended)

    def stop(self) -> None:
        """Take nothing up any more."""
        if self._work is not None:
            self._work.cancel()

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("what was erased cannot be destroyed", reason=str(error))

    async def _destroy_all(self) -> None:
        while self._projection.erasures_left:
            try:
                await self._destroy()
            except (EraseIncomplete, LogFull, ProjectionFull, SnapshotRevoked) as obstacle:
                _log.info("erasing waits", reason=str(obstacle))
                await asyncio.sleep(RETRY_S)
            except LogDamaged as damage:
                self._damaged(str(damage))
                return  # it is taken up again when the log is whole
            except Unavailable:
                return  # the node ends

    async def _destroy(self) -> None:
        if self._store.last.index < self._projection.applied.index:
            raise EraseIncomplete("the log is shorter than what was folded; what it gets back may hold bodies again")
        copies = self._projection.copies
        left = await self._readers.run(lambda reader: reader.erasures_left())
        erasures = await self._readers.run(lambda reader: self._found(reader, left))
        await self._readers.call(lambda: self._store.erase(erasures))
        for table in WORD_TABLES:
            await self._clean(table)
        if not await self._on_applier(self._projection.empty_journal):
            raise EraseIncomplete("a reader holds the projection's journal")
        await self._on_applier(lambda: self._finish(left, copies))
        self._metrics.erasures.inc(len(left))
        _log.info("erased", records=len(left), bodies=sum(len(erasure.places) for erasure in erasures))

    def _finish(self, left: Left, copies: int) -> None:
        """Rows that were folded again and copied over these meanwhile bring words that are not cleaned yet."""
        if self._projection.copies != copies:
            raise EraseIncomplete("the rows were folded again meanwhile")
        self._projection.finish_erasures(left)

    def _found(self, reader: Reader, left: Left) -> list[Erasure]:
        """Every body that still says something of an erased record, entry by entry."""
        places: dict[int, set[int]] = defaultdict(set)
        last_by: dict[int, int] = {}
        for by, id in left:
            for index, place in reader.mentions(id, by, self._place(by, id)):
                if self._says(index, place, id):
                    places[index].add(place)
                    last_by[index] = max(by, last_by.get(index, 0))
        return [Erasure(index, tuple(sorted(found)), last_by[index]) for index, found in sorted(places.items())]

    def _place(self, by: int, id: bytes) -> int:
        """Where in the erasing entry the record is erased, for the last time: what it says before that goes too."""
        entry = self._store.entry(by)
        items: list[list[Any]] = [] if entry is None else decode(entry.events)
        return max((place for place, item in enumerate(items) if id in erased_by(item)), default=0)

    def _says(self, index: int, place: int, id: bytes) -> bool:
        entry = self._store.entry(index)
        if entry is None or entry.bodies[place] is None:
            return False
        items: list[list[Any]] = decode(entry.events)
        return id in subjects_of(items[place])

    async def _clean(self, table: str) -> None:
        begin, is_clean, steps = True, False, 0
        while not is_clean and steps < CLEANING_STEPS_LIMIT:
            is_clean = await self._on_applier(lambda begin=begin: self._projection.clean_words(table, begin=begin))
            begin, steps = False, steps + 1
