"""Consolidation: patterns become candidates that name their sources and fall with them; a second look adds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from veridical.memory import (
    FailureLedger,
    LocalMemory,
    MemoryKind,
    MemoryRecord,
    Trust,
    consolidate_failures,
    induce_hierarchy,
    librarian_pass,
    make_id,
    make_key,
)
from veridical.memory.errors import Invalid
from veridical.trust.chat import Chat, ChatFailed
from veridical.trust.consolidation import Consolidated
from veridical.trust.design import rule_of
from veridical.verdict import Finding, Report, Verdict

SCOPE = "repo:app"
OVERFLOWS = ("card overflows the viewport by 12px", "price table overflows the viewport at 320px")
CLIPS = ("menu is clipped at the edge", "the tooltip is clipped by its box")


@pytest.fixture
def mem() -> Iterator[LocalMemory]:
    """One without files."""
    with LocalMemory(":memory:") as mem:
        yield mem


def fails(mem: LocalMemory, kind: str, *messages: str, grader: str = "vision") -> list[str]:
    """Failures of a kind, recorded; their ids."""
    findings = tuple(Finding(kind=kind, message=message) for message in messages)
    keys = FailureLedger(mem, SCOPE).record(Report(grader=grader, verdict=Verdict.FAIL, findings=findings))
    return [make_id(make_key(key, "fails", SCOPE)) for key in keys]


def held(mem: LocalMemory, subject: str, predicate: str = "design_rule") -> MemoryRecord | None:
    """What is held under that name."""
    return mem.get(make_id(make_key(subject, predicate, SCOPE)))


def reconciles(made: Consolidated) -> bool:
    """Every group that was looked at is counted once."""
    parts = made.written + made.unchanged + made.too_small + made.unparsed + made.refused
    return made.found == parts and len(made) == made.written + made.unchanged


def says(*answers: Any) -> Chat:
    """A model that gives these answers, one after the other."""
    left = iter(answers)

    def chat(_: str) -> str:
        answer = next(left)
        return answer if isinstance(answer, str) else json.dumps(answer)

    return chat


def state(mem: LocalMemory) -> list[dict[str, Any]]:
    """All that is held, but for what moves with time and with what rests on what."""
    fields = {"trust", "epistemic_confidence", "support_count", "text", "id"}
    return [record.model_dump(include=fields) for record in mem.all()]


def test_recurring_failures_become_a_candidate_rule(mem: LocalMemory) -> None:
    """Structured, resting on them; a single failure is no pattern."""
    ids = fails(mem, "overflow", *OVERFLOWS)
    fails(mem, "contrast", "grey on grey")
    rules = consolidate_failures(mem, scope=SCOPE, min_cluster=2)
    assert (rules.found, rules.written, rules.too_small) == (2, 1, 1)
    assert reconciles(rules)
    (rule,) = rules
    assert (rule.kind, rule.trust, rule.subject) == (MemoryKind.DESIGN_RULE, Trust.CANDIDATE, "overflow")
    assert sorted(rule.derived_from) == sorted(ids)
    assert (rule_of(rule).covers_kind, rule.text) == ("overflow", rule_of(rule).text)
    assert "overflows" in rule_of(rule).condition
    assert [hit.id for hit in mem.recall("overflows", scope=SCOPE, kind=MemoryKind.DESIGN_RULE)] == [rule.id]


def test_a_rule_falls_with_its_failures(mem: LocalMemory) -> None:
    """With the last of them, and not before."""
    first, second = fails(mem, "overflow", *OVERFLOWS)
    consolidate_failures(mem, scope=SCOPE)
    mem.forget(first)
    assert held(mem, "overflow") is not None
    mem.forget(second)
    assert held(mem, "overflow") is None


def test_rules_of_a_theme_become_schemas(mem: LocalMemory) -> None:
    """Of order 2 over rules, of order 3 over those; a theme with one rule is too small."""
    fails(mem, "layout.overflow", *OVERFLOWS)
    fails(mem, "layout.clip", *CLIPS)
    fails(mem, "api/timeout", "search timed out", "login timed out", grader="load")
    consolidate_failures(mem, scope=SCOPE)
    levels = induce_hierarchy(mem, scope=SCOPE, min_size=2)
    assert (levels.found, levels.written, levels.too_small) == (3, 1, 2)
    fails(mem, "api/error", "search failed badly", "login failed badly", grader="load")
    consolidate_failures(mem, scope=SCOPE)
    levels = induce_hierarchy(mem, scope=SCOPE, min_size=2)
    assert (levels.found, levels.written, levels.unchanged) == (3, 2, 1)
    assert reconciles(levels)
    assert sorted((schema.subject, schema.detail["order"]) for schema in levels) == [
        ("all of repo:app", 3), ("api", 2), ("layout", 2),
    ]  # fmt: skip
    assert all(schema.trust is Trust.CANDIDATE and schema.derived_from for schema in levels)


def test_a_hierarchy_falls_with_what_it_rests_on(mem: LocalMemory) -> None:
    """All the way up from the failures."""
    ids = [*fails(mem, "layout.overflow", *OVERFLOWS), *fails(mem, "layout.clip", *CLIPS)]
    librarian_pass(mem, scope=SCOPE)
    assert {record.kind for record in mem.all()} == {MemoryKind.FAILURE, MemoryKind.DESIGN_RULE, MemoryKind.SCHEMA}
    for id in ids:
        mem.forget(id)
    assert list(mem.all()) == []


def test_a_schema_that_lost_a_member_says_so(mem: LocalMemory) -> None:
    """At the next pass; one that is left with a single member is gone."""
    fails(mem, "layout.overflow", *OVERFLOWS)
    clips = fails(mem, "layout.clip", *CLIPS)
    breaks = fails(mem, "layout.break", "a headline breaks early", "a label breaks early")
    librarian_pass(mem, scope=SCOPE)
    before = held(mem, "layout", "schema")
    assert before is not None and "layout.clip" in before.text
    for id in clips:
        mem.forget(id)
    librarian_pass(mem, scope=SCOPE)
    after = held(mem, "layout", "schema")
    assert after is not None
    assert ("layout.clip" in after.text, "layout.break" in after.text) == (False, True)
    for id in breaks:
        mem.forget(id)
    librarian_pass(mem, scope=SCOPE)
    assert held(mem, "layout", "schema") is None
    assert held(mem, "layout.overflow") is not None


def test_six_passes_without_new_evidence_raise_nothing(mem: LocalMemory) -> None:
    """Neither trust nor confidence nor support; the first pass wrote what the others leave alone."""
    fails(mem, "layout.overflow", *OVERFLOWS)
    fails(mem, "layout.clip", *CLIPS)
    first = librarian_pass(mem, scope=SCOPE)
    assert first.summary() == "librarian[repo:app]: +2 rules, +1 schemas, +0 graduated, -0 pruned"
    before = state(mem)
    for _ in range(6):
        report = librarian_pass(mem, scope=SCOPE, children=["repo:a", "repo:b"])
        assert report.summary() == "librarian[repo:app]: +0 rules, +0 schemas, +0 graduated, -0 pruned"
    assert state(mem) == before
    assert all(row["trust"] is Trust.CANDIDATE for row in before)


def test_new_evidence_is_what_a_rule_rests_on_from_then(mem: LocalMemory) -> None:
    """It keeps its words; it does not become more believed by being derived again."""
    fails(mem, "overflow", *OVERFLOWS)
    (rule,) = consolidate_failures(mem, scope=SCOPE)
    (third,) = fails(mem, "overflow", "the footer overflows on a watch")
    again = consolidate_failures(mem, scope=SCOPE)
    after = mem.get(rule.id)
    assert (again.written, again.unchanged) == (0, 1)
    assert after is not None and third in after.derived_from
    assert (after.text, after.epistemic_confidence, after.support_count) == (
        rule.text, rule.epistemic_confidence, rule.support_count,
    )  # fmt: skip


def test_a_reworded_answer_does_not_demote_a_verified_rule(mem: LocalMemory) -> None:
    """The model is not even asked about what is known; about what is not, it is."""
    fails(mem, "overflow", *OVERFLOWS)
    (rule,) = consolidate_failures(mem, scope=SCOPE, chat=says({"condition": "it is wide", "action": "wrap it"}))
    assert rule.text == "when it is wide: wrap it"
    mem.approve(rule.id)
    fails(mem, "overflow", "the footer overflows on a watch")
    fails(mem, "clip", *CLIPS)
    again = consolidate_failures(mem, scope=SCOPE, chat=says({"condition": "it is cut", "action": "grow it"}))
    assert (again.written, again.unchanged) == (1, 1)
    after = mem.get(rule.id)
    assert after is not None and (after.text, after.trust) == (rule.text, Trust.VERIFIED)


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot do that",
        [],
        {},
        {"condition": "x"},
        {"condition": "x", "action": " "},
        {"condition": "x", "action": 5},
        {"condition": "x", "action": "y" * 501},
        {"condition": "x", "action": "use sk-abcdefghijklmnopqrstuv"},
        '{"condition": "x", "action": "\\ud800"}',
        '{"condition": "x", "acti',
        [{"condition": "x", "action": "y"}],
    ],
)
def test_an_answer_that_cannot_be_read_is_counted(mem: LocalMemory, answer: Any) -> None:
    """No rule is made of it, and it may be asked again."""
    fails(mem, "overflow", *OVERFLOWS)
    made = consolidate_failures(mem, scope=SCOPE, chat=says(answer))
    assert (made.found, made.unparsed, len(made)) == (1, 1, 0)
    assert reconciles(made)
    assert consolidate_failures(mem, scope=SCOPE, chat=says({"condition": "x", "action": "y"})).written == 1


def test_a_model_that_is_down_is_counted_too(mem: LocalMemory) -> None:
    """Like one that answers nonsense."""

    def down(_: str) -> str:
        raise ChatFailed("HTTP 503", may_retry=True)

    fails(mem, "overflow", *OVERFLOWS)
    assert consolidate_failures(mem, scope=SCOPE, chat=down).unparsed == 1


def test_a_model_words_principles(mem: LocalMemory) -> None:
    """Grouping is not left to it."""
    fails(mem, "layout.overflow", *OVERFLOWS)
    fails(mem, "layout.clip", *CLIPS)
    consolidate_failures(mem, scope=SCOPE)
    levels = induce_hierarchy(mem, scope=SCOPE, chat=says({"principle": "boxes must fit what is in them"}))
    assert [schema.text for schema in levels] == ["boxes must fit what is in them"]


@pytest.mark.parametrize("chat", [None, says({"condition": "other", "action": "words"})])
def test_a_rejected_rule_does_not_come_back(mem: LocalMemory, chat: Chat | None) -> None:
    """Not in other words either; another kind is not held back by it."""
    fails(mem, "overflow", *OVERFLOWS)
    (rule,) = consolidate_failures(mem, scope=SCOPE)
    mem.reject(rule.id, reason="it is not so")
    assert (made := consolidate_failures(mem, scope=SCOPE, chat=chat)).refused == 1
    assert reconciles(made)
    assert mem.recall("overflows", scope=SCOPE) == []
    fails(mem, "clip", *CLIPS)
    assert consolidate_failures(mem, scope=SCOPE).written == 1


def test_rejected_failures_are_no_evidence(mem: LocalMemory) -> None:
    """A reviewer said that one was none; then there is no pattern."""
    first, _ = fails(mem, "overflow", *OVERFLOWS)
    mem.reject(first, reason="flaky")
    assert consolidate_failures(mem, scope=SCOPE).too_small == 1


def test_a_pattern_of_two_repositories_graduates(mem: LocalMemory) -> None:
    """As a candidate, once; what one of them knows stays there."""
    for scope in ("repo:a", "repo:b"):
        rule = mem.write(
            MemoryRecord(
                kind=MemoryKind.DESIGN_RULE, subject="overflow", predicate="design_rule", text="wrap it", scope=scope
            )
        )  # fmt: skip
        mem.approve(rule.id)
    reports = [librarian_pass(mem, scope="global", children=["repo:a", "repo:b"]) for _ in range(2)]
    assert [report.graduated for report in reports] == [1, 0]
    lifted = mem.get(make_id(make_key("overflow", "design_rule", "global")))
    assert lifted is not None and lifted.trust is Trust.CANDIDATE


def test_what_has_faded_is_pruned(mem: LocalMemory) -> None:
    """In a year from now; what is verified is not."""
    kept, faded = (mem.write(MemoryRecord(subject=name, predicate="is", text="so")) for name in ("kept", "faded"))
    mem.approve(kept.id)
    mem.contradict(faded.id)
    assert faded.created_at is not None
    assert librarian_pass(mem, scope=SCOPE).pruned == 0
    assert librarian_pass(mem, scope=SCOPE, now=faded.created_at + timedelta(days=365)).pruned == 1
    assert [record.id for record in mem.all()] == [kept.id]


@pytest.mark.parametrize("number", [1, 0, -3])
def test_one_is_no_pattern(mem: LocalMemory, number: int) -> None:
    """Whoever asks for less than two is told."""
    with pytest.raises(Invalid, match="min_cluster"):
        consolidate_failures(mem, scope=SCOPE, min_cluster=number)
    with pytest.raises(Invalid, match="min_size"):
        induce_hierarchy(mem, scope=SCOPE, min_size=number)


def test_what_is_consolidated_is_a_sequence_and_adds_up() -> None:
    """Like a list of records, with counts."""
    records: Sequence[MemoryRecord] = [MemoryRecord(text=text) for text in "ab"]
    one = Consolidated((records[0],), found=2, written=1, refused=1)
    both = one + Consolidated((records[1],), found=1, unchanged=1)
    assert (list(both), len(both), both[0], list(both[1:])) == (list(records), 2, records[0], [records[1]])
    assert reconciles(both)
