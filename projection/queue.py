"""The review queue: what waits for a reviewer in some scopes, found by index, a page at a time.

First come the records whose value is contended, by id: somebody disagrees with what is believed. Then the candidates,
scope by scope in the order of their names, so that a reviewer stays with one subject; within a scope the most supported
first, for they change the most when they are verified, and of equals the oldest. A page costs what it shows, however
much is held elsewhere.

A cursor names the last record that was shown and where it stood. Row numbers, by which equals are ordered, differ from
node to node and are looked up anew; where the record is gone meanwhile, its group begins anew. What changes between two
pages may be shown twice, or not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from ..memory.errors import Invalid
from ..memory.record import Record
from . import schema
from .rows import contenders_of, pack, record_of, unpack
from .schema import FOREVER

PAGE_BYTES: Final = 4 << 20
"""A page ends with the record by which it grows over this."""


class Place(NamedTuple):
    """Where a page ended: behind that contended record, or behind that candidate of a scope with so much support."""

    id: bytes = b""
    scope: str = ""
    support: int = 0

    @property
    def cursor(self) -> bytes:
        """As callers hand it back."""
        return pack(tuple(self))

    @staticmethod
    def of(cursor: bytes) -> Place:
        """The place that a cursor names, the beginning for an empty one. Raises `Invalid`."""
        if not cursor:
            return Place()
        try:
            match unpack(cursor):
                case (bytes(id), str(scope), int(support)) if abs(support) <= FOREVER:
                    return Place(id, scope, support)
                case _:
                    pass
        except ValueError:
            pass
        raise Invalid("after", "is not the cursor of a page of this queue")


class Waiting(NamedTuple):
    """A record in the queue, what contends with it, and how to go on behind it."""

    record: Record
    contenders: tuple[Record, ...]
    place: Place


class Queue:
    """The queue in the scopes of these numbers, or in all of them, as it is at `now_us`. Inside one snapshot."""

    def __init__(self, connection: sqlite3.Connection, scopes: list[int] | None, now_us: int) -> None:
        self._connection = connection
        self._numbers = None if scopes is None else json.dumps(scopes)
        self._within = "1" if scopes is None else "+scope.number IN (SELECT value FROM json_each(:numbers))"
        self._now_us = now_us

    def page(self, after: bytes, limit: int) -> tuple[list[Waiting], bytes | None]:
        """The next records, at most `limit`, and the cursor to go on with; None when these were the last."""
        found: list[Waiting] = []
        size = 0
        for waiting in self._after(Place.of(after), limit + 1):
            if len(found) == limit or size > PAGE_BYTES:
                return found, found[-1].place.cursor
            found.append(waiting)
            size += sum(len(pack(row)) for row in (waiting.record, *waiting.contenders))
        return found, None

    def _after(self, place: Place, limit: int) -> Iterator[Waiting]:
        if not place.scope:
            yield from self._contended(place.id, limit)
            yield from self._candidates(_SCOPES_AFTER, limit, scope="")
            return
        number = self._connection.execute(schema.GET_NUMBER, (place.id,)).fetchone()
        here = {"scope": place.scope, "support": place.support, "number": number[0] if number else 0}
        parts: tuple[Callable[[], Iterator[Waiting]], ...] = (
            lambda: self._candidates(_EQUALS_AFTER, limit, **here),
            lambda: self._candidates(_LESS_SUPPORTED, limit, **here),
            lambda: self._candidates(_SCOPES_AFTER, limit, scope=place.scope),
        )
        yield from chain.from_iterable(part() for part in parts)

    def _contended(self, after: bytes, limit: int) -> Iterator[Waiting]:
        rows = self._asked(_CONTENDED, limit, after=after)
        for contenders, body in rows:
            record = record_of(body)
            yield Waiting(record, contenders_of(contenders), Place(record.id))

    def _candidates(self, condition: str, limit: int, **parameters: Any) -> Iterator[Waiting]:
        for (body,) in self._asked(_CANDIDATES.format(condition=condition), limit, **parameters):
            record = record_of(body)
            yield Waiting(record, (), Place(record.id, record.scope, record.support))

    def _asked(self, statement: str, limit: int, **parameters: Any) -> list[Any]:
        parameters |= {"now_us": self._now_us, "limit": limit}
        if self._numbers is not None:
            parameters["numbers"] = self._numbers
        return self._connection.execute(statement.replace("{within}", self._within), parameters).fetchall()


# The order of the joins is that of the answer, so that nothing is sorted, and the limit ends the work. The unary plus
# in `within` keeps scopes from being looked up by number, which is not the order of their names.
_CONTENDED: Final = """
SELECT contender.body, content.body
FROM contender CROSS JOIN record ON record.id = contender.id CROSS JOIN scope ON scope.number = record.scope
CROSS JOIN content ON content.number = record.number
WHERE contender.id > :after AND {within} AND record.expiry_us > :now_us
ORDER BY contender.id LIMIT :limit
"""
_CANDIDATES: Final = """
SELECT content.body
FROM scope CROSS JOIN record INDEXED BY record_waiting ON record.scope = scope.number
CROSS JOIN content ON content.number = record.number
WHERE record.trust = 0 AND record.searchable = 1 AND record.kind != 'episode' AND {condition} AND {{within}}
AND record.expiry_us > :now_us
AND NOT EXISTS (SELECT 1 FROM contender WHERE contender.id = record.id)
ORDER BY scope.name, record.support DESC, record.number LIMIT :limit
"""
_EQUALS_AFTER: Final = "scope.name = :scope AND record.support = :support AND record.number > :number"
_LESS_SUPPORTED: Final = "scope.name = :scope AND record.support < :support"
_SCOPES_AFTER: Final = "scope.name > :scope AND scope.records > 0"
