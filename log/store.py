"""The durable log of one node: an SQLite file of its own (WAL, synchronous=FULL), written by one connection.

DESIGN.md says what it guarantees, and why it is built this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from .check import CheckedRange, file_damage
from .database import Database
from .entry import GENESIS_HASH, Entry, Position
from .errors import EraseIncomplete, LogDamaged, LogError, LogForeign, LogOrder
from .inspection import APPLICATION_ID, FORMAT, inspect
from .mark import Mark, sync_directory
from .reader import Anchor, HardState, Reader, RestoredLog
from .rows import (
    DELETE_AFTER,
    INSERT_ENTRY,
    INSERT_IDENTITY,
    REPLACE_CONFIGURATION,
    REPLACE_ENTRY,
    REPLACE_SEAL,
    REPLACE_STATE,
    SCHEMA,
    State,
    configuration_row,
    entry_row,
    identity_row,
    seal_row,
    state_row,
)
from .seal import Seal

__all__ = ["Anchor", "HardState", "Identity", "LogStore", "RestoredLog", "Write"]

MEMORY = ":memory:"
HISTORY_PAGE_BYTES = 1 << 20
"""`history` reads so much at a time, so that no reader holds up the journal for long."""


class Identity(NamedTuple):
    """Whose log it is: the history's id (32 hex digits), the cluster's name, the node's id."""

    cluster_id: str
    cluster: str
    node: str


class Write(NamedTuple):
    """One write, as `replication.Persist` asks for it: cut what follows `cut_after`, append, store the rest.

    None leaves a part as it is.
    """

    cut_after: int | None = None
    entries: Sequence[Entry] = ()
    seals: Sequence[Seal] = ()
    hard_state: HardState | tuple[int, str | None, str | None] | None = None
    commit_index: int | None = None


class LogStore:
    """A log on disk. Writes are taken one at a time; reads may come from any thread, also during a write.

    A write that names entries in the wrong place is refused with `LogOrder`; `LogFull` says that nothing was stored and
    that the same write may be tried again; after `LogWriteFailed` the process must end.
    """

    def __init__(self, database: Database, mark: Mark | None, state: State) -> None:
        self._database = database
        self._mark = mark
        self._state = state

    @staticmethod
    def open(path: str | Path, *, read_only: bool = False) -> LogStore:
        """Open the log at `path`, made if there is none. `":memory:"` gives one that ends with the object.

        `read_only` opens the log of another process, or of a stopped node, and leaves it as it is. Raises `LogDamaged`
        when the file as a whole cannot be trusted, `LogForeign` when it is something else, `LogInUse` when another
        writer has it. Damage to single entries does not keep a log from opening: `check` and every read tell of it.
        """
        if str(path) == MEMORY:
            return _created(Database(None), None)
        try:
            return _open_read_only(Path(path)) if read_only else _open_writer(Path(path))
        except OSError as error:
            raise LogError(f"{path}: cannot be opened: {error.strerror}") from error

    def close(self) -> None:
        """Give every file back; using the log afterwards raises `ValueError`. Closing twice is allowed."""
        self._database.close()
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    @property
    def identity(self) -> Identity | None:
        """Whose log it is; None before `identify`."""
        with self._reader() as reader:
            texts = reader.identity()
        return None if texts is None else Identity(*texts)

    def identify(self, identity: Identity) -> None:
        """Say durably whose log this is. Raises `LogForeign` when it already is somebody else's."""
        known = self.identity
        if known is None:
            with self._database.transaction() as connection:
                connection.execute(INSERT_IDENTITY, identity_row(identity))
        elif known != identity:
            raise LogForeign(f"{self._database.name} belongs to {known}, not to {identity}")

    @property
    def last(self) -> Position:
        """The position of the last entry; `ORIGIN` when there is none."""
        return self._current().last

    @property
    def commit_index(self) -> int:
        """The stored lower bound of what is committed."""
        return self._current().commit_index

    def write(
        self,
        cut_after: int | None = None,
        entries: Sequence[Entry] = (),
        seals: Sequence[Seal] = (),
        hard_state: HardState | tuple[int, str | None, str | None] | None = None,
        commit_index: int | None = None,
    ) -> None:
        """One durable transaction: on return all of it is on disk, with one fsync."""
        self.write_many([Write(cut_after, entries, seals, hard_state, commit_index)])

    def write_many(self, writes: Sequence[Write]) -> None:
        """Several writes, in order, in one durable transaction with one fsync (group commit)."""
        size = sum(entry.size_bytes for write in writes for entry in write.entries)
        self._database.require_room(size)
        with self._changing() as (connection, state):
            for write in writes:
                state.value = _carried_out(connection, self._database.name, state.value, write)
        self._database.note_written(size)

    def restored(self, tail_bytes: int) -> RestoredLog:
        """The node's state at start. Raises `LogDamaged` when any of it is not what was written."""
        with self._reader() as reader:
            return reader.restored(tail_bytes)

    def read(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], list[Seal]]:
        """Consecutive entries from `first` on (at least one, about `max_bytes`, and on to the next seal) and their seals.

        With `last`, nothing beyond it. Empty when there is no entry at `first`.
        """
        with self._reader() as reader:
            end = reader.state().last.index
            end = end if last is None else min(end, last)
            if not 1 <= first <= end:
                return [], []
            entries = reader.to_next_seal(first, end, max_bytes)
            return entries, reader.seals(first, entries[-1].index)

    def entry(self, index: int) -> Entry | None:
        """The entry at `index`, or None when the log has none there."""
        with self._reader() as reader:
            return reader.entry(index) if 1 <= index <= reader.state().last.index else None

    def seal(self, index: int) -> Seal | None:
        """The seal on the entry at `index`, or None."""
        with self._reader() as reader:
            return next(iter(reader.seals(index, index)), None)

    def history(self, first: int = 1, last: int | None = None) -> Iterator[tuple[Entry, Seal | None]]:
        """Every entry from `first` on with its seal, read page by page. What is appended meanwhile is included."""
        while page := self.read(first, HISTORY_PAGE_BYTES, last)[0]:
            with self._reader() as reader:
                seals = {seal.index: seal for seal in reader.seals(first, page[-1].index)}
            yield from ((entry, seals.get(entry.index)) for entry in page)
            first = page[-1].index + 1
