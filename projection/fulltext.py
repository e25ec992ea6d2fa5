"""The full-text index: what a batch changes in it, and whether it still says what the records say.

The index holds no text of its own (`content=''`): to take a row out, FTS5 is given the words that were put in, which
are a pure function of the record. A sample of one record in 64 is indexed once more by the same tokenizer; there it
costs next to nothing to ask how common a word is.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from .schema import FULL_TEXT_COLUMNS, SAMPLE_ONE_IN
from .sqlite import write_rows

WORDS: Final = "words"
SAMPLE: Final = "sample"

MERGED_PAGES: Final = 256
"""So much is merged in one go: some milliseconds, in which nothing else is written."""

Words = tuple[int | str, ...]

_COLUMNS: Final = ", ".join(FULL_TEXT_COLUMNS)
_MARKS: Final = ", ".join("?" * (1 + len(FULL_TEXT_COLUMNS)))
_PUT: Final = {table: f"INSERT INTO {table}(rowid, {_COLUMNS}) VALUES ({_MARKS})" for table in (WORDS, SAMPLE)}
_DROP: Final = {
    table: f"INSERT INTO {table}({table}, rowid, {_COLUMNS}) VALUES ('delete', {_MARKS})" for table in (WORDS, SAMPLE)
}


def is_sampled(id: bytes) -> bool:
    """Whether the record of that id is in the sample: ids are hashes, so one in 64 is."""
    return id[-1] % SAMPLE_ONE_IN == 0


class WordChanges:
    """Rows that leave and rows that enter the index. `balance` is by how many it grows."""

    def __init__(self) -> None:
        self.balance = 0
        self._removed: dict[str, list[Words]] = {WORDS: [], SAMPLE: []}
        self._added: dict[str, list[Words]] = {WORDS: [], SAMPLE: []}

    def add(self, id: bytes, number: int, words: tuple[str, ...]) -> None:
        """A record becomes searchable under its number."""
        self.balance += 1
        self._note(self._added, id, (number, *words))

    def remove(self, id: bytes, number: int, words: tuple[str, ...]) -> None:
        """A record ceases to be searchable; `words` are those it was added with."""
        self.balance -= 1
        self._note(self._removed, id, (number, *words))

    def write(self, connection: sqlite3.Connection) -> None:
        """Out first, then in, each in ascending order: FTS5 closes a segment whenever row numbers go back."""
        for table, rows in self._removed.items():
            write_rows(connection, _DROP[table], sorted(rows))
        for table, rows in self._added.items():
            write_rows(connection, _PUT[table], sorted(rows))

    @staticmethod
    def _note(rows: dict[str, list[Words]], id: bytes, row: Words) -> None:
        rows[WORDS].append(row)
        if is_sampled(id):
            rows[SAMPLE].append(row)


def merge(connection: sqlite3.Connection, table: str, *, begin: bool) -> bool:
    """Merge some pages of all segments of an index into one; whether nothing was left to do."""
    before = connection.total_changes
    pages = -MERGED_PAGES if begin else MERGED_PAGES
    connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before < 2  # as FTS5 says: the statement itself is one change
