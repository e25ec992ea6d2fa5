"""What rests on what: which sources a statement may name, and what falls when one is taken away (MEMORY § 5).

A record that nothing else has stated lives while something that it rests on does. Whatever takes a record away, a
`forgotten`, an `undone`, or a rejection, is followed in the same command by `withdrawn`, which names all that falls
with it, through any number of steps. What fades or expires takes nothing along: it was not withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import Any, Final, NamedTuple

from . import events, rules
from .case import Case
from .context import READ, Context
from .events import Event, refused
from .grounds import silenced
from .lifecycle import is_expired
from .limits import WITHDRAWN_LIMIT
from .record import EPISODE, REJECTED, VERIFIED, Record
from .sources import may_alter, speaker_digest
from .state import State

TAKING_AWAY: Final = frozenset(
    {
        events.FORGOTTEN, events.ERASED, events.UNSAID, events.REJECTED, events.CONTRADICTED, events.ATTESTED,
        events.UNDONE,
    }
)  # fmt: skip


class Named(NamedTuple):
    """The records that a statement names as what it rests on: episodes, in which it is said, and others."""

    episodes: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()

    @property
    def ids(self) -> tuple[bytes, ...]:
        """All of them."""
        return self.episodes + self.others

    def less(self, left_out: Container[bytes]) -> Named:
        """Those that are not in `left_out`."""
        return Named._make(tuple(id for id in ids if id not in left_out) for ids in self)

    def first(self, count: int) -> Named:
        """As many as there is room for, episodes before others."""
        return Named(self.episodes[:count], self.others[: max(0, count - len(self.episodes))])


NOTHING: Final = Named()


def named_sources(
    state: State, ids: tuple[bytes, ...], author: bytes | None, now_us: int, context: Context
) -> Named | None:
    """What those ids name, or None where one is not there for the author to rest anything on."""
    episodes: dict[bytes, None] = {}
    others: dict[bytes, None] = {}
    for id in ids:
        record = state.record(id)
        if record is None or record.trust == REJECTED or is_expired(record, now_us):
            return None
        if not context.rights.holds(author, READ, record.scope):
            return None
        (episodes if record.kind == EPISODE else others)[id] = None
    return Named(tuple(episodes), tuple(others))


def resting_on(state: State, id: bytes) -> set[bytes] | None:
    """That id and all under which something rests on it, through any number of steps; None: they are too many."""
    found = {id}
    waiting = [id] if state.record(id) else []  # on what is not held, nothing rests
    while waiting:
        new = [dependant for dependant in state.derived(waiting.pop()) if dependant not in found]
        found.update(new)
        waiting += new
        if len(found) > WITHDRAWN_LIMIT:
            return None
    return found


def stands(state: State, record: Record, gone: Container[bytes] = ()) -> bool:
    """Whether the value has something to rest on when those records are gone: a statement, or a record that stands."""
    resting = record.derived_from
    if any(source not in resting for source in record.sources):
        return True
    return any(id not in gone and _counts(state.record(id)) for id in resting)


def _counts(source: Record | None) -> bool:
    return source is not None and source.trust != REJECTED


def consequences(case: Case[Any], event: Event) -> list[Event]:
    """The event with what follows from it for all that rests on its record, or the refusal of both."""
    if not _takes_away(case, event) or not case.state.derived(event[1]):
        return [event]
    fall = _Fall(case, event[1], removes=_removes(event))
    rule = fall.happen()
    if rule:
        return [refused(rule, event[1])]
    following = fall.event(event[0])
    return [event] if following is None else [event, following]


def _removes(event: Event) -> bool:
    return event[0] in (events.FORGOTTEN, events.ERASED, events.UNSAID) or (event[0] == events.UNDONE and not event[2])


def _takes_away(case: Case[Any], event: Event) -> bool:
    match event[0]:
        case events.CONTRADICTED:
            return event[5]
        case events.ATTESTED:
            return not event[4]
        case events.UNSAID:
            return event[4]
        case events.UNDONE if event[2]:
            last = case.state.last_past(event[1])
            return last is not None and last.record.trust == REJECTED
        case _:
            return True


class _Fall:
    """What goes when a record goes. `removes`: it is held no longer, so that nothing may go on naming it."""

    def __init__(self, case: Case[Any], source: bytes, removes: bool) -> None:
        self._case = case
        self._removes = removes
        self._gone = [source]
        self._touched: dict[bytes, None] = {}

    def happen(self) -> str:
        """Find all that falls; returns the rule that stands against it, or nothing."""
        state, gone = self._case.state, set(self._gone)
        for id in self._gone:  # grows meanwhile
            for dependant in state.derived(id):
                self._touched[dependant] = None
                record = state.record(dependant)
                if dependant in gone or record is None or stands(state, record, gone):
                    continue
                if not self._may_fall(record):
                    if self._removes:
                        return rules.VERIFIED_FALLS
                    continue
                self._gone.append(dependant)
                gone.add(dependant)
            if len(self._touched) > WITHDRAWN_LIMIT:
                return rules.WITHDRAWN_FULL
        return ""

    def _may_fall(self, record: Record) -> bool:
        """What was verified is taken away by those who may."""
        return record.trust != VERIFIED or may_alter(record, self._case.author, self._case.context)

    def event(self, cause: str) -> Event | None:
        """What happens to all that rests on it; None where nothing does."""
        source, *fallen = self._gone
        lost = set(self._gone if self._removes else fallen)
        cut: list[list[Any]] = []
        dropped: list[list[Any]] = []
        for row, is_held in self._rows_left():
            if not is_held and not stands(self._case.state, row, self._gone):
                dropped.append([row.id, row.value_digest])
            elif not lost.isdisjoint(row.derived_from):
                cut.append([row.id, row.value_digest, unrecognised(row, lost, self._case.context)])
        if not (fallen or cut or dropped):
            return None
        return [events.WITHDRAWN, source, cause, fallen, cut, dropped]

    def _rows_left(self) -> Iterator[tuple[Record, bool]]:
        """The rows under ids whose value stays, and whether they are it or contend with it."""
        for id in sorted(self._touched.keys() - set(self._gone)):
            record = self._case.state.record(id)
            if record is not None:
                yield record, True
            for contender in self._case.state.contending(id):
                yield contender, False


def unrecognised(row: Record, lost: Collection[bytes], context: Context) -> list[bytes]:
    """Those of the authenticated who have stated the value on nothing but these records."""
    silent = silenced(row, lost)
    return [speaker for speaker in row.authenticated if speaker_digest(context.digests, speaker) in silent]
