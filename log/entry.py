"""Envelopes and entries: what the log is made of.

An author signs an *envelope*: 1 to 256 commands, each named by its id, its kind and the hash of a *detached body*. The
leader decides the commands, and the envelope with the events it led to becomes one *entry*, chained to the one before.
Bodies stay outside every hash but their own, so that they can be erased while the chain still verifies (PROTOCOL § 8).
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any, NamedTuple

from .canonical import ZERO_HASH, Canonical, NotCanonical, decode, encode, pack, tagged_hash
from .configuration import Configuration
from .lineage import Resumption
from .value import value

ENVELOPE_TAG = b"veridical/envelope/1\0"
ENTRY_TAG = b"veridical/entry/1\0"
BODY_TAG = b"veridical/body/1\0"
SALT_BYTES = 16
ID_BYTES = 16
HASH_BYTES = 32
AUTHOR_BYTES = 32

COMMANDS_PER_ENVELOPE_LIMIT = 256
COMMAND_BYTES_LIMIT = 1 << 20
ENVELOPE_BYTES_LIMIT = 4 << 20
NAME_CHARACTERS_LIMIT = 128
"""Longest kind, cluster and `on_behalf` of an envelope."""

ELECTED = "leader.elected"
CONFIGURED = "cluster.configured"

GENESIS_HASH = ZERO_HASH
"""What the first entry of a history follows."""

_CONFIGURED_BYTES = CONFIGURED.encode()


class Position(NamedTuple):
    """The end of a durable log, compared by epoch first and index second."""

    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


ORIGIN = Position(0, 0)


class CommandHead(NamedTuple):
    """What the author signs of one command: its id (16 bytes, UUIDv7), its kind, and the hash of its salted body."""

    id: bytes
    kind: str
    body_hash: bytes


@value(slots=False)
class Envelope:
    """Commands of one author, signed once. `author` is the Ed25519 public key (32 bytes): a key is its own name.

    `on_behalf` is empty, or says for whom a node signed a command that came without a principal ("anonymous", or
    "token:" and the digest of a bearer token).
    """

    cluster: str
    author: bytes
    issued_at_us: int
    commands: tuple[CommandHead, ...]
    on_behalf: str = ""

    @cached_property
    def raw(self) -> bytes:
        """The canonical bytes; the signature covers `ENVELOPE_TAG` followed by them."""
        heads: list[Canonical] = [[head.id, head.kind, head.body_hash] for head in self.commands]
        return encode([1, self.cluster, self.author, self.issued_at_us, self.on_behalf, heads])

    @property
    def signed_bytes(self) -> bytes:
        """What the author's signature covers."""
        return ENVELOPE_TAG + self.raw

    @staticmethod
    def parse(raw: bytes) -> Envelope:
        """Read an envelope back. Raises `NotCanonical` for anything that `raw` could not have produced."""
        value: list[Any] = decode(raw)
        match value:
            case [1, str(cluster), bytes(author), int(issued_at_us), str(on_behalf), [*heads]]:
                envelope = Envelope(cluster, author, issued_at_us, tuple(map(_head, heads)), on_behalf)
            case _:
                raise NotCanonical("not an envelope of version 1")
        if not 1 <= len(heads) <= COMMANDS_PER_ENVELOPE_LIMIT:
            raise NotCanonical(f"an envelope holds 1 to {COMMANDS_PER_ENVELOPE_LIMIT} commands, not {len(heads)}")
        if len(author) != AUTHOR_BYTES or max(len(cluster), len(on_behalf)) > NAME_CHARACTERS_LIMIT:
            raise NotCanonical("the author or a name of an envelope has a length that none can have")
        return envelope


def _head(value: object) -> CommandHead:
    match value:
        case [bytes(id), str(kind), bytes(body_hash)] if (
            len(id) == ID_BYTES and len(body_hash) == HASH_BYTES and len(kind) <= NAME_CHARACTERS_LIMIT
        ):
            return CommandHead(id, kind, body_hash)
        case _:
            raise NotCanonical("not a command of an envelope")


def body_hash(salted_body: bytes) -> bytes:
    """SHA-256 of a detached body, given as its 16-byte salt followed by its content."""
    return tagged_hash(BODY_TAG, salted_body)


@value(slots=False)
class Entry:
    """One position of the log. Envelope, signature and events are kept and hashed as the exact bytes they arrived in.

    `bodies` has one item per command: salt followed by content, or None once it was erased. Bodies are outside `hash`.
    `erased_by` is the last entry that erased one of them, 0 while all are there.
    `events` is a canonical array with one item per command; the memory room says what is in it.
    """

    index: int
    epoch: int
    prev_hash: bytes
    time_us: int
    envelope: bytes
    signature: bytes
    events: bytes
    bodies: tuple[bytes | None, ...] = field(compare=False)
    hash: bytes
    erased_by: int = field(default=0, compare=False)

    @staticmethod
    def chain(
        prev_hash: bytes,
        index: int,
        epoch: int,
        time_us: int,
        envelope: bytes,
        signature: bytes,
        events: bytes,
        bodies: tuple[bytes | None, ...],
        erased_by: int = 0,
    ) -> Entry:
        """The entry that follows `prev_hash`, with its hash computed."""
        digest = entry_hash(prev_hash, index, epoch, time_us, envelope, signature, events)
        return Entry(index, epoch, prev_hash, time_us, envelope, signature, events, bodies, digest, erased_by)

    @property
    def position(self) -> Position:
        """The position of a log that ends with this entry."""
        return Position(self.epoch, self.index)

    @property
    def is_configuration(self) -> bool:
        """Whether `configuration` is one; cheap for entries that are not."""
        return _CONFIGURED_BYTES in self.envelope and self.configuration is not None

    @property
    def is_intact(self) -> bool:
        """Whether `hash` is what the other fields hash to."""
        fields = (self.prev_hash, self.index, self.epoch, self.time_us, self.envelope, self.signature, self.events)
        return self.hash == entry_hash(*fields)

    @property
    def size_bytes(self) -> int:
        """What this entry weighs against limits of batches and queues."""
        size = 256 + len(self.envelope) + len(self.events)
        for body in self.bodies:
            if body is not None:
                size += len(body)
        return size

    @cached_property
    def configuration(self) -> Configuration | None:
        """The configuration that this entry puts in force, or None.

        Raises `NotCanonical` or `QuorumError` when it pretends to carry one.
        """
        if _CONFIGURED_BYTES not in self.envelope:
            return None
        if [head.kind for head in Envelope.parse(self.envelope).commands] != [CONFIGURED]:
            return None
        value: list[Any] = decode(self.events)
        match value:
            case [[[*members], write_quorum, recovery_quorum, lease_ttl_ms, *_]]:
                return Configuration.from_canonical(members, write_quorum, recovery_quorum, lease_ttl_ms, self.position)
            case _:
                raise NotCanonical("the events of a configuration entry hold no configuration")

    @property
    def resumption(self) -> Resumption | None:
        """What the history that begins with this entry follows; None for any other entry. Raises as `configuration`."""
        if self.configuration is None:
            return None
        value: list[Any] = decode(self.events)
        match value[0][4:]:
            case []:
                return None
            case [origin]:
                return Resumption.from_canonical(origin)
            case _:
                raise NotCanonical("the events of a configuration entry hold more than one")


@value()
class Anchor:
    """The entry that a stretch of log follows. Before entry 1 all is zero."""

    index: int = 0
    epoch: int = 0
    hash: bytes = GENESIS_HASH
    time_us: int = 0

    @staticmethod
    def at(entry: Entry) -> Anchor:
        """The anchor for what follows this entry."""
        return Anchor(entry.index, entry.epoch, entry.hash, entry.time_us)


def entry_hash(
    prev_hash: bytes, index: int, epoch: int, time_us: int, envelope: bytes, signature: bytes, events: bytes
) -> bytes:
    """SHA-256 over tag, previous hash and the canonical fields (PROTOCOL § 8)."""
    fields = pack((index, epoch, time_us, envelope, signature, events))
    return tagged_hash(ENTRY_TAG, prev_hash, fields)
