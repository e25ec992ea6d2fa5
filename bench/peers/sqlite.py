"""One SQLite file that commits fact by fact, each on disk and searchable: what one machine does without a cluster."""

from __future__ import annotations

from pathlib import Path

from texts import Texts

NAME = "SQLite"
TABLES = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE fact (id INTEGER PRIMARY KEY, subject TEXT, predicate TEXT, scope TEXT, text TEXT);
CREATE VIRTUAL TABLE words USING fts5(text, content='');
"""


class SqliteFacts:
    """One connection. Every fact is a transaction of its own, with its row, its words and one fsync."""

    def __init__(self, folder: Path, texts: Texts) -> None:
        import sqlite3  # not before the projection had its chance to set it up (see projection/sqlite.py)

        self._texts = texts
        self._connection = sqlite3.connect(folder / "facts.db", isolation_level=None)
        self._connection.executescript(TABLES)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    async def put(self, number: int) -> None:
        """One fact, on disk and searchable."""
        fact, execute = self._texts.fact(number), self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            "INSERT INTO fact VALUES (?, ?, ?, ?, ?)", (number, fact.subject, fact.predicate, fact.scope, fact.text)
        )
        execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, f"{fact.subject} {fact.text}"))
        execute("COMMIT")
