"""The vectors that a service makes: they come by commands of their own, some time after the record (MEMORY § 7).

What such a vector is nobody can work out again, so that it is made once, by whoever leads, and replicated as a body
that can be erased. Until then its record stands in the queue `unembedded` and is found by words.

A vector lives as long as its record goes on saying the same. Whether it does is read from the versions that ended, not
from rows before and after a batch: so batches leave no trace, and all nodes hold the same vectors at the same entry.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..embedding.embedder import Embedder
from ..embedding.vectors import says_nothing
from ..memory import events
from ..memory.record import PastVersion, Record, Version
from ..memory.state import Embedding, Workspace
from . import schema
from .sqlite import write_rows
from .vectors import Row, Said, drop_vectors, filtered

QUIET: Final = frozenset({
    events.CORROBORATED, events.REPEATED, events.RESPELLED, events.ENDORSED, events.CONTRADICTED, events.PROMOTED,
    events.DEMOTED, events.ANNOTATED, events.FLAGGED, events.PINNED, events.UNPINNED, events.RECOGNISED,
    events.CONFIRMED, events.DISMISSED, events.ATTESTED, events.FIXED,
})  # fmt: skip
"""Events after which a record says what it said: the same value, though it may be spelled otherwise."""


class Unembedded(NamedTuple):
    """A record that waits for its vector: its row number, id, value and what the vector is to be made of."""

    number: int
    id: bytes
    value_digest: bytes
    text: str

    @staticmethod
    def by(number: int, record: Record) -> Unembedded:
        """A record's own words. Those around it are left to the full text: a service is paid by the word, and every
        turn would be asked for twice.
        """
        return Unembedded(number, record.id, record.value_digest, Said.by(record, "").own)


class Waiting(NamedTuple):
    """How many records have their vector by now, and how many wait for it."""

    embedded: int
    unembedded: int


class ServedVectors:
    """What one batch does to the vectors of a service, with the interface of `vectors.VectorChanges`.

    `first_new` is the number that the batch's first new record gets, `facets_of` gives the narrow row of a record that
    the batch leaves as it is, None where it cannot be recalled.
    """

    def __init__(
        self, embedder: Embedder, workspace: Workspace, first_new: int, facets_of: Callable[[bytes], Row | None]
    ) -> None:
        self._embeddings = {id: one for id, one in workspace.embeddings.items() if _is_by(embedder, one)}
        self._broken = _broken(workspace.versions)
        self._first_new = first_new
        self._facets_of = facets_of
        self._rows: dict[bytes, Row] = {}
        self._gone: dict[int, int] = {}
        self.is_awaited = False

    def say(self, facets: Row, record: Record, before: str) -> None:
        """The record with these `facets` has new words, or others around it, or can be recalled from now on."""
        del record, before
        self._rows[facets[1]] = facets

    def keep(self, facets: Row) -> None:
        """It says what it said; what filters read may be different."""
        self._rows[facets[1]] = facets

    def unsay(self, number: int, scope: int) -> None:
        """The record of that number is recalled no more, or says something else."""
        self._gone[number] = scope

    def write(self, connection: sqlite3.Connection, stamp: int) -> None:
        """Out first, then in. `stamp`: the entry that the batch ends with."""
        for id in self._embeddings:
            facets = self._rows.get(id) or self._facets_of(id)
            if facets is not None:
                self._rows[id] = facets
        arrived: list[tuple[Row, bytes]] = []
        kept: list[Row] = []
        lost: list[Row] = []
        for id, facets in self._rows.items():
            vector = self._vector_of(id)
            if vector is not None:
                arrived.append((facets, vector))
            elif facets[0] < self._first_new and id not in self._broken:
                kept.append(facets)
            else:
                lost.append(facets)
            self._gone.pop(facets[0], None)
        self._write_queue(connection, [facets for facets, _ in arrived], lost)
        empty = [facets for facets, vector in arrived if says_nothing(vector)]
        old = [_place(facets) for facets in lost + empty if facets[0] < self._first_new]
        drop_vectors(connection, [*((scope, number) for number, scope in self._gone.items()), *old])
        write_rows(connection, schema.KEEP_VECTOR, [(stamp, *filtered(each), each[0]) for each in kept])
        telling = [(facets, vector) for facets, vector in arrived if not says_nothing(vector)]
        write_rows(
            connection, schema.PUT_VECTOR, [(row[0], row[2], stamp, *filtered(row), vector) for row, vector in telling]
        )

    def _vector_of(self, id: bytes) -> bytes | None:
        """The vector that came in this batch, unless the record has said something else since."""
        embedding, broken = self._embeddings.get(id), self._broken.get(id)
        if embedding is None or (broken is not None and broken > embedding.at):
            return None
        return embedding.vector

    def _write_queue(self, connection: sqlite3.Connection, arrived: list[Row], lost: list[Row]) -> None:
        done = [(number,) for number in self._gone] + [(facets[0],) for facets in arrived]
        write_rows(connection, schema.DROP_UNEMBEDDED, done)
        write_rows(connection, schema.QUEUE_UNEMBEDDED, [(facets[0],) for facets in lost])
        self.is_awaited = bool(lost)


def _is_by(embedder: Embedder, embedding: Embedding) -> bool:
    return embedding.embedder == embedder.name and len(embedding.vector) in (0, embedder.width)


def _broken(versions: list[PastVersion]) -> dict[bytes, Version]:
    """Where each record last began to say something else, or to be held or recalled anew."""
    return {past.record.id: past.until for past in versions if past.ended_by not in QUIET}


def _place(facets: Row) -> tuple[Any, Any]:
    return facets[2], facets[0]
