"""What stands around a record: the turn before it and the one after it, or the source that a fact was taken from.

A turn is often found by the words of its neighbour ("Where shall we meet?" – "At the station."), so these words are
indexed with it, in columns of their own that weigh less. Context
never crosses a scope, and a neighbour that may not be recalled gives none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from ..memory.record import EPISODE, Record
from ..memory.state import Workspace
from .rows import is_searchable

CHARACTERS_TAKEN: Final = 1_000
"""So much of a neighbour is indexed with a record: the end of what came before, the beginning of what came after."""
SOURCES_TAKEN: Final = 3


class Context(NamedTuple):
    """Texts around a record. Both empty: it stands alone."""

    before: str
    after: str


ALONE: Final = Context("", "")


class Neighbours(Protocol):
    """A state in which neighbours are looked up."""

    def record(self, id: bytes) -> Record | None:
        """What is held under that id."""
        ...

    def episodes_after(self, id: bytes) -> Iterable[bytes]:
        """The ids of the episodes that follow that one."""
        ...


class Before(Neighbours, Protocol):
    """The state before a batch."""

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """The ids of what rests on that record."""
        ...


def may_have_context(record: Record) -> bool:
    """Whether a record can have neighbours at all; most have none, and nothing is looked up for them."""
    return record.kind == EPISODE or bool(record.grounds)


def context_of(record: Record, state: Neighbours) -> Context:
    """What stands around a record in that state."""
    if not may_have_context(record):
        return ALONE
    if record.kind != EPISODE:
        sources = (_text(record, id, state) for id in record.derived_from[:SOURCES_TAKEN])
        return Context(" ".join(source[:CHARACTERS_TAKEN] for source in sources), "")
    before = _text(record, record.follows, state) if record.follows else ""
    following = min(state.episodes_after(record.id), default=b"")
    after = _text(record, following, state) if following else ""
    return Context(before[-CHARACTERS_TAKEN:], after[:CHARACTERS_TAKEN])


def _text(record: Record, id: bytes, state: Neighbours) -> str:
    neighbour = state.record(id)
    if neighbour is None or neighbour.kind != EPISODE or neighbour.scope != record.scope:
        return ""
    return neighbour.text if is_searchable(neighbour) else ""


class Surroundings:
    """What stands around records before and after a batch. A record whose neighbour changed has to be indexed again."""

    def __init__(self, workspace: Workspace, state: Before) -> None:
        self._changed = workspace.records
        self._state = state
        self._followers: dict[bytes, set[bytes]] = {}
        self._touched: set[bytes] = set()

    def note_changes(self) -> None:
        """Look through what the batch changes. Episodes are few; nothing is looked up for anything else."""
        for id, record in self._changed.items():
            if record is not None and record.kind == EPISODE and record.follows:
                self._followers.setdefault(record.follows, set()).add(id)
        for id, record in self._changed.items():
            if record is not None and record.kind == EPISODE:
                self._note(id, record)
            elif record is None:
                held = self._state.record(id)
                if held is not None and held.kind == EPISODE:
                    self._note(id, held)

    def touched(self) -> list[bytes]:
        """The records, not themselves in the batch, that have another neighbour after it; in the order of their ids."""
        return sorted(self._touched.difference(self._changed))

    def before(self, record: Record) -> Context:
        """Around a record as the state before the batch has it."""
        return context_of(record, self._state)

    def after(self, record: Record) -> Context:
        """Around a record after the batch."""
        return context_of(record, self)

    def record(self, id: bytes) -> Record | None:
        """After the batch."""
        return self._changed[id] if id in self._changed else self._state.record(id)

    def episodes_after(self, id: bytes) -> set[bytes]:
        """After the batch."""
        kept = {next for next in self._state.episodes_after(id) if next not in self._changed}
        return kept | self._followers.get(id, set())

    def _note(self, id: bytes, episode: Record) -> None:
        if episode.follows:
            self._touched.add(episode.follows)
        self._touched.update(self._state.episodes_after(id), self._state.derived(id))
