"""The projection: one file, one writer, always at one index of the log. See DESIGN.md."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

import msgpack

from ..embedding.embedder import Embedder
from ..log.entry import SALT_BYTES, Entry, Position
from ..memory.machine import evolve_entry
from ..memory.state import Workspace
from . import schema
from .errors import FoldOrder, OtherEmbedder, translated
from .fold import Fold
from .former import FORMER
from .fulltext import SAMPLE, WORDS, merge
from .integrity import Finding, findings
from .mentions import Mentions, mentions_of
from .reader import Reader
from .recall import Meaning
from .rows import pack, unpack
from .scopes import ScopeNumbers
from .scrub import Scrubber
from .served import Waiting
from .sqlite import BUSY_TIMEOUT_MS, CHECKPOINT_WAIT_MS, MEMORY, WAL_BYTES_LIMIT, Database, transaction
from .state import HotState
from .vectors import NOBODY, Made, made_by, note_maker

REBUILD_BYTES: Final = 4 << 20
BESIDE: Final = "-again"
"""What the name of a file ends with into which history is folded beside a projection."""
SCHEMA: Final = "schema"
WORD_TABLES: Final = (WORDS, SAMPLE, FORMER)

Progress = Callable[[int], None]


class History(Protocol):
    """Where committed entries come from (`log.store.LogStore`)."""

    def read(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], Sequence[object]]:
        """Consecutive entries from `first` on, about `max_bytes`; with `last`, nothing beyond it."""
        ...


class Projection:
    """The one writer of a projection. `reader` gives as many readers as there are threads that want one.

    `started_over` says why the file was begun anew at `open` (it was missing, of another schema, or damaged), else
    it is empty; whoever opened it then folds history again, with `catch_up` or `apply`. `erasures_left` says whether
    text that was erased may still be in the file or in the log; `Reader.erasures_left` says of what. `copies` counts
    how often all rows were replaced by others (`take_over`). `vectors_awaited` says whether records
    may wait for a service to make their vectors; who finds that none does may set it back (`note_awaited`).
    """

    def __init__(
        self, database: Database, connection: sqlite3.Connection, started_over: str, embedder: Embedder | None
    ) -> None:
        self.started_over = started_over
        self._embedder = embedder
        self._meaning = None if embedder is None else _meaning(embedder)
        self._database = database
        self._connection = connection
        self._readers: WeakSet[Reader] = WeakSet()
        self._blocking: dict[Reader, int] = {}
        self._checkpoint_at_bytes = WAL_BYTES_LIMIT
        self._begin()
        self.copies = 0
        self._look_for_erasures()
        self.vectors_awaited = connection.execute(schema.IS_UNEMBEDDED_LEFT).fetchone() is not None

    @staticmethod
    def open(path: str | Path, embedder: Embedder | None = None) -> Projection:
        """Open the projection at `path`, or begin a new one where it cannot be used. `:memory:` ends with `close`.

        Its vectors are made by `embedder`; with None it has none. Raises `OtherEmbedder` where another one made them.
        """
        database = Database(path)
        Database(
            f"{path}{BESIDE}"
        ).remove()  # what a process left that ended while it folded: it may hold what is erased
        reason = _unusable(database)
        if reason:
            database.remove()
        connection = database.writer()
        if reason:
            with transaction(connection):
                schema.create(connection)
                connection.execute(schema.PUT_STATE, (SCHEMA, pack(schema.SCHEMA_VERSION)))
        try:
            _settle_embedder(database, connection, Made.by(embedder))
            return Projection(database, connection, reason, embedder)
        except BaseException:
            connection.close()
            database.close()
            raise

    @staticmethod
    def maker(path: str | Path) -> Made:
        """Who made the vectors of the projection at `path`; nobody where there is none that can be used."""
        database = Database(path)
        if _unusable(database):
            return NOBODY
        connection = database.reader()
        try:
            return made_by(connection)
        finally:
            connection.close()

    @staticmethod
    def erasures(path: str | Path) -> list[tuple[int, bytes]]:
        """Every erasing entry that the projection at `path` has folded, with each record that it erased.

        Empty where there is none that can be used: it is made anew, and with it all that was erased is erased again.
        """
        database = Database(path)
        if database.in_memory or _unusable(database):
            return []
        with translated(database.path):
            connection = database.reader()
            try:
                return connection.execute(schema.GET_ERASURES).fetchall()
            finally:
                connection.close()

    @staticmethod
    def waiting(path: str | Path) -> Waiting:
        """How many records of the projection at `path` have vectors, and how many wait for them."""
        database = Database(path)
        if _unusable(database):
            return Waiting(0, 0)
        reader = Reader(database.reader(), database.path)
        try:
            return reader.waiting()
        finally:
            reader.close()

    @staticmethod
    def rebuild(
        path: str | Path,
        history: History,
        last: int,
        progress: Progress | None = None,
        embedder: Embedder | None = None,
    ) -> Projection:
        """Throw the file at `path` away and fold `history` again up to entry `last`. No reader may be open."""
        if str(path) != MEMORY:
            Database(path).remove()
        projection = Projection.open(path, embedder)
        projection.catch_up(history, last, progress)
        return projection

    @property
    def made_by(self) -> Made:
        """Who makes the vectors that are held."""
        return Made.by(self._embedder)

    @property
    def is_served(self) -> bool:
        """Whether a service makes the vectors that are held."""
        return self._embedder is not None and not self._embedder.is_own

    @property
    def applied(self) -> Position:
        """The last entry folded; everything in the file is the state after it."""
        standing = self._state.standing()
        return Position(standing.epoch, standing.index)

    @property
    def applied_hash(self) -> bytes:
        """The hash of that entry: the log that this projection belongs to has it at that index."""
        return self._state.standing().hash

    @property
    def time_us(self) -> int:
        """Log time: the time of that entry, 0 before the first."""
        return self._state.standing().time_us

    @property
    def state(self) -> HotState:
        """The writer's own state, for decisions on the thread that applies; another object after `apply` has failed."""
        return self._state

    @property
    def wal_bytes(self) -> int:
        """How large the write-ahead log is; it stays about `WAL_BYTES_LIMIT` while readers come and go."""
        return self._database.wal_bytes

    def apply(self, entries: Sequence[Entry]) -> None:
        """Fold committed entries, in one transaction with the position they lead to. Those folded before are skipped.

        Raises `FoldOrder` for entries that do not follow, `ProjectionDamaged` and `ProjectionFull`; the file is then
        where it was, and after the last of them `apply` may be called again.
        """
        applied_index = self._state.standing().index
        new = [entry for entry in entries if entry.index > applied_index]
        if not new:
            return
        self._check_order(new)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            workspace, mentions = self._evolved(new)
            whole_after = max(entry.erased_by for entry in new)
            fold = Fold(workspace, self._state, self._scopes, mentions, whole_after, self._embedder)
            standing = fold.write(connection, new[-1])
            connection.execute("COMMIT")
        except BaseException as error:
            with translated(self._database.path):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._begin()
                raise error
        self._state.advance(standing, fold.buckets, fold.present, fold.gone, fold.grounded, workspace)
        self.erasures_left |= bool(mentions.erasures)
        if fold.awaits_vectors:
            self.vectors_awaited = True
        self._bound_journal()

    def catch_up(self, history: History, last: int, progress: Progress | None = None) -> None:
        """Fold `history` from where this stands up to entry `last`. `progress` is told each index that was reached."""
        while self.applied.index < last:
            entries, _ = history.read(self.applied.index + 1, REBUILD_BYTES, last)
            if not entries:
                raise FoldOrder(f"history ends before entry {last}, at {self.applied.index}")
            self.apply(entries)
            if progress is not None:
                progress(self.applied.index)

    def note_awaited(self, awaited: bool) -> None:
        """Whether records may wait for a service: no, says who is about to look; yes, who has found some."""
        self.vectors_awaited = awaited

    @property
    def whole_after(self) -> int:
        """Before this entry is folded, the state lacks texts that it should have."""
        return self._state.standing().whole_after

    def clean_words(self, table: str, *, begin: bool) -> bool:
        """A step of writing one of `WORD_TABLES` anew, without what was taken out of it; whether that was the last one.

        What FTS5 deletes stays in older segments until all of them are merged.
        """
        with translated(self._database.path):
            return merge(self._connection, table, begin=begin)

    def empty_journal(self) -> bool:
        """Bring all that was written into the file itself, and empty the write-ahead log; not while readers need it."""
        with translated(self._database.path):
            return self._emptied_journal()

    def finish_erasures(self, erasures: Sequence[tuple[int, bytes]]) -> None:
        """Nothing is left in any file of what these `(entry, record)` have erased."""
        with translated(self._database.path):
            with transaction(self._connection, "BEGIN IMMEDIATE"):
                self._connection.executemany(schema.PUT_ERASURE, [(index, id, True) for index, id in erasures])
            self._look_for_erasures()

    def _look_for_erasures(self) -> None:
        self.erasures_left = self._connection.execute(schema.GET_ERASURES_LEFT).fetchone() is not None

    def reopen_erasures(self) -> None:
        """Look again for all that was erased: the log came from elsewhere, where it may be there still."""
        with translated(self._database.path):
            with transaction(self._connection, "BEGIN IMMEDIATE"):
                self._connection.execute(schema.REOPEN_ERASURES)
            self.erasures_left = self._connection.execute(schema.GET_ERASURES_LEFT).fetchone() is not None

    def reader(self) -> Reader:
        """A reader with a connection of its own, for one thread at a time. Raises `ProjectionDamaged`."""
        with translated(self._database.path):
            reader = Reader(self._database.reader(), self._database.path, self._meaning)
        self._readers.add(reader)
        return reader

    def beside(self) -> Projection:
        """An empty projection, to fold history again while this one goes on; give it back with `discard`."""
        if self._database.in_memory:
            return Projection.open(MEMORY, self._embedder)
        path = self._database.path + BESIDE
        Database(path).remove()
        return Projection.open(path, self._embedder)

    def discard(self) -> None:
        """Close this projection and delete its file."""
        self.close()
        self._database.remove()

    def take_over(self, other: Projection) -> None:
        """Hold what `other` holds, page by page, in one transaction: a read sees the one state or the other.

        Raises `ProjectionFull` and `ProjectionDamaged`; the file is then as it was.
        """
        with translated(self._database.path):
            try:
                other._connection.backup(self._connection)
            finally:
                self._begin()
                self._look_for_erasures()
                self.copies += 1
                self.vectors_awaited = True
                if self._meaning is not None:
                    self._meaning.shelves.clear()
        self._bound_journal()

    def scrubber(self) -> Scrubber:
        """Looks for what is wrong a little at a time, for one thread; close it before this is closed."""
        connection = self._database.inspector()
        reader = Reader(connection, self._database.path)
        self._readers.add(reader)
        return Scrubber(reader, connection)

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the file, while it is looked for; nothing when all is well. `apply` waits meanwhile."""
        return _inspected(self._database)

    @staticmethod
    def inspect(path: str | Path) -> Iterator[Finding]:
        """`findings` of a file that nobody needs to have opened. A file that is not there has nothing wrong."""
        database = Database(path)
        return _inspected(database) if database.exists else iter(())

    def close(self) -> None:
        """Give the file back, and take it from the readers; closing twice is allowed."""
        for reader in self._readers:
            reader.close()
        self._connection.close()
        self._database.close()

    def _begin(self) -> None:
        self._state = HotState(self._connection, self._database.path)
        self._scopes = ScopeNumbers(self._connection)

    def _check_order(self, entries: Sequence[Entry]) -> None:
        standing = self._state.standing()
        expected, hash = standing.index + 1, standing.hash
        for entry in entries:
            if entry.index != expected or entry.prev_hash != hash:
                raise FoldOrder(f"entry {entry.index} does not follow entry {expected - 1} of this projection")
            expected, hash = expected + 1, entry.hash

    def _evolved(self, entries: Sequence[Entry]) -> tuple[Workspace, Mentions]:
        workspace = Workspace(self._state)
        items = [_unpack(entry.events) for entry in entries]
        self._state.expect({id for item in items for id in _records_of(item)})
        for entry, item in zip(entries, items, strict=True):
            _evolve(workspace, entry, item)
        return workspace, mentions_of(entries, items)

    def _bound_journal(self) -> None:
        """Empty the write-ahead log once it is too long, waiting a little for the readers that still need it.

        SQLite's own checkpoints never wait, so that readers in turn, of which one is always reading, would let it grow.
        A snapshot that stood in the way last time, and still does after as much again was written, is revoked.
        """
        if self._database.wal_bytes <= self._checkpoint_at_bytes:
            return
        for reader, snapshot in self._blocking.items():
            reader.revoke(snapshot)
        if self._emptied_journal():
            self._blocking = {}
            self._checkpoint_at_bytes = WAL_BYTES_LIMIT
        else:
            self._blocking = {reader: reader.open_snapshot for reader in self._readers if reader.open_snapshot}
            self._checkpoint_at_bytes = self._database.wal_bytes + WAL_BYTES_LIMIT

    def _emptied_journal(self) -> bool:
        self._connection.execute(f"PRAGMA busy_timeout={CHECKPOINT_WAIT_MS}")
        try:
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        return busy == 0


def _meaning(embedder: Embedder) -> Meaning:
    from .nearest import Shelves  # numpy takes a tenth of a second, and most memories need none

    return Meaning(embedder, Shelves(embedder.width))


def _settle_embedder(database: Database, connection: sqlite3.Connection, wanted: Made) -> None:
    """Vectors of two makers cannot be compared: another one is taken only while there is nothing to be found."""
    made = made_by(connection)
    if made == wanted:
        return
    if connection.execute("SELECT 1 FROM record WHERE searchable LIMIT 1").fetchone():
        raise OtherEmbedder(database.path, str(made), str(wanted))
    with transaction(connection, "BEGIN IMMEDIATE"):
        note_maker(connection, wanted)


def _records_of(items: Sequence[Any]) -> Iterator[bytes]:
    """The records that an entry's events name: the second field of most events is one."""
    for item in items:
        if type(item[0]) is bytes:  # decided here: its events follow
            for event in item[1:]:
                if len(event) > 1 and type(event[1]) is bytes:
                    yield event[1]


def _evolve(workspace: Workspace, entry: Entry, items: Sequence[Any]) -> None:
    """Fold one entry. Its bytes were checked before it came into the log, so they are read without another check."""
    _, _, author, _, on_behalf, heads = _unpack(entry.envelope)
    evolve_entry(
        workspace,
        entry.index,
        entry.epoch,
        entry.time_us,
        None if on_behalf else author,
        [(id, kind) for id, kind, _ in heads],
        items,
        [None if body is None else body[SALT_BYTES:] for body in entry.bodies],
    )


_unpack: Final = cast(Callable[[bytes], Any], msgpack.unpackb)


def _inspected(database: Database) -> Iterator[Finding]:
    connection = database.inspector()
    try:
        connection.execute("BEGIN")
        yield from findings(connection)
    except sqlite3.DatabaseError as error:
        yield Finding("file", str(error))
    finally:
        connection.close()


def _unusable(database: Database) -> str:
    """Why the file has to be begun anew; empty when it can be used as it is."""
    if not database.exists:
        return "missing"
    try:
        return _defect(database)
    except sqlite3.DatabaseError as error:
        return f"damaged: {error}"


def _defect(database: Database) -> str:
    connection = database.reader()
    try:
        row = connection.execute(schema.GET_STATE, (SCHEMA,)).fetchone()
        if row is None or unpack(row[0]) != schema.SCHEMA_VERSION:
            return f"of another schema than {schema.SCHEMA_VERSION}"
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        return "" if found == "ok" else f"damaged: {found}"
    finally:
        connection.close()
