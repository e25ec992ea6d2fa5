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
    """Raise this room's errors in the place of SQLite's own."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise translation(file, error) from error


def translation(file: str, error: sqlite3.DatabaseError) -> Exception:
    """What an error of SQLite means here; the error itself when it means nothing but a mistake in the program."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # missing when Python itself found the mistake
    if code in _DAMAGE:
        return ProjectionDamaged(file, str(error))
    if code in _REVOCATION:
        return SnapshotRevoked(f"{file}: {error}")
    return ProjectionFull(f"{file}: {error}") if code == sqlite3.SQLITE_FULL else error


def is_revocation(error: sqlite3.DatabaseError) -> bool:
    """Whether the snapshot was taken away in which this was read."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _REVOCATION


class OtherEmbedder(ProjectionError):
    """The vectors of the file were made by another embedder than the one that was chosen: they cannot be compared."""

    def __init__(self, file: str, made: str, wanted: str) -> None:
        super().__init__(
            f"{file}: what is searched here was made by the embedder {made}, and {wanted} is chosen; choose that one, "
            "or have everything made anew with `veridical reembed`"
        )
