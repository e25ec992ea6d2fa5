"""Receipts: what graders found, in a form that anybody can check, and what a receipt is good for (MEMORY § 3).

A *run receipt* says that a grader's report came to a verdict. A *gate receipt* says that a gate came to one over such
runs, about one claim: its signed `commitment` is that of subject, predicate and text as they are written, its signed
`scope` names where it holds, or is None: then it fits any one scope. Each is signed with Ed25519 by the key it names;
whose keys count is for the reader to know. As JSON a receipt is an object with the fields below, bytes in hex.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import msgpack

from . import rules
from .context import Signatures
from .errors import Invalid
from .fields import check_integer, check_moment, check_scope, check_string
from .limits import NAME_CHARACTERS_LIMIT, RECEIPT_RUNS_LIMIT

PASS: Final = "pass"
FAIL: Final = "fail"
INCONCLUSIVE: Final = "inconclusive"
VERDICTS: Final = (PASS, FAIL, INCONCLUSIVE)

ED25519: Final = "ed25519"
FORM: Final = 1
AHEAD_US_LIMIT: Final = 300_000_000  # clocks of graders may run ahead of ours by so much

FACT_TAG: Final = b"veridical/fact/1\0"
RUN_TAG: Final = b"veridical/run-receipt/1\0"
GATE_TAG: Final = b"veridical/gate-receipt/1\0"
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")
_RECEIPT_BYTES: Final = 16

_pack: Final = cast(Callable[[Any], bytes], msgpack.packb)


class Run(NamedTuple):
    """A run receipt. `report` is the digest of the grader's report, 32 bytes."""

    grader: str
    verdict: str
    report: bytes
    issued_at_us: int
    key: bytes
    signature: bytes


class Gate(NamedTuple):
    """A gate receipt. `commitment` has 32 bytes, `scope` None means any one; it is void from `expires_at_us` on."""

    verdict: str
    commitment: bytes
    scope: str | None
    issued_at_us: int
    expires_at_us: int
    runs: tuple[Run, ...]
    key: bytes
    signature: bytes


def fact_commitment(subject: str, predicate: str, text: str) -> str:
    """What a receipt commits to: 64 hex digits over the claim, to the letter; where it is filed is no part of it."""
    return sha256(FACT_TAG + _pack([subject, predicate, text])).hexdigest()


def run_message(run: Run) -> bytes:
    """What the signature of a run receipt covers: everything else in it."""
    return RUN_TAG + _pack(run[:-1])


def gate_message(gate: Gate) -> bytes:
    """What the signature of a gate receipt covers: everything else in it, the signed runs included."""
    return GATE_TAG + _pack(gate[:-1])


def receipt_digest(gate: Gate) -> bytes:
    """By what a store remembers that a receipt was spent: the same for whatever signature it carries. 16 bytes."""
    return sha256(gate_message(gate)).digest()[:_RECEIPT_BYTES]


def objection(gate: Gate, signatures: Signatures, now_us: int) -> str:
    """The rule that stands against a receipt, whatever it is about; empty when none does.

    Its own signature and those of its runs must be good, it must be in force, and at least one run must have come to
    its verdict: a list of no reports attests nothing, and neither does a pass over a run that failed.
    """
    if not gate.issued_at_us - AHEAD_US_LIMIT <= now_us < gate.expires_at_us:
        return rules.RECEIPT_EXPIRED
    verdicts = {run.verdict for run in gate.runs}
    if gate.verdict not in verdicts or gate.verdict == INCONCLUSIVE or (gate.verdict == PASS and FAIL in verdicts):
        return rules.RECEIPT_EMPTY
    signed = [(gate.key, gate_message(gate), gate.signature)]
    signed += [(run.key, run_message(run), run.signature) for run in gate.runs]
    return "" if all(signatures(*one) for one in signed) else rules.RECEIPT_FORGED


def bound_to(gate: Gate, subject: str, predicate: str, text: str, scope: str | None) -> str:
    """The rule that keeps a receipt from this claim in this (normal) scope; empty when it is about it."""
    if gate.commitment.hex() != fact_commitment(subject, predicate, text):
        return rules.RECEIPT_OTHER_CLAIM
    return "" if gate.scope in (None, scope) else rules.RECEIPT_OTHER_SCOPE


# --- as JSON --------------------------------------------------------------------------------------------------------


def gate_json(gate: Gate) -> dict[str, Any]:
    """A gate receipt as a JSON object."""
    return {
        "form": FORM,
        "alg": ED25519,
        "verdict": gate.verdict,
        "commitment": gate.commitment.hex(),
        "scope": gate.scope,
        "issued_at_us": gate.issued_at_us,
        "expires_at_us": gate.expires_at_us,
        "runs": [run_json(run) for run in gate.runs],
        "key_id": gate.key.hex(),
        "signature": gate.signature.hex(),
    }


def run_json(run: Run) -> dict[str, Any]:
    """A run receipt as a JSON object."""
    return {
        "form": FORM,
        "alg": ED25519,
        "grader": run.grader,
        "verdict": run.verdict,
        "report": run.report.hex(),
        "issued_at_us": run.issued_at_us,
        "key_id": run.key.hex(),
        "signature": run.signature.hex(),
    }


def gate_of(fields: object) -> Gate:
    """The gate receipt that a JSON object holds. Raises `Invalid` for anything that is none."""
    named = _fields(fields, _GATE_FIELDS)
    runs = named["runs"]
    if not isinstance(runs, list) or len(cast("list[object]", runs)) > RECEIPT_RUNS_LIMIT:
        raise Invalid("runs", f"is not a list of at most {RECEIPT_RUNS_LIMIT} run receipts")
    if named["scope"] is not None:
        check_scope(named["scope"])
    return Gate(
        _verdict(named["verdict"]),
        _bytes("commitment", named["commitment"], 32),
        named["scope"],
        check_moment("issued_at_us", named["issued_at_us"]),
        check_moment("expires_at_us", named["expires_at_us"]),
        tuple(run_of(run) for run in cast("list[object]", runs)),
        _bytes("key_id", named["key_id"], 32),
        _bytes("signature", named["signature"], 64),
    )


def run_of(fields: object) -> Run:
    """The run receipt that a JSON object holds. Raises `Invalid` for anything that is none."""
    named = _fields(fields, _RUN_FIELDS)
    check_string("grader", named["grader"], NAME_CHARACTERS_LIMIT)
    return Run(
        named["grader"],
        _verdict(named["verdict"]),
        _bytes("report", named["report"], 32),
        check_moment("issued_at_us", named["issued_at_us"]),
        _bytes("key_id", named["key_id"], 32),
        _bytes("signature", named["signature"], 64),
    )


_RUN_FIELDS: Final = frozenset({"form", "alg", "grader", "verdict", "report", "issued_at_us", "key_id", "signature"})
_GATE_FIELDS: Final = (_RUN_FIELDS - {"grader", "report"}) | {"commitment", "scope", "expires_at_us", "runs"}


def _fields(fields: object, names: Iterable[str]) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        raise Invalid("receipt", "is not an object")
    named = dict(cast("Mapping[str, Any]", fields))
    if set(named) != set(names):
        raise Invalid("receipt", f"does not have the fields {', '.join(sorted(names))}")
    check_integer("form", named["form"], FORM, FORM)
    if named["alg"] != ED25519:
        raise Invalid("alg", f"is not {ED25519}: others cannot be checked without trusting somebody")
    return named


def _verdict(verdict: object) -> str:
    if type(verdict) is not str or verdict not in VERDICTS:
        raise Invalid("verdict", f"is none of {', '.join(VERDICTS)}")
    return verdict


def _bytes(field: str, text: object, size: int) -> bytes:
    if type(text) is not str or len(text) != 2 * size or _HEX.fullmatch(text) is None:
        raise Invalid(field, f"is not {2 * size} lower-case hex digits")
    return bytes.fromhex(text)
