"""Reading a projection: one connection that cannot write, one consistent state for each question.

No question leaves a transaction open behind it. What is too long for one answer comes in pages, each with its own
index, so that nobody who reads slowly can keep the write-ahead log from being emptied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Final

from ..log.entry import Position
from ..memory.errors import Invalid, TooLarge
from ..memory.events import EXPIRED
from ..memory.keys import id_by_value, make_key, record_id
from ..memory.lifecycle import HALF_LIFE_US, PRUNE_CONFIDENCE_PPM, PRUNE_SUPPORT, is_expired, is_prunable
from ..memory.limits import BATCH_IDS_LIMIT
from ..memory.principals import STRANGER, Principal
from ..memory.ranking import is_recallable
from ..memory.record import EPISODE, ORIGIN, PastVersion, Record, Version
from ..memory.reputation import AuthorTrust
from ..memory.scope import EVERY_SCOPE, is_pattern, scopes_below
from . import schema
from .answers import (
    ANYTHING,
    Barred,
    Counts,
    Filters,
    Found,
    HistoryItem,
    HistoryPage,
    Hit,
    Known,
    KnownPage,
    Page,
    ReadPoint,
    Recalled,
    Records,
    Review,
    ReviewPage,
    ScopeRecords,
    TokenPage,
)  # fmt: skip
from .errors import SnapshotRevoked, translated
from .filters import Conditions
from .former import ONLY_WORDS, Moment, ids_after, is_taken_back, passes
from .queue import Queue
from .recall import AskedOf, Meaning, Search
from .rows import (
    Standing,
    is_searchable,
    mark_of,
    mention_number,
    mentioned_at,
    pack,
    past_of,
    principal_of,
    record_of,
    token_of,
    unpack,
)
from .schema import EVER_SINCE, FOREVER
from .scopes import ScopeCount
from .served import Unembedded, Waiting
from .state import StoredState
from .terms import QUERY_CHARACTERS_LIMIT, Terms, terms

PAGE_LIMIT: Final = 1_000
GET_LIMIT: Final = 1_000
RECALL_LIMIT: Final = 1_000
CORRECTIONS_LIMIT: Final = 100
REVIEW_LIMIT: Final = 100
REVIEW_CORRECTIONS_LIMIT: Final = 5
BARRED_LIMIT: Final = 1_000


class Reader(StoredState):
    """Queries over the projection, and the `memory.state.State` of the moment. For one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, file: str, meaning: Meaning | None = None) -> None:
        super().__init__(connection, file)
        self._meaning = meaning
        self._depth = 0
        self._snapshots = 0
        self._guard = Lock()
        self._open_snapshot = 0
        self._revoked = False
        self._known_standing: Standing | None = None

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """All that is asked inside is answered from one state. Keep it short: the write-ahead log grows meanwhile."""
        with translated(self._file):
            if self._depth == 0:
                self._begin()
            self._depth += 1
            try:
                yield
                if self._revoked:
                    raise SnapshotRevoked(f"{self._file}: the state was held for too long")
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._end()

    @property
    def open_snapshot(self) -> int:
        """The number of the snapshot that is open now, 0 when none is. May be asked from any thread."""
        return self._open_snapshot

    def revoke(self, snapshot: int) -> None:
        """Take that snapshot away from whoever holds it: the read ends in `SnapshotRevoked`. From any thread."""
        with self._guard:
            if self._open_snapshot == snapshot:
                self._revoked = True
                self._connection.interrupt()
                self._roll_back()

    def standing(self) -> Standing:
        """Where the fold stands; within a snapshot it is read once."""
        if not self._depth:
            return super().standing()
        if self._known_standing is None:
            self._known_standing = super().standing()
        return self._known_standing

    def _begin(self) -> None:
        self._known_standing = None
        with self._guard:
            self._revoked = False
            self._snapshots += 1
            self._open_snapshot = self._snapshots
            self._connection.execute("BEGIN")

    def _end(self) -> None:
        with self._guard:
            self._open_snapshot = 0
            self._roll_back()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @property
    def applied(self) -> Position:
        """The last entry folded."""
        standing = self.standing()
        return Position(standing.epoch, standing.index)

    def point(self, now_us: int) -> ReadPoint:
        """Where a read at `now_us` stands: time never runs behind the entry that was read."""
        standing = self.standing()
        return ReadPoint(standing.epoch, standing.index, max(now_us, standing.time_us))

    # --- single records -----------------------------------------------------------------------------------------------

    def get(
        self, id: bytes, now_us: int, *, as_of_us: int | None = None, valid_at_us: int | None = None
    ) -> tuple[ReadPoint, Found | None]:
        """`get_many` of one id."""
        point, (found,) = self.get_many([id], now_us, as_of_us=as_of_us, valid_at_us=valid_at_us)
        return point, found

    def get_many(
        self, ids: Sequence[bytes], now_us: int, *, as_of_us: int | None = None, valid_at_us: int | None = None
    ) -> Records:
        """The records of those ids, rejected ones included, expired ones not.

        `as_of_us`: what was held at that recorded time; a time to come is now. `valid_at_us`: of the values held
        (then), the one that was true at that valid time, perhaps one that was superseded since. At most 1 000 ids.
        """
        if len(ids) > GET_LIMIT:
            raise TooLarge("ids", len(ids), GET_LIMIT, "ids")
        with self.snapshot():
            point = self.point(now_us)
            if as_of_us is not None and as_of_us >= point.now_us:
                as_of_us = None
            judged_us = point.now_us if as_of_us is None else as_of_us
            return Records(point, tuple(self._found(id, judged_us, as_of_us, valid_at_us) for id in ids))

    def _found(self, id: bytes, judged_us: int, as_of_us: int | None, valid_at_us: int | None) -> Found | None:
        record = self.record(id)
        if as_of_us is not None and (record is None or record.updated_at_us > as_of_us):
            record = self._held_at(id, as_of_us)
        if record is None or is_expired(record, judged_us):
            return None
        corrections = self._superseded(record, CORRECTIONS_LIMIT if valid_at_us is None else record.corrections_count)
        if valid_at_us is None:
            return Found(record, corrections)
        covering = [version for version in (*_records(corrections), record) if _covers(version, valid_at_us)]
        true_then = max(covering, key=_beginning, default=None)
        return None if true_then is None else Found(true_then, self._superseded(true_then, CORRECTIONS_LIMIT))

    def _held_at(self, id: bytes, as_of_us: int) -> Record | None:
        row = self._row(schema.GET_PAST_AT, id, as_of_us, as_of_us)
        record = past_of(row[0]).record if row else None
        return None if record is None or record.is_erased else record

    def _superseded(self, record: Record, limit: int) -> tuple[PastVersion, ...]:
        """The values that this one superseded, oldest first; not those of an earlier life, forgotten or pruned."""
        if not record.corrections_count:
            return ()
        if record.id != record_id(make_key(record.subject, record.predicate, record.scope)):
            return tuple(reversed(self._replaced(record, min(limit, CORRECTIONS_LIMIT), None)))
        pasts = self._ended_by_superseding(record, min(limit, record.corrections_count))
        return tuple(past for past in pasts if past.record.created_at_us == record.created_at_us)

    def _ended_by_superseding(self, record: Record, limit: int) -> list[PastVersion]:
        rows = self._connection.execute(schema.GET_SUPERSEDED, (record.id, record.version.index, limit)).fetchall()
        return [past_of(body) for (body,) in reversed(rows)]

    def _replaced(self, record: Record, limit: int, until: Version | None) -> list[PastVersion]:
        """The values whose places a record took that is keyed by its own, and behind each those that it had replaced.

        They stand in the record's history, and under ids of their own. A value can have had several lives: this is
        the one that ended `until`, or the present one.
        """
        pasts = self._ended_by_superseding(record, CORRECTIONS_LIMIT)
        if until is not None:
            pasts = [past for past in pasts if past.until < until]
        begun = max((past.until for past in pasts if past.record.value_digest == record.value_digest), default=ORIGIN)
        found: list[PastVersion] = []
        for past in reversed(pasts):
            if len(found) < limit and past.until > begun and past.record.created_at_us == record.created_at_us:
                found.append(past)
                found += self._replaced_before(past, limit - len(found))
        return found

    def _replaced_before(self, past: PastVersion, limit: int) -> list[PastVersion]:
        held = past.record
        if not held.corrections_count or not limit:
            return []
        origin = id_by_value(held.subject, held.predicate, held.scope, held.value_digest)
        rows = self._connection.execute(schema.GET_PASTS_ENDED, (origin, past.until.index, past.until.place)).fetchall()
        own = (past_of(body).record for (body,) in rows)
        same = next((row for row in own if row.value_digest == held.value_digest), None)
        return [] if same is None else self._replaced(same, limit, past.until)

    def history(
        self, id: bytes, now_us: int, *, limit: int = 100, before: Version | None = None, as_of_us: int | None = None,
        valid_at_us: int | None = None,
    ) -> HistoryPage:  # fmt: skip
        """What was held under that id, newest first, forgotten values included. At most 1 000 items a page.

        `as_of_us`: as it would have been answered at that recorded time, but for what was erased since; a time to come
        is now. `valid_at_us`: only values that were true at that valid time.
        """
        with self.snapshot():
            point = self.point(now_us)
            until_us = min(point.now_us, FOREVER if as_of_us is None else as_of_us)
            size = _page_size(limit)
            items = (
                item
                for item in self._ever_held(id, before, until_us, size)
                if valid_at_us is None or _covers(item.record, valid_at_us)
            )
            shown = tuple(islice(items, size))
            more = next(items, None) is not None
            return HistoryPage(point, shown, shown[-1].record.version if more else None)

    def _ever_held(self, id: bytes, before: Version | None, until_us: int, at_a_time: int) -> Generator[HistoryItem]:
        """All that was held under that id before a version and until a recorded time, newest first."""
        present = self.record(id) if before is None else None
        if present is not None and present.updated_at_us <= until_us:
            yield _present_item(present, until_us)
        newest = before or Version(0, FOREVER, FOREVER)
        while rows := self._connection.execute(
            schema.GET_PASTS_BEFORE, (id, newest.index, newest.place, until_us, at_a_time)
        ).fetchall():
            for past in (past_of(body) for (body,) in rows):
                newest = past.record.version
                yield _past_item(past) if past.until_us <= until_us else _present_item(past.record, until_us)

    # --- what an event led to -----------------------------------------------------------------------------------------

    def held_from(self, id: bytes, at: Version) -> Record | None:
        """What that id held right after the command at `at`, which did not remove it.

        Where the state of then was followed by others without a version of their own, as repetitions make them, it is
        the last of these.
        """
        present = self.record(id)
        if present is not None and present.version[1:] == at[1:]:
            return present
        begun = self._past_begun_by(id, at)
        if begun is not None and begun.until[1:] > at[1:]:
            return begun.record
        row = self._row(schema.GET_FIRST_PAST_AFTER, id, at.index, at.place)
        return past_of(row[0]).record if row else present

    def ended_at(self, id: bytes, at: Version) -> Record | None:
        """What that id held right before the command at `at` removed it."""
        begun = self._past_begun_by(id, at)
        return begun.record if begun is not None and begun.until[1:] == at[1:] else None

    def scope_names(self) -> list[str]:
        """Every scope that ever held a record, also those that hold none any more."""
        return [name for (name,) in self._connection.execute(schema.GET_SCOPE_NAMES)]

    def mentions(self, id: bytes, index: int, place: int) -> list[tuple[int, int]]:
        """Index and place of each command before the one at `place` of entry `index` that may say something of that
        record, oldest first.
        """
        rows = self._connection.execute(schema.GET_MENTIONS, (mark_of(id), mention_number(index, place))).fetchall()
        return [mentioned_at(number) for (number,) in sorted(rows)]

    def erasures_left(self) -> list[tuple[int, bytes]]:
        """The erasing entries, with the record that each is about, of which something may be left in some file."""
        return self._connection.execute(schema.GET_ERASURES_LEFT).fetchall()

    def unembedded(self, after: int, limit: int) -> list[Unembedded]:
        """The first `limit` records beyond row number `after` that wait for a service to make their vectors."""
        rows = self._connection.execute(schema.GET_UNEMBEDDED, (after, limit)).fetchall()
        return [Unembedded.by(number, record_of(body)) for number, body in rows]

    def waiting(self) -> Waiting:
        """How many records have vectors, and how many wait for them."""
        with self.snapshot():
            (embedded,) = self._connection.execute(schema.COUNT_VECTORS).fetchone()
            (unembedded,) = self._connection.execute(schema.COUNT_UNEMBEDDED).fetchone()
            return Waiting(embedded, unembedded)

    def _past_begun_by(self, id: bytes, at: Version) -> PastVersion | None:
        row = self._row(schema.GET_PASTS_BEFORE, id, at.index, at.place + 1, FOREVER, 1)
        return past_of(row[0]) if row else None

    # --- many records -------------------------------------------------------------------------------------------------

    def recall(
        self, query: str, now_us: int, *, k: int = 5, filters: Filters = ANYTHING, asked_of: AskedOf | None = None
    ) -> Recalled:
        """At most `k` records that answer the query, best first (see `recall.py`). Any text is a valid query.

        Where a service makes the vectors of the index, `asked_of` is what it made of the query; without, and where it
        made none, words alone are gone by.
        """
        if not 1 <= k <= RECALL_LIMIT:
            raise Invalid("k", f"{k} is not between 1 and {RECALL_LIMIT}")
        asked = terms(query)
        with self.snapshot():
            standing, point = self.standing(), self.point(now_us)
            if moment := Moment.of(filters, point.now_us):
                return self._recall_then(query, asked, k, filters, moment, point, asked_of)
            filters = replace(filters, as_of_us=None)
            conditions = self._conditions(filters, point.now_us, sources_too=False)
            hits: list[Hit] = []
            notices = list(asked.notices)
            if asked.phrases and not conditions.is_empty:
                meaning = self._meaning and self._meaning.of(asked_of)
                search = Search(
                    self._connection, conditions, standing.searchable, point.now_us, standing.index, meaning
                )  # fmt: skip
                hits, choice = search.hits(query[:QUERY_CHARACTERS_LIMIT], asked.phrases, k)
                notices += choice.notices
                notices += [asked_of.notice] if asked_of is not None and asked_of.notice else []
            return Recalled(point, tuple(hits), filters.scopes, conditions.unknown_scopes, tuple(notices))

    def _recall_then(
        self, query: str, asked: Terms, k: int, filters: Filters, moment: Moment, point: ReadPoint,
        asked_of: AskedOf | None,
    ) -> Recalled:  # fmt: skip
        """As of another moment, or valid at one: past versions are looked through too."""
        judged_us = point.now_us if moment.as_of_us is None else moment.as_of_us
        conditions = self._conditions(replace(filters, as_of_us=moment.as_of_us), judged_us, sources_too=False)
        hits: list[Hit] = []
        notices = [*asked.notices, *([ONLY_WORDS] if self._meaning and moment.as_of_us is not None else [])]
        if asked.phrases and not conditions.is_empty:
            standing = self.standing()
            meaning = self._meaning and self._meaning.of(asked_of)
            search = Search(
                self._connection, conditions, standing.searchable, judged_us, standing.index, meaning
            )  # fmt: skip
            hits, choice = search.hits_then(
                query[:QUERY_CHARACTERS_LIMIT], asked.phrases, k, filters, moment,
                lambda id: self._recalled_then(id, filters, moment, judged_us),
            )  # fmt: skip
            notices += choice.notices
            notices += [asked_of.notice] if asked_of and asked_of.notice and moment.as_of_us is None else []
        return Recalled(point, tuple(hits), filters.scopes, conditions.unknown_scopes, tuple(notices))

    def _recalled_then(self, id: bytes, filters: Filters, moment: Moment, judged_us: int) -> Record | None:
        record = self._held_then(id, filters, moment, judged_us)
        if record is None or not is_searchable(record) or not is_recallable(record):
            return None
        return None if record.kind == EPISODE and filters.kind is None else record

    def _held_then(self, id: bytes, filters: Filters, moment: Moment, judged_us: int) -> Record | None:
        """What was held at that moment under that id, if it is asked for, and neither forgotten nor rejected since."""
        found = self._found(id, judged_us, moment.as_of_us, moment.valid_at_us)
        if found is None or not passes(found.record, filters):
            return None
        record, present = found.record, self.record(id)
        if present is not None and present.version == record.version:
            return record
        is_rejected = self.rejected(id, record.value_digest)
        return None if is_rejected or is_taken_back(self._connection, record, present) else record

    def page(self, now_us: int, *, filters: Filters = ANYTHING, after: bytes = b"", limit: int = PAGE_LIMIT) -> Page:
        """The next of all records that have not expired, rejected ones included, in the order of their ids."""
        with self.snapshot():
            point = self.point(now_us)
            size = _page_size(limit)
            if moment := Moment.of(filters, point.now_us):
                return self._page_then(filters, moment, after, size, point)
            filters = replace(filters, as_of_us=None)
            conditions = self._conditions(filters, point.now_us)
            rows = self._connection.execute(
                _PAGE.format(conditions=conditions.sql), (after, *conditions.parameters, size)
            ).fetchall()
            records = tuple(record_of(body) for (body,) in rows)
            return Page(point, records, records[-1].id if len(rows) == size else None, conditions.unknown_scopes)

    def _page_then(self, filters: Filters, moment: Moment, after: bytes, size: int, point: ReadPoint) -> Page:
        """As of another moment: of the next ids under which anything was ever held, those that had something then."""
        judged_us = point.now_us if moment.as_of_us is None else moment.as_of_us
        unknown = self._conditions(filters, judged_us).unknown_scopes
        ids = ids_after(self._connection, after, size)
        held = (self._held_then(id, filters, moment, judged_us) for id in ids)
        records = tuple(record for record in held if record is not None)
        return Page(point, records, ids[-1] if len(ids) == size else None, unknown)

    def all(self, now_us: int, *, filters: Filters = ANYTHING, page_records: int = PAGE_LIMIT) -> Iterator[Page]:
        """Every page after the other, each at its own index: changes meanwhile are seen where it was not yet passed."""
        page = self.page(now_us, filters=filters, limit=page_records)
        yield page
        while page.after is not None:
            page = self.page(now_us, filters=filters, after=page.after, limit=page_records)
            yield page

    def prunable(
        self,
        now_us: int,
        *,
        half_life: int = HALF_LIFE_US,
        limit: int = BATCH_IDS_LIMIT,
        includes: Callable[[str], bool] | None = None,
    ) -> list[bytes]:
        """Ids of records that a prune decided now would remove, at most `limit`, in the order of their making.

        `includes` says of which scopes; without it, of all.
        """
        with self.snapshot():
            now_us = self.point(now_us).now_us
            parameters = (now_us, PRUNE_SUPPORT, PRUNE_CONFIDENCE_PPM)
            found: list[bytes] = []
            for (body,) in self._connection.execute(_FADING, parameters):
                record = record_of(body)
                if is_prunable(record, now_us, half_life) and (includes is None or includes(record.scope)):
                    found.append(record.id)
                if len(found) == limit:
                    break
            return found

    # --- for people who judge -----------------------------------------------------------------------------------------

    def review_queue(
        self, now_us: int, *, filters: Filters = ANYTHING, after: bytes = b"", limit: int = REVIEW_LIMIT
    ) -> ReviewPage:
        """The next of all that waits for a reviewer in the scopes of `filters` (see `queue.py`), with its evidence.

        At most 100, and fewer where they are long.
        """
        with self.snapshot():
            point = self.point(now_us)
            conditions = self._conditions(filters, point.now_us)
            scopes = None if conditions.scopes is None else [scope.number for scope in conditions.scopes]
            queue = Queue(self._connection, scopes, point.now_us)
            waiting, following = queue.page(after, min(_page_size(limit), REVIEW_LIMIT))
            items = tuple(self._review(record, contenders) for record, contenders, _ in waiting)
            return ReviewPage(point, items, following, conditions.unknown_scopes)

    def review_of(self, now_us: int, id: bytes) -> ReviewPage:
        """The evidence of one record, whether it waits for a reviewer or not; nothing where none is held (any more)."""
        with self.snapshot():
            point, record = self.point(now_us), self.record(id)
            held = () if record is None or is_expired(record, point.now_us) else (record,)
            return ReviewPage(point, tuple(self._review(one, self.contending(id)) for one in held), None, ())

    def _review(self, record: Record, contenders: tuple[Record, ...]) -> Review:
        corrections = self._superseded(record, REVIEW_CORRECTIONS_LIMIT)
        barred = len(self._connection.execute(schema.GET_REJECTED, (record.id, BARRED_LIMIT)).fetchall())
        if not record.author:
            return Review(record, contenders, corrections, barred, None)
        key = bytes.fromhex(record.author)
        principal = self.principal(key)
        standing = STRANGER if principal is None else principal.standing
        return Review(record, contenders, corrections, barred, AuthorTrust.of(self, key), standing)

    def barred(self, id: bytes) -> tuple[Barred, ...]:
        """The values that were rejected under that id, at most 1 000, with their texts where a version has them."""
        with self.snapshot():
            digests = [digest for (digest,) in self._connection.execute(schema.GET_REJECTED, (id, BARRED_LIMIT))]
            if not digests:
                return ()
            texts = {record.value_digest: record.text for record in self._versions(id)}
            return tuple(Barred(digest, texts.get(digest)) for digest in digests)

    def _versions(self, id: bytes) -> list[Record]:
        """What is or was held under that id or contends there, the newest versions last."""
        newest = (id, FOREVER, FOREVER, FOREVER, PAGE_LIMIT)
        pasts = [past_of(body).record for (body,) in self._connection.execute(schema.GET_PASTS_BEFORE, newest)]
        present = self.record(id)
        return [*reversed(pasts), *self.contending(id), *([] if present is None else [present])]

    def scope_of(self, id: bytes) -> str | None:
        """The scope of what is held under that id, or was when it was held last; None where nothing ever was."""
        record = self.record(id)
        if record is None:
            past = self.last_past(id)
            record = None if past is None else past.record
        return None if record is None else record.scope

    def known(self, *, after: bytes = b"", limit: int = PAGE_LIMIT) -> KnownPage:
        """The next of all principals, by key; those who only signed something included. At most 1 000."""
        with self.snapshot():
            size = _page_size(limit)
            rows = self._connection.execute(schema.GET_PRINCIPALS_AFTER, (after, size)).fetchall()
            principals = [principal_of(body) for (body,) in rows]
            return KnownPage(
                self.point(0), tuple(map(self._known, principals)), principals[-1].key if len(rows) == size else None
            )

    def tokens(self, *, principal: bytes | None = None, after: bytes = b"", limit: int = PAGE_LIMIT) -> TokenPage:
        """The next of all tokens that were ever issued, or of those of that key, by id. At most 1 000."""
        with self.snapshot():
            size = _page_size(limit)
            if principal is None:
                rows = self._connection.execute(schema.GET_TOKENS_AFTER, (after, size)).fetchall()
            else:
                rows = self._connection.execute(schema.GET_TOKENS_OF_AFTER, (principal, after, size)).fetchall()
            tokens = tuple(token_of(body) for (body,) in rows)
            return TokenPage(self.point(0), tokens, tokens[-1].id if len(rows) == size else None)

    def known_by(self, key: bytes) -> Known:
        """What is known of the holder of that key; a stranger where nothing is."""
        with self.snapshot():
            return self._known(self.principal(key) or Principal(key, key))

    def _known(self, principal: Principal) -> Known:
        trust = AuthorTrust.of(self, principal.key)
        return Known(principal._replace(kept=trust.kept, lost=trust.lost), trust)

    def _conditions(self, filters: Filters, now_us: int, *, sources_too: bool = True) -> Conditions:
        asked = () if filters.scopes is None or EVERY_SCOPE in filters.scopes else filters.scopes
        known = {scope.name: scope for name in asked for scope in self._scopes_of(name)}
        return Conditions.of(filters, now_us, known, sources_too)

    def _scopes_of(self, asked: str) -> Iterator[ScopeCount]:
        """The scopes with records that a scope or pattern covers."""
        row = self._row(schema.GET_SCOPE, asked.removesuffix("/**"))
        if row is not None and row[2]:
            yield ScopeCount(*row)
        if is_pattern(asked):
            yield from map(ScopeCount._make, self._connection.execute(schema.GET_SCOPES_WITHIN, scopes_below(asked)))

    # --- the whole ----------------------------------------------------------------------------------------------------

    def scopes(self) -> tuple[ScopeRecords, ...]:
        """Every scope that holds records, by name."""
        with self.snapshot():
            rows = self._connection.execute(schema.GET_SCOPES).fetchall()
        return tuple(ScopeRecords(name, records) for _, name, records in rows)

    def counts(self) -> Counts:
        """How much there is. Reads every row of some indexes: milliseconds for each 100 000 records."""
        with self.snapshot():
            tables = ("record", "past", "rejection", "command")
            records, past, rejections, commands = (self._count(table) for table in tables)
            return Counts(records, self.standing().searchable, past, rejections, commands, len(self.scopes()))

    def buckets(self) -> tuple[ReadPoint, tuple[bytes, ...]]:
        """256 digests of 32 bytes: of all rows whose record's id begins with that byte (PROTOCOL § 9)."""
        with self.snapshot():
            return self.point(0), tuple(self.bucket_digests())

    def digest(self) -> bytes:
        """One digest of all records and what belongs to them: equal index, equal digest, on every node. 32 bytes."""
        return sha256(b"".join(self.buckets()[1])).digest()

    def state_digest(self) -> bytes:
        """One digest of everything, also of outcomes, settings and window: that of `memory.state.MemoryState`.

        Reads every remembered command: a second or two for each million.
        """
        with self.snapshot():
            standing = self.standing()
            state = sha256(b"".join(self.buckets()[1]) + _array_header(4))
            state.update(_array_header(self._count("command")))
            for id, outcome in self._connection.execute("SELECT id, outcome FROM command ORDER BY id"):
                state.update(_array_header(2) + pack(id) + outcome)
            settings = [(name, unpack(value)) for name, value in self._connection.execute(_SETTINGS)]
            state.update(pack(settings) + pack(standing.window) + pack(standing.time_us))
            return state.digest()

    def _count(self, table: str) -> int:
        return self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


_SETTINGS: Final = "SELECT name, value FROM setting ORDER BY name"
_PAGE: Final = """
SELECT content.body FROM record JOIN content ON content.number = record.number
WHERE record.id > ? AND {conditions} ORDER BY record.id LIMIT ?
"""
_FADING: Final = """
SELECT content.body FROM record JOIN content ON content.number = record.number
WHERE NOT record.pinned AND (record.expiry_us <= ? OR record.support < ? AND record.confidence_ppm < ?)
    AND NOT EXISTS (SELECT 1 FROM derivation WHERE derivation.source = record.id)
ORDER BY record.number
"""


def _array_header(items: int) -> bytes:
    """How msgpack begins an array of so many items, in the shortest form."""
    if items < 1 << 4:
        return bytes([0x90 | items])
    return b"\xdc" + items.to_bytes(2, "big") if items < 1 << 16 else b"\xdd" + items.to_bytes(4, "big")


def _page_size(limit: int) -> int:
    if limit < 1:
        raise Invalid("limit", "is less than 1")
    return min(limit, PAGE_LIMIT)


def _records(pasts: Sequence[PastVersion]) -> list[Record]:
    return [past.record for past in pasts]


def _covers(record: Record, moment_us: int) -> bool:
    begun = record.valid_from_us is None or record.valid_from_us <= moment_us
    return begun and (record.valid_to_us is None or moment_us < record.valid_to_us)


def _beginning(record: Record) -> tuple[int, Version]:
    return (EVER_SINCE if record.valid_from_us is None else record.valid_from_us, record.version)


def _present_item(record: Record, now_us: int) -> HistoryItem:
    if is_expired(record, now_us):
        return HistoryItem(record, record.expiry_us, EXPIRED, "")
    return HistoryItem(record, None, "", "")


def _past_item(past: PastVersion) -> HistoryItem:
    return HistoryItem(past.record, past.until_us, past.ended_by, past.reason)
