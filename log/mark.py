"""The mark: how many writes this log has acknowledged, kept in a small file beside it.

SQLite recovers its journal up to the first page that fails its checksum and drops what follows. After a power cut that
is right: the rest was never acknowledged. But when an acknowledged page has rotted in the journal, the same rule would
drop acknowledged writes without a word. The mark tells the two apart: it is advanced only after a write was fsynced, so
a log that holds fewer writes than its mark has lost some. It is not fsynced itself: a mark that is behind is harmless.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet
from zlib import crc32

from .errors import LogDamaged, LogInUse

_LAYOUT = struct.Struct(">QI")


def _encoded(writes: int) -> bytes:
    return _LAYOUT.pack(writes, crc32(writes.to_bytes(8, "big")))


class Mark:
    """The mark of one log, held by its writer: a second writer is turned away with `LogInUse`."""

    __slots__ = ("__weakref__", "_descriptor", "writes")

    def __init__(self, descriptor: int, writes: int) -> None:
        self._descriptor = descriptor
        self.writes = writes
        _held.add(self)

    @staticmethod
    def path_beside(log: Path) -> Path:
        """Where the mark of that log lies."""
        return log.with_name(log.name + "-mark")

    @staticmethod
    def hold(log: Path) -> Mark:
        """Hold the mark of the log at that path, made if there is none. Raises `LogInUse`, `LogDamaged`, `OSError`."""
        path = Mark.path_beside(log)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, log)
            raw = os.pread(descriptor, _LAYOUT.size + 1, 0)
            mark = Mark(descriptor, _decoded(raw, path))
            if not raw:
                mark.advance(0)
                mark.sync()
                sync_directory(log.parent)
        except BaseException:
            os.close(descriptor)
            raise
        return mark

    @staticmethod
    def peek(log: Path) -> int:
        """The writes acknowledged by the log at that path, 0 without a mark. Raises `LogDamaged`, `OSError`."""
        path = Mark.path_beside(log)
        return _decoded(path.read_bytes(), path) if path.exists() else 0

    def advance(self, writes: int) -> None:
        """That many writes are durable now. A disk that does not take it leaves the mark behind, which is harmless."""
        self.writes = writes
        with suppress(OSError):
            os.pwrite(self._descriptor, _encoded(writes), 0)

    def sync(self) -> None:
        """Make the mark itself durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let another writer hold it. Closing twice is allowed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make the names in that directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, log: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LogInUse(f"{log}: another process or object writes this log") from error


def _decoded(raw: bytes, path: Path) -> int:
    if not raw:
        return 0
    if len(raw) == _LAYOUT.size:
        writes, checksum = _LAYOUT.unpack(raw)
        if checksum == crc32(raw[:8]):
            return writes
    raise LogDamaged(path.name, None, "the count of acknowledged writes is unreadable")


_held: WeakSet[Mark] = WeakSet()


def _let_go_in_child() -> None:
    """A forked child inherits the descriptor, and with it the lock: it must not outlive the parent's use of it."""
    for mark in list(_held):
        mark.close()


os.register_at_fork(after_in_child=_let_go_in_child)
