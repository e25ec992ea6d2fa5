"""What a node knows: the real memory room folding the log, behind what a simulated node needs of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..log.canonical import decode
from ..log.entry import CONFIGURED, ELECTED, ORIGIN, SALT_BYTES, Entry, Envelope, Position
from ..memory.changes import erased_by, subjects_of
from ..memory.machine import Context, evolve_entry
from ..memory.state import MemoryState, Workspace

CACHED_ENTRIES = 4096
NOT_OF_MEMORY = frozenset({CONFIGURED, ELECTED})


class Digests:
    """Keyed digests without secrecy: the simulator needs them equal on all nodes and nothing else."""

    def digest(self, *parts: bytes) -> bytes:
        """16 bytes over the parts and their borders."""
        state = hashlib.blake2b(digest_size=16)
        for part in parts:
            state.update(len(part).to_bytes(4, "big") + part)
        return state.digest()


class AllRights:
    """Every simulated author may do everything: refusals by rights are not what is simulated here."""

    enforced = True

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Always."""
        del author, right, scope
        return True


def context(epoch: int) -> Context:
    """What a leader of `epoch` decides with."""
    return Context(Digests(), AllRights(), epoch)


class Erasure(NamedTuple):
    """The command at `place` of entry `index` destroys what was ever said of that record before."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int
    id: bytes

    def covers(self, index: int, place: int, subjects: frozenset[bytes]) -> bool:
        """Whether it destroys the body at that place, of a command that says something of these records."""
        return (index, place) < (self.index, self.place) and self.id in subjects


class Parsed(NamedTuple):
    """An entry as the memory room wants it, which records each command says something of, and which it erases."""

    author: bytes | None
    heads: tuple[tuple[bytes, str], ...]
    items: Sequence[Sequence[Any]]
    contents: tuple[bytes | None, ...]
    subjects: tuple[frozenset[bytes], ...]
    erases: tuple[tuple[int, bytes], ...]


_parsed: dict[tuple[bytes, tuple[bool, ...]], Parsed] = {}


def parsed(entry: Entry) -> Parsed:
    """The entry taken apart; all nodes of a run share the result, since entries of one hash are one value, but for
    the bodies that were erased.
    """
    key = (entry.hash, tuple(body is None for body in entry.bodies) if entry.erased_by else ())
    found = _parsed.get(key)
    if found is None:
        if len(_parsed) >= CACHED_ENTRIES:
            _parsed.clear()
        found = _parsed[key] = _parse(entry)
    return found


def _parse(entry: Entry) -> Parsed:
    envelope = Envelope.parse(entry.envelope)
    contents = tuple(None if body is None else body[SALT_BYTES:] for body in entry.bodies)
    heads = tuple((head.id, head.kind) for head in envelope.commands)
    author = None if envelope.on_behalf else envelope.author
    items: Sequence[Sequence[Any]] = decode(entry.events)
    if heads[0][1] in NOT_OF_MEMORY:
        return Parsed(author, heads, items, contents, (), ())
    subjects = tuple(frozenset(subjects_of(item)) for item in items)
    erases = tuple((place, id) for place, item in enumerate(items) for id in erased_by(item))
    return Parsed(author, heads, items, contents, subjects, erases)


def erasures_of(entry: Entry) -> list[Erasure]:
    """What that entry erases."""
    return [Erasure(entry.index, place, id) for place, id in parsed(entry).erases]


def evolve(workspace: Workspace, entry: Entry) -> None:
    """Fold one entry into an overlay."""
    author, heads, items, contents, *_ = parsed(entry)
    evolve_entry(workspace, entry.index, entry.epoch, entry.time_us, author, heads, items, contents)


class Fold:
    """The projection of one node: the state after the entry at `applied`. It survives crashes, or is folded again.

    `erasures` are all that were folded, `left` those of which the log may still hold something. Before `whole_after`
    is folded, texts are missing here that it should have: their bodies were erased before they were folded.
    """

    def __init__(self) -> None:
        self.state = MemoryState()
        self.applied: Position = ORIGIN
        self.whole_after = 0
        self.erasures: list[Erasure] = []
        self.left: set[Erasure] = set()

    @property
    def is_whole(self) -> bool:
        """Whether all texts are here that belong to this state."""
        return self.applied.index >= self.whole_after

    def apply(self, entries: Iterable[Entry]) -> None:
        """Fold entries that follow `applied`."""
        for entry in entries:
            assert entry.index == self.applied.index + 1, ("the fold leaves no gap", entry.index, self.applied)
            workspace = Workspace(self.state)
            evolve(workspace, entry)
            self.state.apply(workspace)
            self.applied = entry.position
            self.whole_after = max(self.whole_after, entry.erased_by)
            new = erasures_of(entry)
            self.erasures += new
            self.left.update(new)

    def reopen_erasures(self) -> None:
        """The log may hold again what was erased: it got bodies back from elsewhere."""
        self.left.update(self.erasures)

    def text(self, record_id: bytes) -> str | None:
        """The text of a record, None when there is none."""
        record = self.state.record(record_id)
        return None if record is None else record.text

    def digest(self) -> bytes:
        """Equal on all nodes that have applied the same index."""
        return self.state.state_digest()
