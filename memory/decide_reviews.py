"""What reviewers decide, and what is taken back: the deciders of `review.…` and `memory.undo` (MEMORY §§ 3 and 9).

A reviewer is a principal with the right `review` in the scope of the record. Every verb gives its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import events, rules, trust_commands
from .case import Case, judged
from .confirmation import is_settled
from .context import REVIEW
from .derivation import resting_on, stands, unrecognised
from .events import Event, refused, unchanged
from .grounds import without
from .interference import value_digest
from .keys import make_key, record_id
from .lifecycle import INITIAL_CONFIDENCE_PPM
from .record import REJECTED, VERIFIED, PastVersion, Record, Version
from .scope import EVERY_SCOPE
from .sources import source_of
from .trust_commands import EditBody, ReviewBody, RevokeRejectionBody, UndoBody


def _approve(case: Case[ReviewBody]) -> Event:
    record = judged(case, case.body.id, REVIEW)
    if not isinstance(record, Record):
        return record
    if not _is_held(record, case.body.value):
        return _contending(case, events.PREFERRED)
    if record.trust == REJECTED:
        return refused(rules.STANDING_REJECTION, record.id)
    return unchanged(record.id) if is_settled(record) else [events.PROMOTED, record.id]


def _reject(case: Case[ReviewBody]) -> Event:
    record = judged(case, case.body.id, REVIEW)
    if not isinstance(record, Record):
        return record
    if not _is_held(record, case.body.value):
        return _contending(case, events.DISMISSED)
    return unchanged(record.id) if record.trust == REJECTED else [events.REJECTED, record.id]


def _is_held(record: Record, value: bytes) -> bool:
    return value in (b"", record.value_digest)


def _contending(case: Case[ReviewBody], code: str) -> Event:
    id, value, _ = case.body
    if all(contender.value_digest != value for contender in case.state.contending(id)):
        return refused(rules.UNKNOWN_VALUE, id)
    if code == events.PREFERRED and case.state.rejected(id, value):
        return refused(rules.REJECTED_VALUE, id)
    return [code, id, value]


def _edit(case: Case[EditBody]) -> Event:
    record = judged(case, case.body.id, REVIEW)
    if not isinstance(record, Record):
        return record
    value = value_digest(case.body.text, case.context.digests)
    source = source_of(case.author, "", case.context.digests)
    if case.state.rejected(record.id, value):
        return refused(rules.REJECTED_VALUE, record.id)
    if case.state.retracted(record.id, value, source.digest):
        return refused(rules.FORGOTTEN_SOURCE, record.id)
    if value == record.value_digest:
        if is_settled(record) and record.text == case.body.text:
            return unchanged(record.id)
        return [events.EDITED, record.id, value, source.digest, source.principal, record.confidence_ppm]
    if _is_keyed_by_value(record):
        return refused(rules.VALUE_IS_KEY, record.id)
    return [events.EDITED, record.id, value, source.digest, source.principal, INITIAL_CONFIDENCE_PPM]


def _revoke_rejection(case: Case[RevokeRejectionBody]) -> Event:
    id, text, _ = case.body
    record = case.state.record(id)
    if not case.holds(REVIEW, EVERY_SCOPE if record is None else record.scope):
        return refused(rules.NOT_GRANTED, id)
    if record is None and not text:
        return refused(rules.UNKNOWN_RECORD, id)
    value = value_digest(text, case.context.digests) if record is None or text else record.value_digest
    if not case.state.rejected(id, value):
        return unchanged(id)
    return [events.REJECTION_REVOKED, id, value, INITIAL_CONFIDENCE_PPM]


def _undo(case: Case[UndoBody]) -> Event:
    """The last event about the record is the one that made the present row, or that removed it."""
    id, at = case.body.id, Version(*case.body.event)
    present, last = case.state.record(id), case.state.last_past(id)
    known = present or (last and last.record)
    if not case.holds(REVIEW, EVERY_SCOPE if known is None else known.scope):
        return refused(rules.NOT_GRANTED, id)
    if known is None:
        return refused(rules.UNKNOWN_RECORD, id)
    if last is not None and last.ended_by == events.SUPERSEDED and (present is None or _is_keyed_by_value(present)):
        return refused(rules.CORRECT_BACK, id)
    if present is not None and present.cause == events.ASSERTED:
        return [events.UNDONE, id, False] if at == present.version else refused(rules.OVERTAKEN, id)
    if last is None or at not in (last.until, present and present.version):
        return refused(rules.OVERTAKEN, id)
    if last.record.is_erased:
        return refused(rules.CONTENT_ERASED, id)
    if not _may_return(case, present, last):
        return refused(rules.REJECTED_VALUE, id)
    return _returning(case, last.record)


def _is_keyed_by_value(record: Record) -> bool:
    return record.id != record_id(make_key(record.subject, record.predicate, record.scope))


def _returning(case: Case[UndoBody], former: Record) -> Event:
    """The event by which a former row returns, without those records that it can no longer rest on."""
    if not former.grounds:
        return [events.UNDONE, former.id, True]
    circular = resting_on(case.state, former.id)
    if circular is None:
        return refused(rules.WITHDRAWN_FULL, former.id)
    lost = [id for id in former.derived_from if id in circular or case.state.record(id) is None]
    silent = unrecognised(former, lost, case.context)
    left = without(former, lost, silent)
    if not (left.trust == REJECTED or stands(case.state, left) or (left.trust == VERIFIED and left.sources)):
        return refused(rules.SOURCE_GONE, former.id)
    return [events.UNDONE, former.id, True, *([lost, silent] if lost else ())]


def _may_return(case: Case[UndoBody], present: Record | None, last: PastVersion) -> bool:
    """A rejected value returns only by taking back that very rejection."""
    former = last.record
    if former.trust == REJECTED or not case.state.rejected(former.id, former.value_digest):
        return True
    return present is not None and present.trust == REJECTED and present.value_digest == former.value_digest


REVIEW_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {
    trust_commands.APPROVE: _approve,
    trust_commands.REJECT: _reject,
    trust_commands.EDIT: _edit,
    trust_commands.REVOKE_REJECTION: _revoke_rejection,
    trust_commands.UNDO: _undo,
}
