"""The tables of the projection, and the statements of its hot path, compiled once.

A record is two rows under one number: a narrow one in `record` that filters and ranking read, and its whole content in
`content`. Numbers are given in the order in which records were made, so that the full-text index only ever grows at its
end. Change anything here, in `words.py` or in `rows.py` and raise `SCHEMA_VERSION`: older files are folded again.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)  # fmt: skip
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import ClauseElement

from ..memory.events import SUPERSEDED
from ..memory.record import EPISODE
from .words import TOKENIZER

SCHEMA_VERSION: Final = 16
FOREVER: Final = (1 << 63) - 1
EVER_SINCE: Final = -(1 << 63)
SAMPLE_ONE_IN: Final = 64

# Every batch adds a segment to the full-text index. Merging 16 at a time instead of 4 rewrites a word half as often:
# a batch at 100 000 records costs 18 % less, and a recall the same. The limit is what stops a writer in one go.
SEGMENTS_MERGED: Final = 16
SEGMENTS_LIMIT: Final = 64

_DIALECT = sqlite.dialect(paramstyle="qmark")
metadata = MetaData()

state = Table(
    "state", metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

record = Table(
    "record", metadata,
    Column("number", Integer, primary_key=True),
    Column("id", LargeBinary, nullable=False),
    Column("scope", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("trust", Integer, nullable=False),
    Column("searchable", Integer, nullable=False),
    Column("pinned", Integer, nullable=False),
    Column("confidence_ppm", Integer, nullable=False),
    Column("support", Integer, nullable=False),
    Column("strength_ppm", Integer, nullable=False),
    Column("strength_at_us", Integer, nullable=False),
    Column("expiry_us", Integer, nullable=False),
    Column("valid_from_us", Integer, nullable=False),
    Column("valid_to_us", Integer, nullable=False),
    Column("name", Integer, nullable=False),
    Column("since_us", Integer, nullable=False),
)  # fmt: skip
Index("record_id", record.c.id, unique=True)
Index("record_scope", record.c.scope)
# What waits for a reviewer, by scope, the most supported first. A new record goes to the end of its scope's part.
Index(
    "record_waiting", record.c.scope, record.c.support.desc(),
    sqlite_where=and_(
        record.c.trust == literal_column("0"),
        record.c.searchable == literal_column("1"),
        record.c.kind != literal_column(f"'{EPISODE}'"),
    ),
)  # fmt: skip

content = Table(
    "content", metadata,
    Column("number", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
)  # fmt: skip

past = Table(
    "past", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("from_index", Integer, primary_key=True),
    Column("from_place", Integer, primary_key=True),
    Column("until_index", Integer, primary_key=True),
    Column("until_place", Integer, primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("from_us", Integer, nullable=False),
    Column("until_us", Integer, nullable=False),
    Column("ended_by", Text, nullable=False),
    Column("witness", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
Index(
    "past_superseded", past.c.id, past.c.from_index, sqlite_where=past.c.ended_by == literal_column(f"'{SUPERSEDED}'")
)

former = Table(
    "former", metadata,
    Column("number", Integer, primary_key=True),
    Column("id", LargeBinary, nullable=False),
    Column("until_index", Integer, nullable=False),
    Column("until_place", Integer, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("scope", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("trust", Integer, nullable=False),
    Column("from_us", Integer, nullable=False),
    Column("until_us", Integer, nullable=False),
    Column("expiry_us", Integer, nullable=False),
    Column("valid_from_us", Integer, nullable=False),
    Column("valid_to_us", Integer, nullable=False),
)  # fmt: skip
Index("former_id", former.c.id)

contender = Table(
    "contender", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

scope = Table(
    "scope", metadata,
    Column("number", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("records", Integer, nullable=False),
)  # fmt: skip

rejection = Table(
    "rejection", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("value_digest", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)  # fmt: skip

retraction = Table(
    "retraction", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("value_digest", LargeBinary, primary_key=True),
    Column("source_digest", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)  # fmt: skip

derivation = Table(
    "derivation", metadata,
    Column("source", LargeBinary, primary_key=True),
    Column("id", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)  # fmt: skip

following = Table(
    "following", metadata,
    Column("previous", LargeBinary, primary_key=True),
    Column("id", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)  # fmt: skip

principal = Table(
    "principal", metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

token = Table(
    "token", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("principal", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
Index("token_principal", token.c.principal, token.c.id)

receipt = Table(
    "receipt", metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("id", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

mention = Table(
    "mention", metadata,
    Column("number", Integer, primary_key=True),
    Column("mark", Integer, nullable=False),
)  # fmt: skip

lineage = Table(
    "lineage", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("other", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)  # fmt: skip

erasure = Table(
    "erasure", metadata,
    Column("entry_index", Integer, primary_key=True),
    Column("id", LargeBinary, primary_key=True),
    Column("is_done", Integer, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

vector = Table(
    "vector", metadata,
    Column("number", Integer, primary_key=True),
    Column("scope", Integer, nullable=False),
    Column("stamp", Integer, nullable=False),
    Column("trust", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("expiry_us", Integer, nullable=False),
    Column("valid_from_us", Integer, nullable=False),
    Column("valid_to_us", Integer, nullable=False),
    Column("components", LargeBinary, nullable=False),
)  # fmt: skip
Index("vector_news", vector.c.scope, vector.c.stamp)

unembedded = Table(
    "unembedded", metadata,
    Column("number", Integer, primary_key=True),
)  # fmt: skip

vanished = Table(
    "vanished", metadata,
    Column("place", Integer, primary_key=True),
    Column("scope", Integer, nullable=False),
    Column("number", Integer, nullable=False),
)  # fmt: skip

command = Table(
    "command", metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("outcome", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

setting = Table(
    "setting", metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

bucket = Table(
    "bucket", metadata,
    Column("number", Integer, primary_key=True),
    Column("digests", LargeBinary, nullable=False),
)  # fmt: skip

BUCKETS_IN_A_ROW: Final = 16

FULL_TEXT_COLUMNS: Final = ("subject", "predicate", "value", "details", "before", "after", "dates", "marks")
FULL_TEXT_WEIGHTS: Final = (1.5, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3, 0.0)
_FULL_TEXT: Final = f"""fts5({", ".join(FULL_TEXT_COLUMNS)},{{content}} tokenize="{TOKENIZER}")"""
_NO_CONTENT: Final = " content='',"


def create(connection: sqlite3.Connection) -> None:
    """Make all tables in an empty database."""
    for table in metadata.sorted_tables:
        connection.execute(_text(CreateTable(table)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(_text(CreateIndex(index)))
    connection.execute(f"CREATE VIRTUAL TABLE former_words USING {_FULL_TEXT.format(content='')}")
    for table in ("words", "sample"):
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING {_FULL_TEXT.format(content=_NO_CONTENT)}")
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('automerge', {SEGMENTS_MERGED})")
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('crisismerge', {SEGMENTS_LIMIT})")


def _text(clause: ClauseElement) -> str:
    """The SQL of a statement; its parameters are positional, in the order in which they appear."""
    return str(clause.compile(dialect=_DIALECT))


def _put(table: Table) -> str:
    """Insert, or replace the row of the same primary key. Takes a value for every column."""
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    rest = {name: statement.excluded[name] for name in column_names(table) if name not in keys}
    if not rest:
        return _text(statement.on_conflict_do_nothing())
    return _text(statement.on_conflict_do_update(index_elements=keys, set_=rest))


def column_names(table: Table) -> list[str]:
    """The names of a table's columns, in order."""
    return [column.name for column in table.columns]


def _drop(table: Table, *columns: str) -> str:
    return _text(delete(table).where(*(table.c[name] == bindparam(name) for name in columns)))


PUT_STATE: Final = _put(state)
GET_STATE: Final = _text(select(state.c.value).where(state.c.name == bindparam("name")))

PUT_RECORD: Final = _put(record)
DROP_RECORD: Final = _drop(record, "number")
PUT_CONTENT: Final = _put(content)
DROP_CONTENT: Final = _drop(content, "number")
GET_HELD: Final = _text(
    select(content.c.number, content.c.digest, content.c.body)
    .join_from(record, content, record.c.number == content.c.number)
    .where(record.c.id == bindparam("id"))
)

GET_RECORD_IDS: Final = _text(select(record.c.id))

HELD_AT_ONCE: Final = 256
GET_HELD_MANY: Final = _text(
    select(record.c.id, content.c.number, content.c.digest, content.c.body)
    .join_from(record, content, record.c.number == content.c.number)
    .where(record.c.id.in_([bindparam(f"id_{place}") for place in range(HELD_AT_ONCE)]))
)

PUT_PAST: Final = _put(past)
GET_WITNESSES: Final = _text(select(past.c.witness).where(past.c.id == bindparam("id")))
_NEWEST_FIRST = (
    past.c.from_index.desc(), past.c.from_place.desc(), past.c.until_index.desc(), past.c.until_place.desc(),
    past.c.ordinal.desc(),
)  # fmt: skip
GET_PASTS_BEFORE: Final = (
    _text(
        select(past.c.body)
        .where(
            past.c.id == bindparam("id"),
            tuple_(past.c.from_index, past.c.from_place) < tuple_(bindparam("index"), bindparam("place")),
            past.c.from_us <= bindparam("us"),
        )
        .order_by(*_NEWEST_FIRST)
    )
    + " LIMIT ?"
)
GET_FIRST_PAST_AFTER: Final = (
    _text(
        select(past.c.body)
        .where(
            past.c.id == bindparam("id"),
            tuple_(past.c.from_index, past.c.from_place) > tuple_(bindparam("index"), bindparam("place")),
        )
        .order_by(past.c.from_index, past.c.from_place, past.c.until_index, past.c.until_place, past.c.ordinal)
    )
    + " LIMIT 1"
)
GET_LAST_PAST: Final = (
    _text(
        select(past.c.body)
        .where(past.c.id == bindparam("id"))
        .order_by(past.c.until_index.desc(), past.c.until_place.desc(), past.c.ordinal.desc())
    )
    + " LIMIT 1"
)
GET_PAST_AT: Final = (
    _text(
        select(past.c.body)
        .where(past.c.id == bindparam("id"), past.c.from_us <= bindparam("us"), past.c.until_us > bindparam("us_again"))
        .order_by(*_NEWEST_FIRST)
    )
    + " LIMIT 1"
)
GET_PASTS_ENDED: Final = _text(
    select(past.c.body).where(
        past.c.id == bindparam("id"),
        past.c.until_index == bindparam("index"),
        past.c.until_place == bindparam("place"),
    )
)
GET_SUPERSEDED: Final = (
    _text(
        select(past.c.body)
        .where(
            past.c.id == bindparam("id"),
            past.c.from_index <= bindparam("index"),
            past.c.ended_by == literal_column(f"'{SUPERSEDED}'"),
        )
        .order_by(*_NEWEST_FIRST)
    )
    + " LIMIT ?"
)

PUT_FORMER: Final = _put(former)
PUT_FORMER_WORDS: Final = (
    f"INSERT INTO former_words(rowid, {', '.join(FULL_TEXT_COLUMNS)})"
    f" VALUES ({', '.join('?' * (1 + len(FULL_TEXT_COLUMNS)))})"
)

PUT_CONTENDERS: Final = _put(contender)
DROP_CONTENDERS: Final = _drop(contender, "id")
GET_CONTENDED: Final = _text(select(contender.c.id))
GET_CONTENDERS: Final = _text(select(contender.c.body).where(contender.c.id == bindparam("id")))
GET_NUMBER: Final = _text(select(record.c.number).where(record.c.id == bindparam("id")))

PUT_SCOPE: Final = _put(scope)
GET_SCOPE: Final = _text(select(scope).where(scope.c.name == bindparam("name")))
GET_SCOPES_WITHIN: Final = _text(
    select(scope).where(
        scope.c.name >= bindparam("first"), scope.c.name < bindparam("end"), scope.c.records > literal_column("0")
    )
)
GET_SCOPE_NAMES: Final = _text(select(scope.c.name).order_by(scope.c.name))
GET_SCOPES: Final = _text(select(scope).where(scope.c.records > literal_column("0")).order_by(scope.c.name))

PUT_REJECTION: Final = _put(rejection)
DROP_REJECTION: Final = _drop(rejection, "id", "value_digest")
GET_REJECTION: Final = _text(
    select(rejection.c.id).where(
        rejection.c.id == bindparam("id"), rejection.c.value_digest == bindparam("value_digest")
    )
)

GET_REJECTED: Final = (
    _text(select(rejection.c.value_digest).where(rejection.c.id == bindparam("id")).order_by(rejection.c.value_digest))
    + " LIMIT ?"
)

PUT_RETRACTION: Final = _put(retraction)
DROP_RETRACTION: Final = _drop(retraction, "id", "value_digest", "source_digest")
GET_RETRACTION: Final = _text(
    select(retraction.c.id).where(
        retraction.c.id == bindparam("id"),
        retraction.c.value_digest == bindparam("value_digest"),
        or_(retraction.c.source_digest == bindparam("any"), retraction.c.source_digest == bindparam("source_digest")),
    )
)

PUT_DERIVATION: Final = _put(derivation)
DROP_DERIVATION: Final = _drop(derivation, "source", "id")
GET_DERIVED: Final = _text(select(derivation.c.id).where(derivation.c.source == bindparam("source")))

PUT_FOLLOWING: Final = _put(following)
DROP_FOLLOWING: Final = _drop(following, "previous", "id")
GET_FOLLOWING: Final = _text(select(following.c.id).where(following.c.previous == bindparam("previous")))

PUT_PRINCIPAL: Final = _put(principal)
GET_PRINCIPAL: Final = _text(select(principal.c.body).where(principal.c.key == bindparam("key")))
GET_PRINCIPALS: Final = _text(select(principal.c.body).order_by(principal.c.key))
GET_PRINCIPALS_AFTER: Final = (
    _text(select(principal.c.body).where(principal.c.key > bindparam("key")).order_by(principal.c.key)) + " LIMIT ?"
)

PUT_TOKEN: Final = _put(token)
GET_TOKEN: Final = _text(select(token.c.body).where(token.c.id == bindparam("id")))
GET_TOKENS_AFTER: Final = (
    _text(select(token.c.body).where(token.c.id > bindparam("id")).order_by(token.c.id)) + " LIMIT ?"
)
GET_TOKENS_OF_AFTER: Final = (
    _text(
        select(token.c.body)
        .where(token.c.principal == bindparam("principal"), token.c.id > bindparam("id"))
        .order_by(token.c.id)
    )
    + " LIMIT ?"
)

PUT_RECEIPT: Final = _put(receipt)
GET_RECEIPT: Final = _text(select(receipt.c.id).where(receipt.c.digest == bindparam("digest")))

PUT_MENTION: Final = _put(mention)
GET_MENTIONS: Final = _text(
    select(mention.c.number).where(mention.c.mark == bindparam("mark"), mention.c.number < bindparam("before"))
)
PUT_LINEAGE: Final = _put(lineage)
GET_LINEAGE: Final = _text(select(lineage.c.other).where(lineage.c.id == bindparam("id")))
PUT_ERASURE: Final = _put(erasure)
REOPEN_ERASURES: Final = _text(update(erasure).values(is_done=literal_column("0")))
GET_ERASURES: Final = _text(select(erasure.c.entry_index, erasure.c.id))
GET_ERASURES_LEFT: Final = _text(
    select(erasure.c.entry_index, erasure.c.id)
    .where(erasure.c.is_done == literal_column("0"))
    .order_by(erasure.c.entry_index, erasure.c.id)
)
GET_PASTS: Final = _text(select(past).where(past.c.id == bindparam("id")))

PUT_VECTOR: Final = _put(vector)
KEEP_VECTOR: Final = (
    "UPDATE vector SET stamp = ?, trust = ?, kind = ?, expiry_us = ?, valid_from_us = ?, valid_to_us = ? "
    "WHERE number = ?"
)
DROP_VECTOR: Final = _drop(vector, "number")
GET_VECTORS_SINCE: Final = _text(
    select(
        vector.c.number, vector.c.trust, vector.c.kind, vector.c.expiry_us, vector.c.valid_from_us,
        vector.c.valid_to_us, vector.c.components,
    ).where(vector.c.scope == bindparam("scope"), vector.c.stamp > bindparam("stamp"))
)  # fmt: skip
QUEUE_UNEMBEDDED: Final = "INSERT OR IGNORE INTO unembedded VALUES (?)"
DROP_UNEMBEDDED: Final = _drop(unembedded, "number")
IS_UNEMBEDDED_LEFT: Final = "SELECT 1 FROM unembedded LIMIT 1"
COUNT_VECTORS: Final = "SELECT count(*) FROM vector"
COUNT_UNEMBEDDED: Final = "SELECT count(*) FROM unembedded"
GET_UNEMBEDDED: Final = (
    "SELECT number, body FROM unembedded JOIN content USING (number) WHERE number > ? ORDER BY number LIMIT ?"
)
PUT_VANISHED: Final = "INSERT INTO vanished (scope, number) VALUES (?, ?)"
DROP_VANISHED_BEFORE: Final = "DELETE FROM vanished WHERE place <= (SELECT max(place) FROM vanished) - ?"
# Two questions: SQLite goes to an end of the table for each, and would read all of it for both in one.
GET_VANISHED_PLACES: Final = (
    "SELECT coalesce((SELECT min(place) FROM vanished), 0), coalesce((SELECT max(place) FROM vanished), 0)"
)
GET_VANISHED_SINCE: Final = _text(
    select(vanished.c.number)
    .where(vanished.c.place > bindparam("place"), vanished.c.scope == bindparam("scope"))
    .order_by(vanished.c.place)
)

PUT_COMMAND: Final = _put(command)
GET_COMMAND: Final = _text(select(command.c.outcome).where(command.c.id == bindparam("id")))
GET_LAST_COMMAND: Final = _text(select(command.c.id).order_by(command.c.id.desc())) + " LIMIT 1"
DROP_COMMANDS_BEFORE: Final = _text(delete(command).where(command.c.id < bindparam("id")))

PUT_SETTING: Final = _put(setting)
GET_SETTING: Final = _text(select(setting.c.value).where(setting.c.name == bindparam("name")))

PUT_BUCKET: Final = _put(bucket)
GET_BUCKETS: Final = _text(select(bucket.c.number, bucket.c.digests))

HITS: Final = "SELECT count(*) FROM words WHERE words MATCH ?"
COMMONNESS: Final = "SELECT count(*) FROM (SELECT 1 FROM sample WHERE sample MATCH ? LIMIT ?)"
