"""Whether the file still holds what was folded: pages, full text, counts, and every row against its digest.

SQLite's own checks do not see a hand edit, nor a full-text row that nobody took out. So every row's digest is computed
again, what filters read is derived again from the record, and the words are indexed again beside the file and compared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

from ..embedding.choice import index_embedder
from ..embedding.vectors import says_nothing
from ..memory.digest import (
    BUCKETS,
    DIGEST_BYTES,
    bucket,
    contender_digest,
    receipt_digest,
    rejection_digest,
    retraction_digest,
)  # fmt: skip
from . import schema
from .context import context_of
from .errors import is_revocation
from .former import former_row, may_be_found
from .fulltext import SAMPLE, WORDS, WordChanges
from .rows import contenders_of, facets, is_searchable, past_of, record_of, searched_text, token_of
from .state import StoredState
from .vectors import Said, made_by, vectors_of

PAGE_FINDINGS_LIMIT: Final = 100
RECORDS_AT_ONCE: Final = 1_000


class Finding(NamedTuple):
    """Something that is not as it was written: in which table (or `file`: page), and what. `id`: of which record."""

    where: str
    what: str
    id: bytes | None = None


def findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    """All that is wrong, as it is found. `connection` may write to its temporary tables; it changes nothing else.

    Runs in the caller's transaction: about two seconds for each 100 000 records.
    """
    for check in (_pages, _full_text_structure, _counts, _records, _vectors, _formers, _derivations, _buckets, _words):
        try:
            yield from check(connection)
        except sqlite3.DatabaseError as error:
            yield Finding(check.__name__.strip("_"), str(error))


def _pages(connection: sqlite3.Connection) -> Iterator[Finding]:
    for (line,) in connection.execute(f"PRAGMA quick_check({PAGE_FINDINGS_LIMIT})"):
        if line != "ok":
            yield Finding("file", line)


def _full_text_structure(connection: sqlite3.Connection) -> Iterator[Finding]:
    for table in (WORDS, SAMPLE):
        try:
            connection.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            yield Finding(table, str(error))


def _counts(connection: sqlite3.Connection) -> Iterator[Finding]:
    def count(sql: str) -> int:
        return connection.execute(f"SELECT count(*) FROM {sql}").fetchone()[0]

    searchable = count("record WHERE searchable")
    expected = {
        "content": (count("content"), count("record")),
        WORDS: (count("words_docsize"), searchable),
        "state": (StoredState(connection, "").standing().searchable, searchable),
        "scope": (connection.execute("SELECT coalesce(sum(records), 0) FROM scope").fetchone()[0], count("record")),
    }
    for table, (found, wanted) in expected.items():
        if found != wanted:
            yield Finding(table, f"{found} rows where there should be {wanted}")


class Ids(NamedTuple):
    """The rows whose id, key or digest lies between these, both included."""

    first: bytes
    last: bytes


_LONGER_THAN_ANY_ID: Final = 64
_MALFORMED: Final = (ValueError, TypeError)
"""What reading a body raises that is no row at all."""


def ids_of(number: int) -> Ids:
    """The rows of one bucket."""
    return Ids(bytes([number]), bytes([number]) + b"\xff" * _LONGER_THAN_ANY_ID)


class Looked(NamedTuple):
    """What a look at a part of the file came to: how many rows it read, and what was wrong."""

    rows: int
    findings: list[Finding]


def look_at_bucket(connection: sqlite3.Connection, number: int) -> Looked:
    """Compute the digests of all rows of one bucket again: each by itself, and their sum."""
    within, found, total, rows = ids_of(number), list[Finding](), 0, 0
    try:
        found += _records(connection, within)
        found += _vectors(connection, within)
        for _, digest in _digests(connection, within):
            total ^= int.from_bytes(digest, "big")
            rows += 1
        found += _bucket(number, StoredState(connection, "").bucket_digests()[number], total)
    except sqlite3.DatabaseError as error:
        found.append(Finding("file", str(error)))
    except _MALFORMED as error:
        found.append(Finding("content", f"a row of bucket {number} is malformed: {error}"))
    return Looked(rows, found)


def look_at_whole(connection: sqlite3.Connection, rest: Callable[[int], None]) -> list[Finding]:
    """What can only be looked at as a whole: structure, numbers of rows, what rests on what, and the full text.

    `rest` is called now and then with the rows done, to rest in between. Raises SQLite's own error when the snapshot is
    revoked. `connection` may write to its temporary tables.
    """
    found: list[Finding] = []
    for check in (_pages, _counts, _derivations, _formers, partial(_words, rest=rest)):
        try:
            found += check(connection)
        except sqlite3.DatabaseError as error:
            if is_revocation(error):
                raise
            found.append(Finding("file", str(error)))
        except _MALFORMED as error:
            found.append(Finding("content", f"a row is malformed: {error}"))
    return found


_ROWS: Final = """
SELECT content.digest, CAST(content.body AS BLOB), record.*
FROM record LEFT JOIN content ON content.number = record.number
"""


def _records(connection: sqlite3.Connection, within: Ids | None = None) -> Iterator[Finding]:
    scopes = {name: number for number, name, _ in connection.execute("SELECT number, name, records FROM scope")}
    ordered = " ORDER BY record.number" if within is None else ""  # a whole table is read as it lies
    for digest, body, *narrow in _selected(connection, _ROWS, "record.id", within, ordered):
        number, id = narrow[0], narrow[1]
        if body is None or sha256(b"record\0" + body).digest() != digest:
            yield Finding("content", "the row does not match its digest", id)
            continue
        record = record_of(body)
        if facets(number, record, scopes.get(record.scope, 0), is_searchable(record)) != tuple(narrow):
            yield Finding("record", "the row does not match its record", id)
    pasts = _selected(connection, "SELECT id, digest, CAST(body AS BLOB) FROM past", "id", within)
    for id, digest, body in pasts:
        if sha256(b"past\0" + body).digest() != digest:
            yield Finding("past", "the row does not match its digest", id)
    for digest, body in _selected(connection, "SELECT digest, CAST(body AS BLOB) FROM principal", "key", within):
        if sha256(b"principal\0" + body).digest() != digest:
            yield Finding("principal", "the row does not match its digest")
    for principal, digest, body in _selected(
        connection, "SELECT principal, digest, CAST(body AS BLOB) FROM token", "id", within
    ):
        if sha256(b"token\0" + body).digest() != digest or token_of(body).principal != principal:
            yield Finding("token", "the row does not match its digest")


_EMBEDDED: Final = """
SELECT record.number, record.id, record.searchable, record.scope, record.trust, record.kind, record.expiry_us,
    record.valid_from_us, record.valid_to_us, CAST(content.body AS BLOB)
FROM record JOIN content ON content.number = record.number
"""
_VECTOR: Final = (
    "SELECT scope, trust, kind, expiry_us, valid_from_us, valid_to_us, components FROM vector WHERE number = ?"
)


def _vectors(connection: sqlite3.Connection, within: Ids | None = None) -> Iterator[Finding]:
    """Make every vector again, and compare. Those of records that are not there are looked for as a whole only."""
    embedder = index_embedder("", made_by(connection).name)
    if embedder is not None and not embedder.is_own:
        yield from _served(connection, embedder.width, within)
        return
    if within is None:
        strays = "vector" if embedder is None else "vector WHERE number NOT IN (SELECT number FROM record)"
        (count,) = connection.execute(f"SELECT count(*) FROM {strays}").fetchone()
        if count:
            yield Finding("vector", f"{count} rows belong to no record")
    if embedder is None:
        return
    state = StoredState(connection, "")
    rows = _selected(connection, _EMBEDDED, "record.id", within)
    while some := list(islice(rows, RECORDS_AT_ONCE)):
        records = [record_of(body) for *_, body in some]
        vectors = vectors_of(embedder, [Said.by(record, context_of(record, state).before) for record in records])
        for (number, id, searchable, *narrow, _), vector in zip(some, vectors, strict=True):
            wanted = (*narrow, vector) if searchable and not says_nothing(vector) else None
            if connection.execute(_VECTOR, (number,)).fetchone() != wanted:
                yield Finding("vector", "the row does not match its record", id)


_FORMERS: Final = """
SELECT id, until_index, until_place, ordinal, kind, trust, from_us, until_us, expiry_us, valid_from_us, valid_to_us
FROM former ORDER BY id, until_index, until_place, ordinal
"""
_PASTS: Final = "SELECT ordinal, CAST(body AS BLOB) FROM past ORDER BY id, until_index, until_place, ordinal"


def _formers(connection: sqlite3.Connection) -> Iterator[Finding]:
    """What was held before has its narrow row and its words, and nothing else has."""
    held = connection.execute(_FORMERS)
    pasts = ((past_of(body), ordinal) for ordinal, body in connection.execute(_PASTS))
    wanted = (former_row(past, ordinal, 0) for past, ordinal in pasts if may_be_found(past))
    for row, should in zip_longest(held, (each[:4] + each[5:] for each in wanted)):
        if row != should:
            yield Finding("former", "what was held before is not as the past versions have it", (row or should)[0])
            return
    counts = "SELECT (SELECT count(*) FROM former_words_docsize), (SELECT count(*) FROM former)"
    found, expected = connection.execute(counts).fetchone()
    if found != expected:
        yield Finding("former_words", f"{found} rows where there should be {expected}")


_STRAY: Final = "number NOT IN (SELECT number FROM record WHERE searchable)"


def _served(connection: sqlite3.Connection, width: int, within: Ids | None) -> Iterator[Finding]:
    """What a service made cannot be made again and compared; whether it is whole, and of what can be recalled, can."""
    if within is None:
        for table in ("vector", "unembedded"):
            (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {_STRAY}").fetchone()
            if count:
                yield Finding(table, f"{count} rows belong to nothing that can be recalled")
    for number, id, searchable, *narrow, _ in _selected(connection, _EMBEDDED, "record.id", within):
        row = connection.execute(_VECTOR, (number,)).fetchone()
        waits = connection.execute("SELECT 1 FROM unembedded WHERE number = ?", (number,)).fetchone() is not None
        if row is not None and (not searchable or waits or row[:-1] != tuple(narrow) or len(row[-1]) != width):
            yield Finding("vector", "the row does not match its record", id)


def _selected(
    connection: sqlite3.Connection, statement: str, column: str, within: Ids | None, ordered: str = ""
) -> Iterator[Any]:
    if within is None:
        return connection.execute(statement + ordered)
    return connection.execute(f"{statement} WHERE {column} BETWEEN ? AND ?{ordered}", within)


def _derivations(connection: sqlite3.Connection) -> Iterator[Finding]:
    held = set(connection.execute("SELECT source, id FROM derivation"))
    rows = (record_of(body) for (body,) in connection.execute("SELECT body FROM content"))
    contenders = (contenders_of(body) for (body,) in connection.execute("SELECT body FROM contender"))
    wanted = {(source, row.id) for row in chain(rows, *contenders) for source in row.derived_from}
    for _, id in sorted(held ^ wanted):
        yield Finding("derivation", "what the record rests on is not as the record has it", id)
    held = set(connection.execute("SELECT previous, id FROM following"))
    rows = (record_of(body) for (body,) in connection.execute("SELECT body FROM content"))
    for _, id in sorted(held ^ {(row.follows, row.id) for row in rows if row.follows}):
        yield Finding("following", "what the episode follows is not as the record has it", id)


def _buckets(connection: sqlite3.Connection) -> Iterator[Finding]:
    totals = [0] * BUCKETS
    for id, digest in _digests(connection):
        totals[bucket(id)] ^= int.from_bytes(digest, "big")
    for number, (stored, total) in enumerate(zip(StoredState(connection, "").bucket_digests(), totals, strict=True)):
        yield from _bucket(number, stored, total)


def _bucket(number: int, stored: bytes, total: int) -> Iterator[Finding]:
    if stored != total.to_bytes(DIGEST_BYTES, "big"):
        yield Finding("bucket", f"bucket {number} does not match its rows")


def _digests(connection: sqlite3.Connection, within: Ids | None = None) -> Iterator[tuple[bytes, bytes]]:
    def rows(statement: str, column: str = "id") -> Iterator[Any]:
        return _selected(connection, statement, column, within)

    yield from rows("SELECT id, content.digest FROM record JOIN content USING (number)")
    yield from rows("SELECT id, digest FROM past")
    for id, body in rows("SELECT id, body FROM contender"):
        for contender in contenders_of(body):
            yield id, contender_digest(contender)
    for id, value_digest in rows("SELECT id, value_digest FROM rejection"):
        yield id, rejection_digest(id, value_digest)
    for id, value_digest, source_digest in rows("SELECT id, value_digest, source_digest FROM retraction"):
        yield id, retraction_digest(id, value_digest, source_digest)
    yield from rows("SELECT key, digest FROM principal", "key")
    yield from rows("SELECT id, digest FROM token")
    for receipt, id in rows("SELECT digest, id FROM receipt", "digest"):
        yield receipt, receipt_digest(receipt, id)


def _no_rest(records: int) -> None:
    """Nobody else is kept waiting."""


def _words(connection: sqlite3.Connection, rest: Callable[[int], None] = _no_rest) -> Iterator[Finding]:
    """Index every record's words again, and compare how often each word occurs in how many records."""
    beside = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.create(beside)
        _index_again(connection, beside, rest)
        for table in (WORDS, SAMPLE):
            yield from _difference(table, _vocabulary(connection, table), _vocabulary(beside, table))
    finally:
        beside.close()


def _index_again(connection: sqlite3.Connection, beside: sqlite3.Connection, rest: Callable[[int], None]) -> None:
    state = StoredState(connection, "")
    rows = connection.execute("SELECT number, scope, body FROM record JOIN content USING (number) ORDER BY number")
    while some := rows.fetchmany(RECORDS_AT_ONCE):
        changes = WordChanges()
        for number, scope, body in some:
            record = record_of(body)
            if is_searchable(record):
                changes.add(record.id, number, searched_text(record, scope, *context_of(record, state)))
        beside.execute("BEGIN")
        changes.write(beside)
        beside.execute("COMMIT")
        rest(len(some))


def _vocabulary(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, int, int]]:
    connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table}_held USING fts5vocab(main, {table}, 'row')")
    yield from connection.execute(f"SELECT term, doc, cnt FROM temp.{table}_held")


def _difference(
    table: str, held: Iterator[tuple[str, int, int]], wanted: Iterator[tuple[str, int, int]]
) -> Iterator[Finding]:
    """The first word of which the two vocabularies, both in order, say something different."""
    nothing = ("", 0, 0)
    for one, other in zip_longest(held, wanted, fillvalue=nothing):
        if one != other:
            yield Finding(
                table, f"word {min(filter(None, (one[0], other[0])))!r} is not indexed as the records have it"
            )
            return
