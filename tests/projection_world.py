"""A history made without a cluster: commands decided by the memory rules, chained as the log chains them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from veridical.embedding.embedder import Embedder
from veridical.log.canonical import Canonical, decode, encode
from veridical.log.entry import GENESIS_HASH, CommandHead, Entry, Envelope, body_hash
from veridical.log.identifier import uuid7
from veridical.memory import commands as c
from veridical.memory.changes import erased_by, subjects_of
from veridical.memory.keys import make_key, record_id
from veridical.memory.machine import (
    Command,
    Context,
    OperatorRights,
    Outcome,
    decide_envelope,
    evolve_entry,
    is_denied,
    outcomes,
)
from veridical.memory.state import MemoryState, Workspace
from veridical.projection.projection import Projection
from veridical.security.digests import DigestKey
from veridical.security.keys import verify

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
ALICE, BOB, CAROL = (bytes([letter]) * 32 for letter in b"abc")


def fact_id(subject: str, predicate: str, scope: str = "global") -> bytes:
    """The id of a single-valued fact."""
    return record_id(make_key(subject, predicate, scope))


class World:
    """Decides commands, keeps the entries, and folds the same history into a `MemoryState` beside them."""

    def __init__(self) -> None:
        self.memory = MemoryState()
        self.entries: list[Entry] = []
        self.now_us = START_US
        self._context = Context(DigestKey(bytes(32)), OperatorRights(), 1, verify)
        self._commands = 0

    @property
    def last(self) -> int:
        """The index of the last entry."""
        return len(self.entries)

    def pass_time(self, time_us: int) -> None:
        """Let time go by before the next entry."""
        self.now_us += time_us

    def say(self, *asked: tuple[str, c.Body], author: bytes | None = None, of_node: bool = False) -> list[Outcome]:
        """One envelope of commands: decided, chained, folded. Returns what came of each."""
        self.pass_time(SECOND_US)
        index = self.last + 1
        made = [Command(self._identifier(), kind, c.encode_body(kind, body), author, of_node) for kind, body in asked]
        items = decide_envelope(Workspace(self.memory), made, self.now_us, self._context, index)
        if of_node and is_denied(items):
            return outcomes(items, 1, 0)
        bodies = tuple(bytes(16) + command.content for command in made)
        heads = tuple(
            CommandHead(command.id, command.kind, body_hash(body)) for command, body in zip(made, bodies, strict=True)
        )
        envelope = Envelope("test", author or bytes(32), self.now_us, heads, "" if author else "anonymous")
        previous = self.entries[-1].hash if self.entries else GENESIS_HASH
        entry = Entry.chain(
            previous, index, 1, self.now_us, envelope.raw, bytes(64), encode(cast(Canonical, items)), bodies
        )
        self.entries.append(entry)
        workspace = Workspace(self.memory)
        contents = [command.content for command in made]
        evolve_entry(workspace, index, 1, self.now_us, author, [(h.id, h.kind) for h in heads], items, contents)
        self.memory.apply(workspace)
        return outcomes(items, 1, index)

    def write(
        self,
        text: str,
        subject: str = "",
        predicate: str = "",
        scope: str = "global",
        *,
        author: bytes | None = ALICE,
        **rest: Any,
    ) -> bytes:
        """Write one fact; returns the id of its record."""
        body = c.WriteBody("fact", subject, predicate, scope, text)._replace(**rest)
        (outcome,) = self.say((c.WRITE, body), author=author)
        return outcome.record_id

    def embed(self, id: bytes, embedder: Embedder, vector: bytes) -> Outcome:
        """What a node says once a service has made the vector of what is held there."""
        record = self.memory.record(id)
        value = bytes(16) if record is None else record.value_digest
        (outcome,) = self.say((c.EMBED, c.EmbedBody(id, value, embedder.name, vector, 1)), of_node=True)
        return outcome

    def write_many(self, facts: Sequence[c.WriteBody], author: bytes | None = ALICE) -> None:
        """Write facts in envelopes of 64."""
        for place in range(0, len(facts), 64):
            self.say(*((c.WRITE, fact) for fact in facts[place : place + 64]), author=author)

    def read(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], tuple[()]]:
        """Entries as a log gives them: about `max_bytes`, at least one, none after `last`."""
        taken: list[Entry] = []
        size = 0
        for entry in self.entries[first - 1 : last]:
            if taken and size + entry.size_bytes > max_bytes:
                break
            taken.append(entry)
            size += entry.size_bytes
        return taken, ()

    def bereft(self) -> list[Entry]:
        """The history as it is without the bodies of all that was erased in it."""
        items: list[list[Any]] = [decode(entry.events) for entry in self.entries]
        erased = {
            id: entry.index
            for entry, of in zip(self.entries, items, strict=True)
            for item in of
            for id in erased_by(item)
        }
        return [
            replace(entry, bodies=_left(entry, of, erased), erased_by=max(erased.values(), default=0))
            for entry, of in zip(self.entries, items, strict=True)
        ]

    def _identifier(self) -> bytes:
        self._commands += 1
        return uuid7(self.now_us, hashlib.sha256(self._commands.to_bytes(8, "big")).digest())


def _left(entry: Entry, items: Sequence[Any], erased: dict[bytes, int]) -> tuple[bytes | None, ...]:
    return tuple(
        None if any(entry.index < erased.get(id, 0) for id in subjects_of(item)) else body
        for body, item in zip(entry.bodies, items, strict=True)
    )


class Folder:
    """Makes projections of histories, with the vectors of an embedder, and closes them with itself."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        self._made: list[Projection] = []

    def __call__(self, entries: Sequence[Entry], *sizes: int, path: str | Path = ":memory:") -> Projection:
        """A projection that got the entries in batches of these sizes, the last one for all that is left."""
        projection = Projection.open(path, self._embedder)
        self._made.append(projection)
        place = 0
        for size in (*sizes, len(entries)):
            projection.apply(entries[place : place + size])
            place += size
        return projection

    def __enter__(self) -> Folder:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was made."""
        for projection in self._made:
            projection.close()
