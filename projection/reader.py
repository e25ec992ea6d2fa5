"""Reading a projection: one connection that cannot write, one consistent state for each question.

No question leaves a transaction open behind it. What is too long for one answer comes in pages, each with its own index,
so that nobody who reads slowly can keep the write-ahead log from being emptied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ..log.entry import Position
from ..memory.digest import BUCKETS, DIGEST_BYTES, combined
from ..memory.events import EXPIRED, SUPERSEDED
from ..memory.lifecycle import HALF_LIFE_US, is_expired, is_prunable
from ..memory.limits import BATCH_IDS_LIMIT
from ..memory.record import PastVersion, Record, Version
from . import recall, schema
from .answers import (
    ANYTHING, AsOf, Counts, Filters, Found, HistoryItem, HistoryPage, Page, ReadPoint, Recalled, Records, ScopeRecords,
)  # fmt: skip
from .errors import translated
from .filters import Conditions
from .integrity import Finding, findings
from .rows import past_of, record_of
from .state import StoredState

PAGE_LIMIT: Final = 1_000
GET_LIMIT: Final = 1_000
RECALL_LIMIT: Final = 1_000
CORRECTIONS_LIMIT: Final = 100


class Reader(StoredState):
    """Queries over the projection, and the `memory.state.State` of the moment. For one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        super().__init__(connection)
        self._file = file
        self._depth = 0

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is asked inside is answered from one state. Keep it short: the write-ahead log grows meanwhile."""
        with translated(self._file):
            if self._depth == 0:
                self._connection.execute("BEGIN")
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._connection.execute("ROLLBACK")

    @property
    def applied(self) -> Position:
        """The last entry folded."""
        standing = self.standing()
        return Position(standing.epoch, standing.index)

    def point(self, now_us: int) -> ReadPoint:
        """Where a read at `now_us` stands: time never runs behind the entry that was read."""
        standing = self.standing()
        return ReadPoint(standing.epoch, standing.index, max(now_us, standing.time_us))

    # --- single records -----------------------------------------------------------------------------------------------

    def get(
        self, id: bytes, now_us: int, as_of: AsOf | None = None, valid_at_us: int | None = None
    ) -> tuple[ReadPoint, Found | None]:
        """`get_many` of one id."""
        point, (found,) = self.get_many([id], now_us, as_of, valid_at_us)
        return point, found

    def get_many(
        self, ids: Sequence[bytes], now_us: int, as_of: AsOf | None = None, valid_at_us: int | None = None
    ) -> Records:
        """The records of those ids, rejected ones included, expired ones not.

        `as_of`: what was held at that moment of recorded time. `valid_at_us`: of the values held (then), the one that was
        true at that moment of valid time, which may be one that was superseded since. At most 1 000 ids.
        """
        if len(ids) > GET_LIMIT:
            raise ValueError(f"{len(ids)} ids in one question; at most {GET_LIMIT}")
        with self.snapshot():
            point = self.point(now_us)
            return Records(point, tuple(self._found(id, point.now_us, as_of, valid_at_us) for id in ids))

    def _found(self, id: bytes, now_us: int, as_of: AsOf | None, valid_at_us: int | None) -> Found | None:
        record = self.record(id) if as_of is None else self._held_at(id, as_of)
        judged_us = now_us if as_of is None or as_of.time_us is None else as_of.time_us
        if record is None or is_expired(record, judged_us):
            return None
        if valid_at_us is not None:
            record = self._true_at(record, valid_at_us)
        if record is None:
            return None
        return Found(record, self._corrections(record) if record.corrections_count else ())

    def _held_at(self, id: bytes, as_of: AsOf) -> Record | None:
        present = self.record(id)
        if present is not None and _begun(present, as_of):
            return present
        versions = [past for past in self._pasts(id) if _begun(past.record, as_of) and not _ended(past, as_of)]
        return versions[-1].record if versions else None

    def _true_at(self, record: Record, valid_at_us: int) -> Record | None:
        """Of a record and the values it superseded, the one whose interval began last of those that cover the moment."""
        earlier = [past.record for past in self._pasts(record.id) if past.ended_by == SUPERSEDED]
        held = [version for version in earlier if version.version < record.version]
        covering = [version for version in (*held, record) if _covers(version, valid_at_us)]
        return max(covering, key=_beginning, default=None)

    def _corrections(self, record: Record) -> tuple[PastVersion, ...]:
        rows = self._connection.execute(
            schema.GET_CORRECTIONS, (record.id, SUPERSEDED, record.version.index, CORRECTIONS_LIMIT)
        ).fetchall()
        return tuple(past_of(body) for (body,) in reversed(rows))

    def _pasts(self, id: bytes) -> list[PastVersion]:
        return [past_of(body) for _, body in self._connection.execute(schema.GET_PASTS, (id,)).fetchall()]
