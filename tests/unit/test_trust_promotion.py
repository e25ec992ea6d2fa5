"""The promotion gate: verified by held-out cases, on signed evidence that the store checks, and told as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from veridical.memory import (
    EvalCase,
    HeldOutCorpus,
    LocalMemory,
    MemoryKind,
    MemoryRecord,
    Principal,
    Promotion,
    PromotionGate,
    Trust,
)
from veridical.memory.errors import Invalid
from veridical.security.keys import KeyPair
from veridical.trust.design import DesignRule, rule_of, rule_record
from veridical.trust.matching import applies_by_words
from veridical.trust.promotion import MIN_F1, Applies
from veridical.verdict import Runner
from veridical.verdict.runner import SEED_VARIABLE

SCOPE = "repo:app"
RUNNER = Runner(KeyPair(b"r" * 32))
RULE = DesignRule("a card is wider than a narrow screen", "use max-width: 100%", "overflow")
CASES = (
    EvalCase("a card overflows the viewport on a 320px screen", "overflow", "prevent"),
    EvalCase("the price table overflows on a phone", "overflow", "prevent"),
    EvalCase("the layout is fine on desktop", "overflow", "allow"),
    EvalCase("the footer links are blue", "overflow", "allow"),
    EvalCase("grey text on grey ground", "contrast", "prevent"),
)


@pytest.fixture
def mem(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalMemory]:
    """A store that trusts its runner."""
    monkeypatch.setenv(SEED_VARIABLE, (b"r" * 32).hex())
    with LocalMemory(":memory:") as mem:
        yield mem


def candidate(mem: LocalMemory, rule: DesignRule = RULE, **fields: Any) -> MemoryRecord:
    """A rule as consolidation would write it."""
    return mem.write(rule_record(rule, subject=rule.covers_kind, scope=SCOPE).model_copy(update=fields))


def considered(
    mem: LocalMemory,
    rule: MemoryRecord,
    *cases: EvalCase,
    applies: Applies | None = None,
    min_f1: float = MIN_F1,
    runner: Runner | None = None,
) -> Promotion:
    """What the gate says of it."""
    gate = PromotionGate(mem, HeldOutCorpus(cases or CASES), applies=applies, min_f1=min_f1, runner=runner)
    return gate.consider(rule)


def test_a_rule_that_does_well_is_verified(mem: LocalMemory) -> None:
    """By a receipt about this rule in this scope, which the record names as the cause."""
    rule = candidate(mem)
    result = considered(mem, rule)
    assert (result.promoted, result.f1, result.precision, result.recall) == (True, 1.0, 1.0, 1.0)
    held = mem.get(rule.id)
    assert held is not None and held.trust is Trust.VERIFIED
    assert mem.history(rule.id)[0].cause == "attested"
    again = considered(mem, held)
    assert again.promoted


@pytest.mark.parametrize(
    ("acts_on", "f1", "reason"),
    [
        ("", 2 / 3, "F1 0.67 is under 0.80"),
        ("no such word", 0.0, "F1 0.00 is under 0.80"),
        ("phone", 2 / 3, "F1 0.67 is under 0.80"),
    ],
)
def test_a_rule_that_does_badly_stays_a_candidate(mem: LocalMemory, acts_on: str, f1: float, reason: str) -> None:
    """One that acts on everything, on nothing, on half of it; and it is no worse off than before."""
    rule = candidate(mem)
    result = considered(mem, rule, applies=lambda _, text: acts_on in text)
    assert (result.promoted, result.f1, result.reason) == (False, pytest.approx(f1), reason)
    held = mem.get(rule.id)
    assert held is not None and (held.trust, held.epistemic_confidence) == (Trust.CANDIDATE, 0.5)


def test_the_bar_may_be_raised_and_not_lowered(mem: LocalMemory) -> None:
    """Exactly 0.8 is enough, unless more is asked."""
    cases = [EvalCase(f"case {number}", "overflow", "prevent") for number in range(3)]
    cases += [EvalCase("case 3", "overflow", "allow"), EvalCase("case 4", "overflow", "allow")]
    rule = candidate(mem)

    def applies(_: MemoryRecord, text: str) -> bool:
        return text in ("case 0", "case 1", "case 2", "case 3", "x")

    def nearly(_: MemoryRecord, text: str) -> bool:
        return text in ("case 0", "case 1")

    assert considered(mem, rule, *cases, applies=applies, min_f1=0.9).promoted is False
    assert considered(mem, rule, *cases, applies=nearly).f1 == 0.8
    assert considered(mem, rule, *cases, applies=nearly).promoted is True
    with pytest.raises(Invalid, match="min_f1"):
        considered(mem, rule, min_f1=0.79)


@pytest.mark.parametrize(
    ("cases", "reason"),
    [
        (CASES[:2], "the corpus has no case to allow of kind 'overflow'"),
        (CASES[2:4], "the corpus has no case to prevent of kind 'overflow'"),
        (CASES[4:], "the corpus has no case to allow or prevent of kind 'overflow'"),
    ],
)
def test_a_corpus_that_cannot_tell_promotes_nothing(mem: LocalMemory, cases: tuple[EvalCase, ...], reason: str) -> None:
    """A rule that acts on everything would pass one without cases to allow."""
    assert considered(mem, candidate(mem), *cases)[:3] == (False, 0.0, reason)


CANARY = "kestrel-7f3a-9c2e-41"


@pytest.mark.parametrize(
    "field",
    [
        {"text": f"when it overflows: {CANARY}"},
        {"subject": f"overflow {CANARY}"},
        {"predicate": f"rule {CANARY}", "kind": MemoryKind.FACT},
        {"scope": f"repo:{CANARY}"},
        {"source": CANARY},
        {"provenance": ["note", CANARY]},
        {"metadata": {"a": {"b": [CANARY]}}},
        {"metadata": {CANARY: 1}},
        {"detail": RULE.detail() | {"note": CANARY}},
        {"detail": RULE.detail() | {"note": ["kestrel-7f3a", "-9c2e-41"]}},
        {"detail": RULE.detail() | {"note": "Kestrel 7F3A\u200b 9c2e_41"}},
        {"detail": RULE.detail() | {"note": "A CARD overflows the viewport, on a 320px screen!"}},
    ],
)
def test_the_canary_is_found_in_every_field(mem: LocalMemory, field: dict[str, Any]) -> None:
    """In any spelling, in pieces, as a name; and so are the words of a case. Without it the rule passes."""
    corpus = HeldOutCorpus(CASES, canary=CANARY)
    leaky = candidate(mem, **field)
    result = PromotionGate(mem, corpus, applies=lambda _, text: "overflows" in text).consider(leaky)
    assert (result.promoted, result.reason.partition(":")[0]) == (False, "leaked")
    clean = candidate(mem, subject="clean")
    assert PromotionGate(mem, corpus).consider(clean).promoted


def test_a_leak_in_what_is_shown_alone_counts_too(mem: LocalMemory) -> None:
    """The record that is handed over need not be the one that is held."""
    rule = candidate(mem).model_copy(update={"provenance": [CANARY]})
    assert PromotionGate(mem, HeldOutCorpus(CASES, canary=CANARY)).consider(rule).promoted is False


def test_a_corpus_is_checked() -> None:
    """Its size, its labels, its canary."""
    for cases, canary in (((), None), ((EvalCase("x", "y", "perhaps"),), None), (CASES, "short")):  # pyright: ignore[reportArgumentType]
        with pytest.raises(Invalid):
            HeldOutCorpus(cases, canary=canary)
    assert HeldOutCorpus(CASES).canary == HeldOutCorpus(CASES).canary != HeldOutCorpus(CASES[1:]).canary


def test_a_rule_that_was_rejected_is_not_promoted(mem: LocalMemory) -> None:
    """The flag says what is, however well it does; and so when it is rejected while it is being considered."""
    rule = candidate(mem)

    def meanwhile(record: MemoryRecord, text: str) -> bool:
        held = mem.get(record.id)
        if held is not None and held.trust is not Trust.REJECTED:
            mem.reject(record.id, reason="it breaks the print view")
        return applies_by_words(record, text)

    result = considered(mem, rule, applies=meanwhile)
    assert (result.promoted, result.f1) == (False, 1.0)
    assert "standing_rejection" in result.reason
    assert result.record is not None and result.record.trust is Trust.REJECTED
    assert considered(mem, rule).promoted is False


def test_what_is_considered_is_what_is_held(mem: LocalMemory) -> None:
    """A rule that was never written, or says something else by now, is not promoted; by its key it is found."""
    unwritten = rule_record(RULE, subject="overflow", scope=SCOPE)
    assert considered(mem, unwritten).reason == "no such rule is held; write it first"
    old = candidate(mem)
    candidate(mem, DesignRule("a card is wide", "shrink it", "overflow"))
    assert considered(mem, old).reason == "the rule has changed since; consider what is held now"
    candidate(mem)
    assert considered(mem, unwritten).promoted


def test_in_a_guarded_store_the_runner_needs_the_right(tmp_path: Path) -> None:
    """Without it the gate passes the rule and the store does not; the result says so."""
    admin = Principal(b"a" * 32)
    with LocalMemory(tmp_path / "brain.db", principal=admin) as mem:
        mem.enroll(admin, grants={"*": ["read", "write", "admin"]})
        rule = candidate(mem)
        result = considered(mem, rule, runner=RUNNER)
        assert (result.promoted, result.f1) == (False, 1.0)
        assert "receipt_stranger" in result.reason
        mem.enroll(Principal(b"r" * 32), grants={SCOPE: ["attest"]})
        assert considered(mem, rule, runner=RUNNER).promoted


def test_a_rule_stands_in_a_record_and_is_read_from_it() -> None:
    """Also with exceptions, which are part of what it says; and one that is not structured is a rule as well."""
    narrow = DesignRule("a card is wide", "shrink it", "overflow", ("it is printed", "it is a map"))
    record = rule_record(narrow, subject="overflow", scope=SCOPE)
    assert rule_of(record) == narrow
    assert record.text == "when a card is wide (except when it is printed, or when it is a map): shrink it"
    assert rule_of(MemoryRecord(subject="s", predicate="p", text="t", detail={"condition": 5})).condition == "t"


@pytest.mark.parametrize(
    ("text", "applies"),
    [
        ("two cards overflowing", True),
        ("the card is wider than the screen", True),
        ("the screen is bright", False),
        ("a printed map is wider than the card", False),
        ("", False),
    ],
)
def test_words_decide_where_no_model_is_asked(text: str, applies: bool) -> None:
    """The kind, or two words of the condition; unless an exception is told."""
    narrow = DesignRule("a card is wider than a narrow screen", "shrink it", "overflow", ("a map is printed",))
    assert applies_by_words(rule_record(narrow, subject="overflow", scope=SCOPE), text) is applies
