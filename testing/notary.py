"""A cheap notary: seals and system entries as the real one makes them, signed with a keyed hash instead of Ed25519.

Anybody who knows a node's id could forge these. What the simulator checks is that nobody *acts* on a seal that was not
made by its sealer for exactly this cluster, epoch, index and hash, and for that a hash does.
"""

from __future__ import annotations

import hashlib

from ..log.canonical import Canonical, encode
from ..log.configuration import Configuration
from ..log.entry import CONFIGURED, ELECTED, SALT_BYTES, CommandHead, Envelope, body_hash
from ..log.identifier import uuid7
from ..log.notary import SystemEntry
from ..log.seal import Seal, sealed_bytes

EMPTY_BODY = bytes(SALT_BYTES)


def public_key(place: str) -> bytes:
    """The key by which the signatures of a node or client can be checked, 32 bytes."""
    return hashlib.blake2b(place.encode(), digest_size=32).digest()


def signature(key: bytes, message: bytes) -> bytes:
    """What the owner of `key` says of `message`, 64 bytes."""
    return hashlib.blake2b(message, key=key, digest_size=64).digest()


class FakeNotary:
    """Signs on behalf of one simulated node; the interface of `log.notary.Notary`."""

    def __init__(self, cluster: str, node_id: str) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._key = public_key(node_id)

    def seal(self, epoch: int, index: int, hash: bytes) -> Seal:
        """This node's seal over the entry at `index`."""
        return Seal(epoch, index, hash, self._node_id, signature(self._key, self._sealed(epoch, index, hash)))

    def check(self, seal: Seal, public_key: bytes) -> bool:
        """Whether the owner of `public_key` made this seal for this cluster."""
        return seal.signature == signature(public_key, self._sealed(seal.epoch, seal.index, seal.hash))

    def elected(self, epoch: int, time_us: int) -> SystemEntry:
        """The entry that opens an epoch."""
        return self._system_entry(ELECTED, [epoch, self._node_id], time_us)

    def configured(self, configuration: Configuration, time_us: int) -> SystemEntry:
        """The entry that puts a configuration in force."""
        return self._system_entry(CONFIGURED, configuration.canonical(), time_us)

    def _sealed(self, epoch: int, index: int, hash: bytes) -> bytes:
        return sealed_bytes(self._cluster, epoch, index, hash)

    def _system_entry(self, kind: str, event: Canonical, time_us: int) -> SystemEntry:
        events = encode([event])
        head = CommandHead(uuid7(time_us, hashlib.blake2b(events).digest()[:10]), kind, body_hash(EMPTY_BODY))
        envelope = Envelope(self._cluster, self._key, time_us, (head,))
        return SystemEntry(time_us, envelope.raw, signature(self._key, envelope.signed_bytes), events, (EMPTY_BODY,))
