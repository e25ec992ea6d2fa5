"""Principals: the first seed's identity of an author."""

from __future__ import annotations

from base64 import b64decode

import pytest

from veridical.security.keys import verify
from veridical.security.principal import Principal


def test_the_key_is_the_name() -> None:
    alice = Principal(b"a" * 32)
    key_id, public_key = alice.enroll()
    assert key_id == alice.key_id == b64decode(public_key).hex() == alice.public_key.hex()
    assert verify(alice.public_key, b"message", alice.sign(b"message"))


def test_the_seed_is_the_identity() -> None:
    alice = Principal.generate()
    assert Principal(alice.seed).key_id == alice.key_id
    assert Principal.from_hex(alice.seed.hex()).key_id == alice.key_id
    assert Principal.generate().key_id != alice.key_id


def test_a_bad_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Principal(b"short")
    with pytest.raises(ValueError, match="hex digits"):
        Principal.from_hex("no seed")


def test_no_text_of_a_principal_shows_its_seed() -> None:
    alice = Principal(b"a" * 32)
    assert alice.seed.hex() not in repr(alice)
    assert alice.key_id in repr(alice)
