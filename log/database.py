"""SQLite as the log uses it: one writing connection, some reading ones, and every error told by what it means.

Checkpoints are asked for here and not left to SQLite, which would swallow their fsync errors.
"""

from __future__ import annotations

import os
import re
import resource
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from .errors import LogDamaged, LogError, LogFull, LogInUse, LogOrder, LogWriteFailed

PAGE_BYTES = 4096
CHECKPOINT_BYTES = 4 << 20
"""After so many bytes written the journal is copied into the database: some 5 ms of work."""

JOURNAL_BYTES_LIMIT = 32 << 20
"""Beyond this the writer waits for readers, up to `BUSY_TIMEOUT_MS`, so that the journal can start anew."""

BUSY_TIMEOUT_MS = 200
IDLE_READERS_LIMIT = 8
ROOM_BYTES = 256 << 10
"""Free space that a write leaves untouched, beside what it needs and what a checkpoint will."""

DAMAGES_LIMIT = 100
"""A check ends after so much damage: the file is beyond repair, and the list beyond reading."""

# SQLITE_ERROR: a table or column is missing, because what declares it was changed.
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR)
_PAGE = re.compile(r"\b[Pp]age:? (\d+)")
_WRITER_PRAGMAS = (
    f"page_size={PAGE_BYTES}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",
    "checkpoint_fullfsync=ON",
    "wal_autocheckpoint=0",
    f"journal_size_limit={JOURNAL_BYTES_LIMIT}",
    "secure_delete=ON",
    # A spilled transaction that is rolled back would leave pages in the journal that look like a later one's.
    "cache_spill=OFF",
)
_PRAGMAS = (f"busy_timeout={BUSY_TIMEOUT_MS}", "temp_store=MEMORY", "trusted_schema=OFF")


class Database:
    """The file at `path`, or a database in memory for None. Safe for threads; writes are taken one at a time."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.name = "memory" if path is None else path.name
        self.read_only = read_only
        self._lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._failure: str | None = None
        self._closed = False
        self._pending_bytes = 0
        self._writer = None if read_only else _connect_writer(path)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A connection on which all queries see the same moment. Whatever SQLite cannot read is `LogDamaged`."""
        if self.path is None:
            with self._lock:
                yield self._open_writer()
            return
        connection = self._reader()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            failure = placed_error(error, connection, self.name)
            connection.close()
            raise failure from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """The writing connection, in a transaction that is durable when this ends without an error."""
        with self._lock:
            connection = self._open_writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back(connection)
                if isinstance(error, OverflowError):
                    raise LogOrder(f"a number does not fit 63 bits: {error}") from error
                if isinstance(error, sqlite3.Error):
                    raise self._write_error(error) from error
                raise

    def require_room(self, write_bytes: int) -> None:
        """Raises `LogFull` unless a write of that size, and the checkpoint after it, will find room on the disk."""
        if self.path is None:
            return
        needed = 2 * write_bytes + self._pending_bytes + ROOM_BYTES
        room = _room_bytes(self.path)
        if room < needed:
            raise LogFull(f"{self.path}: {room} bytes of room, {needed} needed; free some space")

    def note_written(self, write_bytes: int) -> None:
        """After a commit of that size: copy the journal into the database when it is due."""
        if self.path is None:
            return
        before, self._pending_bytes = self._pending_bytes, self._pending_bytes + write_bytes + 2 * PAGE_BYTES
        if before // CHECKPOINT_BYTES != self._pending_bytes // CHECKPOINT_BYTES:
            self.checkpoint("RESTART" if self._pending_bytes > JOURNAL_BYTES_LIMIT else "PASSIVE")

    def checkpoint(self, mode: str) -> bool:
        """Copy the journal into the database (mode PASSIVE, RESTART or TRUNCATE). False: readers or a full disk were in
        the way."""
        with self._lock:
            connection = self._open_writer()
            try:
                busy, frames, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            except sqlite3.Error as error:
                failure = self._write_error(error)
                if isinstance(failure, LogFull | LogInUse):
                    return False
                raise failure from error
        if busy or frames != copied:
            return False
        self._pending_bytes = 0
        return True

    def close(self) -> None:
        """Close all connections, the journal copied and removed if nobody else has it open."""
        with self._lock:
            self._closed = True
            # The writer last: only the last connection removes the journal, and a reader cannot.
            while self._idle:
                self._idle.pop().close()
            if self._writer is not None:
                self._writer.close()

    def _reader(self) -> sqlite3.Connection:
        with self._lock:
            self._require_open()
            if self._idle:
                return self._idle.pop()
        assert self.path is not None
        return connect_reader(self.path)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:
            # What was read is good; a connection that met damage on its way is not used again.
            connection.close()
            return
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_READERS_LIMIT:
                self._idle.append(connection)
                return
        connection.close()

    def _open_writer(self) -> sqlite3.Connection:
        self._require_open()
        if self._failure is not None:
            raise LogWriteFailed(f"{self.name}: an earlier write failed: {self._failure}")
        if self._writer is None:
            raise LogOrder(f"{self.name} was opened for reading only")
        return self._writer

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.name} is closed")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._failure = str(error)

    def _write_error(self, error: sqlite3.Error) -> Exception:
        """What an error met while writing means. Unless the write was only turned away, nothing may be written after it
        (*fsync-is-final*)."""
        code = _code(error)
        if code is None:
            return error
        if code == sqlite3.SQLITE_FULL:
            return LogFull(f"{self.name}: {error}; free some space")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return LogInUse(f"{self.name}: {error}")
        self._failure = _text(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return read_error(error, self.name)
        return LogWriteFailed(f"{self.name}: {self._failure}")


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing: it neither writes nor copies the journal when it is closed."""
    return _connect(f"{path.absolute().as_uri()}?mode=ro")


def read_error(error: sqlite3.Error, file: str, index: int | None = None) -> Exception:
    """What an error met while reading means; for the entry at `index`, when it is known which was being read."""
    code = _code(error)
    if code is None:
        return error
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogInUse(f"{file}: {error}")
    if code in _DAMAGE_CODES:
        return LogDamaged(file, index, f"SQLite cannot read it: {_text(error)}", page_in(str(error)))
    return LogError(f"{file}: cannot be read: {_text(error)}")


def placed_error(error: sqlite3.Error, connection: sqlite3.Connection, file: str) -> Exception:
    """The same, with the page: SQLite's own check names one; if it does not, the first describes the whole file."""
    failure = read_error(error, file)
    if not isinstance(failure, LogDamaged) or failure.page is not None:
        return failure
    pages = [damage.page for damage in file_damages(connection, file)]
    return LogDamaged(file, None, failure.what, pages[0] if pages else 1)


def file_damages(connection: sqlite3.Connection, file: str) -> list[LogDamaged]:
    """What SQLite's own check finds in the structure of the file, at most `DAMAGES_LIMIT`. Reads all of it.

    What SQLite names no page for is told of the root page of the table that it cannot begin to read, or else of the
    first, which describes the file.
    """
    try:
        rows = connection.execute(f"PRAGMA quick_check({DAMAGES_LIMIT})").fetchall()
    except sqlite3.Error as error:
        failure = read_error(error, file)
        if isinstance(failure, LogDamaged):
            return [LogDamaged(file, None, failure.what, failure.page or _unreadable_root(connection) or 1)]
        raise failure from error
    lines = [line for [text] in rows for line in text.splitlines()]
    found = [line for line in lines if line != "ok" and not line.startswith("***")]
    return [LogDamaged(file, None, line, page_in(line) or 1) for line in found]


def _unreadable_root(connection: sqlite3.Connection) -> int | None:
    """The root page of the first table of which not even one row can be read; None when there is no such table."""
    try:
        tables = connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        return None
    for name, page in tables:
        try:
            connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchall()
        except sqlite3.DatabaseError:
            return int(page)
    return None


def page_in(text: str) -> int | None:
    """The page that a message of SQLite names, if any."""
    match = _PAGE.search(text)
    return int(match[1]) if match else None


def _connect_writer(path: Path | None) -> sqlite3.Connection:
    connection = _connect(":memory:" if path is None else path.absolute().as_uri())
    for pragma in _WRITER_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    path = unquote(uri.removeprefix("file://").partition("?")[0])
    if Path(path).is_dir():
        raise LogError(f"{path} is a directory, not a log")
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise LogError(f"{path}: cannot be opened: {error}; it must be a file that this user may read") from error
    # Rotten texts come back too, for their checksum to judge; and a byte string that became a text is seen to be one.
    connection.text_factory = _text_of
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _text_of(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for mistakes in the use of its module."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _text(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return str(error) if name is None else f"{error} ({name})"


def _room_bytes(path: Path) -> int:
    """How many bytes more the files of this database may take: free space, or the process's limit for a file."""
    volume = os.statvfs(path.parent)
    room = volume.f_bavail * volume.f_frsize
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY:
        journal = path.with_name(path.name + "-wal")
        used = path.stat().st_size + (journal.stat().st_size if journal.exists() else 0)
        room = min(room, limit - used)
    return room
