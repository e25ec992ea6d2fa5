"""The notary: a node signs seals, and the entries that the cluster writes about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..security.keys import KeyPair, verify
from .canonical import Canonical, encode, tagged_hash
from .configuration import Configuration
from .entry import CONFIGURED, ELECTED, SALT_BYTES, CommandHead, Envelope, body_hash
from .identifier import uuid7
from .lineage import Ancestor, Resumption
from .seal import Seal, sealed_bytes

SYSTEM_TAG = b"veridical/system-entry/1\0"


class SystemEntry(NamedTuple):
    """An entry to be: everything but its place in the chain. The same fields, in the same order, as a draft."""

    time_us: int
    envelope: bytes
    signature: bytes
    events: bytes
    bodies: tuple[bytes | None, ...]


class Notary:
    """Signs in the name of node `node_id` of `cluster`. What it makes depends on its arguments only.

    `ancestors` are the histories that this one goes on from, oldest first: their entries were sealed for them.
    """

    __slots__ = ("_ancestors", "_key", "cluster", "node_id")

    def __init__(self, cluster: str, node_id: str, key: KeyPair, ancestors: Sequence[Ancestor] = ()) -> None:
        self._ancestors = tuple(ancestors)
        self.cluster = cluster
        self.node_id = node_id
        self._key = key

    @property
    def public_key(self) -> bytes:
        """The node's key, 32 bytes."""
        return self._key.public_key

    def seal(self, epoch: int, index: int, hash: bytes) -> Seal:
        """This node's seal, as leader of `epoch`, on the entry at `index` with that hash."""
        signature = self._key.sign(sealed_bytes(self.cluster, epoch, index, hash))
        return Seal(epoch, index, hash, self.node_id, signature)

    def check(self, seal: Seal, public_key: bytes) -> bool:
        """Whether the holder of `public_key` made this seal in this cluster."""
        cluster = next((former.id for former in self._ancestors if seal.index <= former.last), self.cluster)
        return verify(public_key, sealed_bytes(cluster, seal.epoch, seal.index, seal.hash), seal.signature)

    def elected(self, epoch: int, time_us: int) -> SystemEntry:
        """`leader.elected`: this node leads `epoch`. Its events are `[[epoch, node_id]]`."""
        return self._system_entry(ELECTED, time_us, [epoch, self.node_id])

    def configured(self, configuration: Configuration, time_us: int) -> SystemEntry:
        """`cluster.configured`: puts `configuration` in force. Its events are `[configuration.canonical()]`."""
        return self._system_entry(CONFIGURED, time_us, configuration.canonical())

    def resumed(self, configuration: Configuration, resumption: Resumption, time_us: int) -> SystemEntry:
        """The configuration with which a history begins that goes on from another one's end."""
        event: list[Canonical] = [*configuration.canonical(), resumption.canonical()]
        return self._system_entry(CONFIGURED, time_us, event)

    def _system_entry(self, kind: str, time_us: int, event: Canonical) -> SystemEntry:
        # Id and salt are derived instead of drawn: the core that asks for this entry has no randomness of its own, and
        # there is no content whose hash a guessable salt could give away.
        origin = tagged_hash(SYSTEM_TAG, encode([self.cluster, self.node_id, kind, time_us, event]))
        body = origin[:SALT_BYTES]
        head = CommandHead(uuid7(time_us, origin[SALT_BYTES:]), kind, body_hash(body))
        envelope = Envelope(self.cluster, self._key.public_key, time_us, (head,))
        return SystemEntry(time_us, envelope.raw, self._key.sign(envelope.signed_bytes), encode([event]), (body,))
