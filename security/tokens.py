"""Bearer tokens: 32 random bytes that whoever shows them is taken for a principal, as far as reading goes.

A token is `vdt_` and 64 hex digits, so that scanners for secrets find one that was left somewhere. Only its SHA-256 is
kept and sent. A slow, salted hash is for what people choose: 256 random bits can neither be guessed nor looked up in a
table of likely ones, so that one plain SHA-256 is all that it takes (NIST SP 800-63B, 5.1.2.2: look-up secrets with at
least 112 bits).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

PREFIX: Final = "vdt_"
SECRET_BYTES: Final = 32
DIGEST_BYTES: Final = 32
ID_BYTES: Final = 16
AUTHORIZATION: Final = "authorization"
SCHEME: Final = "Bearer"

_SPELLED: Final = re.compile(PREFIX + f"[0-9a-f]{{{2 * SECRET_BYTES}}}")


class BearerToken:
    """A token that somebody holds. It says its id wherever it is printed; only `reveal` gives the secret away."""

    __slots__ = ("_text", "digest")

    def __init__(self, text: str) -> None:
        """Of `vdt_` and 64 hex digits. Raises `ValueError` for anything else, and does not repeat it."""
        if not _SPELLED.fullmatch(text):
            raise ValueError(f"a token is {PREFIX} and {2 * SECRET_BYTES} hex digits; this is not one")
        self._text = text
        self.digest: bytes = sha256(bytes.fromhex(text.removeprefix(PREFIX))).digest()

    @classmethod
    def of(cls, secret: bytes) -> BearerToken:
        """The token of 32 random bytes."""
        return cls(PREFIX + secret.hex())

    @property
    def id(self) -> bytes:
        """What a token is called by: the first half of its digest, 16 bytes."""
        return self.digest[:ID_BYTES]

    def reveal(self) -> str:
        """The secret itself, for its holder and for the wire."""
        return self._text

    def __repr__(self) -> str:
        return f"BearerToken(id={self.id.hex()})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BearerToken) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def authorization(token: BearerToken) -> tuple[str, str]:
    """The header (RFC 6750, 2.1), or item of gRPC metadata, that shows the token."""
    return AUTHORIZATION, f"{SCHEME} {token.reveal()}"


def authorized(header: str) -> BearerToken:
    """The token that such a header's value shows. Raises `ValueError` for anything else, and does not repeat it."""
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != SCHEME.lower():
        raise ValueError(f"authorization is not of the scheme {SCHEME}")
    return BearerToken(text.strip())
