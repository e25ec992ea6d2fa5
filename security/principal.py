"""Principals: whoever signs commands, known by a key and not by a name that anybody could type."""

from __future__ import annotations

from base64 import b64encode

from nacl.signing import SigningKey

from .keys import KeyPair, seed_from_hex


class Principal:
    """An identity that authors signed commands, made from a 32-byte seed. Keep the seed: it *is* the identity."""

    __slots__ = ("_keys",)

    def __init__(self, seed: bytes) -> None:
        self._keys = KeyPair(seed)

    @staticmethod
    def generate() -> Principal:
        """A new identity. Its seed comes from libsodium's generator, which no fake may stand in for."""
        return Principal(bytes(SigningKey.generate()))

    @staticmethod
    def from_hex(text: str) -> Principal:
        """The identity of a seed written as 64 hex digits. Raises `ValueError` for any other text."""
        return Principal(seed_from_hex(text))

    @property
    def seed(self) -> bytes:
        """The secret, 32 bytes."""
        return self._keys.seed

    @property
    def public_key(self) -> bytes:
        """The public key, 32 bytes, as it stands in envelopes."""
        return self._keys.public_key

    @property
    def key_id(self) -> str:
        """The public key in 64 hex digits, as it stands in texts."""
        return self._keys.public_key.hex()

    def enroll(self) -> tuple[str, str]:
        """What an operator needs to trust this principal: `(key_id, public key in base64)`."""
        return self.key_id, b64encode(self._keys.public_key).decode("ascii")

    def sign(self, message: bytes) -> bytes:
        """The detached Ed25519 signature of `message`, 64 bytes."""
        return self._keys.sign(message)

    def __repr__(self) -> str:
        """The key id only: no log line carries a seed."""
        return f"Principal({self.key_id})"
