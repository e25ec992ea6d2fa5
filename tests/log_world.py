"""Histories for tests of the log: real keys, real signatures, three members, and a scribe who plays their leader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from veridical.log.canonical import encode
from veridical.log.configuration import Configuration, Member, cluster_id, founding
from veridical.log.entry import Anchor, CommandHead, Entry, Envelope, body_hash
from veridical.log.identifier import uuid7
from veridical.log.notary import Notary, SystemEntry
from veridical.log.seal import Seal
from veridical.log.store import Identity, LogStore
from veridical.security.keys import KeyPair
from veridical.security.principal import Principal

NAME = "example"
START_US = 1_700_000_000_000_000
NODE_KEYS = {f"node-{number}": KeyPair(bytes([number]) * 32) for number in (1, 2, 3)}
MEMBERS = tuple(Member(id, f"n{id[-1]}", key.public_key, f"localhost:740{id[-1]}") for id, key in NODE_KEYS.items())
CONFIGURATION = founding(MEMBERS)
CLUSTER = cluster_id(NAME, CONFIGURATION)
IDENTITY = Identity(CLUSTER, NAME, "node-1")
ALICE = Principal(b"a" * 32)


class Scribe:
    """Writes a history as a leader would, and remembers all of it."""

    def __init__(self, leader: str = "node-1", epoch: int = 1) -> None:
        self.epoch = epoch
        self.notary = Notary(CLUSTER, leader, NODE_KEYS[leader])
        self.entries: list[Entry] = []
        self.seals: dict[int, Seal] = {}

    @property
    def end(self) -> Anchor:
        """Where the history ends."""
        return Anchor.at(self.entries[-1]) if self.entries else Anchor()

    @property
    def history(self) -> list[tuple[Entry, Seal | None]]:
        """What `verify` and `write_export` take."""
        return [(entry, self.seals.get(entry.index)) for entry in self.entries]

    def found(self, configuration: Configuration = CONFIGURATION) -> list[Entry]:
        """The first two entries: the founding configuration, and the election."""
        time_us = START_US
        return self.append(self.notary.configured(configuration, time_us), self.notary.elected(self.epoch, time_us))

    def lead(self, leader: str, epoch: int) -> list[Entry]:
        """A new leader takes over."""
        self.epoch, self.notary = epoch, Notary(CLUSTER, leader, NODE_KEYS[leader])
        return self.append(self.notary.elected(epoch, self.end.time_us + 1))

    def say(self, *texts: str, author: Principal | KeyPair = ALICE, on_behalf: str = "") -> list[Entry]:
        """A batch of one entry for each text."""
        return self.append(*(self.command([text], author, on_behalf) for text in texts))

    def command(self, texts: Iterable[str], author: Principal | KeyPair = ALICE, on_behalf: str = "") -> SystemEntry:
        """One signed envelope with a command for each text."""
        time_us = self.end.time_us + 1000
        bodies = tuple(b"salt of 16 bytes" + text.encode() for text in texts)
        heads = tuple(CommandHead(uuid7(time_us, body_hash(body)), "memory.write", body_hash(body)) for body in bodies)
        envelope = Envelope(CLUSTER, author.public_key, time_us, heads, on_behalf)
        events = encode([["asserted", place] for place in range(len(bodies))])
        return SystemEntry(time_us, envelope.raw, author.sign(envelope.signed_bytes), events, bodies)

    def append(self, *drafts: SystemEntry, sealed: bool = True) -> list[Entry]:
        """Chain the drafts as one batch, sealed at its end."""
        batch: list[Entry] = []
        for draft in drafts:
            end = Anchor.at(batch[-1]) if batch else self.end
            place = (end.hash, end.index + 1, self.epoch, max(draft.time_us, end.time_us))
            batch.append(Entry.chain(*place, draft.envelope, draft.signature, draft.events, draft.bodies))
        self.entries += batch
        if sealed:
            last = batch[-1]
            self.seals[last.index] = self.notary.seal(self.epoch, last.index, last.hash)
        return batch

    def seals_of(self, batch: list[Entry]) -> list[Seal]:
        """The seals on these entries."""
        return [self.seals[entry.index] for entry in batch if entry.index in self.seals]

    def store(self, log: LogStore, batch: list[Entry], commit_index: int | None = None) -> None:
        """Store a batch."""
        log.write(entries=batch, seals=self.seals_of(batch), commit_index=commit_index)


def short_history() -> Scribe:
    """Seven entries: founding, election, three commands (one envelope of two), an election, one command."""
    scribe = Scribe()
    scribe.found()
    scribe.append(scribe.command(["the sky is blue"]), scribe.command(["water is wet", "fire is hot"]))
    scribe.say("grass is green")
    scribe.lead("node-2", 2)
    scribe.say("snow is white")
    return scribe


def stored(log: LogStore, scribe: Scribe) -> None:
    """Store a whole history, batch by batch."""
    batch: list[Entry] = []
    for entry in scribe.entries:
        batch.append(entry)
        if entry.index in scribe.seals:
            scribe.store(log, batch)
            batch = []
    if batch:
        scribe.store(log, batch)


def altered(entry: Entry, **changes: Any) -> Entry:
    """The entry with other fields, its hash left as it was."""
    return replace(entry, **changes)


def rehashed(entry: Entry, **changes: Any) -> Entry:
    """The entry with other fields and the hash that fits them: what a forger who can compute would write."""
    other = altered(entry, **changes)
    return Entry.chain(
        other.prev_hash,
        other.index,
        other.epoch,
        other.time_us,
        other.envelope,
        other.signature,
        other.events,
        other.bodies,
    )
