"""Command ids: UUIDs of version 7 (RFC 9562), 16 bytes that begin with the time they were made at.

The 12 bits that follow the milliseconds hold their fraction (method 3 of RFC 9562 § 6.2), so that ids of one maker sort
by microsecond. Randomness is handed in.
"""

from __future__ import annotations

ID_BYTES = 16
ENTROPY_BYTES = 8
TIME_LIMIT_US = (1 << 48) * 1000
"""Times must lie below this: 48 bits of milliseconds, the year 10889."""

_VERSION = 7
_FRACTIONS = 1 << 12
_RANDOM_BITS = 62


class NotAnIdentifier(ValueError):
    """Not a UUID of version 7; make command ids with `uuid7`."""


def uuid7(wall_us: int, entropy: bytes) -> bytes:
    """A new id, 16 bytes, for wall time `wall_us` (microseconds since 1970). Uses the first 8 bytes of `entropy`."""
    if not 0 <= wall_us < TIME_LIMIT_US:
        raise ValueError(f"time {wall_us} µs lies outside of what an id can hold")
    if len(entropy) < ENTROPY_BYTES:
        raise ValueError(f"an id needs {ENTROPY_BYTES} random bytes, not {len(entropy)}")
    milliseconds, microseconds = divmod(wall_us, 1000)
    head = milliseconds << 16 | _VERSION << 12 | microseconds * _FRACTIONS // 1000
    tail = 0b10 << _RANDOM_BITS | int.from_bytes(entropy[:ENTROPY_BYTES], "big") & (1 << _RANDOM_BITS) - 1
    return (head << 64 | tail).to_bytes(ID_BYTES, "big")


def uuid7_time_us(id: bytes) -> int:
    """The microsecond at which `id` was made (within one millisecond for ids of other makers).

    Raises `NotAnIdentifier` for anything but a UUID of version 7.
    """
    if len(id) != ID_BYTES or id[6] >> 4 != _VERSION or id[8] >> 6 != 0b10:
        raise NotAnIdentifier(f"not a UUID of version 7: {id.hex()}")
    fraction = int.from_bytes(id[6:8], "big") & (_FRACTIONS - 1)
    return int.from_bytes(id[:6], "big") * 1000 + -(-fraction * 1000 // _FRACTIONS)
