"""What can go wrong with a stored log, told apart by what its owner can do about it."""

from __future__ import annotations


class LogError(Exception):
    """Anything that keeps a stored log from doing what was asked."""


class LogDamaged(LogError):
    """Bytes on disk are not what was written. Nothing was removed: refetch the entry from a peer, or replace the node.

    `file` is the file's name, `index` the entry concerned (None when it is none in particular), `page` SQLite's page.
    """

    def __init__(self, file: str, index: int | None, what: str, page: int | None = None) -> None:
        super().__init__(file, index, what, page)
        self.file = file
        self.index = index
        self.what = what
        self.page = page

    def __str__(self) -> str:
        """One line that names file, page and entry as far as they are known."""
        page = "" if self.page is None else f", page {self.page}"
        entry = "" if self.index is None else f", entry {self.index}"
        return f"{self.file}{page}{entry}: {self.what}"


class LogWriteFailed(LogError):
    """The disk failed a write or an fsync (*fsync-is-final*): what it holds is unknown, so the process must end."""


class LogFull(LogError):
    """There is no room on the disk. Nothing of the write was stored; it may be tried again once there is."""


class LogOrder(LogError):
    """The write does not fit the log it is for: a bug of the caller, nothing was stored."""


class LogForeign(LogError):
    """The file is no log, is one of another format, or belongs to another cluster or node. It was left as it is."""


class LogInUse(LogError):
    """Another process or object writes this log; only one may."""


class EraseIncomplete(LogError):
    """The bodies are gone from the log, but a reader still holds them in the journal: erase them again."""
