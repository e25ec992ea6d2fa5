"""What was held before, found again: past versions as narrow rows with their words, and reading as of a moment.

Two times (MEMORY § 4): `as_of` asks what was held at a recorded time, `valid_at` which of the values held was true at a
time of the world. Whatever moment is asked about, what was forgotten or rejected since is in no answer; a record's
`history` keeps it, and a single record that is asked for by its id is answered as it was then.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..memory import events
from ..memory.record import CANDIDATE, EPISODE, VERIFIED, PastVersion, Record
from ..memory.scope import scope_matches
from . import schema
from .answers import Filters
from .rows import TRUST_NUMBERS, is_searchable, past_of, searched_text
from .schema import EVER_SINCE, FOREVER, FULL_TEXT_WEIGHTS
from .sqlite import write_rows

FORMER: Final = "former_words"
LANE: Final = "former words"
FORGETTING: Final = frozenset({events.FORGOTTEN, events.ERASED, events.WITHDRAWN, events.UNSAID})
"""What ends the life of a record so that no question about the past brings it back."""
ONLY_WORDS: Final = "as of another moment it is searched by words only"

Row = tuple[Any, ...]

_BM25: Final = f"bm25({FORMER}, {', '.join(map(str, FULL_TEXT_WEIGHTS))})"
_FOUND: Final = f"""
WITH hit AS MATERIALIZED (
    SELECT former.id AS id, former.trust AS trust, {_BM25} AS score
    FROM {FORMER} JOIN former ON former.number = {FORMER}.rowid
    WHERE {FORMER} MATCH ? AND {{conditions}}
)
SELECT id, score FROM (
    SELECT * FROM (SELECT id, score FROM hit WHERE trust = {TRUST_NUMBERS[VERIFIED]} ORDER BY score, id LIMIT ?)
    UNION ALL
    SELECT * FROM (SELECT id, score FROM hit WHERE trust = {TRUST_NUMBERS[CANDIDATE]} ORDER BY score, id LIMIT ?)
)
"""
_IDS: Final = """
SELECT id FROM (SELECT id FROM record WHERE id > ?1 UNION SELECT id FROM past WHERE id > ?1) ORDER BY id LIMIT ?2
"""
_LAST_FIRST: Final = "SELECT body FROM past WHERE id = ? ORDER BY until_index DESC, until_place DESC, ordinal DESC"


class Moment(NamedTuple):
    """When is asked about. None: now, and whatever is valid."""

    as_of_us: int | None
    valid_at_us: int | None

    @staticmethod
    def of(filters: Filters, now_us: int) -> Moment | None:
        """The moment that a query asks about; None for the present. A time to come is the present."""
        as_of_us = filters.as_of_us
        if as_of_us is not None and as_of_us >= now_us:
            as_of_us = None
        if as_of_us is None and filters.valid_at_us is None:
            return None
        return Moment(as_of_us, filters.valid_at_us)


class FormerChanges:
    """Past versions on their way into the index of what was held before."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._words: list[tuple[str, ...]] = []

    def add(self, past: PastVersion, ordinal: int, scope: int) -> None:
        """That version ended, as the `ordinal`th of its record with that command."""
        if may_be_found(past):
            self._rows.append(former_row(past, ordinal, scope))
            self._words.append(searched_text(past.record, scope))

    def write(self, connection: sqlite3.Connection) -> None:
        """Write them, each under the next number."""
        if self._rows:
            (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM former").fetchone()
            numbered = enumerate(zip(self._rows, self._words, strict=True), last + 1)
            rows, words = zip(*(((number, *row), (number, *said)) for number, (row, said) in numbered), strict=True)
            write_rows(connection, schema.PUT_FORMER, rows)
            write_rows(connection, schema.PUT_FORMER_WORDS, words)


def may_be_found(past: PastVersion) -> bool:
    """Whether questions about the past may lead to that version."""
    return not past.record.is_erased and is_searchable(past.record)


def former_row(past: PastVersion, ordinal: int, scope: int) -> Row:
    """The narrow row of a past version without its number, in the order of the table's columns."""
    record = past.record
    return (
        record.id, past.until.index, past.until.place, ordinal, scope, record.kind, TRUST_NUMBERS[record.trust],
        record.updated_at_us, past.until_us,
        FOREVER if record.expiry_us is None else record.expiry_us,
        EVER_SINCE if record.valid_from_us is None else record.valid_from_us,
        FOREVER if record.valid_to_us is None else record.valid_to_us,
    )  # fmt: skip


def erase_former(connection: sqlite3.Connection, id: bytes) -> None:
    """Leave nothing of what was held under that id."""
    connection.execute(f"DELETE FROM {FORMER} WHERE rowid IN (SELECT number FROM former WHERE id = ?)", (id,))
    connection.execute("DELETE FROM former WHERE id = ?", (id,))


def former_hits(
    connection: sqlite3.Connection, expression: str, moment: Moment, filters: Filters, scopes: Sequence[int] | None,
    slice: int,
) -> dict[bytes, float]:  # fmt: skip
    """Ids of records of which a version that counts at that moment has those words, with the best score of each."""
    parts: list[tuple[str, object]] = []
    if moment.as_of_us is not None:
        parts.append(("former.from_us <= ?", moment.as_of_us))
    if moment.valid_at_us is None:
        parts.append(("former.until_us > ?", moment.as_of_us))
    else:
        parts.append(("former.valid_from_us <= ?", moment.valid_at_us))
        parts.append(("former.valid_to_us > ?", moment.valid_at_us))
    if scopes is not None:
        parts.append(("former.scope IN (SELECT value FROM json_each(?))", json.dumps(list(scopes))))
    parts.append(("former.kind != ?", EPISODE) if filters.kind is None else ("former.kind = ?", filters.kind))
    if filters.trust is not None:
        parts.append(("former.trust = ?", TRUST_NUMBERS.get(filters.trust, -1)))
    sql = _FOUND.format(conditions=" AND ".join(part for part, _ in parts))
    found: dict[bytes, float] = {}
    for id, score in connection.execute(sql, (expression, *(value for _, value in parts), slice, slice)):
        found[id] = max(found.get(id, 0.0), -score)
    return found


def ids_after(connection: sqlite3.Connection, after: bytes, limit: int) -> list[bytes]:
    """The next ids under which anything is or was held."""
    return [id for (id,) in connection.execute(_IDS, (after, limit))]


def is_taken_back(connection: sqlite3.Connection, record: Record, present: Record | None) -> bool:
    """Whether the life of a record that this version belongs to has ended by forgetting; a prune is none.

    What was forgotten and came back by undo lives on; what was forgotten and stated anew has begun another life.
    """
    if present is not None and present.created_at_us == record.created_at_us:
        return False
    for (body,) in connection.execute(_LAST_FIRST, (record.id,)):
        past = past_of(body)
        if past.record.created_at_us == record.created_at_us:
            return past.ended_by in FORGETTING
    return False


def passes(record: Record, filters: Filters) -> bool:
    """Whether a record as it was then is one that is asked for."""
    return (
        (filters.kind is None or record.kind == filters.kind)
        and (filters.trust is None or record.trust == filters.trust)
        and (filters.scopes is None or any(scope_matches(pattern, record.scope) for pattern in filters.scopes))
    )
