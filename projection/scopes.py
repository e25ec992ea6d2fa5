"""Scopes by number: filters and the full-text index name a scope by a small integer, and each knows its records."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import NamedTuple

from . import schema

SCOPES_KEPT_LIMIT = 65_536


class ScopeCount(NamedTuple):
    """A scope, its number here (another node may number it otherwise), and how many records it holds."""

    number: int
    name: str
    records: int


class ScopeNumbers:
    """The scopes that the writer has met. Changes wait here until `changed` is written in the batch's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, ScopeCount] = {}
        self._changes: Counter[str] = Counter()
        self._next = 1 + connection.execute("SELECT coalesce(max(number), 0) FROM scope").fetchone()[0]

    def number(self, name: str) -> int:
        """The number of that scope; a scope never met gets the next one."""
        return self._scope(name).number

    def count(self, name: str, change: int) -> int:
        """Records came (positive) or went. Returns the number of that scope, as `number`."""
        self._changes[name] += change
        known = self._known.get(name)
        return self._scope(name).number if known is None else known.number

    def changed(self) -> list[ScopeCount]:
        """The rows to write; forgotten here once handed out."""
        rows = [self._changed(name, change) for name, change in self._changes.items()]
        self._changes.clear()
        if len(self._known) > SCOPES_KEPT_LIMIT:
            self._known.clear()
        return rows

    def _changed(self, name: str, change: int) -> ScopeCount:
        scope = self._scope(name)
        self._known[name] = scope._replace(records=scope.records + change)
        return self._known[name]

    def _scope(self, name: str) -> ScopeCount:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._stored(name) or self._new(name)
        return known

    def _stored(self, name: str) -> ScopeCount | None:
        row = self._connection.execute(schema.GET_SCOPE, (name,)).fetchone()
        return ScopeCount(*row) if row else None

    def _new(self, name: str) -> ScopeCount:
        self._next += 1
        return ScopeCount(self._next - 1, name, 0)
