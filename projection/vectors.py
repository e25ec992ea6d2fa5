"""The vectors of what can be recalled, written by the fold (MEMORY § 7).

A vector is a function of the record's words and of the embedder, as the full text is of the words. Where making one
needs nobody else and always gives the same, the fold makes it in the transaction that writes the record: the same
history gives the same answers on every node, and no record that is found by words still waits for its vector.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from math import sqrt
from typing import Any, Final, NamedTuple

from ..embedding.embedder import Embedder
from ..embedding.vectors import quantised, says_nothing
from ..memory.record import Record
from . import schema
from .rows import pack, unpack
from .sqlite import write_rows

EMBEDDER: Final = "embedder"
"""Under this name the state says whose vectors the file holds."""
BEFORE_WEIGHT: Final = 0.5
VANISHED_KEPT: Final = 65_536
"""So many removals a reader may have missed before it reads a scope's vectors anew."""

Row = tuple[Any, ...]


class Made(NamedTuple):
    """By whom the vectors of a file were made, and how many components they have. Nobody: none are held."""

    name: str
    width: int

    def __str__(self) -> str:
        return f"{self.name} ({self.width} components)" if self.width else self.name

    @staticmethod
    def by(embedder: Embedder | None) -> Made:
        """Whose vectors that embedder makes."""
        return NOBODY if embedder is None else Made(embedder.name, embedder.width)


NOBODY: Final = Made("lexical", 0)


def made_by(connection: sqlite3.Connection) -> Made:
    """Whose vectors the file holds."""
    row = connection.execute(schema.GET_STATE, (EMBEDDER,)).fetchone()
    return Made._make(unpack(row[0])) if row else NOBODY


def note_maker(connection: sqlite3.Connection, made: Made) -> None:
    """From now on these are whose vectors the file holds."""
    connection.execute(schema.PUT_STATE, (EMBEDDER, pack(made)))


class Said(NamedTuple):
    """What the vector of a record is made of: its own words, and those that it answers or was taken from."""

    own: str
    before: str

    @staticmethod
    def by(record: Record, before: str) -> Said:
        """Of a record with that before it."""
        return Said(f"{record.subject} {record.predicate.replace('_', ' ')} {record.text}", before)


def vectors_of(embedder: Embedder, said: Sequence[Said]) -> list[bytes]:
    """A stored vector of each; `says_nothing` where the record's own words say nothing to the embedder.

    What came before counts `BEFORE_WEIGHT`, as in the full text: an answer lies near its question.
    """
    owns = embedder.embed([each.own for each in said])
    places = [place for place, each in enumerate(said) if each.before and not says_nothing(owns[place])]
    befores = embedder.embed([said[place].before for place in places])
    for place, before in zip(places, befores, strict=True):
        if not says_nothing(before):
            owns[place] = _mixed(owns[place], before)
    return owns


def _mixed(own: bytes, before: bytes) -> bytes:
    one, other = memoryview(own).cast("b").tolist(), memoryview(before).cast("b").tolist()
    share = BEFORE_WEIGHT * sqrt(sum(each * each for each in one) / sum(each * each for each in other))
    return quantised([a + share * b for a, b in zip(one, other, strict=True)])


class VectorChanges:
    """Vectors that leave and vectors that come, of one batch. Without an embedder nothing is noted."""

    is_awaited = False
    """Whether a record waits for its vector: none does where the fold makes them."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._said: list[tuple[Row, Said]] = []
        self._kept: list[Row] = []
        self._gone: list[Row] = []

    def say(self, facets: Row, record: Record, before: str) -> None:
        """The record with these `facets` has new words, or others before it, or can be recalled from now on."""
        if self._embedder is not None:
            self._said.append((facets, Said.by(record, before)))

    def keep(self, facets: Row) -> None:
        """It says what it said; what filters read may be different."""
        if self._embedder is not None:
            self._kept.append(facets)

    def unsay(self, number: int, scope: int) -> None:
        """The record of that number is recalled no more."""
        if self._embedder is not None:
            self._gone.append((scope, number))

    def write(self, connection: sqlite3.Connection, stamp: int) -> None:
        """Out first, then in. `stamp`: the entry that the batch ends with; it tells readers what is new to them."""
        if self._embedder is None or not (self._said or self._kept or self._gone):
            return
        drop_vectors(connection, self._gone)
        write_rows(connection, schema.KEEP_VECTOR, [(stamp, *filtered(each), each[0]) for each in self._kept])
        vectors = vectors_of(self._embedder, [said for _, said in self._said])
        put: list[Row] = []
        empty: list[Row] = []
        for (each, _), vector in zip(self._said, vectors, strict=True):
            if says_nothing(vector):
                empty.append((each[2], each[0]))
            else:
                put.append((each[0], each[2], stamp, *filtered(each), vector))
        drop_vectors(connection, empty)
        write_rows(connection, schema.PUT_VECTOR, put)


def drop_vectors(connection: sqlite3.Connection, gone: Sequence[Row]) -> None:
    """Take vectors out, by scope and number, and let readers know."""
    if gone:
        connection.executemany(schema.PUT_VANISHED, gone)
        connection.executemany(schema.DROP_VECTOR, [(number,) for _, number in gone])
        connection.execute(schema.DROP_VANISHED_BEFORE, (VANISHED_KEPT,))


def filtered(facets: Row) -> Row:
    """Trust, kind, expiry and validity of a record's narrow row: what a search by vectors may have to look at."""
    _, _, _, kind, trust, _, _, _, _, _, _, expiry_us, valid_from_us, valid_to_us, *_ = facets
    return (trust, kind, expiry_us, valid_from_us, valid_to_us)
