"""When enough people have said so: the k distinct authenticated principals that verify a fact (MEMORY § 3).

Authenticated is an enrolled principal, or somebody that the holder of the right `vouch` has authenticated. A key that
merely signs is not: anybody can make as many of those as they like.
"""

from __future__ import annotations

from typing import Any, Final

from . import events
from .case import Case
from .commands import WriteBody
from .events import Event
from .limits import SOURCES_LIMIT
from .principals import ENROLLED, ROTATED, vouched_key
from .record import CANDIDATE, EPISODE, Record
from .reputation import principals_needed_of
from .sources import vouched_digest
from .state import State

_KEY_BYTES: Final = 32
_NEW_VALUE: Final = frozenset({events.ASSERTED, events.SUPERSEDED})
_STATEMENTS: Final = _NEW_VALUE | {events.CORROBORATED, events.ENDORSED, events.REPEATED}


def confirmations(case: Case[Any], event: Event, vouched: str) -> list[Event]:
    """What follows from the event of a statement: that its speaker is recognised, and perhaps that this is enough."""
    code = event[0]
    speaker = _speaker(case, vouched) if code in _STATEMENTS and not _is_episode(case) else None
    if speaker is None or event[4 if code in _NEW_VALUE else 3] is None:
        return []  # nobody's statement: it was recalled, or derived from what is known here
    id = event[1]
    if code in _NEW_VALUE:
        return [[events.RECOGNISED, id, speaker]]
    record = case.state.record(id)
    if record is None:
        return []
    is_new = speaker not in record.authenticated and len(record.authenticated) < SOURCES_LIMIT
    following: list[Event] = [[events.RECOGNISED, id, speaker]] if is_new else []
    if record.trust == CANDIDATE and is_confirmed(case.state, record, speaker):
        following.append([events.CONFIRMED, id])
        if code == events.REPEATED:
            event[7] = True  # it leads to another state of trust, so that it makes a version of its own
    return following


def is_confirmed(state: State, record: Record, speaker: bytes) -> bool:
    """Whether with this speaker enough principals that are still in force have stated the value.

    What a reviewer has doubted is confirmed by nobody's saying it again, old or new.
    """
    if record.doubted:
        return False
    speakers = {*record.authenticated, speaker}
    return sum(_counts(state, one) for one in speakers) >= principals_needed_of(state, bytes.fromhex(record.author))


def _is_episode(case: Case[Any]) -> bool:
    return type(case.body) is WriteBody and case.body.kind == EPISODE


def _counts(state: State, speaker: bytes) -> bool:
    """Somebody known by key counts while a principal of that identity is enrolled."""
    if len(speaker) != _KEY_BYTES:
        return True
    principal = state.principal(speaker)
    return principal is not None and principal.standing in (ENROLLED, ROTATED)


def _speaker(case: Case[Any], vouched: str) -> bytes | None:
    if not vouched:
        return None if case.principal is None else case.principal.identity
    return vouched_key(vouched) or vouched_digest(case.context.digests, vouched)
