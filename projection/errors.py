"""What can go wrong with a projection. None of it loses anything: history is in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager


class ProjectionError(Exception):
    """Anything that keeps a projection from answering or from folding on."""


class ProjectionDamaged(ProjectionError):
    """The file does not hold what was written. Fold it again: `Projection.rebuild`. `what` says where and why."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file}: {what}")
        self.file = file
        self.what = what


class ProjectionFull(ProjectionError):
    """There is no room on the disk. The batch left no trace; it may be folded again once there is."""


class SnapshotRevoked(ProjectionError):
    """The read held its state for so long that the write-ahead log could not be emptied. Ask again."""


class FoldOrder(ProjectionError):
    """The entries do not follow what was folded: a bug of the caller, or the projection of another history."""


_REVOCATION = frozenset({sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_ABORT})
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@contextmanager
def translated(file: str) -> Generator[None]:
    """Raise `ProjectionDamaged` or `ProjectionFull` in the place of SQLite's own words for them."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)  # missing when Python itself found the mistake
        if code is not None and code & 0xFF in _REVOCATION:
            raise SnapshotRevoked(f"{file}: {error}") from error
        if code is not None and code & 0xFF in _DAMAGE:
            raise ProjectionDamaged(file, str(error)) from error
        if code is not None and code & 0xFF == sqlite3.SQLITE_FULL:
            raise ProjectionFull(f"{file}: {error}") from error
        raise
