"""Which ids are certainly new: a field of bits in memory that saves a lookup for each of them.

Nearly every fact and every command is new, and to learn that from an index costs a walk down its tree. An id sets one
bit, chosen by its last bytes, which are those of a hash or random. An unset bit proves that the id was never put in; a
set one proves nothing: whoever puts ids in whose last bytes are alike makes lookups happen, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable


class Sieve:
    """A set of ids that forgets which: `may_hold` is true of every id put in, and false of most others."""

    __slots__ = ("_bits", "_places")

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes` is a power of two; with a bit for every tenth id, one new id in ten is looked up in vain."""
        self._bits = bytearray(size_bytes)
        self._places = 8 * size_bytes - 1

    def put(self, ids: Iterable[bytes]) -> None:
        """Put ids of 16 bytes in."""
        bits, places = self._bits, self._places
        for id in ids:
            place = int.from_bytes(id[12:], "big") & places
            bits[place >> 3] |= 1 << (place & 7)

    def may_hold(self, id: bytes) -> bool:
        """Whether that id may have been put in."""
        place = int.from_bytes(id[12:], "big") & self._places
        return self._bits[place >> 3] >> (place & 7) & 1 == 1
