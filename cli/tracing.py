"""What rested on an event: what happened later to its records, and to whatever was derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..log.canonical import decode
from ..log.entry import Envelope
from ..memory.changes import NO_RECORD, effects_of
from ..memory.view import datetime_of

if TYPE_CHECKING:
    from ..log.entry import Entry
    from ..log.seal import Seal

ORIGIN: Final = "origin"
SAME: Final = "same record"
RESTING: Final = "rests on"


class Traced(NamedTuple):
    """One change that concerns what is traced, and why: it is the origin itself, about the same record, or rests on it.

    `on` names the records that it rests on.
    """

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int
    time: str
    kinds: tuple[str, ...]
    id: str
    author: str
    why: str
    on: tuple[str, ...] = ()


def traced(history: Iterable[tuple[Entry, Seal | None]]) -> Iterator[Traced]:
    """Everything in a history that begins with the entry to be traced: that entry, and what rested on it."""
    concerned: set[bytes] = set()
    for number, (entry, _) in enumerate(history):
        items: list[list[Any]] = decode(entry.events)
        envelope = Envelope.parse(entry.envelope)
        author = envelope.on_behalf or envelope.author.hex()
        for place, item in enumerate(items):
            for effect in effects_of(item):
                if number == 0:
                    concerned |= {effect.id} - {NO_RECORD}
                on = _rests_on(item, effect.id, concerned)
                why = ORIGIN if number == 0 else SAME if effect.id in concerned else RESTING if on else ""
                if why:
                    concerned |= {effect.id} - {NO_RECORD}
                    time = datetime_of(entry.time_us).isoformat()
                    yield Traced(entry.index, place, time, effect.kinds, effect.id.hex(), author, why, on)


def _rests_on(item: list[Any], id: bytes, concerned: set[bytes]) -> tuple[str, ...]:
    """The records among those concerned that the events about `id` name beside it."""
    named = {value for event in item[1:] if id in event[1:2] for value in _bytes_in(event[2:])}
    return tuple(sorted(other.hex() for other in named & concerned - {id}))


def _bytes_in(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _bytes_in(item)
