"""Digests of rows: what nodes compare to know that they hold the same state (PROTOCOL § 9).

A row is digested as SHA-256 over the name of its table and its columns as msgpack. Rows of one record share a bucket;
a bucket, like the whole state, is the XOR of its rows' digests, so that it changes by what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Final, cast

import msgpack

from .principals import Principal
from .record import PastVersion, Record
from .tokens import Token

BUCKETS: Final = 256
DIGEST_BYTES: Final = 32

_pack: Final = cast(Callable[[Any], bytes], msgpack.packb)


def row_bytes(row: Any) -> bytes:
    """The canonical bytes of a row: a msgpack array of integers, booleans, nil, strings, byte strings and arrays."""
    return _pack(row)


def record_digest(record: Record) -> bytes:
    """The digest of a present row."""
    return sha256(b"record\0" + _pack(record)).digest()


def contender_digest(contender: Record) -> bytes:
    """The digest of a contending row."""
    return sha256(b"contender\0" + _pack(contender)).digest()


def past_digest(past: PastVersion) -> bytes:
    """The digest of a past version."""
    return sha256(b"past\0" + _pack(past)).digest()


def rejection_digest(id: bytes, value_digest: bytes) -> bytes:
    """The digest of a row of the rejection ledger."""
    return sha256(b"rejection\0" + id + value_digest).digest()


def retraction_digest(id: bytes, value_digest: bytes, source_digest: bytes) -> bytes:
    """The digest of a row of the retraction memory."""
    return sha256(b"retraction\0" + id + value_digest + source_digest).digest()


def principal_digest(principal: Principal) -> bytes:
    """The digest of a principal's row."""
    return sha256(b"principal\0" + _pack(principal)).digest()


def token_digest(token: Token) -> bytes:
    """The digest of a token's row."""
    return sha256(b"token\0" + _pack(token)).digest()


def receipt_digest(receipt: bytes, id: bytes) -> bytes:
    """The digest of a row of the spent receipts: the receipt's own digest, and the record it was spent on."""
    return sha256(b"receipt\0" + receipt + id).digest()


def bucket(id: bytes) -> int:
    """The bucket of a record and of all rows that belong to it; also of a principal's key, a token, or a receipt."""
    return id[0]


def combined(digests: Iterable[bytes]) -> bytes:
    """The XOR of digests; of none it is zero."""
    total = 0
    for digest in digests:
        total ^= int.from_bytes(digest, "big")
    return total.to_bytes(DIGEST_BYTES, "big")
