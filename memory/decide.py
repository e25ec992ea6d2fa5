"""What a command leads to: the rules of MEMORY §§ 2 to 5. Runs once, on the leader, and may refuse.

    decide(state, command, now_us, context) -> events

Pure: it reads the state and its arguments and changes nothing. Every number that it works out stands in its events, so
that folding them later, by other code, gives what was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import commands, events, rules
from .case import Case, alterable, judged, permitted, strength_now
from .claims import decide_claim
from .commands import (
    LATTICE,
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
    WithdrawBody,
    WriteBody,
)
from .confirmation import confirmations, is_settled, unconfirmed
from .context import ADMIN, READ, REVIEW, WRITE, Context
from .correction import CORRECTION_DECIDERS
from .decide_principals import PRINCIPAL_DECIDERS
from .decide_receipts import RECEIPT_DECIDERS
from .decide_reviews import REVIEW_DECIDERS
from .decide_tokens import TOKEN_DECIDERS
from .decide_vectors import decide_embed
from .derivation import TAKING_AWAY, consequences, stands
from .errors import Invalid
from .events import Event, refused, unchanged
from .grounds import ENDORSED_PPM, unsaid
from .interference import decide_write
from .keys import normal_name
from .lattice import lattice_of
from .lifecycle import HALF_LIFE_US, REINFORCED_PPM, VOLATILE_US, is_prunable
from .limits import LATTICE_LIMIT, MULTI_VALUED_LIMIT, SOURCES_LIMIT, TIME_US_LOWEST
from .merging import merged_json
from .principals import HeldRights, enrolled, is_guarded, vouched_name
from .record import CANDIDATE, PPM, REJECTED, VERIFIED, Record
from .scope import EVERY_SCOPE
from .sources import (
    RECALLED,
    anonymous_digest,
    is_known,
    is_saturated,
    scope_digest,
    source_of,
    speaker_digest,
    supports,
)  # fmt: skip
from .state import State
from .trust_commands import ERASE, MARK_FIXED, EraseBody, FixBody

CONTRADICTED_PPM: Final = 250_000
REJECTED_UNDER_PPM: Final = 200_000
CONTRADICTING_PRINCIPALS: Final = 2
FAILURE: Final = "failure"
AHEAD_OF_LOG_US_LIMIT: Final = 60_000_000

_EVIDENCE: Final = b"evidence"
_DIGEST_BYTES: Final = 16
_BEFORE_ALL_US: Final = TIME_US_LOWEST  # a moment at which nothing has expired: what has expired can still be forgotten


def decide(state: State, command: Command, now_us: int, context: Context) -> list[Event]:
    """The events of one command, decided at `now_us`. Never raises for what a caller can send."""
    author, principal = command.author, None
    if command.of_node != (command.kind in commands.OF_NODES):
        return [refused(rules.NOT_GRANTED)]
    if not command.of_node and is_guarded(state):
        if command.claim is not None:
            return [decide_claim(state, command, command.claim, now_us, context)]
        principal = enrolled(state, author)
        if principal is None:
            return [refused(rules.NOT_GRANTED)]
        author, context = principal.identity, context._replace(rights=HeldRights(principal))
    try:
        body = commands.decode_body(command.kind, command.content)
    except Invalid:
        return [refused(rules.MALFORMED)]
    vouched = ""
    if type(body) is WriteBody and body.vouched:
        vouched = vouched_name(state, body.vouched)
        body = body._replace(vouched=vouched)
    case = Case(state, body, author, now_us, context, principal)
    event = _DECIDERS[command.kind](case)
    if event[0] in TAKING_AWAY:
        happened = consequences(case, event)
        return [*happened, *unconfirmed(case, happened)]
    if principal is None and not vouched:
        return [event]
    return [event, *confirmations(case, event[4] if event[0] == events.CORRECTED else event, vouched)]


def _withdraw(case: Case[WithdrawBody]) -> Event:
    """An author takes a statement back: whoever else states the value still does."""
    record = judged(case, case.body.id, WRITE)
    if not isinstance(record, Record):
        return record
    source = source_of(case.author, case.body.source, case.context.digests)
    voice = source.principal or source.digest
    is_anonymous = source.principal is None and record.support > len(record.principals)
    if not (
        supports(record, source) or (is_anonymous and voice in record.sources and voice not in record.derived_from)
    ):
        return refused(rules.NOT_STATED, record.id)
    digests = case.context.digests
    silent = [speaker for speaker in record.authenticated if speaker_digest(digests, speaker) == voice]
    goes = not stands(case.state, unsaid(record, voice, silent))
    return [events.UNSAID, record.id, voice, silent, goes]


def _corroborate(case: Case[CorroborateBody]) -> Event:
    record = judged(case, case.body.id, WRITE)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, case.body.id)
    source = source_of(case.author, case.body.source, case.context.digests)
    mark = source.principal or source.digest
    counted = mark in record.corroborators or supports(record, source)
    if counted or len(record.corroborators) >= SOURCES_LIMIT or case.body.source.startswith(RECALLED):
        return unchanged(case.body.id)
    independent = not (is_known(record, source) or is_saturated(record))
    confidence = min(PPM, record.confidence_ppm + ENDORSED_PPM)
    strength = strength_now(record, case.now_us)
    support = record.support + independent
    return [events.ENDORSED, case.body.id, mark, source.digest, source.principal, confidence, support, strength]


def _contradict(case: Case[ContradictBody]) -> Event:
    record = judged(case, case.body.id, WRITE)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return unchanged(case.body.id)
    source = source_of(case.author, "", case.context.digests)
    mark = source.digest + case.context.digests.digest(_EVIDENCE, case.body.evidence.encode())
    if case.context.rights.enforced and (mark in record.contradictors or len(record.contradictors) >= SOURCES_LIMIT):
        return unchanged(case.body.id)
    confidence = max(0, record.confidence_ppm - CONTRADICTED_PPM)
    event: Event = [events.CONTRADICTED, case.body.id, mark, confidence, strength_now(record, case.now_us), False]
    event[5] = confidence < REJECTED_UNDER_PPM and _may_reject(case, record, mark)
    return event


def _may_reject(case: Case[ContradictBody], record: Record, mark: bytes) -> bool:
    """A verified fact is rejected only by review, or by two principals."""
    if record.trust != VERIFIED or case.holds(REVIEW, record.scope):
        return True
    principals = {mark[:_DIGEST_BYTES], *(earlier[:_DIGEST_BYTES] for earlier in record.contradictors)}
    principals.discard(anonymous_digest(case.context.digests))
    return case.author is not None and len(principals) >= CONTRADICTING_PRINCIPALS


def _promote(case: Case[PromoteBody]) -> Event:
    record = judged(case, case.body.id, REVIEW)
    if not isinstance(record, Record):
        return record
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, case.body.id)
    return unchanged(case.body.id) if is_settled(record) else [events.PROMOTED, case.body.id]


def _demote(case: Case[DemoteBody]) -> Event:
    record = judged(case, case.body.id, REVIEW)
    if not isinstance(record, Record):
        return record
    target = case.body.trust or (CANDIDATE if record.trust == VERIFIED else REJECTED)
    if record.trust == target:
        return unchanged(case.body.id)
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, case.body.id)
    return [events.REJECTED if target == REJECTED else events.DEMOTED, case.body.id]


def _annotate(case: Case[AnnotateBody]) -> Event:
    record = alterable(case, case.body.id)
    if not isinstance(record, Record):
        return record
    try:
        merged = (
            merged_json("metadata", record.metadata, case.body.metadata),
            merged_json("detail", record.detail, case.body.detail),
        )
    except Invalid:
        return refused(rules.NOTES_FULL, case.body.id)
    return unchanged(case.body.id) if merged == (record.metadata, record.detail) else [events.ANNOTATED, case.body.id]


def _set_flags(case: Case[FlagsBody]) -> Event:
    record = alterable(case, case.body.id)
    if not isinstance(record, Record):
        return record
    ends_us, volatile_until_us = record.expires_at_us, record.volatile_until_us
    if case.body.ttl_us is not None:
        ends_us = case.now_us + case.body.ttl_us if case.body.ttl_us else None
    if case.body.volatile is not None:
        volatile_until_us = case.now_us + VOLATILE_US if case.body.volatile else None
    if (ends_us, volatile_until_us) == (record.expires_at_us, record.volatile_until_us):
        return unchanged(case.body.id)
    return [events.FLAGGED, case.body.id, ends_us, volatile_until_us]


def _pin(case: Case[PinBody]) -> Event:
    return _pinned(case, events.PINNED)


def _unpin(case: Case[PinBody]) -> Event:
    return _pinned(case, events.UNPINNED)


def _pinned(case: Case[PinBody], code: str) -> Event:
    record = alterable(case, case.body.id)
    if not isinstance(record, Record):
        return record
    if record.pinned == (code == events.PINNED):
        return unchanged(case.body.id)
    return [code, case.body.id, strength_now(record, case.now_us)]


def _forget(case: Case[ForgetBody]) -> Event:
    record = alterable(case._replace(now_us=_BEFORE_ALL_US), case.body.id)
    return [events.FORGOTTEN, case.body.id] if isinstance(record, Record) else record


def _erase(case: Case[EraseBody]) -> Event:
    """Whatever was held there, now or before: also what was forgotten, and again what was refused since.

    What was corrected into another record, or out of one, is erased with it: their histories share its text.
    """
    family = _family(case.state, case.body.id)
    held = [id for id in family if case.state.record(id) is not None]
    id = held[0] if held else case.body.id
    known = [_last_known(case.state, one) for one in family]
    scopes = [EVERY_SCOPE if record is None else record.scope for record in known]
    if not all(case.holds(ADMIN, scope) for scope in scopes):
        return refused(rules.NOT_GRANTED, case.body.id)
    if known[0] is None:
        return refused(rules.UNKNOWN_RECORD, case.body.id)
    if len(held) > 1:
        return refused(rules.STILL_HELD, case.body.id)
    others = [one for one in family if one != id]
    return [events.ERASED, id, scope_digest(case.context.digests, scopes[0]), *others]


def _family(state: State, id: bytes) -> list[bytes]:
    """That id, first, and all that share text with it."""
    found = [id]
    for one in found:  # grows meanwhile
        found += sorted(state.lineage(one).difference(found))
    return found


def _last_known(state: State, id: bytes) -> Record | None:
    """What is held there, or was held last."""
    record, last = state.record(id), state.last_past(id)
    return record or (last.record if last else None)


def _prune(case: Case[PruneBody]) -> Event:
    if case.body.epoch not in (None, case.context.epoch):
        return refused(rules.PAST_EPOCH)
    is_ahead = case.body.now_us > case.now_us + AHEAD_OF_LOG_US_LIMIT
    is_hasty = case.body.half_life_us < HALF_LIFE_US
    if (is_ahead or is_hasty) and not case.holds(ADMIN, EVERY_SCOPE):
        return refused(rules.FUTURE_TIME if is_ahead else rules.NOT_GRANTED)
    faded = [id for id in dict.fromkeys(case.body.ids) if _may_prune(case, id)]
    kept = case.state.rested_upon(faded)  # where something comes from has an answer while it is there
    return [events.PRUNED, *(id for id in faded if id not in kept)]


def _may_prune(case: Case[PruneBody], id: bytes) -> bool:
    record = case.state.record(id)
    if record is None or not is_prunable(record, case.body.now_us, case.body.half_life_us):
        return False
    return case.holds(WRITE, record.scope)


def _reinforce(case: Case[ReinforceBody]) -> Event:
    if case.body.epoch not in (None, case.context.epoch):
        return refused(rules.PAST_EPOCH)
    stronger: list[list[Any]] = []
    for id in dict.fromkeys(case.body.ids):
        record = permitted(case, id, READ)
        if isinstance(record, Record) and record.trust != REJECTED:
            stronger.append([id, min(PPM, strength_now(record, case.now_us) + REINFORCED_PPM)])
    return [events.REINFORCED, *stronger]


def _setting(case: Case[SettingBody]) -> Event:
    if not case.holds(ADMIN, EVERY_SCOPE):
        return refused(rules.NOT_GRANTED)
    if isinstance(case.body.value, int):
        return [events.SET, case.body.name, case.body.value]
    if case.body.name == LATTICE:
        return _lattice(case, *case.body.value)
    declared = case.state.setting(MULTI_VALUED)
    if isinstance(declared, tuple) and len(declared) >= MULTI_VALUED_LIMIT:
        return refused(rules.SETTINGS_FULL)
    pattern, predicate = case.body.value
    return [events.SET, case.body.name, pattern, normal_name(predicate)]


def _lattice(case: Case[SettingBody], child: str, parent: str) -> Event:
    present = lattice_of(case.state)
    try:
        changed = present.with_parent(child, parent)
    except Invalid:
        return refused(rules.LATTICE_CYCLE)
    if changed == present:
        return unchanged(b"")
    if len(changed.parents) > LATTICE_LIMIT:
        return refused(rules.SETTINGS_FULL)
    return [events.SET, LATTICE, child, parent]


def _mark_fixed(case: Case[FixBody]) -> Event:
    """What a failure says is confirmed by its being fixed: no other kind of record is verified this way."""
    record = permitted(case, case.body.id, WRITE)
    if not isinstance(record, Record):
        return record
    if record.kind != FAILURE:
        return refused(rules.OTHER_KIND, record.id)
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, record.id)
    if is_settled(record) and record.pinned:
        return unchanged(record.id)
    return [events.FIXED, record.id, strength_now(record, case.now_us)]


def _write(case: Case[WriteBody]) -> Event:
    return decide_write(case.state, case.body, case.author, case.now_us, case.context)


_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {
    commands.WRITE: _write,
    commands.WITHDRAW: _withdraw,
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
    commands.EMBED: decide_embed,
    commands.SETTING: _setting,
    MARK_FIXED: _mark_fixed,
    ERASE: _erase,
    **CORRECTION_DECIDERS,
    **PRINCIPAL_DECIDERS,
    **TOKEN_DECIDERS,
    **REVIEW_DECIDERS,
    **RECEIPT_DECIDERS,
}
