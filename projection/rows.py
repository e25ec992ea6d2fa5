"""Between records and the rows that hold them.

The body of a row is the record's canonical bytes, the same that its digest covers, so that a digest can be recomputed
from what is on disk without knowing what it means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import msgpack

from ..log.entry import GENESIS_HASH
from ..memory.grants import Grant
from ..memory.keys import RESERVED_SCOPES, normal_name
from ..memory.principals import Principal
from ..memory.record import CANDIDATE, EPISODE, REJECTED, VERIFIED, PastVersion, Record, Version
from ..memory.state import PastOutcome, SettingValue, Witness
from ..memory.tokens import Token
from ..memory.window import Window
from .names import name_mark
from .schema import EVER_SINCE, FOREVER
from .words import indexed

TRUST_NUMBERS: Final = {CANDIDATE: 0, VERIFIED: 1, REJECTED: 2}
VERIFIED_MARK: Final = "verified"
CONTROL_PREDICATES: Final = frozenset({"author_trust", "fails"})
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

SPEAKER_CHARACTERS: Final = 40
PLACE_BITS: Final = 8  # an envelope holds at most 256 commands

pack: Final = cast(Callable[[Any], bytes], msgpack.packb)
_unpack: Final = cast(Callable[..., Any], msgpack.unpackb)


class Held(NamedTuple):
    """A present row as it is stored: its number, its digest, and the record."""

    number: int
    digest: bytes
    record: Record


class Standing(NamedTuple):
    """Where the fold stands, one row: the last entry's position, hash and time, the numbers given, the command window.

    `searchable` counts the records that can be recalled; `next_number` is what the next new record gets. Some of the
    texts that were folded were missing already where `whole_after` is later: that entry takes their records away.
    """

    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    hash: bytes
    time_us: int
    next_number: int
    searchable: int
    whole_after: int
    window: Window


NOWHERE: Final = Standing(0, 0, GENESIS_HASH, 0, 1, 0, 0, Window())


def unpack(body: bytes) -> Any:
    """What `pack` packed, with tuples for arrays."""
    return _unpack(body, use_list=False, strict_map_key=False)


def stored(record: Record) -> tuple[bytes, bytes]:
    """The digest and the body of a record: `memory.digest.record_digest`, and the bytes that it covers."""
    body = pack(record)
    return sha256(b"record\0" + body).digest(), body


def stored_past(past: PastVersion) -> tuple[bytes, bytes]:
    """The digest and the body of a past version: `memory.digest.past_digest`, and the bytes that it covers."""
    body = pack(past)
    return sha256(b"past\0" + body).digest(), body


def record_of(body: bytes) -> Record:
    """The record that a body holds."""
    return _record(unpack(body))


def past_of(body: bytes) -> PastVersion:
    """The past version that a body holds."""
    held, until, *rest = unpack(body)
    return PastVersion._make((_record(held), Version._make(until), *rest))


def contenders_of(body: bytes) -> tuple[Record, ...]:
    """The contending records that a body holds."""
    return tuple(map(_record, unpack(body)))


def witness_of(body: bytes) -> Witness:
    """The value and sources that a past version's witness column holds."""
    return Witness._make(unpack(body))


def stored_principal(principal: Principal) -> tuple[bytes, bytes]:
    """The digest and the body of a principal's row: `memory.digest.principal_digest`, and the bytes that it covers."""
    body = pack(principal)
    return sha256(b"principal\0" + body).digest(), body


def principal_of(body: bytes) -> Principal:
    """The principal that a body holds."""
    *who, grants, kept, lost, version = unpack(body)
    return Principal._make((*who, tuple(map(Grant._make, grants)), kept, lost, Version._make(version)))


def stored_token(token: Token) -> tuple[bytes, bytes]:
    """The digest and the body of a token's row: `memory.digest.token_digest`, and the bytes that it covers."""
    body = pack(token)
    return sha256(b"token\0" + body).digest(), body


def token_of(body: bytes) -> Token:
    """The token that a body holds."""
    *fields, version = unpack(body)
    return Token._make((*fields, Version._make(version)))


def mark_of(id: bytes) -> int:
    """By what mentions of a record are looked up: half of its id, which is a hash."""
    return int.from_bytes(id[:8], "big", signed=True)


def mention_number(index: int, place: int) -> int:
    """The number of what a command at that place of that entry mentions; later ones have higher numbers."""
    return index << PLACE_BITS | place


def mentioned_at(number: int) -> tuple[int, int]:
    """Index and place of the command with that number."""
    return number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1)


def outcome_of(body: bytes) -> PastOutcome:
    """The first outcome of a command."""
    *fields, version = unpack(body)
    return PastOutcome._make((*fields, Version._make(version)))


def setting_of(body: bytes) -> SettingValue:
    """The value of a setting."""
    return cast(SettingValue, unpack(body))


def standing_of(body: bytes) -> Standing:
    """Where the fold stands."""
    *fields, window = unpack(body)
    return Standing._make((*fields, Window._make(window)))


def facets(number: int, record: Record, scope: int, searchable: bool) -> tuple[int | str | bytes, ...]:
    """The narrow row of a record, in the order of the table's columns. Open ends become the ends of time."""
    expiry_us = record.expiry_us
    return (
        number,
        record.id,
        scope,
        record.kind,
        TRUST_NUMBERS[record.trust],
        searchable,
        record.pinned,
        record.confidence_ppm,
        record.support,
        record.strength_ppm,
        record.strength_at_us,
        FOREVER if expiry_us is None else expiry_us,
        EVER_SINCE if record.valid_from_us is None else record.valid_from_us,
        FOREVER if record.valid_to_us is None else record.valid_to_us,
        mark_of_name(record),
        record.updated_at_us,
    )


def mark_of_name(record: Record) -> int:
    """By what a question that names its subject, or who says it, is known."""
    return name_mark(normal_name(record.subject or speaker_of(record)))


def speaker_of(record: Record) -> str:
    """Who says it, where an episode begins as a transcript does: `Mira: …`. Else empty."""
    if record.kind != EPISODE:
        return ""
    speaker, colon, _ = record.text[: SPEAKER_CHARACTERS + 1].partition(":")
    return speaker if colon and "\n" not in speaker else ""


def is_searchable(record: Record) -> bool:
    """Whether a record may appear in a recall: it is not rejected, and no part of the product's own bookkeeping."""
    return (
        record.trust != REJECTED
        and normal_name(record.predicate) not in CONTROL_PREDICATES
        and record.scope not in RESERVED_SCOPES
    )


def searched_text(record: Record, scope: int, before: str = "", after: str = "") -> tuple[str, ...]:
    """The columns of the full-text index for a record of the scope with that number, and what stands around it."""
    return (
        indexed(record.subject),
        indexed(record.predicate),
        indexed(record.text),
        "" if record.metadata == "{}" else indexed(" ".join(_strings(json.loads(record.metadata)))),
        before and indexed(before),
        after and indexed(after),
        "" if record.valid_from_us is None else date_words(record.valid_from_us),
        f"{scope_mark(scope)} {VERIFIED_MARK}" if record.trust == VERIFIED else scope_mark(scope),
    )


def scope_mark(scope: int) -> str:
    """The word that marks a scope's records in the full-text index."""
    return f"s{scope}"


def date_words(time_us: int) -> str:
    """A day as people ask for it: `2024-03-05 5 march tuesday`. Empty for times that no calendar holds."""
    try:
        day = EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return ""
    return f"{day:%Y-%m-%d} {day.day} {_MONTHS[day.month - 1]} {_DAYS[day.weekday()]}"


_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _record(fields: tuple[Any, ...]) -> Record:
    *rest, version = fields
    return Record._make((*rest, Version._make(version)))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)
