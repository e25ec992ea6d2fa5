"""What a node knows: the real memory room folding the log, behind what a simulated node needs of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..log.canonical import decode
from ..log.entry import ORIGIN, SALT_BYTES, Entry, Envelope, Position
from ..memory.machine import Context, evolve_entry
from ..memory.state import MemoryState, Workspace

CACHED_ENTRIES = 4096


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


class Parsed(NamedTuple):
    """An entry as the memory room wants it."""

    author: bytes | None
    heads: tuple[tuple[bytes, str], ...]
    items: Sequence[Sequence[Any]]
    contents: tuple[bytes | None, ...]


_parsed: dict[bytes, Parsed] = {}


def parsed(entry: Entry) -> Parsed:
    """The entry taken apart; all nodes of a run share the result, since entries of one hash are one value."""
    found = _parsed.get(entry.hash)
    if found is None:
        if len(_parsed) >= CACHED_ENTRIES:
            _parsed.clear()
        found = _parsed[entry.hash] = _parse(entry)
    return found


def _parse(entry: Entry) -> Parsed:
    envelope = Envelope.parse(entry.envelope)
    contents = tuple(None if body is None else body[SALT_BYTES:] for body in entry.bodies)
    heads = tuple((head.id, head.kind) for head in envelope.commands)
    author = None if envelope.on_behalf else envelope.author
    return Parsed(author, heads, decode(entry.events), contents)


def evolve(workspace: Workspace, entry: Entry) -> None:
    """Fold one entry into an overlay."""
    author, heads, items, contents = parsed(entry)
    evolve_entry(workspace, entry.index, entry.epoch, entry.time_us, author, heads, items, contents)


class Fold:
    """The projection of one node: the state after the entry at `applied`. It survives crashes, or is folded again."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.applied: Position = ORIGIN

    def apply(self, entries: Iterable[Entry]) -> None:
        """Fold entries that follow `applied`."""
        for entry in entries:
            assert entry.index == self.applied.index + 1, ("the fold leaves no gap", entry.index, self.applied)
            workspace = Workspace(self.state)
            evolve(workspace, entry)
            self.state.apply(workspace)
            self.applied = entry.position

    def text(self, record_id: bytes) -> str | None:
        """The text of a record, None when there is none."""
        record = self.state.record(record_id)
        return None if record is None else record.text

    def digest(self) -> bytes:
        """Equal on all nodes that have applied the same index."""
        return self.state.state_digest()
