"""Looks for damage in a stored log. Reads a stretch at a time, so that it can run for long beside a writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from .entry import Anchor, Entry
from .errors import LogDamaged
from .flaws import Flaw, require_content, require_link, require_sealed
from .reader import Reader
from .seal import Seal

STRETCH_ENTRIES = 256
_INDEX_LIMIT = (1 << 63) - 1

OpenReader = Callable[[], AbstractContextManager[Reader]]


class Stretch(NamedTuple):
    """What could be read of a stretch of log, up to the first entry that could not (`ended`), and damage to seals."""

    entries: list[Entry]
    seals: dict[int, Seal]
    ended: LogDamaged | None
    seal_damages: list[LogDamaged]


def damages(open_reader: OpenReader, file: str, first: int, last: int | None) -> Iterator[LogDamaged]:
    """The damage among the entries from `first` to `last` (None: the end) and their seals, in order of index."""
    with open_reader() as reader:
        end = reader.state().last.index
    index, before = first, _anchor(open_reader, first)
    while index <= (end if last is None else min(last, end)):
        stretch = _read(open_reader, index, min(index + STRETCH_ENTRIES - 1, end))
        found = list(stretch.seal_damages)
        for entry in stretch.entries:
            found += _flaws(entry, before, stretch.seals.get(entry.index), file)
            before = Anchor.at(entry)
        index += len(stretch.entries)
        if stretch.ended is not None:
            found.append(stretch.ended)
            index, before = index + 1, None
        yield from sorted(found, key=lambda damage: damage.index or 0)
    if last is None:
        yield from _seals_beyond(open_reader, file, end)


def _anchor(open_reader: OpenReader, first: int) -> Anchor | None:
    """What entry `first` follows; None when that is unreadable, which is not this range's damage."""
    if first <= 1:
        return Anchor()
    try:
        with open_reader() as reader:
            return Anchor.at(reader.entry(first - 1))
    except LogDamaged:
        return None


def _read(open_reader: OpenReader, first: int, last: int) -> Stretch:
    entries: list[Entry] = []
    ended = None
    with open_reader() as reader:
        try:
            for entry in reader.entries(first, last):
                entries.append(entry)  # noqa: PERF402  what was read before the damage is kept
        except LogDamaged as damage:
            ended = damage
        seals, seal_damages = reader.sound_seals(first, first + len(entries) - 1)
    return Stretch(entries, {seal.index: seal for seal in seals}, ended, seal_damages)


def _flaws(entry: Entry, before: Anchor | None, seal: Seal | None, file: str) -> list[LogDamaged]:
    try:
        if before is not None:
            require_link(entry, before)
        require_content(entry)
        if seal is not None:
            require_sealed(entry, seal)
    except Flaw as flaw:
        return [LogDamaged(file, entry.index, str(flaw))]
    return []


def _seals_beyond(open_reader: OpenReader, file: str, end: int) -> Iterator[LogDamaged]:
    """Seals on no entry: a seal whose place in its table was changed turns up there."""
    with open_reader() as reader:
        seals, damages = reader.sound_seals(end + 1, _INDEX_LIMIT)
    yield from damages
    for seal in seals:
        yield LogDamaged(file, seal.index, "a seal lies beyond the end of the log")
