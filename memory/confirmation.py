"""When enough people have said so: the k distinct authenticated principals that verify a fact (MEMORY § 3).

Authenticated is an enrolled principal, or somebody that the holder of the right `vouch` has authenticated. A key that
merely signs is not: anybody can make as many of those as they like.

What they have verified, and nobody else, is verified while enough of them say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, Final

from . import events
from .case import Case
from .commands import WriteBody
from .events import Event
from .limits import SOURCES_LIMIT
from .principals import ENROLLED, ROTATED, vouched_key
from .record import CANDIDATE, EPISODE, VERIFIED, Record
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
    return not record.doubted and _are_enough(state, record, {*record.authenticated, speaker})


def is_settled(record: Record) -> bool:
    """Whether it is verified by more than the agreement of principals: then a review or a receipt adds nothing."""
    return record.trust == VERIFIED and not record.confirmed


def unconfirmed(case: Case[Any], happened: list[Event]) -> list[Event]:
    """What follows for trust from events that took statements away: what too few are left to confirm is a candidate.

    Asked as it is when a record is confirmed: of those who are in force, and of an author who was wrong before, more.
    """
    lost = dict(_silenced(case.state, happened))
    ids = [id for id, gone in lost.items() if not _holds(case.state, id, gone, happened)]
    return [[events.UNCONFIRMED, *ids]] if ids else []


def _silenced(state: State, happened: list[Event]) -> Iterator[tuple[bytes, list[bytes]]]:
    """The records that stay, each with those who say so no longer."""
    for event in happened:
        match event:
            case [events.UNSAID, id, _, silent, False]:
                yield id, silent
            case [events.UNDONE, id, True, _, silent]:
                yield id, silent
            case [events.WITHDRAWN, _, _, _, cut, _]:
                held = ((id, state.record(id), value, silent) for id, value, silent in cut)
                yield from ((id, silent) for id, row, value, silent in held if row and row.value_digest == value)
            case _:
                pass


def _holds(state: State, id: bytes, gone: list[bytes], happened: list[Event]) -> bool:
    last = state.last_past(id) if happened[0][:2] == [events.UNDONE, id] else None
    record = last.record if last else state.record(id)
    if record is None or not (gone and record.confirmed):
        return True
    return _are_enough(state, record, {*record.authenticated} - {*gone})


def _are_enough(state: State, record: Record, speakers: Set[bytes]) -> bool:
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
