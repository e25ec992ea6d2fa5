"""What was erased stays away: bodies that an entry of another member must not bring back, and bodies it may lack.

Bodies are outside of an entry's hash, so that one and the same entry comes with a body from a member that has not
erased it yet, and without it from one that has. Which of the two is right is written in the log: in the events of the
entry that erased it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from ..log.canonical import NotCanonical, decode
from ..log.entry import Entry
from ..memory.changes import erased_by, subjects_of
from ..memory.events import ERASED

_ERASED_BYTES: Final = ERASED.encode()


class Erasures:
    """Erasing entries, and the records whose content each of them destroys; `known` are pairs of the two."""

    def __init__(self, known: Iterable[tuple[int, bytes]] = ()) -> None:
        self._indexes: dict[bytes, set[int]] = {}
        self._all: set[int] = set()
        for index, id in known:
            self._add(index, id)

    def __contains__(self, index: object) -> bool:
        """Whether the entry at `index` is known to erase something."""
        return index in self._all

    def note(self, entry: Entry) -> None:
        """Know what this entry erases, if anything."""
        if _ERASED_BYTES in entry.events:
            for item in _items(entry):
                for id in erased_by(item):
                    self._add(entry.index, id)

    def without_erased(self, entry: Entry) -> Entry:
        """The entry as it has to be kept: without each body that says something of a record erased later."""
        bodies, last = list(entry.bodies), entry.erased_by
        items = _items(entry)
        for place in range(len(items)):
            by = self._last(items, place, entry.index)
            if by and place < len(bodies) and bodies[place] is not None:
                bodies[place], last = None, max(last, by)
        return entry if last == entry.erased_by else replace(entry, bodies=tuple(bodies), erased_by=last)

    def unexplained(self, entry: Entry) -> str:
        """Why the entry may not lack the bodies that it lacks, as far as is known here; empty when it may."""
        if None not in entry.bodies:
            return ""
        items = _items(entry)
        for place, body in enumerate(entry.bodies):
            if body is None and not (place < len(items) and self._last(items, place, entry.index)):
                return f"it holds entry {entry.index} without body {place}, and no entry known here erased that"
        if entry.erased_by != entry.index and entry.erased_by not in self:
            return f"it holds entry {entry.index} without all of its bodies, and names no entry that erased them"
        return ""

    def _last(self, items: Sequence[Sequence[Any]], place: int, index: int) -> int:
        """The last entry with a command behind that place of entry `index`, of these items, that erased a record of
        which the body there says something; 0: none did.
        """
        subjects = subjects_of(items[place])
        later = {by for id in subjects for by in self._indexes.get(id, ()) if by > index}
        if any(id in subjects for item in items[place + 1 :] for id in erased_by(item)):
            later.add(index)
        return max(later, default=0)

    def _add(self, index: int, id: bytes) -> None:
        self._indexes.setdefault(id, set()).add(index)
        self._all.add(index)


def _items(entry: Entry) -> list[Any]:
    """The events of each of its commands; none where they are malformed, which others find."""
    try:
        match decode(entry.events):
            case [*items]:
                return items
            case _:
                return []
    except NotCanonical:
        return []
