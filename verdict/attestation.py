"""Fact-bound attestations, made and checked: a gate's verdict about exactly one claim, portable and self-contained."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..memory.errors import Invalid
from ..memory.receipts import (
    ED25519,
    PASS,
    Gate,
    Run,
    bound_to,
    fact_commitment,
    gate_message,
    gate_of,
    objection,
    run_message,
)
from ..memory.scope import normal_scope
from ..security.keys import verify
from .models import GateReceipt, Report, RunReceipt, Verdict
from .runner import Runner, default_runner, wall_us

DAY_US: Final = 86_400_000_000
LIFETIME_US: Final = 30 * DAY_US


def signed_report(report: Report, runner: Runner | None = None) -> Report:
    """The report with a receipt of this runner (default: this machine's) over its digest and verdict."""
    runner = runner or default_runner()
    run = Run(report.grader, report.verdict.value, report.digest(), runner.wall_us(), runner.public_key, b"")
    signed = run._replace(signature=runner.keys.sign(run_message(run)))
    return report.model_copy(update={"receipt": RunReceipt.of(signed)})


def attest_fact(
    verdict: Verdict,
    reports: Sequence[Report],
    *,
    subject: str,
    predicate: str,
    text: str,
    scope: str | None = None,
    attest: str = ED25519,
    lifetime_us: int = LIFETIME_US,
    runner: Runner | None = None,
) -> GateReceipt:
    """A receipt that a gate came to this verdict about this claim, resting on signed reports.

    Without a scope it fits any one, and a store spends it at its first use. It is void after `lifetime_us`
    microseconds. Raises `Invalid` for reports without a receipt of their own, for none that came to the verdict, for a
    pass over a failed one, and for another `attest` than `ed25519`.
    """
    if attest != ED25519:
        raise Invalid("attest", f"{attest!r} cannot be checked without trusting whoever made it; use {ED25519}")
    runner = runner or default_runner()
    now_us = runner.wall_us()
    gate = Gate(
        Verdict(verdict).value,
        bytes.fromhex(fact_commitment(subject, predicate, text)),
        None if scope is None else normal_scope(scope),
        now_us,
        now_us + lifetime_us,
        tuple(_run_of(report) for report in reports),
        runner.public_key,
        b"",
    )
    signed = gate._replace(signature=runner.keys.sign(gate_message(gate)))
    rule = objection(signed, verify, now_us)
    if rule:
        raise Invalid("reports", f"{rule}: nobody would take a receipt that rests on them")
    return GateReceipt.of(signed)


def verify_fact_attestation(
    receipt: GateReceipt | Mapping[str, Any],
    subject: str,
    predicate: str,
    text: str,
    *,
    scope: str | None = None,
    allowed_algs: Collection[str] = (ED25519,),
    allowed_keys: Collection[str] | None = None,
    now_us: int | None = None,
) -> bool:
    """Whether it is a pass, in force, well signed, and about exactly this claim; False for whatever is malformed.

    A receipt bound to a scope needs that scope to be named. It says who signed (`key_id`), not whether you trust them:
    name whom you do as `allowed_keys`, in hex.
    """
    try:
        gate = receipt.gate() if isinstance(receipt, GateReceipt) else gate_of(_plain(receipt))
        where = None if scope is None else normal_scope(scope)
        about = bound_to(gate, subject, predicate, text, where)
    except (Invalid, TypeError, ValueError):
        return False
    if ED25519 not in allowed_algs or gate.verdict != PASS or about:
        return False
    if allowed_keys is not None and gate.key.hex() not in allowed_keys:
        return False
    return not objection(gate, verify, wall_us() if now_us is None else now_us)


def _run_of(report: Report) -> Run:
    """The receipt of a report, which must be about this very report."""
    if report.receipt is None:
        raise Invalid("reports", f"the report of {report.grader!r} carries no run receipt; see signed_report")
    run = report.receipt.run()
    if (run.report, run.grader, run.verdict) != (report.digest(), report.grader, report.verdict.value):
        raise Invalid("reports", f"the receipt of {report.grader!r} is about another report")
    return run


def _plain(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """`GateReceipt.model_dump()` as JSON would have it."""
    return GateReceipt.model_validate(receipt).model_dump(mode="json")
