"""What can be wrong with an entry that was read whole: its place in the chain, its hash, its envelope, its bodies."""

from __future__ import annotations

from .canonical import NotCanonical
from .entry import Anchor, Entry, Envelope, body_hash
from .seal import Seal


class Flaw(ValueError):
    """The entry or seal is not what the protocol could have written; the text says in what."""


def require_link(entry: Entry, before: Anchor) -> None:
    """Raises `Flaw` unless `entry` follows `before`, in time as well."""
    if entry.index != before.index + 1:
        raise Flaw(f"the entry is missing: entry {entry.index} follows {before.index}")
    if entry.prev_hash != before.hash:
        raise Flaw("the entry does not follow the one before: its previous hash is another")
    if entry.epoch < before.epoch:
        raise Flaw(f"epoch {entry.epoch} follows epoch {before.epoch}")
    if entry.time_us < before.time_us:
        raise Flaw(f"time {entry.time_us} µs follows time {before.time_us} µs")


def require_content(entry: Entry) -> Envelope:
    """The entry's envelope. Raises `Flaw` unless hash, envelope and every body that was not erased fit together."""
    if not entry.is_intact:
        raise Flaw("the hash does not fit the entry")
    try:
        envelope = Envelope.parse(entry.envelope)
    except NotCanonical as error:
        raise Flaw(f"the envelope is malformed: {error}") from error
    if len(entry.bodies) != len(envelope.commands):
        raise Flaw(f"{len(entry.bodies)} bodies for {len(envelope.commands)} commands")
    for place, (head, body) in enumerate(zip(envelope.commands, entry.bodies, strict=True)):
        if body is not None and body_hash(body) != head.body_hash:
            raise Flaw(f"body {place} is not the one that was signed")
    return envelope


def require_sealed(entry: Entry, seal: Seal) -> None:
    """Raises `Flaw` unless `seal` is on this entry, by a leader of its epoch or a later one."""
    if (seal.index, seal.hash) != (entry.index, entry.hash):
        raise Flaw("the seal is on another hash than the entry's")
    if seal.epoch < entry.epoch:
        raise Flaw(f"the seal of epoch {seal.epoch} is older than the entry of epoch {entry.epoch}")
