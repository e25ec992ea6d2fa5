"""Reads as protobuf and back: what is asked of a node's projection, and what it answers.

Rows pass through as the canonical bytes that the projection keeps (`proto/memory.proto` lists their fields).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from ..memory.errors import Invalid
from ..memory.record import Record, Version
from ..projection.answers import (
    Counts,
    Filters,
    Found,
    HistoryItem,
    HistoryPage,
    Hit,
    Page,
    ReadPoint,
    Recalled,
    ScopeRecords,
)  # fmt: skip
from ..proto.generated import memory_pb2, ticket_pb2
from ..replication.messages import ReadMode
from ..security.tickets import Ticket
from . import trust_questions, wire
from .access import NOBODY, Caller
from .ports import ReadReply, ReadRequest, Verb
from .queries import StateDigest
from .rows import past_of, past_row_of, record_of, row_of

MODES: Final = {
    memory_pb2.READ_MODE_LOCAL: ReadMode.LOCAL,
    memory_pb2.READ_MODE_SESSION: ReadMode.SESSION,
    memory_pb2.READ_MODE_STRONG: ReadMode.STRONG,
    memory_pb2.READ_MODE_LEASE: ReadMode.LEASE,
    memory_pb2.READ_MODE_QUORUM: ReadMode.QUORUM,
}
MODE_NUMBERS: Final = {mode: number for number, mode in MODES.items()}

Args = Mapping[str, Any]


# --- questions --------------------------------------------------------------------------------------------------------


def read_request_to_wire(request: ReadRequest) -> memory_pb2.ReadRequest:
    """A read on its way to another member."""
    raw = memory_pb2.ReadRequest(
        mode=MODE_NUMBERS[request.mode],
        timeout_us=request.timeout_us,
        min_index=request.min_index,
        max_staleness_us=request.max_staleness_us,
        min_position=wire.position_to_wire(request.min_position),
        forwarded=request.forwarded,
    )
    if request.caller.ticket is not None:
        raw.ticket.CopyFrom(ticket_pb2.Ticket(**request.caller.ticket._asdict()))
    name, encode = _QUESTIONS[request.verb]
    getattr(raw, name).CopyFrom(encode(request.args))
    return raw


def read_request_from_wire(raw: memory_pb2.ReadRequest) -> ReadRequest:
    """A read that arrived. Raises `Invalid` when it asks nothing that is known here."""
    name = raw.WhichOneof("query")
    if name is None or raw.mode not in MODES:
        raise Invalid("query", "asks nothing that this version knows")
    if raw.timeout_us <= 0:
        raise Invalid("timeout_us", "is not positive")
    numbers = (raw.min_index, raw.min_position.epoch, raw.min_position.index)
    if max(numbers) > wire.NUMBER_LIMIT:
        raise Invalid("min_index", "is beyond any index")
    verb, decode = _ASKED[name]
    return ReadRequest(
        verb,
        decode(getattr(raw, name)),
        MODES[raw.mode],
        raw.timeout_us,
        raw.min_index,
        raw.max_staleness_us if raw.HasField("max_staleness_us") else None,
        wire.position_from_wire(raw.min_position),
        raw.forwarded,
        caller_of(raw),
    )


class Ticketed(Protocol):
    """A request that may carry a ticket."""

    @property
    def ticket(self) -> ticket_pb2.Ticket:
        """It, empty where there is none."""
        ...

    def HasField(self, name: Literal["ticket"], /) -> bool:  # noqa: N802 - as protobuf names it
        """Whether there is one."""
        ...


def caller_of(raw: Ticketed) -> Caller:
    """Who sent a request, as its ticket says. It is verified where the answer depends on it."""
    if not raw.HasField("ticket"):
        return NOBODY
    return Caller(ticket=Ticket(raw.ticket.author, raw.ticket.issued_at_us, raw.ticket.signature))


def _get_to_wire(args: Args) -> memory_pb2.Get:
    ids = [args["id"]] if "id" in args else args["ids"]
    return memory_pb2.Get(ids=ids, as_of_us=args.get("as_of_us"), valid_at_us=args.get("valid_at_us"))


def _get(raw: memory_pb2.Get) -> Args:
    return {"ids": tuple(raw.ids), **_moments(raw)}


def _moments(raw: memory_pb2.Get | memory_pb2.History) -> Args:
    names: tuple[Literal["as_of_us", "valid_at_us"], ...] = ("as_of_us", "valid_at_us")
    return {name: getattr(raw, name) for name in names if raw.HasField(name)}


def _recall_to_wire(args: Args) -> memory_pb2.Recall:
    return memory_pb2.Recall(query=args["query"], k=args.get("k", 0), filters=_filters_to_wire(args))


def _recall(raw: memory_pb2.Recall) -> Args:
    args: dict[str, Any] = {"query": raw.query, "filters": _filters(raw.filters)}
    return args | ({"k": raw.k} if raw.k else {})


def _all_to_wire(args: Args) -> memory_pb2.All:
    return memory_pb2.All(filters=_filters_to_wire(args), after=args.get("after", b""), limit=args.get("limit", 0))


def _all(raw: memory_pb2.All) -> Args:
    args: dict[str, Any] = {"filters": _filters(raw.filters), "after": raw.after}
    return args | ({"limit": raw.limit} if raw.limit else {})


def _review_queue_to_wire(args: Args) -> memory_pb2.ReviewQueue:
    if "id" in args:
        return memory_pb2.ReviewQueue(id=args["id"])
    after, limit = args.get("after", b""), args.get("limit", 0)
    return memory_pb2.ReviewQueue(filters=_filters_to_wire(args), after=after, limit=limit)


def _history_to_wire(args: Args) -> memory_pb2.History:
    before = args.get("before")
    raw = memory_pb2.History(
        id=args["id"],
        limit=args.get("limit", 0),
        as_of_us=args.get("as_of_us"),
        valid_at_us=args.get("valid_at_us"),
    )
    if before is not None:
        raw.before.CopyFrom(_version_to_wire(before))
    return raw


def _history(raw: memory_pb2.History) -> Args:
    args: dict[str, Any] = {"id": raw.id, "before": _version(raw.before) if raw.HasField("before") else None}
    args |= _moments(raw)
    return args | ({"limit": raw.limit} if raw.limit else {})


def _prunable_to_wire(args: Args) -> memory_pb2.Prunable:
    return memory_pb2.Prunable(at_us=args["at_us"], half_life_us=args["half_life_us"], limit=args["limit"])


def _prunable(raw: memory_pb2.Prunable) -> Args:
    return {"at_us": raw.at_us, "half_life_us": raw.half_life_us, "limit": raw.limit}


def _filters_to_wire(args: Args) -> memory_pb2.Filters:
    filters: Filters = args.get("filters", Filters())
    return memory_pb2.Filters(
        scopes=filters.scopes or (),
        has_scopes=filters.scopes is not None,
        kind=filters.kind,
        trust=filters.trust,
        valid_at_us=filters.valid_at_us,
        as_of_us=filters.as_of_us,
    )


def _filters(raw: memory_pb2.Filters) -> Filters:
    return Filters(
        tuple(raw.scopes) if raw.has_scopes else None,
        raw.kind if raw.HasField("kind") else None,
        raw.trust if raw.HasField("trust") else None,
        raw.valid_at_us if raw.HasField("valid_at_us") else None,
        raw.as_of_us if raw.HasField("as_of_us") else None,
    )


_QUESTIONS: Final[Mapping[Verb, tuple[str, Callable[[Args], Any]]]] = {
    Verb.GET: ("get", _get_to_wire),
    Verb.GET_MANY: ("get", _get_to_wire),
    Verb.RECALL: ("recall", _recall_to_wire),
    Verb.ALL: ("all", _all_to_wire),
    Verb.HISTORY: ("history", _history_to_wire),
    Verb.PRUNABLE: ("prunable", _prunable_to_wire),
    Verb.SCOPES: ("scopes", lambda _: memory_pb2.Scopes()),
    Verb.COUNTS: ("counts", lambda _: memory_pb2.Counts()),
    Verb.DIGEST: ("digest", lambda _: memory_pb2.Digest()),
    Verb.REVIEW_QUEUE: ("review_queue", _review_queue_to_wire),
    Verb.PRINCIPALS: ("principals", trust_questions.principals_to_wire),
    Verb.LATTICE: ("lattice", lambda _: memory_pb2.Lattice()),
    Verb.REJECTIONS: ("rejections", lambda args: memory_pb2.Rejections(id=args["id"])),
    Verb.TOKENS: ("tokens", trust_questions.tokens_to_wire),
}
_ASKED: Final[Mapping[str, tuple[Verb, Callable[[Any], Args]]]] = {
    "get": (Verb.GET_MANY, _get),
    "recall": (Verb.RECALL, _recall),
    "all": (Verb.ALL, _all),
    "history": (Verb.HISTORY, _history),
    "prunable": (Verb.PRUNABLE, _prunable),
    "scopes": (Verb.SCOPES, lambda _: {}),
    "counts": (Verb.COUNTS, lambda _: {}),
    "digest": (Verb.DIGEST, lambda _: {}),
    "review_queue": (Verb.REVIEW_QUEUE, lambda raw: {"id": raw.id} if raw.id else _all(raw)),
    "principals": (Verb.PRINCIPALS, trust_questions.principals),
    "lattice": (Verb.LATTICE, lambda _: {}),
    "rejections": (Verb.REJECTIONS, lambda raw: {"id": raw.id}),
    "tokens": (Verb.TOKENS, trust_questions.tokens),
}


# --- answers ----------------------------------------------------------------------------------------------------------


def read_reply_to_wire(verb: Verb, reply: ReadReply) -> memory_pb2.ReadReply:
    """An answer with the position, moment and scopes that it holds for."""
    raw = memory_pb2.ReadReply(
        epoch=reply.epoch,
        index=reply.index,
        now_us=reply.now_us,
        scopes=reply.scopes,
        member=reply.member,
        age_us=reply.age_us,
    )
    name, encode = _ANSWERS[verb]
    getattr(raw, name).CopyFrom(encode(reply.value))
    return raw


def read_reply_from_wire(verb: Verb, raw: memory_pb2.ReadReply) -> ReadReply:
    """The answer of another member to a read of that verb."""
    name, _ = _ANSWERS[verb]
    value = _ANSWERED[verb](getattr(raw, name), ReadPoint(raw.epoch, raw.index, raw.now_us))
    age_us = raw.age_us if raw.HasField("age_us") else None
    return ReadReply(value, raw.epoch, raw.index, raw.now_us, tuple(raw.scopes), raw.member, age_us)


def _found_to_wire(found: Found | None) -> memory_pb2.Found:
    if found is None:
        return memory_pb2.Found()
    return memory_pb2.Found(row=row_of(found.record), corrections=map(past_row_of, found.corrections))


def _found(raw: memory_pb2.Found) -> Found | None:
    record = record_of(raw.row)
    return None if record is None else Found(record, tuple(map(past_of, raw.corrections)))


def _record_to_wire(value: Found | None) -> memory_pb2.Records:
    return memory_pb2.Records(found=[_found_to_wire(value)])


def _record(raw: memory_pb2.Records, _: ReadPoint) -> Found | None:
    return _found(raw.found[0])


def _records_to_wire(value: tuple[Found | None, ...]) -> memory_pb2.Records:
    return memory_pb2.Records(found=map(_found_to_wire, value))


def _records(raw: memory_pb2.Records, _: ReadPoint) -> tuple[Found | None, ...]:
    return tuple(map(_found, raw.found))


def _hits_to_wire(value: Recalled) -> memory_pb2.Hits:
    hits = [
        memory_pb2.Hit(row=row_of(hit.record), score=hit.score, relevance=hit.relevance, lanes=dict(hit.lanes))
        for hit in value.hits
    ]
    return memory_pb2.Hits(
        hits=hits,
        unknown_scopes=value.unknown_scopes,
        notices=value.notices,
        scopes=value.scopes or (),
        has_scopes=value.scopes is not None,
    )


def _hits(raw: memory_pb2.Hits, point: ReadPoint) -> Recalled:
    hits = tuple(Hit(_present(hit.row), hit.score, hit.relevance, dict(hit.lanes)) for hit in raw.hits)
    scopes = tuple(raw.scopes) if raw.has_scopes else None
    return Recalled(point, hits, scopes, tuple(raw.unknown_scopes), tuple(raw.notices))


def _page_to_wire(value: Page) -> memory_pb2.Page:
    rows = map(row_of, value.records)
    return memory_pb2.Page(rows=rows, after=value.after or b"", unknown_scopes=value.unknown_scopes)


def _page(raw: memory_pb2.Page, point: ReadPoint) -> Page:
    return Page(point, tuple(map(_present, raw.rows)), raw.after or None, tuple(raw.unknown_scopes))


def _history_page_to_wire(value: HistoryPage) -> memory_pb2.HistoryPage:
    items = [
        memory_pb2.Held(row=row_of(item.record), until_us=item.until_us, ended_by=item.ended_by, reason=item.reason)
        for item in value.items
    ]
    raw = memory_pb2.HistoryPage(items=items)
    if value.before is not None:
        raw.before.CopyFrom(_version_to_wire(value.before))
    return raw


def _history_page(raw: memory_pb2.HistoryPage, point: ReadPoint) -> HistoryPage:
    items = tuple(
        HistoryItem(
            _present(item.row), item.until_us if item.HasField("until_us") else None, item.ended_by, item.reason
        )
        for item in raw.items
    )
    return HistoryPage(point, items, _version(raw.before) if raw.HasField("before") else None)


def _ids_to_wire(value: list[bytes]) -> memory_pb2.Ids:
    return memory_pb2.Ids(ids=value)


def _ids(raw: memory_pb2.Ids, _: ReadPoint) -> list[bytes]:
    return list(raw.ids)


def _scopes_to_wire(value: tuple[ScopeRecords, ...]) -> memory_pb2.ScopeCounts:
    return memory_pb2.ScopeCounts(
        scopes=[memory_pb2.ScopeCount(scope=scope, records=records) for scope, records in value]
    )


def _scopes(raw: memory_pb2.ScopeCounts, _: ReadPoint) -> tuple[ScopeRecords, ...]:
    return tuple(ScopeRecords(item.scope, item.records) for item in raw.scopes)


def _totals_to_wire(value: Counts) -> memory_pb2.Totals:
    return memory_pb2.Totals(**value._asdict())


def _totals(raw: memory_pb2.Totals, _: ReadPoint) -> Counts:
    return Counts(*(getattr(raw, name) for name in Counts._fields))


def _digests_to_wire(value: StateDigest) -> memory_pb2.Digests:
    return memory_pb2.Digests(whole=value.digest, buckets=value.buckets)


def _digests(raw: memory_pb2.Digests, _: ReadPoint) -> StateDigest:
    return StateDigest(raw.whole, tuple(raw.buckets))


_ANSWERS: Final[Mapping[Verb, tuple[str, Callable[[Any], Any]]]] = {
    Verb.GET: ("records", _record_to_wire),
    Verb.GET_MANY: ("records", _records_to_wire),
    Verb.RECALL: ("hits", _hits_to_wire),
    Verb.ALL: ("page", _page_to_wire),
    Verb.HISTORY: ("history", _history_page_to_wire),
    Verb.PRUNABLE: ("ids", _ids_to_wire),
    Verb.SCOPES: ("scope_counts", _scopes_to_wire),
    Verb.COUNTS: ("totals", _totals_to_wire),
    Verb.DIGEST: ("digests", _digests_to_wire),
    Verb.REVIEW_QUEUE: ("reviews", trust_questions.review_page_to_wire),
    Verb.PRINCIPALS: ("known", trust_questions.known_page_to_wire),
    Verb.TOKENS: ("tokens", trust_questions.token_page_to_wire),
    Verb.LATTICE: ("lattice", trust_questions.lattice_to_wire),
    Verb.REJECTIONS: ("barred", trust_questions.barred_to_wire),
}
_ANSWERED: Final[Mapping[Verb, Callable[[Any, ReadPoint], Any]]] = {
    Verb.GET: _record,
    Verb.GET_MANY: _records,
    Verb.RECALL: _hits,
    Verb.ALL: _page,
    Verb.HISTORY: _history_page,
    Verb.PRUNABLE: _ids,
    Verb.SCOPES: _scopes,
    Verb.COUNTS: _totals,
    Verb.DIGEST: _digests,
    Verb.REVIEW_QUEUE: trust_questions.review_page,
    Verb.PRINCIPALS: trust_questions.known_page,
    Verb.TOKENS: trust_questions.token_page,
    Verb.LATTICE: trust_questions.lattice,
    Verb.REJECTIONS: trust_questions.barred,
}


def _version_to_wire(version: Version) -> memory_pb2.Version:
    return memory_pb2.Version(epoch=version.epoch, index=version.index, place=version.place)


def _version(raw: memory_pb2.Version) -> Version:
    if max(raw.epoch, raw.index) > wire.NUMBER_LIMIT:
        raise Invalid("version", "is beyond any index")
    return Version(raw.epoch, raw.index, raw.place)


def _present(row: bytes) -> Record:
    record = record_of(row)
    if record is None:
        raise wire.Malformed("a row is missing")
    return record
