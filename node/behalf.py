"""Envelopes that a node signs: for whoever came without a key, and for the cluster itself."""

from __future__ import annotations

from collections.abc import Sequence

from ..log.entry import SALT_BYTES, CommandHead, Envelope, body_hash
from .identity import DataDirectory
from .ports import BareCommand, Submission, Wait
from .system import Clock, Entropy


def signed_by_node(
    directory: DataDirectory,
    on_behalf: str,
    commands: Sequence[BareCommand],
    clock: Clock,
    entropy: Entropy,
    timeout_us: int,
    wait: Wait,
) -> Submission:
    """These commands under the key of this node, saying for whom."""
    salts = entropy.bytes(SALT_BYTES * len(commands))
    bodies = tuple(
        salts[place * SALT_BYTES : (place + 1) * SALT_BYTES] + command.content for place, command in enumerate(commands)
    )
    heads = tuple(
        CommandHead(command.id, command.kind, body_hash(body)) for command, body in zip(commands, bodies, strict=True)
    )
    key = directory.key
    envelope = Envelope(directory.identity.cluster_id, key.public_key, clock.wall_us(), heads, on_behalf)
    return Submission(envelope.raw, key.sign(envelope.signed_bytes), bodies, timeout_us, wait)
