"""Which records an entry's items are about, and what happened to each: for the change feed and for audits. Pure.

A command has one *effect* for each record that its events name. What its first event about a record did is what
happened; later events of the same command about the same record only add to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from . import events
from .errors import Invalid
from .events import Event

ID_BYTES: Final = 16
NO_RECORD: Final = b""

WITHOUT_EFFECT: Final = frozenset({events.REFUSED, events.UNCHANGED})
WHOLE_ENTRY: Final = 256
"""The place of a cursor that has all of an entry behind it: no command stands there."""

KINDS: Final = frozenset(
    value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)
) - WITHOUT_EFFECT - {events.EXPIRED}  # fmt: skip
"""All that can happen, by the names of events."""

QUIET: Final = frozenset({events.REINFORCED, events.EMBEDDED})
"""What reading leads to, and what is made for it: told of only where it is asked for."""


ABOUT_OTHERS: Final = frozenset({events.PRUNED, events.REINFORCED, events.WITHDRAWN, events.UNCONFIRMED})
"""What names records of which the command's body says nothing, beyond their ids."""


class Cursor(NamedTuple):
    """Up to where a history has been seen: the history's id, an entry, a command in it, and which of its changes.

    Without a place, all of the entry; with index 0, nothing yet. An empty history is whichever a node has.
    """

    history: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int = WHOLE_ENTRY
    part: int = 0

    @property
    def next_index(self) -> int:
        """The first entry that holds anything unseen."""
        return self.index + 1 if self.place >= WHOLE_ENTRY else self.index

    def spelled(self) -> str:
        """One word, which `read` takes back."""
        return ":".join(map(str, self if self.place < WHOLE_ENTRY else self[:2]))

    @staticmethod
    def read(word: str) -> Cursor:
        """The cursor that a word spells: `HISTORY:INDEX`, or with `:PLACE:PART` behind. Raises `Invalid`."""
        history, *numbers = word.strip().split(":")
        if len(numbers) not in (1, 3) or not all(number.isdecimal() for number in numbers):
            raise Invalid("cursor", f"{word!r} is not HISTORY:INDEX, or HISTORY:INDEX:PLACE:PART")
        return Cursor(history, *map(int, numbers))


class Effect(NamedTuple):
    """What one command did to one record, or (with an empty id) to the memory as a whole.

    `kinds` are the names of its events, the first first. `gone`: no record is held under that id any more.
    """

    id: bytes
    kinds: tuple[str, ...]
    gone: bool = False


def effects_of(item: Sequence[Any]) -> list[Effect]:
    """What the item of one command changed, in the order of its events; nothing where it was refused or seen before."""
    if not isinstance(item[0], bytes):
        return []
    found: dict[bytes, Effect] = {}
    for event in item[1:]:
        code = event[0]
        if code not in WITHOUT_EFFECT:
            for id, gone in touched(event):
                before = found.get(id)
                found[id] = Effect(id, (code,), gone) if before is None else _joined(before, code, gone)
    return list(found.values())


def touched(event: Event) -> Iterator[tuple[bytes, bool]]:
    """The ids that an event is about, each with whether it removes what is held there."""
    match event:
        case [events.PRUNED, *ids]:
            yield from ((id, True) for id in ids)
        case [events.UNCONFIRMED, *ids]:
            yield from ((id, False) for id in ids)
        case [events.REINFORCED, *pairs]:
            yield from ((id, False) for id, _ in pairs)
        case [events.FORGOTTEN, id, *_]:
            yield id, True
        case [events.ERASED, id, _, *others]:
            yield from ((one, True) for one in (id, *others))
        case [events.UNSAID, id, _, _, goes]:
            yield id, goes
        case [events.UNDONE, id, returns, *_]:
            yield id, not returns
        case [events.WITHDRAWN, id, _, fallen, cut, dropped]:
            yield id, False
            yield from ((other, True) for other in fallen)
            yield from ((other, False) for other, *_ in (*cut, *dropped))
        case [events.CORRECTED, id, replaced, dependants, _]:
            yield id, False
            yield from ((other, True) for other in replaced)
            yield from ((other, False) for other in dependants)
        case [_, bytes(id), *_] if len(id) == ID_BYTES:
            yield id, False
        case _:
            yield NO_RECORD, False


def subjects_of(item: Sequence[Any]) -> set[bytes]:
    """The records that the body of the item's command says something of, also where it was refused or said before."""
    match item:
        case ["seen", _, _, bytes(id), *_] | ["denied", _, bytes(id), *_]:
            return {id} - {NO_RECORD}
        case [bytes(), *happened]:
            named = (id for event in happened if event[0] not in ABOUT_OTHERS for id in _named(event))
            return {id for id in named if isinstance(id, bytes) and len(id) == ID_BYTES}
        case _:
            return set()


def _named(event: Event) -> Iterator[object]:
    match event:
        case [events.CORRECTED, id, replaced, *_]:
            yield from (id, *replaced)
        case [events.ERASED, id, _, *others]:
            yield from (id, *others)
        case [_, id, *_]:
            yield id
        case _:
            pass


def erased_by(item: Sequence[Any]) -> list[bytes]:
    """The records whose content the item destroys."""
    if not isinstance(item[0], bytes):
        return []
    return [id for event in item[1:] if event[0] == events.ERASED for id in (event[1], *event[3:])]


def scope_erased(item: Sequence[Any], id: bytes) -> bytes:
    """The digest of the scope in which the item erases that record; empty where it does not."""
    of_erasures = (event for event in item[1:] if event[0] == events.ERASED)
    return next((event[2] for event in of_erasures if id in (event[1], *event[3:])), b"")


def _joined(effect: Effect, code: str, gone: bool) -> Effect:
    kinds = effect.kinds if code in effect.kinds else (*effect.kinds, code)
    return Effect(effect.id, kinds, effect.gone or gone)
