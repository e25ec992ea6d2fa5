"""What events about trust do to the state: principals, reviews, taking back. As pure and unrefusing as `evolve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from . import events
from .commands import stored_body
from .decide_principals import grants_of
from .errors import Bug
from .grants import NO_GRANTS, is_administrator
from .grounds import without
from .happening import Happening, changing_row, held_row, present_row, said
from .principals import ADMINISTRATORS, ENROLLED, REVOKED, ROTATED, Principal
from .record import ANY_SOURCE, CANDIDATE, PPM, REJECTED, VERIFIED, PastVersion, Record
from .reputation import judged
from .state import Workspace
from .tokens import TOKENS, Token, token_id
from .trust_commands import EditBody, EnrollBody, IssueTokenBody

# --- statements of principals ---------------------------------------------------------------------------------------


def _recognised(workspace: Workspace, happening: Happening) -> None:
    record = present_row(workspace, happening)
    speakers = (*record.authenticated, happening.event[2])
    workspace.records[record.id] = record._replace(authenticated=speakers)


def _confirmed(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)
    verified = judged(workspace, record, VERIFIED, happening.at)
    workspace.records[record.id] = verified._replace(confirmed=True, volatile_until_us=None)


def _unconfirmed(workspace: Workspace, happening: Happening) -> None:
    """Of the version that the event before has made: too few are left who say so."""
    for id in happening.event[1:]:
        workspace.records[id] = judged(workspace, held_row(workspace, id, happening), CANDIDATE, happening.at)


def _attested(workspace: Workspace, happening: Happening) -> None:
    _, id, receipt, _, passed = happening.event
    record = changing_row(workspace, happening)
    workspace.receipts[receipt] = id
    if not passed:
        workspace.rejections[id, record.value_digest] = True
    judged_record = judged(workspace, record, VERIFIED if passed else REJECTED, happening.at)
    workspace.records[id] = judged_record._replace(
        reason="", last_seen_us=happening.time_us, volatile_until_us=None if passed else record.volatile_until_us
    )


def _fixed(workspace: Workspace, happening: Happening) -> None:
    _, id, strength = happening.event
    verified = judged(workspace, changing_row(workspace, happening), VERIFIED, happening.at)
    workspace.records[id] = verified._replace(
        pinned=True, strength_ppm=strength, strength_at_us=happening.time_us, volatile_until_us=None
    )


# --- reviews --------------------------------------------------------------------------------------------------------


def _preferred(workspace: Workspace, happening: Happening) -> None:
    """The contending version takes the place of what was held, which becomes a correction."""
    _, id, value = happening.event
    present = present_row(workspace, happening)
    preferred, *others = sorted(workspace.contending(id), key=lambda contender: contender.value_digest != value)
    workspace.retire(present, happening.at, happening.time_us, events.SUPERSEDED)
    workspace.contenders[id] = tuple(others)
    workspace.records[id] = judged(workspace, preferred, VERIFIED, happening.at)._replace(
        reason=said(happening),
        created_at_us=present.created_at_us,
        updated_at_us=happening.time_us,
        volatile_until_us=None,
        pinned=present.pinned,
        corrections_count=present.corrections_count + 1,
        cause=happening.event[0],
        version=happening.at,
    )


def _dismissed(workspace: Workspace, happening: Happening) -> None:
    _, id, value = happening.event
    workspace.rejections[id, value] = True
    for contender in workspace.contending(id):
        if contender.value_digest == value:
            judged(workspace, contender, REJECTED, happening.at)
    workspace.contenders[id] = tuple(other for other in workspace.contending(id) if other.value_digest != value)


def _edited(workspace: Workspace, happening: Happening) -> None:
    _, id, value, source, principal, confidence = happening.event
    present = present_row(workspace, happening)
    text = "" if happening.content is None else cast(EditBody, stored_body(happening.kind, happening.content)).text
    if value == present.value_digest:
        record = judged(workspace, changing_row(workspace, happening), VERIFIED, happening.at)
        workspace.records[id] = record._replace(text=text, reason=said(happening), volatile_until_us=None)
        return
    workspace.retire(present, happening.at, happening.time_us, events.SUPERSEDED)
    left = tuple(other for other in workspace.contending(id) if other.value_digest != value)
    if left != workspace.contending(id):
        workspace.contenders[id] = left
    corrected = _corrected(present, happening, text)
    workspace.records[id] = corrected._replace(
        value_digest=value,
        confidence_ppm=confidence,
        sources=(source,),
        principals=() if principal is None else (principal,),
    )


def _corrected(present: Record, happening: Happening, text: str) -> Record:
    """The verified row of another value, with nothing of what supported or doubted the one before."""
    return present._replace(
        text=text,
        source="",
        provenance=(),
        reason=said(happening),
        trust=VERIFIED,
        strength_ppm=PPM,
        strength_at_us=happening.time_us,
        support=1,
        authenticated=(),
        doubted=False,
        confirmed=False,
        corroborators=(),
        contradictors=(),
        grounds=(),
        author=happening.author,
        updated_at_us=happening.time_us,
        last_seen_us=happening.time_us,
        volatile_until_us=None,
        corrections_count=present.corrections_count + 1,
        cause=happening.event[0],
        version=happening.at,
    )


def _rejection_revoked(workspace: Workspace, happening: Happening) -> None:
    _, id, value, confidence = happening.event
    workspace.rejections[id, value] = False
    record = workspace.record(id)
    if record is None or record.value_digest != value or record.trust != REJECTED:
        return
    again = judged(workspace, changing_row(workspace, happening), CANDIDATE, happening.at)
    workspace.records[id] = again._replace(
        confidence_ppm=confidence, authenticated=(), doubted=False, contradictors=(), reason=said(happening)
    )


# --- taking back ----------------------------------------------------------------------------------------------------


def _undone(workspace: Workspace, happening: Happening) -> None:
    """The row of before the last event returns, as a version of its own; what was first of all is removed."""
    _, id, returns, *gone = happening.event
    present, last = workspace.record(id), workspace.last_past(id)
    if present is not None:
        workspace.retire(present, happening.at, happening.time_us, events.UNDONE, said(happening))
    if not returns:
        workspace.records[id] = None
        if workspace.contending(id):
            workspace.contenders[id] = ()
        return
    if last is None:
        raise Bug(f"the event at {happening.at} returns to what record {id.hex()} was, but it was nothing before")
    former = without(last.record, *gone) if gone else last.record
    _recount(workspace, present, former, happening)
    _set_ledgers(workspace, present, last._replace(record=former))
    _swap_contenders(workspace, present, former)
    workspace.records[id] = former._replace(
        updated_at_us=happening.time_us, reason=said(happening), cause=happening.event[0], version=happening.at
    )


def _recount(workspace: Workspace, present: Record | None, former: Record, happening: Happening) -> None:
    """Of two values, one was judged only where a reviewer preferred it."""
    if present is None:
        return
    if present.value_digest == former.value_digest:
        judged(workspace, present, former.trust, happening.at)
    elif present.cause == events.PREFERRED:
        judged(workspace, present, CANDIDATE, happening.at)
    elif former.cause == events.PREFERRED:
        judged(workspace, former._replace(trust=CANDIDATE), former.trust, happening.at)


def _set_ledgers(workspace: Workspace, present: Record | None, last: PastVersion) -> None:
    """Rejections follow the trust that returns; what forgetting barred is lifted for what returns, and nothing else."""
    former = last.record
    was_rejected = present is not None and present.trust == REJECTED and present.value_digest == former.value_digest
    if was_rejected or former.trust == REJECTED:
        workspace.rejections[former.id, former.value_digest] = former.trust == REJECTED
    if last.ended_by == events.FORGOTTEN:
        lifted = {(former.id, former.value_digest, source): False for source in (*former.sources, ANY_SOURCE)}
        workspace.retractions.update(lifted)


def _swap_contenders(workspace: Workspace, present: Record | None, former: Record) -> None:
    """A value that was preferred waits again; the one that returns waits no longer."""
    contenders = workspace.contending(former.id)
    left = tuple(other for other in contenders if other.value_digest != former.value_digest)
    if present is not None and present.cause == events.PREFERRED:
        left += (present._replace(trust=CANDIDATE),)
    if left != contenders:
        workspace.contenders[former.id] = left


# --- principals and grants ------------------------------------------------------------------------------------------


def _enrolled(workspace: Workspace, happening: Happening) -> None:
    _, key, grants = happening.event
    stranger = workspace.principal(key) or Principal(key, key)
    name = "" if happening.content is None else cast(EnrollBody, stored_body(happening.kind, happening.content)).name
    _put(workspace, happening, stranger._replace(name=name, standing=ENROLLED, grants=grants_of(grants)))


def _regranted(workspace: Workspace, happening: Happening) -> None:
    _, key, grants = happening.event
    _put(workspace, happening, _known(workspace, key, happening)._replace(grants=grants_of(grants)))


def _revoked(workspace: Workspace, happening: Happening) -> None:
    """The row of the person's first key is marked as well: support is counted by that key."""
    principal = _known(workspace, happening.event[1], happening)
    for key in dict.fromkeys((principal.key, principal.identity)):
        row = _known(workspace, key, happening)
        _put(workspace, happening, row._replace(standing=REVOKED, grants=NO_GRANTS))


def _rotated(workspace: Workspace, happening: Happening) -> None:
    _, key, successor = happening.event
    old = _known(workspace, key, happening)
    _put(workspace, happening, Principal(successor, old.identity, old.name, ENROLLED, old.grants))
    _put(workspace, happening, old._replace(standing=ROTATED, grants=NO_GRANTS))


def _known(workspace: Workspace, key: bytes, happening: Happening) -> Principal:
    principal = workspace.principal(key)
    if principal is None:
        raise Bug(f"event {happening.event[0]!r} at {happening.at} is about key {key.hex()}, which nobody holds")
    return principal


def _put(workspace: Workspace, happening: Happening, principal: Principal) -> None:
    before = workspace.principal(principal.key)
    count = workspace.setting(ADMINISTRATORS)
    gained = is_administrator(principal.grants) - (before is not None and is_administrator(before.grants))
    workspace.settings[ADMINISTRATORS] = (count if isinstance(count, int) else 0) + gained
    workspace.principals[principal.key] = principal._replace(version=happening.at)


def _token_issued(workspace: Workspace, happening: Happening) -> None:
    _, digest, key, expires_us = happening.event
    body = None if happening.content is None else cast(IssueTokenBody, stored_body(happening.kind, happening.content))
    label = "" if body is None else body.label
    token = Token(digest, key, label, happening.time_us, expires_us, None, happening.at)
    workspace.tokens[token.id] = token
    _count_tokens(workspace, 1)


def _token_revoked(workspace: Workspace, happening: Happening) -> None:
    token = workspace.token(token_id(happening.event[1]))
    if token is None:
        raise Bug(f"the event at {happening.at} revokes a token that was never issued")
    workspace.tokens[token.id] = token._replace(revoked_us=happening.time_us, version=happening.at)
    _count_tokens(workspace, -1)


def _count_tokens(workspace: Workspace, more: int) -> None:
    count = workspace.setting(TOKENS)
    workspace.settings[TOKENS] = (count if isinstance(count, int) else 0) + more


TRUST_EVOLVERS: Final[Mapping[str, Callable[[Workspace, Happening], None]]] = {
    events.RECOGNISED: _recognised,
    events.CONFIRMED: _confirmed,
    events.UNCONFIRMED: _unconfirmed,
    events.ATTESTED: _attested,
    events.FIXED: _fixed,
    events.PREFERRED: _preferred,
    events.DISMISSED: _dismissed,
    events.EDITED: _edited,
    events.REJECTION_REVOKED: _rejection_revoked,
    events.UNDONE: _undone,
    events.ENROLLED: _enrolled,
    events.GRANTED: _regranted,
    events.TAKEN: _regranted,
    events.REVOKED: _revoked,
    events.ROTATED: _rotated,
    events.TOKEN_ISSUED: _token_issued,
    events.TOKEN_REVOKED: _token_revoked,
}
