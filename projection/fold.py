"""One batch of history on its way into the database: what the rules changed, turned into rows and written in bulk.

Every statement touches rows by primary key, and full text by row number in ascending order, so that a batch costs what
it changes and not what is stored. Digests of changed rows are XOR-ed out of and into their buckets on the way.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, Final

from ..log.entry import Entry
from ..memory.digest import BUCKETS, DIGEST_BYTES, bucket, contender_digest, rejection_digest, retraction_digest
from ..memory.record import VERIFIED, PastVersion, Record
from ..memory.state import Workspace
from ..memory.window import first_id
from . import schema
from .fulltext import WordChanges
from .rows import Held, Standing, facets, is_searchable, pack, searched_text, stored, stored_past
from .scopes import ScopeNumbers
from .sqlite import write_rows
from .state import STANDING, StoredState

Row = tuple[Any, ...]

BUCKETS_ONE_BY_ONE_LIMIT: Final = 16


class Fold:
    """The rows that one workspace leads to, and how they change counts and buckets."""

    def __init__(self, workspace: Workspace, state: StoredState, scopes: ScopeNumbers) -> None:
        standing = state.standing()
        self._workspace = workspace
        self._state = state
        self._scopes = scopes
        self._searchable_before = standing.searchable
        self._next_number = standing.next_number
        self._bucket_changes = [0] * BUCKETS
        self._records: list[Row] = []
        self._contents: list[Row] = []
        self._dropped: list[Row] = []
        self._words = WordChanges()
        self.present: dict[bytes, Held | None] = {}

    def write(self, connection: sqlite3.Connection, last: Entry) -> Standing:
        """Write everything, inside the caller's transaction, as the state after `last`; returns where that stands."""
        for id, record in self._workspace.records.items():
            self._take(id, record)
        self._write_records(connection)
        self._words.write(connection)
        self._write_pasts(connection)
        self._write_contenders(connection)
        self._write_ledgers(connection)
        self._write_commands(connection)
        write_rows(connection, schema.PUT_SCOPE, self._scopes.changed())
        self._write_buckets(connection)
        return self._write_standing(connection, last)

    # --- records ------------------------------------------------------------------------------------------------------

    def _take(self, id: bytes, record: Record | None) -> None:
        before = self._state.held(id)
        if before is not None and (record is None or record.created_at_us != before.record.created_at_us):
            self._take_out(before)
            before = None
        if record is not None:
            self._put_in(record, before)
        else:
            self.present[id] = None

    def _take_out(self, held: Held) -> None:
        self._change(held.record.id, held.digest)
        self._dropped.append((held.number,))
        self._scopes.count(held.record.scope, -1)
        self._unsay(held)

    def _put_in(self, record: Record, before: Held | None) -> None:
        digest, body = stored(record)
        number = self._number() if before is None else before.number
        scope = self._scopes.number(record.scope)
        self._records.append(facets(number, record, scope))
        self._contents.append((number, digest, body))
        self._change(record.id, digest)
        self._say(number, record, scope, before)
        if before is not None:
            self._change(record.id, before.digest)
        if before is None or before.record.scope != record.scope:
            self._scopes.count(record.scope, 1)
            if before is not None:
                self._scopes.count(before.record.scope, -1)
        self.present[record.id] = Held(number, digest, record)

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _write_records(self, connection: sqlite3.Connection) -> None:
        write_rows(connection, schema.DROP_RECORD, self._dropped)
        write_rows(connection, schema.DROP_CONTENT, self._dropped)
        write_rows(connection, schema.PUT_RECORD, self._records)
        write_rows(connection, schema.PUT_CONTENT, self._contents)

    # --- full text ----------------------------------------------------------------------------------------------------

    def _say(self, number: int, record: Record, scope: int, before: Held | None) -> None:
        will = is_searchable(record)
        if before is not None:
            if will and is_searchable(before.record) and _same_words(before.record, record):
                return
            self._unsay(before)
        if will:
            self._words.add(record.id, number, searched_text(record, scope))

    def _unsay(self, held: Held) -> None:
        if is_searchable(held.record):
            scope = self._scopes.number(held.record.scope)
            self._words.remove(held.record.id, held.number, searched_text(held.record, scope))

    # --- what is no present record ------------------------------------------------------------------------------------

    def _write_pasts(self, connection: sqlite3.Connection) -> None:
        ordinals: Counter[tuple[object, ...]] = Counter()
        write_rows(connection, schema.PUT_PAST, [self._past_row(past, ordinals) for past in self._workspace.versions])

    def _past_row(self, past: PastVersion, ordinals: Counter[tuple[object, ...]]) -> Row:
        record, until = past.record, past.until
        ordinal = ordinals[record.id, until]
        ordinals[record.id, until] += 1
        digest, body = stored_past(past)
        self._change(record.id, digest)
        return (
            record.id, record.version.index, record.version.place, until.index, until.place, ordinal,
            record.updated_at_us, past.until_us, past.ended_by, pack((record.value_digest, record.sources)), digest,
            body,
        )  # fmt: skip

    def _write_contenders(self, connection: sqlite3.Connection) -> None:
        for id, contenders in self._workspace.contenders.items():
            for contender in self._state.contending(id):
                self._change(id, contender_digest(contender))
            for contender in contenders:
                self._change(id, contender_digest(contender))
            if contenders:
                connection.execute(schema.PUT_CONTENDERS, (id, pack(contenders)))
            else:
                connection.execute(schema.DROP_CONTENDERS, (id,))

    def _write_ledgers(self, connection: sqlite3.Connection) -> None:
        rejections = [row for row in self._workspace.rejections if not self._state.rejected(*row)]
        for row in rejections:
            self._change(row[0], rejection_digest(*row))
        write_rows(connection, schema.PUT_REJECTION, rejections)
        retractions = [row for row in self._workspace.retractions if not self._state.holds_retraction(*row)]
        for row in retractions:
            self._change(row[0], retraction_digest(*row))
        write_rows(connection, schema.PUT_RETRACTION, retractions)

    def _write_commands(self, connection: sqlite3.Connection) -> None:
        outcomes = self._workspace.outcomes.items()
        write_rows(connection, schema.PUT_COMMAND, [(id, pack(outcome)) for id, outcome in outcomes])
        window = self._workspace.changed_window
        if window is not None and window.start_us > self._state.window().start_us:
            connection.execute(schema.DROP_COMMANDS_BEFORE, (first_id(window.start_us),))
        settings = self._workspace.settings.items()
        write_rows(connection, schema.PUT_SETTING, [(name, pack(value)) for name, value in settings])

    # --- counts, digests, place ---------------------------------------------------------------------------------------

    def _change(self, id: bytes, digest: bytes) -> None:
        self._bucket_changes[bucket(id)] ^= int.from_bytes(digest, "big")

    def _write_buckets(self, connection: sqlite3.Connection) -> None:
        changes = [(number, change) for number, change in enumerate(self._bucket_changes) if change]
        stored = _stored_buckets(connection, [number for number, _ in changes])
        write_rows(
            connection,
            schema.PUT_BUCKET,
            [
                (number, (change ^ int.from_bytes(stored.get(number, b""), "big")).to_bytes(DIGEST_BYTES, "big"))
                for number, change in changes
            ],
        )

    def _write_standing(self, connection: sqlite3.Connection, last: Entry) -> Standing:
        standing = Standing(
            epoch=last.epoch,
            index=last.index,
            hash=last.hash,
            time_us=self._workspace.time_us(),
            next_number=self._next_number,
            searchable=self._searchable_before + self._words.balance,
            window=self._workspace.window(),
        )
        connection.execute(schema.PUT_STATE, (STANDING, pack(standing)))
        return standing


def _same_words(before: Record, after: Record) -> bool:
    return _searched_fields(before) == _searched_fields(after)


def _searched_fields(record: Record) -> tuple[object, ...]:
    verified = record.trust == VERIFIED
    return (
        record.subject, record.predicate, record.scope, record.text, record.metadata, record.valid_from_us, verified,
    )  # fmt: skip


def _stored_buckets(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, bytes]:
    """The digests of these buckets, as far as they have one. A small batch does not read all of them."""
    if len(numbers) > BUCKETS_ONE_BY_ONE_LIMIT:
        return dict(connection.execute(schema.GET_BUCKETS).fetchall())
    found = ((number, connection.execute(schema.GET_BUCKET, (number,)).fetchone()) for number in numbers)
    return {number: row[0] for number, row in found if row is not None}
