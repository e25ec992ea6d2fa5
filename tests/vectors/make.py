"""Writes the test vectors that a client in another language can be written against.

Run `.venv/bin/python tests/vectors/make.py`; a test keeps the files and the code equal. Byte strings stand in the JSON
as `{"bytes": "<hex>"}`, everything else is itself. Integers go up to 64 bits: read them with a parser that can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from veridical.log.canonical import Canonical, encode
from veridical.log.configuration import Member, cluster_id, founding
from veridical.log.entry import BODY_TAG, ENTRY_TAG, ENVELOPE_TAG, CommandHead, Entry, Envelope, body_hash
from veridical.log.identifier import uuid7, uuid7_time_us
from veridical.log.notary import Notary
from veridical.log.seal import SEAL_TAG, sealed_bytes
from veridical.memory.receipts import (
    FACT_TAG,
    GATE_TAG,
    RUN_TAG,
    gate_json,
    gate_message,
    receipt_digest,
    run_message,
)
from veridical.security.digests import DIGEST_TAG, DigestKey
from veridical.security.keys import KeyPair
from veridical.security.principal import Principal
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report

DIRECTORY = Path(__file__).parent
TIME_US = 1_700_000_000_123_456
AUTHOR = Principal(bytes(range(32)))
NODES = {f"node-{number}": KeyPair(bytes([number]) * 32) for number in (1, 2, 3)}
FOUNDERS = founding([Member(id, f"n{id[-1]}", key.public_key, f"127.0.0.1:740{id[-1]}") for id, key in NODES.items()])
CLUSTER = cluster_id("example", FOUNDERS)

CANONICAL: Sequence[Canonical] = [
    None, False, True,
    0, 1, 127, 128, 255, 256, 65_535, 65_536, 4_294_967_295, 4_294_967_296, 18_446_744_073_709_551_615,
    -1, -32, -33, -128, -129, -32_768, -32_769, -2_147_483_648, -2_147_483_649, -9_223_372_036_854_775_808,
    "", "a", "é", "漢字", "🙂", "x" * 31, "x" * 32, "x" * 255, "x" * 256,
    b"", b"\x00", b"\xff" * 31, bytes(32), bytes(255), bytes(256),
    [], [1, "two", b"three", None, True], [[[]], [0]], list(range(15)), list(range(16)),
]  # fmt: skip

NOT_CANONICAL = {
    "an integer in more bytes than it needs": "cc05",
    "a string with a longer head than it needs": "d90161",
    "bytes with a longer head than they need": "c5000161",
    "an array with a longer head than it needs": "dc000101",
    "a float": "cb3ff8000000000000",
    "a map": "81a16101",
    "an empty map": "80",
    "an extension": "d40100",
    "text that is not UTF-8": "a1ff",
    "two values": "0102",
    "nothing": "",
    "arrays nested deeper than 32": "91" * 33 + "00",
}


def vectors() -> dict[str, dict[str, Any]]:
    """The content of every file, by name."""
    return {
        "canonical.json": {
            "about": "Canonical msgpack: each value has one encoding; the bytes under `refused` have no value.",
            "values": [{"value": _plain(value), "encoding": encode(value).hex()} for value in CANONICAL],
            "refused": [{"what": what, "encoding": raw} for what, raw in NOT_CANONICAL.items()],
        },
        "identifier.json": {
            "about": "Command ids: UUIDs of version 7 from microseconds since 1970 and 8 random bytes.",
            "ids": [
                _identifier(time_us, entropy) for time_us in (0, 999, TIME_US) for entropy in (bytes(8), b"\xff" * 8)
            ],
        },
        "envelope.json": _envelope(),
        "entry.json": _entry(),
        "seal.json": _seal(),
        "cluster.json": {
            "about": "The cluster's id: 32 hex digits of SHA-256(tag + canonical [name, [[name, id, key], …]]).",
            "tag": _plain(b"veridical/cluster/1\0"),
            "name": "example",
            "members": [_plain([member.name, member.id, member.public_key]) for member in FOUNDERS.members],
            "cluster_id": CLUSTER,
        },
        "receipt.json": _receipt(),
        "digest.json": {
            "about": "Keyed digests: HMAC-SHA256(key, tag + each part after its length in 4 bytes), cut to 16 bytes.",
            "tag": _plain(DIGEST_TAG),
            "key": _plain(b"k" * 32),
            "digests": [
                {"parts": _plain(parts), "digest": DigestKey(b"k" * 32).digest(*parts).hex()}
                for parts in ([], [b""], [b"ab", b"c"], [b"a", b"bc"])
            ],
        },
    }


def main() -> None:
    """Write all files."""
    for name, content in vectors().items():
        (DIRECTORY / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _identifier(time_us: int, entropy: bytes) -> dict[str, Any]:
    id = uuid7(time_us, entropy)
    return {"time_us": time_us, "entropy": entropy.hex(), "id": id.hex(), "read_time_us": uuid7_time_us(id)}


def _example() -> tuple[Envelope, tuple[bytes, ...]]:
    bodies = tuple(bytes([number]) * 16 + text.encode() for number, text in enumerate(("first body", "second body")))
    ids = [uuid7(TIME_US + number, bytes(8)) for number in range(len(bodies))]
    heads = tuple(CommandHead(id, "memory.write", body_hash(body)) for id, body in zip(ids, bodies, strict=True))
    return Envelope(CLUSTER, AUTHOR.public_key, TIME_US, heads), bodies


def _envelope() -> dict[str, Any]:
    envelope, bodies = _example()
    fields: list[Canonical] = [1, CLUSTER, envelope.author, TIME_US, "", [list(head) for head in envelope.commands]]
    return {
        "about": "Canonical [1, cluster, author key, issued at µs, on behalf of, [[id, kind, body hash], …]].",
        "body_tag": _plain(BODY_TAG),
        "bodies": [{"salted": body.hex(), "hash": body_hash(body).hex()} for body in bodies],
        "fields": _plain(fields),
        "raw": envelope.raw.hex(),
        "tag": _plain(ENVELOPE_TAG),
        "author_seed": AUTHOR.seed.hex(),
        "author_key": AUTHOR.key_id,
        "signature": AUTHOR.sign(envelope.signed_bytes).hex(),
    }


def _chained() -> Entry:
    envelope, bodies = _example()
    signature = AUTHOR.sign(envelope.signed_bytes)
    return Entry.chain(bytes(32), 1, 1, TIME_US, envelope.raw, signature, encode([["asserted"], ["refused"]]), bodies)


def _entry() -> dict[str, Any]:
    entry = _chained()
    fields: list[Canonical] = [1, 1, TIME_US, entry.envelope, entry.signature, entry.events]
    return {
        "about": "SHA-256(tag + previous hash + canonical [index, epoch, time µs, envelope, signature, events]).",
        "tag": _plain(ENTRY_TAG),
        "prev_hash": entry.prev_hash.hex(),
        "fields": _plain(fields),
        "hash": entry.hash.hex(),
    }


def _seal() -> dict[str, Any]:
    entry, key = _chained(), NODES["node-1"]
    seal = Notary(CLUSTER, "node-1", key).seal(2, entry.index, entry.hash)
    fields: list[Canonical] = [CLUSTER, seal.epoch, seal.index, seal.hash]
    return {
        "about": "A seal: Ed25519 over tag + canonical [cluster, sealer's epoch, index, entry hash].",
        "tag": _plain(SEAL_TAG),
        "fields": _plain(fields),
        "signed": sealed_bytes(CLUSTER, seal.epoch, seal.index, seal.hash).hex(),
        "sealer_seed": key.seed.hex(),
        "sealer_key": key.public_key.hex(),
        "signature": seal.signature.hex(),
    }


def _receipt() -> dict[str, Any]:
    """A grader's run and the gate that rests on it, both signed by the author's key."""
    runner = Runner(KeyPair(AUTHOR.seed), lambda: TIME_US)
    report = signed_report(Report(grader="tests", verdict=Verdict.PASS, summary="12 passed"), runner)
    claim: dict[str, Any] = {"subject": "auth", "predicate": "uses", "text": "sessions are JWT"}
    receipt = attest_fact(Verdict.PASS, [report], **claim, scope="repo:app", runner=runner)
    gate = receipt.gate()
    return {
        "about": "Ed25519 over tag + msgpack of all fields but the last, in order; a run in a gate keeps its own.",
        "fact_tag": _plain(FACT_TAG),
        "run_tag": _plain(RUN_TAG),
        "gate_tag": _plain(GATE_TAG),
        "claim": _plain(list(claim.values())),
        "report_digest": report.digest().hex(),
        "run_signed": run_message(gate.runs[0]).hex(),
        "gate_signed": gate_message(gate).hex(),
        "seed": AUTHOR.seed.hex(),
        "receipt_digest": receipt_digest(gate).hex(),
        "receipt": gate_json(gate),
    }


if __name__ == "__main__":
    main()
