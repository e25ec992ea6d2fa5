"""The durable log of one node: an SQLite file of its own (WAL, synchronous=FULL), written by one connection.

DESIGN.md says what it guarantees, and why it is built this way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from .check import damages
from .configuration import Configuration
from .database import DAMAGES_LIMIT, Database, file_damages
from .entry import Anchor, Entry, Position
from .errors import EraseIncomplete, LogDamaged, LogError, LogForeign
from .flaws import Flaw, require_link
from .inspection import APPLICATION_ID, FORMAT, inspect, schema_of
from .mark import Mark, sync_directory
from .reader import HardState, Reader, RestoredLog
from .rows import INSERT_IDENTITY, REPLACE_SEEN, REPLACE_STATE, SCHEMA, State, identity_row, seen_row, state_row
from .seal import Seal
from .writer import Erasure, Write, Writer

__all__ = ["Anchor", "Erasure", "HardState", "Identity", "LogStore", "RestoredLog", "Write"]

MEMORY = ":memory:"
HISTORY_PAGE_BYTES = 1 << 20
"""`history` reads so much at a time, so that no reader holds up the journal for long."""


class Identity(NamedTuple):
    """Whose log it is: the history's id (32 hex digits), the cluster's name, the node's id."""

    cluster_id: str
    cluster: str
    node: str


class LogStore:
    """A log on disk. Writes are taken one at a time; reads may come from any thread, also during a write.

    A write that does not fit the log is refused with `LogOrder`. `LogFull` says that nothing was stored and that the
    same write may be tried again. After `LogWriteFailed` the process must end.
    """

    def __init__(self, database: Database, mark: Mark | None) -> None:
        self._database = database
        self._mark = mark
        self._write_lock = Lock()
        with self._reader() as reader:
            self._state = reader.state()
            self._identity = reader.identity()

    @staticmethod
    def open(path: str | Path, *, read_only: bool = False) -> LogStore:
        """Open the log at `path`, made if there is none. `":memory:"` gives one that ends with the object.

        `read_only` opens the log of another process, or of a stopped node, and leaves it as it is. Raises `LogDamaged`
        when the file as a whole cannot be trusted, `LogForeign` when it is something else, `LogInUse` when another
        writer has it. Damage to single entries does not keep a log from opening: `check` and every read tell of it.
        """
        if str(path) == MEMORY:
            return _in_memory()
        try:
            return _opened_to_read(Path(path)) if read_only else _opened_to_write(Path(path))
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
        if self._identity is None and self._database.read_only:
            with self._reader() as reader:
                self._identity = reader.identity()
        return None if self._identity is None else Identity(*self._identity)

    def identify(self, identity: Identity) -> None:
        """Say durably whose log this is. Raises `LogForeign` when it already is somebody else's."""
        if self._identity is None:
            with self._database.transaction() as connection:
                connection.execute(INSERT_IDENTITY, identity_row(identity))
            self._identity = identity
        elif self._identity != identity:
            raise LogForeign(f"{self._database.name} belongs to {self.identity}, not to {identity}")

    @property
    def last(self) -> Position:
        """The position of the last entry; `ORIGIN` when there is none."""
        return self._current().last

    @property
    def first_index(self) -> int:
        """The first index that this log still holds, or will hold."""
        with self._reader() as reader:
            return reader.first_index()

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
        seen: Sequence[tuple[str, int, int]] | None = None,
    ) -> None:
        """One durable transaction: on return all of it is on disk, with one fsync."""
        self.write_many([Write(cut_after, entries, seals, hard_state, commit_index, seen)])

    def write_many(self, writes: Sequence[Write]) -> None:
        """Several writes, in order, in one durable transaction with one fsync (group commit)."""

        def carry_out(writer: Writer, state: State) -> State:
            for write in writes:
                state = writer.carry_out(state, write)
            return state

        self._change(carry_out, sum(entry.size_bytes for write in writes for entry in write.entries))

    def restored(self, tail_bytes: int) -> RestoredLog:
        """The node's state at start. Raises `LogDamaged` when any of it is not what was written."""
        with self._reader() as reader:
            return reader.restored(tail_bytes)

    def read(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], list[Seal]]:
        """Consecutive entries from `first` on: at least one, about `max_bytes`, on to the next seal; and their seals.

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
        """Every entry from `first` on with its seal, read page by page; what is appended meanwhile is included."""
        before = None
        while (page := self.read(first, HISTORY_PAGE_BYTES, last))[0]:
            entries, seals = page
            if before is not None:
                self._require_link(entries[0], before)
            sealed = {seal.index: seal for seal in seals}
            for entry in entries:
                yield entry, sealed.get(entry.index)
            before = Anchor.at(entries[-1])
            first = before.index + 1

    def erase(self, erasures: Sequence[Erasure]) -> None:
        """Destroy these bodies: in the file, and in its journal, before returning.

        Raises `EraseIncomplete` when a reader kept the journal from being emptied; calling again is safe.
        """

        def erase(writer: Writer, state: State) -> State:
            for erasure in erasures:
                writer.erase(state, erasure)
            return state

        if erasures:
            self._change(erase, 0)
        if self._database.path is not None and not self._database.checkpoint("TRUNCATE"):
            raise EraseIncomplete(f"{self._database.name}: a reader holds the journal; erase again")

    def repair(self, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Put consecutive entries, fetched from a peer, and their seals in the place of damaged ones.

        Raises `LogOrder` unless the hash chain proves, from the whole entry that follows, that they stood there. Seals
        on nothing, as rot leaves them, are removed.
        """

        def put_back(writer: Writer, state: State) -> State:
            writer.repair(state, entries, seals)
            return state

        if entries:
            self._change(put_back, sum(entry.size_bytes for entry in entries))

    def configurations(self) -> list[Configuration]:
        """Every configuration there ever was, oldest first. Raises `LogDamaged`."""
        with self._reader() as reader:
            return reader.configurations()

    def check(self, first: int = 1, last: int | None = None) -> list[LogDamaged]:
        """The damage to the entries from `first` to `last` and to their seals, at most `DAMAGES_LIMIT`, by index.

        Everything is read, and chain, hashes, bodies and times are checked; signatures are not, see `verify`.
        """
        return list(islice(damages(self._reader, self._database.name, first, last), DAMAGES_LIMIT))

    def check_file(self) -> list[LogDamaged]:
        """What SQLite's own check finds in the structure of the file, by page. Reads the whole file."""
        with self._database.reading() as connection:
            return file_damages(connection, self._database.name)

    @contextmanager
    def _reader(self) -> Generator[Reader]:
        with self._database.reading() as connection:
            yield Reader(connection, self._database.name)

    def _current(self) -> State:
        """The state of the log; a log opened to read may have grown by another process."""
        if self._database.read_only:
            with self._reader() as reader:
                return reader.state()
        return self._state

    def _change(self, work: Callable[[Writer, State], State], size_bytes: int) -> None:
        with self._write_lock:
            self._database.require_room(size_bytes)
            with self._database.transaction() as connection:
                state = work(Writer(connection, self._database.name), self._state)
                state = replace(state, writes=state.writes + 1)
                connection.execute(REPLACE_STATE, state_row(state))
            self._state = state
            if self._mark is not None:
                self._mark.advance(state.writes)
            self._database.note_written(size_bytes)

    def _require_link(self, entry: Entry, before: Anchor) -> None:
        try:
            require_link(entry, before)
        except Flaw as flaw:
            raise LogDamaged(self._database.name, entry.index, str(flaw)) from flaw


def _in_memory() -> LogStore:
    database = Database(None)
    _make_tables(database)
    return LogStore(database, None)


def _opened_to_read(path: Path) -> LogStore:
    if not inspect(path, Mark.peek(path), alone=False):
        raise LogError(f"{path}: there is no log")
    return LogStore(Database(path, read_only=True), None)


def _opened_to_write(path: Path) -> LogStore:
    mark = Mark.hold(path)
    database = None
    try:
        found = inspect(path, mark.writes, alone=True)
        database = Database(path)
        if not found:
            _make_tables(database)
            sync_directory(path.parent)
        else:
            _carry_on(database)
        # With nothing left of an earlier run, a page of the journal that looks like a later transaction's is one.
        database.checkpoint("TRUNCATE")
        store = LogStore(database, mark)
        mark.advance(store._state.writes)  # pyright: ignore[reportPrivateUsage]
        mark.sync()
    except BaseException:
        mark.close()
        if database is not None:
            database.close()
        raise
    return store


def _carry_on(database: Database) -> None:
    """Give a log of an earlier format the tables that it lacks."""
    with database.transaction() as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version < FORMAT:
            for name in SCHEMA.keys() - schema_of(version).keys():
                connection.execute(SCHEMA[name])
            connection.execute(REPLACE_SEEN, seen_row(()))
            connection.execute(f"PRAGMA user_version={FORMAT}")


def _make_tables(database: Database) -> None:
    with database.transaction() as connection:
        for table in SCHEMA.values():
            connection.execute(table)
        connection.execute(REPLACE_STATE, state_row(State()))
        connection.execute(REPLACE_SEEN, seen_row(()))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
