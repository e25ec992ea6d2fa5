"""Keys: files, signatures, sealed messages."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.security.keys import (
    KeyFileError,
    KeyPair,
    SignatureCheck,
    UnsealError,
    create_seed,
    load_seed,
    sealed_to,
    seed_from_hex,
    verify,
    verify_many,
)

ALICE, BOB = KeyPair(b"a" * 32), KeyPair(b"b" * 32)


def test_a_known_seed_has_the_key_and_signature_of_rfc_8032() -> None:
    keys = KeyPair(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert keys.public_key.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert keys.sign(b"\x72").hex().startswith("92a009a9f0d4cab8720e820b5f642540")


@given(st.binary(max_size=100), st.data())
def test_a_signature_fits_its_key_and_message_only(message: bytes, data: st.DataObject) -> None:
    signature = ALICE.sign(message)
    assert verify(ALICE.public_key, message, signature)
    assert not verify(BOB.public_key, message, signature)
    assert not verify(ALICE.public_key, message + b"\0", signature)
    place, flip = data.draw(st.integers(0, 63)), data.draw(st.integers(1, 255))
    assert not verify(ALICE.public_key, message, _flipped(signature, place, flip))


@pytest.mark.parametrize(
    ("key", "signature"), [(b"", bytes(64)), (bytes(32), b""), (bytes(33), bytes(65)), (bytes(32),) * 2]
)
def test_malformed_keys_and_signatures_are_false(key: bytes, signature: bytes) -> None:
    assert not verify(key, b"message", signature)


def test_many_signatures_are_checked_in_order_with_and_without_threads() -> None:
    checks = [SignatureCheck(ALICE.public_key, bytes([n]), ALICE.sign(bytes([n]))) for n in range(200)]
    checks[137] = checks[137]._replace(message=b"other")
    expected = [n != 137 for n in range(200)]
    assert verify_many(checks) == expected
    with ThreadPoolExecutor(2) as executor:
        assert verify_many(checks, executor) == expected
    assert verify_many([]) == []


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_seed_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        KeyPair(bytes(length))


def test_no_text_of_a_key_shows_its_seed() -> None:
    assert ALICE.seed.hex() not in repr(ALICE)
    assert ALICE.public_key.hex() in repr(ALICE)


def test_a_sealed_message_is_for_one_reader() -> None:
    box = sealed_to(ALICE.public_key, b"secret")
    assert b"secret" not in box
    assert ALICE.unsealed(box) == b"secret"
    with pytest.raises(UnsealError):
        BOB.unsealed(box)
    with pytest.raises(UnsealError):
        ALICE.unsealed(_flipped(box, 50, 1))
    with pytest.raises(UnsealError):
        ALICE.unsealed(b"")


@pytest.mark.parametrize("key", [b"", bytes(31), b"\xff" * 32])
def test_nothing_is_sealed_to_what_is_no_key(key: bytes) -> None:
    with pytest.raises(ValueError, match="not an Ed25519 public key"):
        sealed_to(key, b"secret")


def test_a_seed_file_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    assert create_seed(path, b"s" * 32) == b"s" * 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_seed(path) == b"s" * 32


def test_a_generous_umask_does_not_open_the_file(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        create_seed(tmp_path / "node.key", b"s" * 32)
    finally:
        os.umask(before)
    assert load_seed(tmp_path / "node.key") == b"s" * 32


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    create_seed(tmp_path / "node.key", b"s" * 32)
    with pytest.raises(KeyFileError, match="never overwritten"):
        create_seed(tmp_path / "node.key", b"t" * 32)
    assert load_seed(tmp_path / "node.key") == b"s" * 32


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o400, 0o700])
def test_a_file_of_another_mode_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "node.key"
    create_seed(path, b"s" * 32)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {path}"):
        load_seed(path)


@pytest.mark.parametrize("content", [b"", b"xyz", b"00" * 31, b"00" * 33, b"0g" * 32, b"\xff" * 64, b"00" * 1000])
def test_a_file_that_holds_no_seed_is_refused_without_repeating_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="not a key file"):
        load_seed(path)


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="nowhere"):
        load_seed(tmp_path / "nowhere")
    with pytest.raises(KeyFileError, match="nowhere"):
        create_seed(tmp_path / "nowhere" / "node.key", b"s" * 32)
    with pytest.raises(KeyFileError, match="cannot read"):
        load_seed(tmp_path)


def test_a_created_seed_needs_all_of_its_entropy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        create_seed(tmp_path / "node.key", b"short")
    assert not (tmp_path / "node.key").exists()


def test_a_seed_in_hex_is_read_and_nothing_else_is() -> None:
    assert seed_from_hex("61" * 32) == b"a" * 32
    with pytest.raises(ValueError, match="64 hex digits") as caught:
        seed_from_hex("6" * 63)
    assert "666" not in str(caught.value)


def _flipped(raw: bytes, place: int, flip: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ flip]) + raw[place + 1 :]
