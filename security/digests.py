"""Keyed digests: values can be compared in events without telling anybody what they were.

Whoever lacks the cluster's digest key cannot try out guesses against a digest that stays in the log after an erasure.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable

DIGEST_TAG = b"veridical/digest/1\0"
SHARES_TAG = b"veridical/digest-key/1\0"
NAME_TAG = b"veridical/digest-key-name/1\0"
SECRET_BYTES = 32
DIGEST_BYTES = 16

_LENGTH = struct.Struct(">I").pack


class DigestKey:
    """The digest key of a cluster, 32 secret bytes kept beside the node keys and apart from log, archive and backup."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a digest key has {SECRET_BYTES} bytes, not {len(secret)}")
        self.secret = bytes(secret)

    @staticmethod
    def from_shares(shares: Iterable[bytes]) -> DigestKey:
        """The key that founders agree on: each contributes a random share, and their order does not matter."""
        return DigestKey(hmac.digest(SHARES_TAG, _framed(sorted(shares)), "sha256"))

    @property
    def name(self) -> str:
        """What the key may be called in public: 16 hex digits that tell nothing of it."""
        return hmac.digest(self.secret, NAME_TAG, "sha256").hex()[:16]

    def digest(self, *parts: bytes) -> bytes:
        """HMAC-SHA256 over tag and parts, cut to 16 bytes. Parts are framed: ("ab", "c") and ("a", "bc") differ."""
        return hmac.digest(self.secret, DIGEST_TAG + _framed(parts), "sha256")[:DIGEST_BYTES]

    def __repr__(self) -> str:
        """Without the secret."""
        return "DigestKey(…)"


def _framed(parts: Iterable[bytes]) -> bytes:
    framed = b""
    for part in parts:
        framed += _LENGTH(len(part)) + part
    return framed
