"""Connections to SQLite, with the settings that the projection relies on.

SQLite counts its memory under one process-wide mutex, which serialises readers: without that count two reader threads
answer 2.6 times as many full-text queries (measured at 100 000 rows). The count can only be switched off before the
library starts, so this module does it before it imports `sqlite3`; when something imported `sqlite3` earlier, the
setting is refused by the library, nothing breaks, and readers are slower.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

SQLITE_CONFIG_MEMSTATUS = 9
SQLITE_OK = 0


def _without_memory_statistics() -> bool:
    """Switch the memory count off in the very library that Python's `sqlite3` is linked to."""
    if "_sqlite3" in sys.modules or sys.platform == "win32":
        return False
    found = importlib.util.find_spec("_sqlite3")
    origin = found.origin if found else None
    try:
        library = ctypes.CDLL(None if origin in (None, "built-in") else origin)
        configure = library.sqlite3_config
    except (OSError, AttributeError):  # linked statically and hidden: the default stays
        return False
    configure.argtypes = [ctypes.c_int]  # the rest is variadic, which some processors pass differently
    configure.restype = ctypes.c_int
    return bool(configure(SQLITE_CONFIG_MEMSTATUS, ctypes.c_int(0)) == SQLITE_OK)


MEMORY_STATISTICS_OFF = _without_memory_statistics()

import sqlite3  # noqa: E402  (only after the configuration above)

from .errors import ProjectionError  # noqa: E402

MEMORY = ":memory:"
WRITER_CACHE_KIB = 4 * 1024
"""Small on purpose. When a page of a tree was split, SQLite walks its whole page cache at the commit (for a moment it
gave a page a number beyond the end): with 64 MiB that is 0.4 ms for every sixth fact that comes alone. What the cache
does not hold, the system's does."""
READER_CACHE_KIB = 16 * 1024
MAPPED_BYTES = 1 << 30
BUSY_TIMEOUT_MS = 10_000
STATEMENTS_KEPT = 256
CHECKPOINT_PAGES = 4_000
WAL_BYTES_LIMIT = 64 << 20
CHECKPOINT_WAIT_MS = 100


class Database:
    """One SQLite database: a file in WAL mode, or, for the path `:memory:`, one that lives until `close`."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.in_memory = self.path == MEMORY
        self._uri = _memory_uri() if self.in_memory else Path(path).absolute().as_uri()
        self._wal_path = self.path + "-wal"
        self._anchor = self._connect() if self.in_memory else None

    @property
    def exists(self) -> bool:
        """Whether there is anything to open."""
        return not self.in_memory and Path(self.path).exists()

    def writer(self) -> sqlite3.Connection:
        """The one connection that writes. `synchronous=NORMAL`: what a crash takes is folded again from the log."""
        connection = self._connect()
        if not self.in_memory:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")  # what is taken out is overwritten, also where pages become free
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES_LIMIT}")
        return connection

    def reader(self) -> sqlite3.Connection:
        """A connection that cannot write."""
        connection = self._connect()
        connection.execute("PRAGMA query_only=ON")
        connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")
        connection.execute(f"PRAGMA mmap_size={MAPPED_BYTES}")
        return connection

    def inspector(self) -> sqlite3.Connection:
        """A connection for checks: it writes to temporary tables only, yet some checks keep the writer waiting."""
        return self._connect()

    @property
    def wal_bytes(self) -> int:
        """How large the write-ahead log is now."""
        if self.in_memory:
            return 0
        try:
            return os.stat(self._wal_path).st_size  # noqa: PTH116 (asked after every batch: a tenth of what a Path costs)
        except FileNotFoundError:
            return 0

    def remove(self) -> None:
        """Delete the file with everything beside it; nobody may be connected."""
        if not self.in_memory:
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(self.path + ending).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of a database in memory."""
        if self._anchor is not None:
            self._anchor.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(
                self._uri,
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=BUSY_TIMEOUT_MS / 1000,
                cached_statements=STATEMENTS_KEPT,
            )
        except sqlite3.OperationalError as error:
            raise ProjectionError(
                f"{self.path} cannot be opened ({error}): it must be a file that this user may read and write; it can "
                "be moved away, and is folded again from the log"
            ) from error


def _memory_uri() -> str:
    return f"file:/veridical-projection-{next(_memory_databases)}?vfs=memdb"


_memory_databases = itertools.count(1)


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN") -> Generator[None]:
    """All of what is done inside, or nothing."""
    connection.execute(begin)
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def write_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Carry out `statement` for each row; without rows nothing is prepared: a lone fact changes few tables."""
    if rows:
        connection.executemany(statement, rows)
