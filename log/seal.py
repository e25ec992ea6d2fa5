"""Seals: a leader's signature over the end of a batch, so that any prefix can be verified by anyone (PROTOCOL § 8)."""

from __future__ import annotations

from .canonical import pack
from .value import value

SEAL_TAG = b"veridical/seal/1\0"


@value()
class Seal:
    """Signed by leader `sealer` (node id) of `epoch`: the entry at `index` has this `hash`, which fixes all before it.

    `epoch` is the sealing leader's, which may be later than the entry's own.
    """

    epoch: int
    index: int
    hash: bytes
    sealer: str
    signature: bytes


def sealed_bytes(cluster: str, epoch: int, index: int, hash: bytes) -> bytes:
    """What the signature of a seal covers."""
    return SEAL_TAG + pack([cluster, epoch, index, hash])
