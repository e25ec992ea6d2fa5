"""The published receipt, checked as a client in another language would: with nothing of ours but the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest
from nacl.signing import SigningKey, VerifyKey

VECTOR: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "receipt.json").read_text())
GATE: dict[str, Any] = VECTOR["receipt"]
RUN: dict[str, Any] = GATE["runs"][0]
pack = cast(Callable[[Any], bytes], msgpack.packb)


def tag(name: str) -> bytes:
    """A tag of the file."""
    return bytes.fromhex(VECTOR[name]["bytes"])


def run_fields() -> list[Any]:
    """A run as it is signed, without its signature."""
    raw = bytes.fromhex
    return [RUN["grader"], RUN["verdict"], raw(RUN["report"]), RUN["issued_at_us"], raw(RUN["key_id"])]


def gate_fields() -> list[Any]:
    """A gate as it is signed, without its signature."""
    whole_run = [*run_fields(), bytes.fromhex(RUN["signature"])]
    times = [GATE["issued_at_us"], GATE["expires_at_us"]]
    commitment, key = bytes.fromhex(GATE["commitment"]), bytes.fromhex(GATE["key_id"])
    return [GATE["verdict"], commitment, GATE["scope"], *times, [whole_run], key]


def test_the_commitment_is_that_of_the_claim() -> None:
    """SHA-256 over the tag and the three fields."""
    assert sha256(tag("fact_tag") + pack(VECTOR["claim"])).hexdigest() == GATE["commitment"]


@pytest.mark.parametrize(
    ("receipt", "signed", "name", "fields"),
    [(RUN, "run_signed", "run_tag", run_fields()), (GATE, "gate_signed", "gate_tag", gate_fields())],
)
def test_what_is_signed(receipt: dict[str, Any], signed: str, name: str, fields: list[Any]) -> None:
    """The bytes can be made from the fields, and the signature is that of the key over them."""
    message = tag(name) + pack(fields)
    assert message.hex() == VECTOR[signed]
    VerifyKey(bytes.fromhex(receipt["key_id"])).verify(message, bytes.fromhex(receipt["signature"]))
    assert SigningKey(bytes.fromhex(VECTOR["seed"])).sign(message).signature.hex() == receipt["signature"]


def test_by_what_a_store_remembers_it() -> None:
    """The first half of the hash of what is signed."""
    assert sha256(bytes.fromhex(VECTOR["gate_signed"])).digest()[:16].hex() == VECTOR["receipt_digest"]
