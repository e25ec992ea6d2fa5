"""Bodies that a history lacks: each has to be explained by an entry of the same history that erased it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..log.canonical import NotCanonical, decode
from ..memory.changes import erased_by, subjects_of
from ..memory.events import ERASED

if TYPE_CHECKING:
    from ..log.entry import Entry
    from ..log.seal import Seal

_ERASED_BYTES: Final = ERASED.encode()


class Gap(NamedTuple):
    """A body that is missing, the records that it said something of, and the entry that is named as having erased it.

    `index` and `place` are those of its command.
    """

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int
    ids: frozenset[bytes]
    by: int


class Gaps:
    """The gaps and the erasures of one history, noted while it is read."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []
        self._erased: dict[bytes, set[tuple[int, int]]] = {}

    def noted(self, history: Iterable[tuple[Entry, Seal | None]]) -> Iterator[tuple[Entry, Seal | None]]:
        """The same history, looked at on its way."""
        for entry, seal in history:
            if None in entry.bodies or _ERASED_BYTES in entry.events:
                self._note(entry)
            yield entry, seal

    def unexplained(self) -> tuple[int, str] | None:
        """The first gap that no entry explains: its index, and what is wrong; None when there is none."""
        for gap in self._gaps:
            erasures = (at for id in gap.ids for at in self._erased.get(id, ()))
            if not any(at > gap[:2] for at in erasures):
                return gap.index, f"body {gap.place} is missing, and no entry erased it"
            if gap.by not in self._all:
                return gap.index, f"body {gap.place} is missing, and entry {gap.by}, which is named, erased nothing"
        return None

    @property
    def _all(self) -> set[int]:
        return {index for erasures in self._erased.values() for index, _ in erasures}

    def _note(self, entry: Entry) -> None:
        try:
            items: list[Any] = decode(entry.events)
        except NotCanonical:
            return  # the verification will say so
        for place, (item, body) in enumerate(zip(items, entry.bodies, strict=False)):
            for id in erased_by(item):
                self._erased.setdefault(id, set()).add((entry.index, place))
            if body is None:
                self._gaps.append(Gap(entry.index, place, frozenset(subjects_of(item)), entry.erased_by))
