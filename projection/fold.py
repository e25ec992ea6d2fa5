"""One batch of history on its way into the database: what the rules changed, turned into rows and written in bulk.

Every statement touches rows by primary key, and full text by row number in ascending order, so that a batch costs what
it changes and not what is stored. Digests of changed rows are XOR-ed out of and into their buckets on the way.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

from ..embedding.embedder import Embedder
from ..log.entry import Entry
from ..memory.digest import (
    DIGEST_BYTES,
    bucket,
    contender_digest,
    receipt_digest,
    rejection_digest,
    retraction_digest,
)
from ..memory.record import VERIFIED, PastVersion, Record
from ..memory.state import Workspace, resting_under
from ..memory.window import first_id
from . import schema
from .context import Surroundings
from .former import FormerChanges, erase_former
from .fulltext import WordChanges
from .mentions import Mentions
from .rows import (
    Held,
    Standing,
    facets,
    is_searchable,
    pack,
    past_of,
    searched_text,
    stored,
    stored_past,
    stored_principal,
    stored_token,
)  # fmt: skip
from .scopes import ScopeNumbers
from .served import ServedVectors
from .sqlite import write_rows
from .state import STANDING, HotState
from .vectors import VectorChanges

Row = tuple[Any, ...]


class Fold:
    """The rows that one workspace leads to, and how they change counts and buckets."""

    def __init__(
        self,
        workspace: Workspace,
        state: HotState,
        scopes: ScopeNumbers,
        mentions: Mentions,
        whole_after: int,
        embedder: Embedder | None = None,
    ) -> None:
        standing = state.standing()
        self._workspace = workspace
        self._state = state
        self._scopes = scopes
        self._mentions = mentions
        self._whole_after = max(whole_after, standing.whole_after)
        self._searchable_before = standing.searchable
        self._next_number = standing.next_number
        self._bucket_changes: dict[int, int] = {}
        self._records: list[Row] = []
        self._contents: list[Row] = []
        self._dropped: list[Row] = []
        self._words = WordChanges()
        self._vectors = self._vector_changes(embedder)
        self._around = Surroundings(workspace, state)
        self._former = FormerChanges()
        self._regrounded: set[bytes] = set()
        self._following: list[Row] = []
        self._followed_no_more: list[Row] = []
        self.present: dict[bytes, Held] = {}
        self.gone: list[bytes] = []
        self.grounded = False
        self.buckets = state.bucket_digests()

    @property
    def awaits_vectors(self) -> bool:
        """Whether a record of the batch waits for a service to make its vector."""
        return self._vectors.is_awaited

    def write(self, connection: sqlite3.Connection, last: Entry) -> Standing:
        """Write everything, inside the caller's transaction, as the state after `last`; returns where that stands."""
        held = self._state.held
        self._around.note_changes()
        for id, record in self._workspace.records.items():
            before = held(id)
            if before is None and record is not None:
                self._add(record)
            else:
                self._take(id, before, record)
        self._say_neighbours_again()
        self._write_derivations(connection)
        self._write_records(connection)
        self._words.write(connection)
        self._vectors.write(connection, last.index)
        self._erase_pasts(connection)
        self._write_pasts(connection)
        self._write_contenders(connection)
        self._write_ledgers(connection)
        self._write_principals(connection)
        self._write_commands(connection)
        write_rows(connection, schema.PUT_MENTION, self._mentions.rows)
        write_rows(connection, schema.PUT_LINEAGE, sorted(self._workspace.lineages))
        write_rows(connection, schema.PUT_ERASURE, self._mentions.erasures)
        write_rows(connection, schema.PUT_SCOPE, self._scopes.changed())
        self._write_buckets(connection)
        return self._write_standing(connection, last)

    # --- records ------------------------------------------------------------------------------------------------------

    def _take(self, id: bytes, before: Held | None, record: Record | None) -> None:
        if before is not None and (record is None or record.created_at_us != before.record.created_at_us):
            self._take_out(before)
            before = None
        if record is None:
            self.gone.append(id)
        elif before is None:
            self._add(record)
        else:
            self._replace(before, record)

    def _take_out(self, held: Held) -> None:
        self._change(held.record.id, held.digest)
        self._dropped.append((held.number,))
        if held.record.grounds:
            self._regrounded.add(held.record.id)
        if held.record.follows:
            self._followed_no_more.append((held.record.follows, held.record.id))
        self._scopes.count(held.record.scope, -1)
        self._unsay(held)

    def _add(self, record: Record) -> None:
        number = self._next_number
        self._next_number += 1
        scope = self._scopes.count(record.scope, 1)
        searchable = is_searchable(record)
        row = self._put_in(number, record, scope, searchable)
        if searchable:
            self._say(row, record, scope)

    def _replace(self, before: Held, record: Record) -> None:
        scope = self._scopes.number(record.scope)
        if before.record.scope != record.scope:
            self._scopes.count(record.scope, 1)
            self._scopes.count(before.record.scope, -1)
        searchable = is_searchable(record)
        self._change(record.id, before.digest)
        if before.record.grounds:
            self._regrounded.add(record.id)
        row = self._put_in(before.number, record, scope, searchable)
        self._say_again(before, row, record, scope, searchable)

    def _put_in(self, number: int, record: Record, scope: int, searchable: bool) -> Row:
        id = record.id
        digest, body = stored(record)
        if record.grounds:
            self._regrounded.add(id)
        if record.follows:
            self._following.append((record.follows, id))
        row = facets(number, record, scope, searchable)
        self._records.append(row)
        self._contents.append((number, digest, body))
        self._change(id, digest)
        self.present[id] = Held(number, digest, record)
        return row

    def _write_records(self, connection: sqlite3.Connection) -> None:
        write_rows(connection, schema.DROP_RECORD, self._dropped)
        write_rows(connection, schema.DROP_CONTENT, self._dropped)
        write_rows(connection, schema.PUT_RECORD, self._records)
        write_rows(connection, schema.PUT_CONTENT, self._contents)

    # --- full text and vectors ----------------------------------------------------------------------------------------

    def _say(self, row: Row, record: Record, scope: int) -> None:
        context = self._around.after(record)
        self._words.add(record.id, row[0], searched_text(record, scope, *context))
        self._vectors.say(row, record, context.before)

    def _say_again(self, before: Held, row: Row, record: Record, scope: int, searchable: bool) -> None:
        if searchable and is_searchable(before.record) and self._same_words(before.record, record):
            self._vectors.keep(row)
            return
        self._unsay(before)
        if searchable:
            self._say(row, record, scope)

    def _unsay(self, held: Held) -> None:
        if is_searchable(held.record):
            scope = self._scopes.number(held.record.scope)
            words = searched_text(held.record, scope, *self._around.before(held.record))
            self._words.remove(held.record.id, held.number, words)
            self._vectors.unsay(held.number, scope)

    def _vector_changes(self, embedder: Embedder | None) -> VectorChanges | ServedVectors:
        if embedder is None or embedder.is_own:
            return VectorChanges(embedder)
        return ServedVectors(embedder, self._workspace, self._next_number, self._searched_facets)

    def _searched_facets(self, id: bytes) -> Row | None:
        """The narrow row of a record that this batch does not change; None where it cannot be recalled."""
        held = None if id in self._workspace.records else self._state.held(id)
        if held is None or not is_searchable(held.record):
            return None
        return facets(held.number, held.record, self._scopes.number(held.record.scope), True)

    def _same_words(self, before: Record, after: Record) -> bool:
        if _searched_fields(before) != _searched_fields(after):
            return False
        return self._around.before(before) == self._around.after(after)

    def _say_neighbours_again(self) -> None:
        """Records that did not change themselves, around which others did."""
        for id in self._around.touched():
            held = self._state.held(id)
            if held is None or not is_searchable(held.record):
                continue
            before, after = self._around.before(held.record), self._around.after(held.record)
            if before != after:
                scope = self._scopes.number(held.record.scope)
                self._words.remove(id, held.number, searched_text(held.record, scope, *before))
                self._words.add(id, held.number, searched_text(held.record, scope, *after))
                self._vectors.say(facets(held.number, held.record, scope, True), held.record, after.before)

    # --- what is no present record ------------------------------------------------------------------------------------

    def _erase_pasts(self, connection: sqlite3.Connection) -> None:
        """Rewrite every past version of an erased record without its text."""
        for id in self._workspace.erased:
            rows: list[Row] = []
            for *key, digest, body in connection.execute(schema.GET_PASTS, (id,)).fetchall():
                emptied = stored_past(past_of(body).without_content)
                self._change(id, digest)
                self._change(id, emptied[0])
                rows.append((*key, *emptied))
            write_rows(connection, schema.PUT_PAST, rows)
            erase_former(connection, id)

    def _write_pasts(self, connection: sqlite3.Connection) -> None:
        if self._workspace.versions:
            ordinals: Counter[tuple[object, ...]] = Counter()
            rows = [self._past_row(past, ordinals) for past in self._workspace.versions]
            write_rows(connection, schema.PUT_PAST, rows)
            self._former.write(connection)

    def _past_row(self, past: PastVersion, ordinals: Counter[tuple[object, ...]]) -> Row:
        record, until = past.record, past.until
        ordinal = ordinals[record.id, until]
        ordinals[record.id, until] += 1
        digest, body = stored_past(past)
        self._change(record.id, digest)
        if not record.is_erased:
            self._former.add(past, ordinal, self._scopes.number(record.scope))
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
        rejections, retractions = self._workspace.rejections, self._workspace.retractions
        changed = [row for row, stands in rejections.items() if stands != self._state.rejected(*row)]
        for row in changed:
            self._change(row[0], rejection_digest(*row))
        write_rows(connection, schema.PUT_REJECTION, [row for row in changed if rejections[row]])
        write_rows(connection, schema.DROP_REJECTION, [row for row in changed if not rejections[row]])
        moved = [row for row, stands in retractions.items() if stands != self._state.holds_retraction(*row)]
        for row in moved:
            self._change(row[0], retraction_digest(*row))
        write_rows(connection, schema.PUT_RETRACTION, [row for row in moved if retractions[row]])
        write_rows(connection, schema.DROP_RETRACTION, [row for row in moved if not retractions[row]])

    def _write_derivations(self, connection: sqlite3.Connection) -> None:
        """What rests on what, looked up from the other end: it follows from the rows, and has no digest of its own.

        Before any row is written: the state that was is asked for.
        """
        added: list[Row] = []
        dropped: list[Row] = []
        for id in self._regrounded.union(self._workspace.contenders):
            before, after = resting_under(self._state, id), resting_under(self._workspace, id)
            added += [(source, id) for source in after - before]
            dropped += [(source, id) for source in before - after]
        write_rows(connection, schema.DROP_DERIVATION, sorted(dropped))
        write_rows(connection, schema.PUT_DERIVATION, sorted(added))
        write_rows(connection, schema.DROP_FOLLOWING, self._followed_no_more)
        write_rows(connection, schema.PUT_FOLLOWING, self._following)
        self.grounded = bool(added)

    def _write_principals(self, connection: sqlite3.Connection) -> None:
        for key, principal in self._workspace.principals.items():
            before = self._state.principal(key)
            digest, body = stored_principal(principal)
            self._change(key, digest)
            if before is not None:
                self._change(key, stored_principal(before)[0])
            connection.execute(schema.PUT_PRINCIPAL, (key, digest, body))
        for id, token in self._workspace.tokens.items():
            replaced = self._state.token(id)
            digest, body = stored_token(token)
            self._change(id, digest)
            if replaced is not None:
                self._change(id, stored_token(replaced)[0])
            connection.execute(schema.PUT_TOKEN, (id, token.principal, digest, body))
        for receipt, id in self._workspace.receipts.items():
            if self._state.receipt_use(receipt) is None:
                self._change(receipt, receipt_digest(receipt, id))
                connection.execute(schema.PUT_RECEIPT, (receipt, id))

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
        changes, number = self._bucket_changes, bucket(id)
        changes[number] = changes.get(number, 0) ^ int.from_bytes(digest, "big")

    def _write_buckets(self, connection: sqlite3.Connection) -> None:
        if not self._bucket_changes:
            return
        self.buckets = buckets = self.buckets.copy()
        for number, change in self._bucket_changes.items():
            digest = change ^ int.from_bytes(buckets[number], "big")
            buckets[number] = digest.to_bytes(DIGEST_BYTES, "big")
        size = schema.BUCKETS_IN_A_ROW
        rows = {number // size for number in self._bucket_changes}
        write_rows(
            connection,
            schema.PUT_BUCKET,
            [(row, b"".join(buckets[row * size : (row + 1) * size])) for row in sorted(rows)],
        )

    def _write_standing(self, connection: sqlite3.Connection, last: Entry) -> Standing:
        standing = Standing(
            epoch=last.epoch,
            index=last.index,
            hash=last.hash,
            time_us=self._workspace.time_us(),
            next_number=self._next_number,
            searchable=self._searchable_before + self._words.balance,
            whole_after=self._whole_after,
            window=self._workspace.window(),
        )
        connection.execute(schema.PUT_STATE, (STANDING, pack(standing)))
        return standing


def _searched_fields(record: Record) -> tuple[object, ...]:
    verified = record.trust == VERIFIED
    return (
        record.subject, record.predicate, record.scope, record.text, record.metadata, record.valid_from_us, verified,
    )  # fmt: skip
