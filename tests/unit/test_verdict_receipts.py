"""Receipts: bound to one claim, signed, in force, resting on runs; anybody can check them (MEMORY § 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.memory.errors import Invalid
from veridical.memory.receipts import gate_json, gate_message, gate_of, receipt_digest
from veridical.security.keys import KeyFileError, KeyPair
from veridical.verdict import (
    Finding,
    GateReceipt,
    Report,
    Runner,
    Verdict,
    attest_fact,
    default_runner,
    fact_commitment,
    signed_report,
    verify_fact_attestation,
)

NOW_US = 1_750_000_000_000_000
DAY_US = 86_400_000_000
RUNNER = Runner(KeyPair(b"r" * 32), lambda: NOW_US)
OTHER = Runner(KeyPair(b"o" * 32), lambda: NOW_US)
CLAIM = ("auth", "uses", "sessions are JWT, 15-min expiry")
PASSED = signed_report(Report(grader="unit tests", verdict=Verdict.PASS, summary="12 passed"), RUNNER)
FAILED = signed_report(
    Report(grader="lint", verdict=Verdict.FAIL, findings=(Finding(kind="style", message="too long"),)), RUNNER
)


def attest(verdict: Verdict = Verdict.PASS, *reports: Report, **options: Any) -> GateReceipt:
    """A receipt about the claim."""
    subject, predicate, text = CLAIM
    options = {"runner": RUNNER} | options
    return attest_fact(verdict, reports or [PASSED], subject=subject, predicate=predicate, text=text, **options)


def holds(receipt: Any, *claim: str, **options: Any) -> bool:
    """Whether a receipt is a good one about the claim (or another one)."""
    options = {"now_us": NOW_US} | options
    subject, predicate, text = claim or CLAIM
    return verify_fact_attestation(receipt, subject, predicate, text, **options)


def test_a_pass_about_this_claim_verifies() -> None:
    """As a model, as what travels, and as JSON of it."""
    receipt = attest()
    assert holds(receipt)
    assert holds(receipt.model_dump())
    assert holds(receipt.model_dump(mode="json"))
    assert holds(receipt, allowed_algs={"ed25519"}, allowed_keys={RUNNER.public_key.hex()})


@pytest.mark.parametrize(
    "claim",
    [("Auth", "uses", CLAIM[2]), ("auth", "use", CLAIM[2]), ("auth", "uses", CLAIM[2] + " "), ("", "", CLAIM[2])],
)
def test_it_is_about_no_other_claim(claim: tuple[str, str, str]) -> None:
    """To the letter."""
    assert not holds(attest(), *claim)


def test_a_commitment_has_no_seams() -> None:
    """What moves from one field to the next is another claim."""
    assert fact_commitment("a", "b|c", "d") != fact_commitment("a|b", "c", "d")
    assert len(fact_commitment(*CLAIM)) == 64


def test_a_scope_binds_where_it_is_named() -> None:
    """One that names none fits any one; one that names it fits there only, and there it must be asked."""
    bound = attest(scope="repo:APP")
    assert holds(attest(), scope="repo:other")
    assert holds(bound, scope="repo:app")
    assert not holds(bound, scope="repo:other")
    assert not holds(bound)


def test_it_expires() -> None:
    """And is not in force long before it was issued."""
    receipt = attest(lifetime_us=DAY_US)
    assert holds(receipt, now_us=NOW_US + DAY_US - 1)
    assert not holds(receipt, now_us=NOW_US + DAY_US)
    assert not holds(receipt, now_us=NOW_US - DAY_US)


def test_no_reports_attest_nothing() -> None:
    """Neither made nor, when somebody signs one by hand, believed."""
    with pytest.raises(Invalid, match="receipt_empty"):
        attest_fact(Verdict.PASS, [], subject="a", predicate="b", text="c", runner=RUNNER)
    gate = attest().gate()._replace(runs=())
    forged = gate._replace(signature=RUNNER.keys.sign(gate_message(gate)))
    assert not holds(gate_json(forged))


def test_a_pass_needs_a_passing_run_and_no_failing_one() -> None:
    """A fail needs one that failed, and is no pass."""
    for reports in ([FAILED], [PASSED, FAILED]):
        with pytest.raises(Invalid, match="receipt_empty"):
            attest(Verdict.PASS, *reports)
    assert not holds(attest(Verdict.FAIL, PASSED, FAILED))
    with pytest.raises(Invalid, match="receipt_empty"):
        attest(Verdict.FAIL, PASSED)
    with pytest.raises(Invalid):
        attest(Verdict.INCONCLUSIVE, PASSED)


def test_a_report_carries_a_receipt_of_its_own() -> None:
    """Without one, or with that of another report, no gate rests on it."""
    with pytest.raises(Invalid, match="carries no run receipt"):
        attest(Verdict.PASS, Report(grader="x", verdict=Verdict.PASS))
    with pytest.raises(Invalid, match="another report"):
        attest(Verdict.PASS, PASSED.model_copy(update={"summary": "13 passed"}))


CHANGES: dict[str, Any] = {
    "verdict": "fail",
    "commitment": fact_commitment("auth", "uses", "cookies"),
    "scope": "repo:app",
    "issued_at_us": NOW_US - 1,
    "expires_at_us": NOW_US + 1000 * DAY_US,
    "runs": [],
    "key_id": OTHER.public_key.hex(),
    "signature": "00" * 64,
    "alg": "hmac",
    "form": 2,
    "more": 1,
}


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_whatever_is_changed_is_noticed(field: str) -> None:
    """Every field is covered by the signature, or refused."""
    receipt = attest().model_dump(mode="json") | {field: CHANGES[field]}
    for scope in (None, "repo:app"):
        assert not holds(receipt, scope=scope)
        assert not holds(receipt, "auth", "uses", "cookies", scope=scope)


@pytest.mark.parametrize("field", ["grader", "verdict", "report", "issued_at_us", "key_id", "signature"])
def test_whatever_is_changed_in_a_run_is_noticed(field: str) -> None:
    """Even by the gate itself: each run is signed by whoever ran it."""
    gate = attest().gate()
    other = {"grader": "x", "verdict": "pass", "report": "00" * 32, "issued_at_us": 5, "key_id": OTHER.public_key.hex()}
    run = gate_json(gate)["runs"][0] | {field: other.get(field, "00" * 64)}
    changed = gate_of(gate_json(gate) | {"runs": [run]})
    signed = changed._replace(signature=RUNNER.keys.sign(gate_message(changed)))
    assert holds(gate_json(signed)) == (field == "verdict")


def test_whose_key_counts_is_for_the_reader() -> None:
    """A good receipt of somebody unknown is good, and not trusted."""
    receipt = attest(runner=OTHER)
    assert holds(receipt)
    assert not holds(receipt, allowed_keys={RUNNER.public_key.hex()})
    assert not holds(attest(), allowed_algs={"hmac"})
    with pytest.raises(Invalid, match="hmac"):
        attest(attest="hmac")


def test_a_receipt_is_known_by_what_it_says() -> None:
    """Another signature over the same words is the same receipt; other words are another."""
    gate = attest().gate()
    assert receipt_digest(gate) == receipt_digest(gate._replace(signature=bytes(64)))
    assert receipt_digest(gate) != receipt_digest(attest(scope="repo:app").gate())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(set(CHANGES) - {"more"})), json_values)
def test_hostile_receipts_are_invalid_and_nothing_else(field: str, value: Any) -> None:
    """Whatever stands in a field, it is refused or it is what it was."""
    receipt = attest().model_dump(mode="json")
    changed = receipt | {field: value}
    assert holds(changed) == (changed == receipt)


@given(json_values)
def test_anything_that_is_no_receipt_verifies_nothing(value: Any) -> None:
    """Fails closed."""
    assert not holds(value)


def test_the_runner_of_the_environment(tmp_path: Path) -> None:
    """A seed of 64 hex digits, or a file that nobody else may read, made when it is missing."""
    file = tmp_path / "deep" / "runner.key"
    named = default_runner({"VERIDICAL_RUNNER_ED25519_SEED": (b"r" * 32).hex()}, file)
    assert named.public_key == RUNNER.public_key
    assert not file.exists()
    made = default_runner({}, file)
    assert (file.stat().st_mode & 0o777, default_runner({}, file).public_key) == (0o600, made.public_key)
    file.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod"):
        default_runner({}, file)
    with pytest.raises(ValueError, match="64 hex digits"):
        default_runner({"VERIDICAL_RUNNER_ED25519_SEED": "short"}, file)
