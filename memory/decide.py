"""What a command leads to: the rules of MEMORY §§ 2 to 5. Runs once, on the leader, and may refuse.

    decide(state, command, now_us, context) -> events

Pure: it reads the state and its arguments and changes nothing. Every number that it works out stands in its events, so
that folding them later, by other code, gives what was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from . import commands, events, rules
from .commands import (
    MULTI_VALUED,
    AnnotateBody,
    Command,
    ContradictBody,
    CorroborateBody,
    DemoteBody,
    FlagsBody,
    ForgetBody,
    PinBody,
    PromoteBody,
    PruneBody,
    ReinforceBody,
    SettingBody,
)
from .context import ADMIN, READ, REVIEW, WRITE, Context
from .errors import Invalid
from .events import Event, refused, unchanged
from .interference import decide_write
from .keys import normal_name
from .lifecycle import HALF_LIFE_US, REINFORCED_PPM, VOLATILE_US, faded_ppm, is_expired, is_prunable
from .limits import MULTI_VALUED_LIMIT, OPINIONS_LIMIT, TIME_US_LOWEST
from .merging import merged_json
from .record import CANDIDATE, PPM, REJECTED, VERIFIED, Record
from .scope import EVERY_SCOPE
from .sources import RECALLED, is_known, is_saturated, may_alter, source_of, supports
from .state import State

ENDORSED_PPM: Final = 150_000
CONTRADICTED_PPM: Final = 250_000
REJECTED_UNDER_PPM: Final = 200_000
CONTRADICTING_PRINCIPALS: Final = 2
AHEAD_OF_LOG_US_LIMIT: Final = 60_000_000

_EVIDENCE: Final = b"evidence"
_DIGEST_BYTES: Final = 16
_BEFORE_ALL_US: Final = TIME_US_LOWEST  # a moment at which nothing has expired: what has expired can still be forgotten


def decide(state: State, command: Command, now_us: int, context: Context) -> list[Event]:
    """The events of one command, decided at `now_us`. Never raises for what a caller can send."""
    try:
        body = commands.decode_body(command.kind, command.content)
    except Invalid:
        return [refused(rules.MALFORMED)]
    return [_DECIDERS[command.kind](state, body, command.author, now_us, context)]


def _corroborate(state: State, body: CorroborateBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _granted(state.record(body.id), body.id, WRITE, author, now_us, context)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, body.id)
    source = source_of(author, body.source, context.digests)
    mark = source.principal or source.digest
    counted = mark in record.corroborators or supports(record, source)
    if counted or len(record.corroborators) >= OPINIONS_LIMIT or body.source.startswith(RECALLED):
        return unchanged(body.id)
    independent = not (is_known(record, source) or is_saturated(record))
    confidence = min(PPM, record.confidence_ppm + ENDORSED_PPM)
    strength = _strength(record, now_us)
    support = record.support + independent
    return [events.ENDORSED, body.id, mark, source.digest, source.principal, confidence, support, strength]


def _contradict(state: State, body: ContradictBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _granted(state.record(body.id), body.id, WRITE, author, now_us, context)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return unchanged(body.id)
    source = source_of(author, "", context.digests)
    mark = source.digest + context.digests.digest(_EVIDENCE, body.evidence.encode())
    if context.rights.enforced and (mark in record.contradictors or len(record.contradictors) >= OPINIONS_LIMIT):
        return unchanged(body.id)
    confidence = max(0, record.confidence_ppm - CONTRADICTED_PPM)
    event: Event = [events.CONTRADICTED, body.id, mark, confidence, _strength(record, now_us), False]
    event[5] = confidence < REJECTED_UNDER_PPM and _may_reject(record, mark, author, context)
    return event


def _may_reject(record: Record, mark: bytes, author: bytes | None, context: Context) -> bool:
    """A verified fact is rejected only by review, or by two principals."""
    if record.trust != VERIFIED or context.rights.holds(author, REVIEW, record.scope):
        return True
    principals = {mark[:_DIGEST_BYTES], *(earlier[:_DIGEST_BYTES] for earlier in record.contradictors)}
    return author is not None and len(principals) >= CONTRADICTING_PRINCIPALS


def _promote(state: State, body: PromoteBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _granted(state.record(body.id), body.id, REVIEW, author, now_us, context)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, body.id)
    return unchanged(body.id) if record.trust == VERIFIED else [events.PROMOTED, body.id]


def _demote(state: State, body: DemoteBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _granted(state.record(body.id), body.id, REVIEW, author, now_us, context)
    if not isinstance(record, Record):
        return record
    target = body.trust or (CANDIDATE if record.trust == VERIFIED else REJECTED)
    if record.trust == target:
        return unchanged(body.id)
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, body.id)
    return [events.REJECTED if target == REJECTED else events.DEMOTED, body.id]


def _annotate(state: State, body: AnnotateBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _alterable(state.record(body.id), body.id, author, now_us, context)
    if not isinstance(record, Record):
        return record
    try:
        merged = (
            merged_json("metadata", record.metadata, body.metadata),
            merged_json("detail", record.detail, body.detail),
        )
    except Invalid:
        return refused(rules.NOTES_FULL, body.id)
    return unchanged(body.id) if merged == (record.metadata, record.detail) else [events.ANNOTATED, body.id]


def _set_flags(state: State, body: FlagsBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _alterable(state.record(body.id), body.id, author, now_us, context)
    if not isinstance(record, Record):
        return record
    ends_us, volatile_until_us = record.expires_at_us, record.volatile_until_us
    if body.ttl_us is not None:
        ends_us = now_us + body.ttl_us if body.ttl_us else None
    if body.volatile is not None:
        volatile_until_us = now_us + VOLATILE_US if body.volatile else None
    if (ends_us, volatile_until_us) == (record.expires_at_us, record.volatile_until_us):
        return unchanged(body.id)
    return [events.FLAGGED, body.id, ends_us, volatile_until_us]


def _pin(state: State, body: PinBody, author: bytes | None, now_us: int, context: Context) -> Event:
    return _pinned(events.PINNED, state, body, author, now_us, context)


def _unpin(state: State, body: PinBody, author: bytes | None, now_us: int, context: Context) -> Event:
    return _pinned(events.UNPINNED, state, body, author, now_us, context)


def _pinned(code: str, state: State, body: PinBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _alterable(state.record(body.id), body.id, author, now_us, context)
    if not isinstance(record, Record):
        return record
    if record.pinned == (code == events.PINNED):
        return unchanged(body.id)
    return [code, body.id, _strength(record, now_us)]


def _forget(state: State, body: ForgetBody, author: bytes | None, now_us: int, context: Context) -> Event:
    record = _alterable(state.record(body.id), body.id, author, _BEFORE_ALL_US, context)
    return [events.FORGOTTEN, body.id] if isinstance(record, Record) else record


def _prune(state: State, body: PruneBody, author: bytes | None, now_us: int, context: Context) -> Event:
    if body.epoch not in (None, context.epoch):
        return refused(rules.PAST_EPOCH)
    is_ahead = body.now_us > now_us + AHEAD_OF_LOG_US_LIMIT
    is_hasty = body.half_life_us < HALF_LIFE_US
    if (is_ahead or is_hasty) and not context.rights.holds(author, ADMIN, EVERY_SCOPE):
        return refused(rules.FUTURE_TIME if is_ahead else rules.NOT_GRANTED)
    gone = [id for id in dict.fromkeys(body.ids) if _may_prune(state, id, body, author, context)]
    return [events.PRUNED, *gone]


def _may_prune(state: State, id: bytes, body: PruneBody, author: bytes | None, context: Context) -> bool:
    record = state.record(id)
    if record is None or not is_prunable(record, body.now_us, body.half_life_us):
        return False
    return context.rights.holds(author, WRITE, record.scope)


def _reinforce(state: State, body: ReinforceBody, author: bytes | None, now_us: int, context: Context) -> Event:
    if body.epoch not in (None, context.epoch):
        return refused(rules.PAST_EPOCH)
    stronger: list[list[Any]] = []
    for id in dict.fromkeys(body.ids):
        record = _granted(state.record(id), id, READ, author, now_us, context)
        if isinstance(record, Record) and record.trust != REJECTED:
            stronger.append([id, min(PPM, _strength(record, now_us) + REINFORCED_PPM)])
    return [events.REINFORCED, *stronger]


def _setting(state: State, body: SettingBody, author: bytes | None, now_us: int, context: Context) -> Event:
    if not context.rights.holds(author, ADMIN, EVERY_SCOPE):
        return refused(rules.NOT_GRANTED)
    if isinstance(body.value, int):
        return [events.SET, body.name, body.value]
    declared = state.setting(MULTI_VALUED)
    if isinstance(declared, tuple) and len(declared) >= MULTI_VALUED_LIMIT and body.value[2]:
        return refused(rules.SETTINGS_FULL)
    pattern, predicate, holds = body.value
    return [events.SET, body.name, pattern, normal_name(predicate), holds]


def _granted(
    record: Record | None, id: bytes, right: str, author: bytes | None, now_us: int, context: Context
) -> Record | Event:
    """The record that a command is about, or the refusal: it is not held, it has expired, or the right is missing."""
    if record is None or is_expired(record, now_us):
        return refused(rules.UNKNOWN_RECORD, id)
    if not context.rights.holds(author, right, record.scope):
        return refused(rules.NOT_GRANTED, id)
    return record


def _alterable(record: Record | None, id: bytes, author: bytes | None, now_us: int, context: Context) -> Record | Event:
    """The record that a command changes, or the refusal: as `_granted`, or it is verified and others support it."""
    granted = _granted(record, id, WRITE, author, now_us, context)
    if isinstance(granted, Record) and not may_alter(granted, author, context):
        return refused(rules.NOT_YOURS, id)
    return granted


def _strength(record: Record, now_us: int) -> int:
    return record.strength_ppm if record.pinned else faded_ppm(record, now_us)


_Decider: TypeAlias = Callable[[State, Any, "bytes | None", int, Context], Event]

_DECIDERS: Final[Mapping[str, _Decider]] = {
    commands.WRITE: decide_write,
    commands.CORROBORATE: _corroborate,
    commands.CONTRADICT: _contradict,
    commands.PROMOTE: _promote,
    commands.DEMOTE: _demote,
    commands.ANNOTATE: _annotate,
    commands.SET_FLAGS: _set_flags,
    commands.PIN: _pin,
    commands.UNPIN: _unpin,
    commands.PRUNE: _prune,
    commands.FORGET: _forget,
    commands.REINFORCE: _reinforce,
    commands.SETTING: _setting,
}
