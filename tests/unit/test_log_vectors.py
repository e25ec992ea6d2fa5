"""The published test vectors, checked as a client in another language would: with nothing of ours but the files."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey, VerifyKey
from vectors.make import vectors

from veridical.log.canonical import NotCanonical, decode

DIRECTORY = Path(__file__).parents[1] / "vectors"


def _file(name: str) -> dict[str, Any]:
    return json.loads((DIRECTORY / name).read_text(encoding="utf-8"))


def _value(plain: Any) -> Any:
    if isinstance(plain, dict):
        return bytes.fromhex(plain["bytes"])  # pyright: ignore[reportUnknownArgumentType]
    return [_value(item) for item in plain] if isinstance(plain, list) else plain  # pyright: ignore[reportUnknownVariableType]


def _packed(value: Any) -> bytes:
    """Canonical msgpack, written down a second time and as plainly as can be."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _packed_integer(value)
        case str():
            raw = value.encode()
            return _head(len(raw), 32, 0xA0, (0xD9, 0xDA, 0xDB)) + raw
        case bytes():
            return _head(len(value), 0, 0, (0xC4, 0xC5, 0xC6)) + value
        case _:
            return _head(len(value), 16, 0x90, (0, 0xDC, 0xDD)) + b"".join(map(_packed, value))


def _head(length: int, short: int, short_code: int, codes: tuple[int, int, int]) -> bytes:
    if length < short:
        return bytes([short_code | length])
    for code, size in zip(codes, (1, 2, 4), strict=True):
        if code and length < 1 << (8 * size):
            return bytes([code]) + length.to_bytes(size, "big")
    raise AssertionError("too long for an example")


def _packed_integer(value: int) -> bytes:
    if -32 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    signed = value < 0
    for code, size in zip(range(0xD0, 0xD4) if signed else range(0xCC, 0xD0), (1, 2, 4, 8), strict=True):
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            return bytes([code]) + value.to_bytes(size, "big", signed=signed)
    raise AssertionError("too large for an example")


@pytest.mark.parametrize("name", sorted(vectors()))
def test_the_files_are_what_the_code_writes(name: str) -> None:
    assert _file(name) == vectors()[name], "run: .venv/bin/python tests/vectors/make.py"


def test_no_other_vectors_lie_about() -> None:
    assert sorted(path.name for path in DIRECTORY.glob("*.json")) == sorted(vectors())


def test_canonical_values() -> None:
    for example in _file("canonical.json")["values"]:
        value, raw = _value(example["value"]), bytes.fromhex(example["encoding"])
        assert _packed(value) == raw
        assert decode(raw) == value


def test_what_is_refused() -> None:
    for example in _file("canonical.json")["refused"]:
        with pytest.raises(NotCanonical):
            decode(bytes.fromhex(example["encoding"]))


def test_identifiers() -> None:
    for example in _file("identifier.json")["ids"]:
        id = int(example["id"], 16)
        milliseconds, fraction = id >> 80, id >> 64 & 0xFFF
        assert milliseconds * 1000 + -(-fraction * 1000 // 4096) == example["time_us"] == example["read_time_us"]
        assert id & (1 << 62) - 1 == int(example["entropy"], 16) & (1 << 62) - 1


def test_an_envelope() -> None:
    example = _file("envelope.json")
    fields, tag = _value(example["fields"]), _value(example["tag"])
    for body, [_, _, hash] in zip(example["bodies"], fields[-1], strict=True):
        assert hashlib.sha256(_value(example["body_tag"]) + bytes.fromhex(body["salted"])).digest() == hash
        assert body["hash"] == hash.hex()
    assert _packed(fields).hex() == example["raw"]
    signer = SigningKey(bytes.fromhex(example["author_seed"]))
    assert signer.verify_key.encode() == fields[2] == bytes.fromhex(example["author_key"])
    assert signer.sign(tag + _packed(fields)).signature.hex() == example["signature"]


def test_an_entry() -> None:
    example = _file("entry.json")
    hashed = _value(example["tag"]) + bytes.fromhex(example["prev_hash"]) + _packed(_value(example["fields"]))
    assert hashlib.sha256(hashed).hexdigest() == example["hash"]


def test_a_seal() -> None:
    example = _file("seal.json")
    signed = _value(example["tag"]) + _packed(_value(example["fields"]))
    assert signed.hex() == example["signed"]
    VerifyKey(bytes.fromhex(example["sealer_key"])).verify(signed, bytes.fromhex(example["signature"]))


def test_a_cluster_id() -> None:
    example = _file("cluster.json")
    named = _packed([example["name"], [_value(member) for member in example["members"]]])
    assert hashlib.sha256(_value(example["tag"]) + named).hexdigest()[:32] == example["cluster_id"]


def test_digests() -> None:
    example = _file("digest.json")
    for digest in example["digests"]:
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in _value(digest["parts"]))
        whole = hmac.digest(_value(example["key"]), _value(example["tag"]) + framed, "sha256")
        assert whole[:16].hex() == digest["digest"]
