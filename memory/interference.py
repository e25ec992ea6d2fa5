"""What a write meets (MEMORY § 2): identity by key alone, equality by canonical value alone, never by similarity."""

from __future__ import annotations

from typing import NamedTuple

from . import events, rules
from .commands import MULTI_VALUED, WriteBody
from .context import VOUCH, WRITE, Context, Digester
from .events import Event, refused
from .fields import EMPTY_JSON
from .keys import is_own_record, is_reserved_key, make_key, normal_name, record_id, sentence_id, value_id
from .lifecycle import INITIAL_CONFIDENCE_PPM, VOLATILE_US, is_expired
from .limits import CONTENDERS_LIMIT
from .record import PPM, VERIFIED, Record
from .scope import scope_matches
from .sources import RECALLED, Source, is_known, is_saturated, source_of, supports
from .state import State
from .text import value_key

CORROBORATED_PPM = 100_000

_VALUE = b"value"


class Claim(NamedTuple):
    """A write with its identity worked out: the record it is about, its value, and who says so."""

    id: bytes
    value: bytes
    source: Source
    body: WriteBody
    now_us: int

    @property
    def expires_at_us(self) -> int | None:
        """When its time to live is over, counted from the write itself."""
        return None if self.body.ttl_us is None else self.now_us + self.body.ttl_us

    @property
    def is_recalled(self) -> bool:
        """Whether it is this memory's own text coming back."""
        return self.body.source.startswith(RECALLED)


def decide_write(state: State, body: WriteBody, author: bytes | None, now_us: int, context: Context) -> Event:
    """The one event of a write."""
    if not context.rights.holds(author, WRITE, body.scope):
        return refused(rules.NOT_GRANTED)
    if body.vouched and not context.rights.holds(author, VOUCH, body.scope):
        return refused(rules.NOT_GRANTED)
    if is_reserved_key(body.predicate, body.scope) and not is_own_record(body.kind, body.predicate, body.scope):
        return refused(rules.RESERVED_KEY)
    value = value_digest(body.text, context.digests)
    source = source_of(author, body.source, context.digests, body.vouched)
    claim = Claim(_identity(state, body, value, source), value, source, body, now_us)
    return _barred(state, claim) or _met(state, claim)


def value_digest(text: str, digests: Digester) -> bytes:
    """The keyed digest of a value, the same for all its look-alike spellings."""
    return digests.digest(_VALUE, value_key(text).encode())


def is_multi_valued(state: State, predicate: str, scope: str) -> bool:
    """Whether that (normal) predicate was declared to hold many values side by side in that scope."""
    declared = state.setting(MULTI_VALUED)
    if not isinstance(declared, tuple):
        return False
    return any(
        isinstance(item, tuple) and item[1] == predicate and scope_matches(str(item[0]), scope) for item in declared
    )


def _identity(state: State, body: WriteBody, value: bytes, source: Source) -> bytes:
    if not body.subject:
        return sentence_id(body.scope, value)
    key = make_key(body.subject, body.predicate, body.scope)
    single = record_id(key)
    if state.setting(MULTI_VALUED) is None or not is_multi_valued(state, normal_name(body.predicate), body.scope):
        return single
    return single if _is_known_under(state, single, value, source) else value_id(key, value)


def _is_known_under(state: State, id: bytes, value: bytes, source: Source) -> bool:
    """Whether the id of before the predicate was declared multi-valued holds this value, or bars it."""
    present = state.record(id)
    holds = present is not None and present.value_digest == value
    return holds or state.rejected(id, value) or state.retracted(id, value, source.digest)


def _barred(state: State, claim: Claim) -> Event | None:
    if state.rejected(claim.id, claim.value):
        return refused(rules.REJECTED_VALUE, claim.id)
    if state.retracted(claim.id, claim.value, claim.source.digest):
        return refused(rules.FORGOTTEN_SOURCE, claim.id)
    return None


def _met(state: State, claim: Claim) -> Event:
    present = state.record(claim.id)
    if present is not None and is_expired(present, claim.now_us):
        present = None
    if present is not None and present.kind != claim.body.kind:
        return refused(rules.OTHER_KIND, claim.id)
    if present is not None and present.value_digest == claim.value:
        return _same_value(present, claim)
    if claim.is_recalled:
        return refused(rules.RECALLED_TEXT, claim.id)
    if present is None:
        return _new_value(events.ASSERTED, claim)
    if present.trust != VERIFIED or supports(present, claim.source):
        return _new_value(events.SUPERSEDED, claim)
    return _contend(state, claim)


def _new_value(code: str, claim: Claim) -> Event:
    body = claim.body
    volatile_until_us = claim.now_us + VOLATILE_US if body.volatile else None
    return [
        code, claim.id, list(body.ignored), claim.value, claim.source.digest, claim.source.principal, body.kind,
        INITIAL_CONFIDENCE_PPM, claim.expires_at_us, volatile_until_us, body.valid_from_us, body.valid_to_us,
    ]  # fmt: skip


def _same_value(present: Record, claim: Claim) -> Event:
    may_amend = present.trust != VERIFIED or supports(present, claim.source)
    amends = may_amend and not claim.is_recalled and _says_more(present, claim.body)
    ends = _longer(present.expires_at_us, claim.expires_at_us) if may_amend else present.expires_at_us
    interval = _interval(present, claim.body) if amends else (present.valid_from_us, present.valid_to_us)
    ignored = list(claim.body.ignored)
    if claim.is_recalled or is_known(present, claim.source) or is_saturated(present):
        source = None if claim.is_recalled else claim.source.digest
        return [events.REPEATED, present.id, ignored, source, ends, *interval, amends]
    confidence = min(PPM, present.confidence_ppm + CORROBORATED_PPM)
    return [
        events.CORROBORATED, present.id, ignored, claim.source.digest, claim.source.principal,
        confidence, present.support + 1, ends, *interval, amends,
    ]  # fmt: skip


def _says_more(present: Record, body: WriteBody) -> bool:
    """A write without metadata or dates keeps those that are there; one with other metadata or dates replaces them."""
    return (
        body.metadata not in (EMPTY_JSON, present.metadata)
        or body.detail not in (EMPTY_JSON, present.detail)
        or _interval(present, body) != (present.valid_from_us, present.valid_to_us)
    )


def _interval(present: Record, body: WriteBody) -> tuple[int | None, int | None]:
    if body.valid_from_us is None and body.valid_to_us is None:
        return present.valid_from_us, present.valid_to_us
    return body.valid_from_us, body.valid_to_us


def _longer(one_us: int | None, other_us: int | None) -> int | None:
    """The later of two ends, where None never ends: saying a thing again does not shorten its life."""
    return None if one_us is None or other_us is None else max(one_us, other_us)


def _contend(state: State, claim: Claim) -> Event:
    contenders = state.contending(claim.id)
    rival = next((contender for contender in contenders if contender.value_digest == claim.value), None)
    if rival is None and len(contenders) >= CONTENDERS_LIMIT:
        return refused(rules.CONTENDERS_FULL, claim.id)
    event = _new_value(events.CONFLICTED, claim)
    if rival is None:
        event.insert(8, 1)
        return event
    counts = not (is_known(rival, claim.source) or is_saturated(rival))
    event[7] = min(PPM, rival.confidence_ppm + CORROBORATED_PPM * counts)
    event.insert(8, rival.support + counts)
    return event
