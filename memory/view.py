"""The public face of a memory: records as callers see them, and the one interface that every store offers.

Rules never see these models; they are built at the border from rows (`MemoryRecord.from_record`) and read once when a
caller writes (`MemoryRecord.write_fields`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field

from .commands import WriteBody
from .errors import Invalid, Refused
from .fields import EMPTY_JSON, json_text
from .keys import make_id, make_key
from .lifecycle import HALF_LIFE_US, is_stale, strength_ppm
from .record import PPM, PastVersion, Record
from .scope import normal_scope

__all__ = [
    "Done", "HistoryItem", "MemoryKind", "MemoryRecord", "MemoryView", "RecordVersion", "Trust", "correction_chain",
    "make_id", "make_key",
]  # fmt: skip

CORRECTIONS_SHOWN_LIMIT = 100
MOMENTS_LIMIT = 4096
"""Datetimes that are kept: all records of one entry have theirs in common."""

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Model = TypeVar("Model", bound=BaseModel)


class MemoryKind(StrEnum):
    """What sort of thing a record says. An episode says nothing itself: it is a source from which facts were taken."""

    FACT = "fact"
    DESIGN_RULE = "design_rule"
    SCHEMA = "schema"
    FAILURE = "failure"
    SKILL = "skill"
    EPISODE = "episode"


class Trust(StrEnum):
    """Whether a record may be believed. Only `candidate` and `verified` are recalled."""

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    REJECTED = "rejected"


class RecordVersion(BaseModel):
    """Where in history a version was made: epoch and index of its entry, place of its command in the entry."""

    model_config = ConfigDict(frozen=True)

    epoch: int
    index: int
    place: int

    @staticmethod
    def of(record: Record) -> RecordVersion:
        """The version of a row."""
        epoch, index, place = record.version
        return _built(RecordVersion, {"epoch": epoch, "index": index, "place": place}, VERSION_FIELDS)


class Done(NamedTuple):
    """What became of a command that does not answer with a record: its outcome, its id, where in history it stands.

    `event` is what `undo` takes back, where it was about a record.
    """

    outcome: str
    command_id: str
    event: RecordVersion


class HistoryItem(BaseModel):
    """What was held under a key for a while. `recorded_to` is None and `ended_by` empty for what is held now.

    `cause` and `ended_by` name the events that began and ended it.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    metadata: dict[str, Any]
    trust: Trust
    epistemic_confidence: float
    support_count: int
    author: str
    source: str
    reason: str
    cause: str
    recorded_from: datetime
    recorded_to: datetime | None
    ended_by: str
    ended_reason: str
    valid_from: datetime | None
    valid_to: datetime | None
    version: RecordVersion

    @staticmethod
    def from_record(
        record: Record, until_us: int | None = None, ended_by: str = "", ended_reason: str = ""
    ) -> HistoryItem:
        """The item of a row that was held until then, or is held still."""
        return HistoryItem(
            text=record.text,
            metadata=json.loads(record.metadata),
            trust=Trust(record.trust),
            epistemic_confidence=record.confidence_ppm / PPM,
            support_count=record.support,
            author=record.author,
            source=record.source,
            reason=record.reason,
            cause=record.cause,
            recorded_from=datetime_of(record.updated_at_us),
            recorded_to=optional_datetime(until_us),
            ended_by=ended_by,
            ended_reason=ended_reason,
            valid_from=optional_datetime(record.valid_from_us),
            valid_to=optional_datetime(record.valid_to_us),
            version=RecordVersion.of(record),
        )

    @staticmethod
    def from_past(past: PastVersion) -> HistoryItem:
        """The item of a past version."""
        return HistoryItem.from_record(past.record, past.until_us, past.ended_by, past.reason)


class MemoryRecord(BaseModel):
    """One memory. To write one, give kind, subject, predicate, text and scope; the rest is told, not asked.

    Trust, confidence, strength, support, author, id and key are never taken from a caller: what a write carries of them
    is ignored and named in `ignored` of its answer. Times are aware datetimes; `ttl_s` counts from the write.
    `derived_from` names records by id: what follows from them falls with the last of them, unless somebody has said it.
    An episode `follows` the one before it.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    kind: MemoryKind = MemoryKind.FACT
    subject: str = ""
    predicate: str = ""
    text: str
    scope: str = "global"
    subj_pred_key: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)
    detail: dict[str, Any] = Field(default_factory=dict)
    source: str = ""
    provenance: list[str] = Field(default_factory=list)
    derived_from: list[str] = Field(default_factory=list)
    follows: str = ""
    valid_from: AwareDatetime | None = Field(default=None, validation_alias=AliasChoices("valid_from", "ts"))
    valid_to: AwareDatetime | None = None
    ttl_s: float | None = None
    volatile: bool = False
    pinned: bool = False

    id: str = ""
    trust: Trust = Trust.CANDIDATE
    epistemic_confidence: float = 0.5
    retrieval_strength: float = 1.0
    support_count: int = 1
    author: str = ""
    created_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None
    last_seen: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    stale: bool = False
    reason: str = ""
    corrections_count: int = 0
    corrections: list[HistoryItem] = Field(default_factory=list)
    version: RecordVersion | None = None
    score: float | None = None

    outcome: str = ""
    command_id: str = ""
    epoch: int = 0
    index: int = 0
    ignored: list[str] = Field(default_factory=list)

    @staticmethod
    def from_record(record: Record, now_us: int, corrections: Sequence[PastVersion] = ()) -> MemoryRecord:
        """What a caller sees of a row at `now_us`. `corrections` are its superseded versions, oldest first."""
        fields = {
            "kind": KINDS[record.kind],
            "subject": record.subject,
            "predicate": record.predicate,
            "text": record.text,
            "scope": record.scope,
            "subj_pred_key": make_key(record.subject, record.predicate, record.scope),
            "metadata": _json_object(record.metadata),
            "detail": _json_object(record.detail),
            "source": record.source,
            "provenance": list(record.provenance),
            "derived_from": [id.hex() for id in record.derived_from] if record.grounds else [],
            "follows": record.follows.hex(),
            "valid_from": optional_datetime(record.valid_from_us),
            "valid_to": optional_datetime(record.valid_to_us),
            "ttl_s": None,
            "volatile": record.volatile_until_us is not None,
            "pinned": record.pinned,
            "id": record.id.hex(),
            "trust": TRUSTS[record.trust],
            "epistemic_confidence": record.confidence_ppm / PPM,
            "retrieval_strength": strength_ppm(record, now_us) / PPM,
            "support_count": record.support,
            "author": record.author,
            "created_at": datetime_of(record.created_at_us),
            "updated_at": datetime_of(record.updated_at_us),
            "last_seen": datetime_of(record.last_seen_us),
            "expires_at": optional_datetime(record.expiry_us),
            "stale": is_stale(record, now_us),
            "reason": record.reason,
            "corrections_count": record.corrections_count,
            "corrections": [HistoryItem.from_past(past) for past in corrections[-CORRECTIONS_SHOWN_LIMIT:]],
            "version": RecordVersion.of(record),
            "score": None,
            "outcome": "",
            "command_id": "",
            "epoch": record.version.epoch,
            "index": record.version.index,
            "ignored": [],
        }
        return _built(MemoryRecord, fields, RECORD_FIELDS)

    def write_body(self) -> WriteBody:
        """What a write command carries of this record, with the names of the fields that it leaves out (`ignored`)."""
        return WriteBody(
            kind=self.kind.value,
            subject=self.subject.strip(),
            predicate=self.predicate.strip(),
            scope=normal_scope(self.scope),
            text=self.text,
            metadata=json_text("metadata", self.metadata),
            detail=json_text("detail", self.detail),
            source=self.source.strip(),
            provenance=tuple(self.provenance),
            valid_from_us=optional_microseconds(self.valid_from),
            valid_to_us=optional_microseconds(self.valid_to),
            ttl_us=duration_us("ttl_s", self.ttl_s),
            volatile=self.volatile,
            ignored=self._ignored(),
            derived_from=tuple(_id_of("derived_from", id) for id in self.derived_from) if self.derived_from else (),
            follows=_id_of("follows", self.follows) if self.follows else b"",
        )

    def _ignored(self) -> tuple[str, ...]:
        given: list[str] = []
        if not self.model_fields_set.isdisjoint(IGNORED_FIELDS):
            given = [name for name in IGNORED_FIELDS if name in self.model_fields_set and not self._is_default(name)]
        if self.subj_pred_key and self.subj_pred_key != make_key(self.subject, self.predicate, self.scope):
            given.append("subj_pred_key")
        return tuple(given)

    def _is_default(self, name: str) -> bool:
        field = type(self).model_fields[name]
        return getattr(self, name) == field.get_default(call_default_factory=True)


def _id_of(field: str, id: str) -> bytes:
    try:
        return bytes.fromhex(id)
    except (ValueError, TypeError):
        raise Invalid(field, f"{id!r} is not the id of a record") from None


def _built(model: type[Model], fields: dict[str, Any], names: set[str]) -> Model:
    """A model of fields that are right by construction: `model_construct` in a third of its time.

    All that are built so share `names`, the set of all their fields: whatever is assigned later is in it already.
    """
    made = model.__new__(model)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_fields_set__", names)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


def _json_object(text: str) -> dict[str, Any]:
    return {} if text == EMPTY_JSON else json.loads(text)


_set: Final = object.__setattr__

KINDS: Final = {kind.value: kind for kind in MemoryKind}
TRUSTS: Final = {trust.value: trust for trust in Trust}
RECORD_FIELDS: Final = set(MemoryRecord.model_fields)
VERSION_FIELDS: Final = set(RecordVersion.model_fields)
IGNORED_FIELDS: Final = (
    "id", "trust", "epistemic_confidence", "retrieval_strength", "support_count", "author", "created_at", "updated_at",
    "last_seen", "expires_at", "pinned", "stale", "corrections", "version",
)  # fmt: skip


def correction_chain(record: MemoryRecord) -> list[dict[str, Any]]:
    """The values that `record` held before this one, oldest first: the last 100; `history` pages all of them."""
    return [item.model_dump() for item in record.corrections]


@runtime_checkable
class MemoryView(Protocol):
    """The contract of every store. Ids are hex strings as `write` returned them.

    Every mutation returns the record as it is afterwards; a rule that stands against it raises `Refused`, a wrong
    request `Invalid` before anything is sent. Reads of an unknown id return None, of an unknown scope nothing.
    """

    def write(self, record: MemoryRecord) -> MemoryRecord:
        """Say something: it is asserted, corroborates, supersedes, or contends (`outcome` tells which)."""
        ...

    def write_many(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord | Refused]:
        """Write in bulk, in order. A refusal stands at its place in the answer and stops nothing."""
        ...

    def get(
        self, id: str, *, as_of: datetime | float | None = None, valid_at: datetime | float | None = None
    ) -> MemoryRecord | None:
        """The record of that id, or None when there is none or it has expired.

        `as_of`: what was held at that recorded time. `valid_at`: of the values held (then), the one that was true at
        that time of the world. Both are aware datetimes or seconds since 1970 (MEMORY § 4).
        """
        ...

    def get_many(
        self,
        ids: Sequence[str],
        *,
        as_of: datetime | float | None = None,
        valid_at: datetime | float | None = None,
    ) -> list[MemoryRecord | None]:
        """`get` for each id, in order, all at one index."""
        ...

    def recall(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        k: int = 5,
        trust: Trust | None = None,
        as_of: datetime | float | None = None,
        valid_at: datetime | float | None = None,
    ) -> list[MemoryRecord]:
        """At most `k` records of that scope, or of those, that answer the query, best first (MEMORY § 7).

        Any string is a valid query. With `as_of` or `valid_at` (see `get`) past values are found too, but for those
        that were forgotten or rejected since.
        """
        ...

    def all(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        trust: Trust | None = None,
        as_of: datetime | float | None = None,
        valid_at: datetime | float | None = None,
    ) -> Iterator[MemoryRecord]:
        """Every record that has not expired, rejected ones included, in the order of their ids.

        `as_of` and `valid_at` as in `recall`.
        """
        ...

    def history(
        self,
        id: str,
        *,
        limit: int = 100,
        before: RecordVersion | None = None,
        as_of: datetime | float | None = None,
        valid_at: datetime | float | None = None,
    ) -> list[HistoryItem]:
        """What was held under that id, newest first, forgotten values included; `before` pages on.

        `as_of`: as it would have been answered at that recorded time, but for what was erased since. `valid_at`: only
        values that were true then.
        """
        ...

    def corroborate(self, id: str, *, source: str = "") -> MemoryRecord:
        """Believe it more (+ 0.15, once per principal, or per `source` where authors are anonymous)."""
        ...

    def contradict(self, id: str, *, evidence: str = "", reason: str = "") -> MemoryRecord:
        """Believe it less (− 0.25, once per principal and evidence); under 0.2 it is rejected (MEMORY § 3)."""
        ...

    def promote(self, id: str, *, reason: str = "reviewed") -> MemoryRecord:
        """Verify it by human review; needs the review right."""
        ...

    def demote(self, id: str, *, reason: str = "reviewed", trust: Trust | None = None) -> MemoryRecord:
        """One step down (verified → candidate → rejected), or down to `trust`; needs the review right."""
        ...

    def annotate(
        self, id: str, *, metadata: Mapping[str, Any] | None = None, detail: Mapping[str, Any] | None = None
    ) -> MemoryRecord:
        """Merge fields into metadata and detail; a value of None removes its field."""
        ...

    def set_flags(self, id: str, *, volatile: bool | None = None, ttl_s: float | None = None) -> MemoryRecord:
        """Set or lift volatility; set a time to live that counts from now (0 lifts it). None leaves a flag alone."""
        ...

    def pin(self, id: str) -> MemoryRecord:
        """Exempt it from decay and prune."""
        ...

    def unpin(self, id: str) -> MemoryRecord:
        """Take the exemption back."""
        ...

    def decay(self, half_life_s: float = HALF_LIFE_US / 1e6, now: datetime | float | None = None) -> int:
        """Prune what has faded or expired by `now`; returns how many records were pruned."""
        ...

    def forget(self, id: str, *, reason: str = "") -> Done:
        """Retract it: it is gone from every read, and the same source cannot bring it back."""
        ...


def microseconds(moment: datetime | float) -> int:
    """Microseconds since 1970 of an aware datetime, or of epoch seconds. Raises `Invalid` for a naive datetime."""
    if not isinstance(moment, datetime):
        return round(moment * 1_000_000)
    if moment.tzinfo is None:
        raise Invalid("time", "a datetime needs a timezone")
    return (moment - EPOCH) // MICROSECOND


def optional_microseconds(moment: datetime | None) -> int | None:
    """`microseconds`, with None for None."""
    return None if moment is None else microseconds(moment)


@lru_cache(maxsize=MOMENTS_LIMIT)
def datetime_of(time_us: int) -> datetime:
    """The UTC datetime of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=time_us)


def optional_datetime(time_us: int | None) -> datetime | None:
    """`datetime_of`, with None for None."""
    return None if time_us is None else datetime_of(time_us)


def duration_us(field: str, seconds: float | None) -> int | None:
    """Microseconds of a duration in seconds. Raises `Invalid` when it is negative or not a number."""
    if seconds is None:
        return None
    if not 0 <= seconds < float("inf"):
        raise Invalid(field, f"{seconds} is not a duration in seconds")
    return round(seconds * 1_000_000)
