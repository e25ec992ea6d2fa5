"""Commands and the envelopes that they travel in, as a client writes them.

A client shares no code with the log: it writes the published form (PROTOCOL § 8, `tests/vectors`), as one in another
language would. A test holds its bytes against those that a node makes of the same values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import msgpack

from ..security.principal import Principal

COMMANDS_LIMIT: Final = 256
COMMAND_BYTES_LIMIT: Final = 1 << 20
ENVELOPE_BYTES_LIMIT: Final = 4 << 20
COMMAND_OVERHEAD_BYTES: Final = 160
"""What a command adds to its content at most: id, kind and hash in the envelope, and its salt."""

SALT_BYTES: Final = 16
ID_ENTROPY_BYTES: Final = 8

_ENVELOPE_TAG: Final = b"veridical/envelope/1\0"
_BODY_TAG: Final = b"veridical/body/1\0"
_FORM: Final = 1
_UUID_VERSION: Final = 7
_UUID_VARIANT: Final = 0b10 << 62
_pack: Final = cast(Callable[[Any], bytes], msgpack.packb)


class Command(NamedTuple):
    """One command: its id (16 bytes, UUIDv7, kept over every retry), its kind, and its encoded content."""

    id: bytes
    kind: str
    content: bytes


class SignedEnvelope(NamedTuple):
    """What is submitted: the canonical bytes, the author's signature over them, and a salted body for each command."""

    raw: bytes
    signature: bytes
    bodies: list[bytes]


def command_id(wall_us: int, entropy: bytes) -> bytes:
    """A UUIDv7 for that wall time, ordered to the microsecond; uses the first 8 bytes of `entropy`."""
    milliseconds, microseconds = divmod(wall_us, 1000)
    head = milliseconds << 16 | _UUID_VERSION << 12 | microseconds * 4096 // 1000
    tail = _UUID_VARIANT | int.from_bytes(entropy[:ID_ENTROPY_BYTES], "big") & (1 << 62) - 1
    return (head << 64 | tail).to_bytes(16, "big")


def signed_envelope(
    cluster_id: str, principal: Principal, commands: Sequence[Command], wall_us: int, salts: bytes
) -> SignedEnvelope:
    """The commands of one author, signed once. `salts` holds 16 random bytes for each command."""
    bodies = [
        salts[place * SALT_BYTES : (place + 1) * SALT_BYTES] + command.content for place, command in enumerate(commands)
    ]
    heads = [
        [command.id, command.kind, hashlib.sha256(_BODY_TAG + body).digest()]
        for command, body in zip(commands, bodies, strict=True)
    ]
    raw = _pack([_FORM, cluster_id, principal.public_key, wall_us, "", heads])
    return SignedEnvelope(raw, principal.sign(_ENVELOPE_TAG + raw), bodies)
