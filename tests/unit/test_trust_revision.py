"""Revision: a counterexample lowers or narrows a rule, once; what rested on it is worded anew; nothing gains trust."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from veridical.memory import (
    FailureLedger,
    LocalMemory,
    MemoryKind,
    MemoryRecord,
    Principal,
    Trust,
    correction_chain,
    librarian_pass,
    make_id,
    make_key,
    propagate_revision,
    revise_with_counterexample,
)
from veridical.memory.errors import Invalid, Refused
from veridical.trust.design import DesignRule, rule_of, rule_record
from veridical.trust.revision import EXCEPTIONS_LIMIT, Action
from veridical.verdict import Finding, Report, Verdict

SCOPE = "repo:app"
RULE = DesignRule("a card is wide", "use max-width", "overflow")


@pytest.fixture
def mem() -> Iterator[LocalMemory]:
    """One without files."""
    with LocalMemory(":memory:") as mem:
        yield mem


def written(mem: LocalMemory, subject: str = "overflow") -> MemoryRecord:
    """The rule, as a candidate."""
    return mem.write(rule_record(RULE, subject=subject, scope=SCOPE))


def test_the_first_counterexample_weakens_and_the_second_splits(mem: LocalMemory) -> None:
    """The narrowed rule takes the place of the rule, and the exception has one of its own."""
    rule = written(mem)
    first = revise_with_counterexample(mem, rule, "a printed card overflows", split_after=2)
    assert (first.action, first.narrowed, first.exception) == (Action.WEAKENED, None, None)
    assert first.rule.epistemic_confidence == pytest.approx(0.25)
    second = revise_with_counterexample(mem, rule, "a card in a map overflows", split_after=2)
    assert (second.action, second.rule_id) == (Action.SPLIT, rule.id)
    assert second.narrowed is not None and second.exception is not None
    assert second.narrowed.id == rule.id
    assert rule_of(second.narrowed).exceptions == ("a printed card overflows", "a card in a map overflows")
    assert [item["text"] for item in correction_chain(second.narrowed) or correction_chain(held(mem, rule))] == [
        RULE.text
    ]
    assert second.exception.detail["exception_to"] == rule.id
    assert "do not rely on this: use max-width" in second.exception.text
    assert {second.narrowed.trust, second.exception.trust} == {Trust.CANDIDATE}


def held(mem: LocalMemory, rule: MemoryRecord) -> MemoryRecord:
    """What is held under a rule's key."""
    found = mem.get(rule.id)
    assert found is not None
    return found


def test_a_counterexample_counts_once(mem: LocalMemory) -> None:
    """In any spelling, before and after a split; another one counts again."""
    rule = written(mem)
    revise_with_counterexample(mem, rule, "a printed card overflows")
    again = revise_with_counterexample(mem, rule, "A printed  card overflows")
    assert (again.action, again.rule.epistemic_confidence) == (Action.UNCHANGED, pytest.approx(0.25))
    assert revise_with_counterexample(mem, rule, "a map overflows").action is Action.SPLIT
    assert revise_with_counterexample(mem, rule, "a printed card overflows").action is Action.UNCHANGED
    assert revise_with_counterexample(mem, rule, "a tree overflows").action is Action.WEAKENED


def test_contradicted_often_enough_a_rule_is_rejected(mem: LocalMemory) -> None:
    """Where it is not split before; then it stays rejected."""
    rule = written(mem)
    actions = [
        revise_with_counterexample(mem, rule, text, split_after=9).action
        for text in ("one fails", "two fails", "three")
    ]
    assert actions == [Action.WEAKENED, Action.REJECTED, Action.REJECTED]
    assert held(mem, rule).trust is Trust.REJECTED


def test_a_verified_rule_is_a_candidate_again_when_it_is_split(mem: LocalMemory) -> None:
    """Its old words are in the chain; neither half is verified."""
    rule = written(mem)
    mem.approve(rule.id)
    assert revise_with_counterexample(mem, rule, "one fails").action is Action.WEAKENED
    assert held(mem, rule).trust is Trust.VERIFIED
    revision = revise_with_counterexample(mem, rule, "two fails")
    assert revision.action is Action.SPLIT
    assert revision.narrowed is not None and revision.exception is not None
    assert (revision.narrowed.trust, revision.exception.trust) == (Trust.CANDIDATE, Trust.CANDIDATE)


def test_a_failure_of_the_ledger_is_taken_as_it_is(mem: LocalMemory) -> None:
    """It is not recorded twice, and the exception falls with it."""
    rule = written(mem)
    ledger = FailureLedger(mem, SCOPE)
    report = Report(
        grader="vision", verdict=Verdict.FAIL, findings=(Finding(kind="overflow", message="a map overflows"),)
    )
    (key,) = ledger.record(report)
    failure = ledger.get(key)
    assert failure is not None
    revision = revise_with_counterexample(mem, rule, failure, split_after=1)
    assert revision.action is Action.SPLIT and revision.exception is not None
    assert revision.exception.derived_from == [failure.id]
    mem.forget(failure.id)
    assert mem.get(revision.exception.id) is None
    assert held(mem, rule).text.startswith("when a card is wide (except when a map overflows)")


def test_schemas_above_are_worded_anew(mem: LocalMemory) -> None:
    """All the way up, by the revision itself; one that was verified is a candidate again."""
    ledger = FailureLedger(mem, SCOPE)
    for kind in ("layout.overflow", "layout.clip", "api.error", "api.timeout"):
        findings = tuple(Finding(kind=kind, message=f"{kind} {where}") for where in ("at the top", "below"))
        ledger.record(Report(grader="vision", verdict=Verdict.FAIL, findings=findings))
    librarian_pass(mem, scope=SCOPE)
    layout, api, whole = (make_id(make_key(theme, "schema", SCOPE)) for theme in ("layout", "api", f"all of {SCOPE}"))
    mem.approve(layout)
    rule = mem.get(make_id(make_key("layout.clip", "design_rule", SCOPE)))
    assert rule is not None
    before = {id: found.text for id in (layout, api, whole) if (found := mem.get(id))}
    revision = revise_with_counterexample(mem, rule, "a tooltip is cut", split_after=1)
    after = {id: found.text for id in (layout, api, whole) if (found := mem.get(id))}
    assert {id for id in before if before[id] != after[id]} == {layout, whole} == {s.id for s in revision.schemas}
    assert "a tooltip is cut" in after[layout]
    found = mem.get(layout)
    assert found is not None and found.trust is Trust.CANDIDATE
    assert propagate_revision(mem, rule.id) == []


def test_a_schema_falls_when_its_rules_are_rejected(mem: LocalMemory) -> None:
    """One rule alone is no principle."""
    rules = [written(mem, name) for name in ("a.x", "a.y")]
    schema = mem.write(
        MemoryRecord(
            kind=MemoryKind.SCHEMA, subject="a", predicate="schema", text="both", scope=SCOPE,
            detail={"order": 2, "members": [rule.id for rule in rules]}, derived_from=[rule.id for rule in rules],
        )
    )  # fmt: skip
    mem.reject(rules[0].id, reason="it is not so")
    assert mem.get(schema.id) is not None
    assert [gone.id for gone in propagate_revision(mem, rules[0].id)] == [schema.id]
    assert mem.get(schema.id) is None
    assert mem.get(rules[1].id) is not None


def test_a_rule_of_many_exceptions_is_given_up(mem: LocalMemory) -> None:
    """It is not narrowed for ever."""
    rule = written(mem)
    actions = [
        revise_with_counterexample(mem, rule, f"case {chr(97 + n)} fails", split_after=1).action
        for n in range(EXCEPTIONS_LIMIT + 2)
    ]
    assert actions == [Action.SPLIT] * EXCEPTIONS_LIMIT + [Action.WEAKENED, Action.REJECTED]


def test_in_a_guarded_store_nobody_narrows_what_others_verified(tmp_path: Path) -> None:
    """The writer weakens it, and the narrowed one waits for a reviewer; a reviewer splits it."""
    admin, writer = Principal(b"a" * 32), Principal(b"w" * 32)
    path = tmp_path / "brain.db"
    with LocalMemory(path, principal=admin) as mem:
        mem.enroll(admin, grants={"*": ["read", "write", "review", "admin"]})
        mem.enroll(writer, grants={"*": ["read", "write"]})
        rule = written(mem)
        mem.approve(rule.id)
    with LocalMemory(path, principal=writer) as mem:
        revision = revise_with_counterexample(mem, rule, "a map overflows", split_after=1)
        assert revision.action is Action.WEAKENED
        assert revision.narrowed is not None and revision.narrowed.outcome == "conflicted"
        found = mem.get(rule.id)
        assert found is not None and (found.text, found.trust) == (RULE.text, Trust.VERIFIED)
        assert found.epistemic_confidence == pytest.approx(0.25)
    with LocalMemory(path, principal=admin) as mem:
        assert revise_with_counterexample(mem, rule, "a tree overflows", split_after=1).action is Action.SPLIT


def test_what_is_not_held_cannot_be_revised(mem: LocalMemory) -> None:
    """Nor by fewer counterexamples than one."""
    rule = written(mem)
    with pytest.raises(Invalid, match="split_after"):
        revise_with_counterexample(mem, rule, "x fails", split_after=0)
    mem.forget(rule.id)
    with pytest.raises(Refused, match="unknown_record"):
        revise_with_counterexample(mem, rule, "x fails")
