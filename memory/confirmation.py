"""When enough people have said so: the k distinct authenticated principals that verify a fact (MEMORY § 3).

Authenticated is an enrolled principal, or somebody that the holder of the right `vouch` has authenticated. A key that
merely signs is not: anybody can make as many of those as they like.
"""

from __future__ import annotations

from typing import Any, Final

from . import events
from .case import Case
from .events import Event
from .limits import SOURCES_LIMIT
from .principals import ENROLLED, REVOKED
from .record import CANDIDATE, Record
from .reputation import principals_needed_of
from .sources import vouched_digest
from .state import State

_KEY_BYTES: Final = 32
_NEW_VALUE: Final = frozenset({events.ASSERTED, events.SUPERSEDED})
_SAME_VALUE: Final = frozenset({events.CORROBORATED, events.ENDORSED})


def confirmations(case: Case[Any], event: Event, vouched: str) -> list[Event]:
    """What follows from the event of a statement: that its speaker is recognised, and perhaps that this is enough."""
    speaker = _speaker(case, vouched)
    if speaker is None:
        return []
    code, id = event[0], event[1]
    if code in _NEW_VALUE:
        return [[events.RECOGNISED, id, speaker]]
    if code not in _SAME_VALUE and not (code == events.REPEATED and event[3] is not None):
        return []
    record = case.state.record(id)
    if record is None or speaker in record.authenticated or len(record.authenticated) >= SOURCES_LIMIT:
        return []
    recognised: Event = [events.RECOGNISED, id, speaker]
    if record.trust != CANDIDATE or not is_confirmed(case.state, record, speaker):
        return [recognised]
    if code == events.REPEATED:
        event[7] = True  # it leads to another state of trust, so that it makes a version of its own
    return [recognised, [events.CONFIRMED, id]]


def is_confirmed(state: State, record: Record, speaker: bytes) -> bool:
    """Whether with this speaker enough principals that are still in force have stated the value."""
    speakers = {*record.authenticated, speaker}
    return sum(_counts(state, one) for one in speakers) >= principals_needed_of(state, bytes.fromhex(record.author))


def _counts(state: State, speaker: bytes) -> bool:
    if len(speaker) != _KEY_BYTES:
        return True
    principal = state.principal(speaker)
    return principal is not None and principal.standing != REVOKED


def _speaker(case: Case[Any], vouched: str) -> bytes | None:
    if not vouched:
        return None if case.principal is None else case.principal.identity
    known = _enrolled_by_name(case.state, vouched)
    return vouched_digest(case.context.digests, vouched) if known is None else known


def _enrolled_by_name(state: State, vouched: str) -> bytes | None:
    """The identity of an enrolled principal, where its key is what was vouched for."""
    try:
        principal = state.principal(bytes.fromhex(vouched))
    except ValueError:
        return None
    return principal.identity if principal is not None and principal.standing == ENROLLED else None
