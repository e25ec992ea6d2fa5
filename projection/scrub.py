"""Looks through a projection that is in use, one bucket of rows after the other, each in a snapshot of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ..memory.digest import BUCKETS
from .integrity import Finding, Looked, look_at_bucket, look_at_whole
from .reader import Reader

PARTS = BUCKETS
"""A pass looks at so many buckets, and then at the file as a whole."""


class Scrubber:
    """For one thread at a time. A snapshot that stands in the writer's way is revoked like any reader's."""

    def __init__(self, reader: Reader, connection: sqlite3.Connection) -> None:
        self._reader = reader
        self._connection = connection

    def look_at_bucket(self, number: int) -> Looked:
        """All rows of one bucket against their digests, and against what the bucket says. Raises `SnapshotRevoked`."""
        with self._reader.snapshot():
            return look_at_bucket(self._connection, number)

    def look_at_whole(self, rest: Callable[[int], None]) -> list[Finding]:
        """Structure, counts and full text, in one snapshot. `rest` is called with the rows done, to rest in between.

        Raises `SnapshotRevoked` when the writer could not wait so long.
        """
        with self._reader.snapshot():
            return look_at_whole(self._connection, rest)

    def close(self) -> None:
        """Give the connection back."""
        self._reader.close()
