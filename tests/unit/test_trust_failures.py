"""The failure ledger: the same failure has the same fingerprint, what was fixed is known when it is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.memory import FailureLedger, LocalMemory, MemoryKind, MemoryRecord, Trust, regression_report
from veridical.memory.errors import Refused
from veridical.trust.scrubbing import fingerprint_of, given_fingerprint, scrubbed
from veridical.verdict import Finding, Report, Verdict

SCOPE = "repo:app"
OVERFLOW = "card 'Pricing' overflows by 12px at 320px, see /tmp/run-81/shot.png:4"
LATER = "card 'Team' overflows by 7px at 375px, see /home/ci/build/9/shot.png:71"


@pytest.fixture
def mem() -> Iterator[LocalMemory]:
    """One without files."""
    with LocalMemory(":memory:") as mem:
        yield mem


@pytest.fixture
def ledger(mem: LocalMemory) -> FailureLedger:
    """That of a repository."""
    return FailureLedger(mem, SCOPE)


def failed(*messages: str, kind: str = "overflow", **fields: object) -> Report:
    """A report of a grader that found these."""
    findings = tuple(Finding.model_validate({"kind": kind, "message": text, **fields}) for text in messages)
    return Report(grader="vision", verdict=Verdict.FAIL, findings=findings)


# --- fingerprints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("took 12 ms", "took 4,711.5 ms"),
        ("wants 320px", "wants 1024px"),
        ("at 0x7ffe01", "at 0xdeadbeef"),
        ("commit 3fa9c1d failed", "commit 90ab77e0 failed"),
        ("open /tmp/a/b.txt", "open /var/x/y/z.log"),
        (r"open C:\a\b.txt", r"open D:\x.log"),
        ("in tests/test_x.py:12", "in tests/test_y.py:99:3"),
        ("key 'alpha' missing", "key 'be ta' missing"),
        ('key "alpha" missing', 'key "" missing'),
        ("at 2026-12-01T07:10:37.123Z", "at 2025-01-31 23:59:59+02:00"),
        ("at 07:10:37", "at 23:59"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id 00000000-0000-0000-0000-000000000000"),
        ("Expected\n  3 got 4", "expected 5 got -6"),
        ("delta 1e-9", "delta 2.5e+3"),
    ],
)
def test_what_varies_is_scrubbed(one: str, other: str) -> None:
    """Numbers, hex, paths, lines, quotes, times, ids, spacing, case."""
    assert scrubbed(one) == scrubbed(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rule E501", "rule E502"),
        ("utf8 expected", "utf16le expected"),
        ("card overflows", "card is clipped"),
        ("don't do it", "don't undo it"),
        ("feedface", "deadbeef"),
        ("and/or", "either"),
    ],
)
def test_what_names_a_failure_stays(one: str, other: str) -> None:
    """Codes and words do; so do words that could be hex."""
    assert scrubbed(one) != scrubbed(other)


@given(st.text())
def test_scrubbing_ends_and_says_the_same_again(message: str) -> None:
    """Whatever the message."""
    assert scrubbed(message) == scrubbed(message)


def test_a_fingerprint_is_of_grader_kind_message_and_file() -> None:
    """Each counts; the line and the folder do not."""
    finding = Finding(kind="overflow", message=OVERFLOW, where="/a/b/card.css:12")
    same = Finding(kind="overflow", message=LATER, where="C:\\x\\card.css, line 7")
    assert fingerprint_of(finding, "vision") == fingerprint_of(same, "vision")
    others = [
        finding.model_copy(update={"kind": "clipping"}),
        finding.model_copy(update={"message": "card vanishes"}),
        finding.model_copy(update={"where": "/a/b/menu.css:12"}),
    ]
    keys = {fingerprint_of(other, "vision") for other in (finding, *others)} | {fingerprint_of(finding, "other")}
    assert len(keys) == 5


def test_a_graders_own_fingerprint_decides() -> None:
    """A digest is taken as it is, a text is scrubbed, and the key of a key is the key."""
    digests = [Finding(kind="x", message="m", fingerprint=digest) for digest in ("3fa9c1d2", "90ab77e0")]
    texts = [Finding(kind=str(n), message=str(n), fingerprint=f"overflow at {n}px") for n in (1, 2)]
    assert len({fingerprint_of(finding, "g") for finding in digests}) == 2
    assert len({fingerprint_of(finding, "g") for finding in texts}) == 1
    key = given_fingerprint("3fa9c1d2")
    assert given_fingerprint(key) == key


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_every_gating_failure_is_recorded_once(mem: LocalMemory, ledger: FailureLedger) -> None:
    """As a failure, a candidate, with what the grader said; what does not gate, or passed, is not."""
    report = failed(OVERFLOW, LATER, "menu is clipped")
    (overflow, clipped) = ledger.record(report)
    held = ledger.get(overflow)
    assert held is not None
    assert (held.kind, held.trust, held.detail["message"]) == (MemoryKind.FAILURE, Trust.CANDIDATE, OVERFLOW)
    assert clipped != overflow
    assert ledger.record(failed("a hint", gating=False)) == []
    assert ledger.record(report.model_copy(update={"verdict": Verdict.PASS})) == []
    assert len(list(mem.all(scope=SCOPE))) == 2


def test_a_failure_that_recurs_gains_support_and_keeps_its_text(ledger: FailureLedger) -> None:
    """Another report is another source; the same report again is not."""
    (key,) = ledger.record(failed(OVERFLOW))
    ledger.record(failed(OVERFLOW))
    first = ledger.get(key)
    ledger.record(failed(LATER))
    second = ledger.get(key)
    assert first is not None and second is not None
    assert (first.support_count, second.support_count) == (1, 2)
    assert (second.text, second.detail, second.corrections_count) == (first.text, first.detail, 0)


def test_what_was_fixed_and_is_back_fails_the_gate(ledger: FailureLedger) -> None:
    """Also when it was recorded before it is checked, and with other numbers in it."""
    keys = ledger.record(failed(OVERFLOW))
    assert regression_report(ledger.check_regressions(failed(LATER))).verdict is Verdict.PASS  # not fixed yet
    (fixed,) = ledger.mark_fixed(keys)
    assert (fixed.trust, fixed.pinned) == (Trust.VERIFIED, True)
    ledger.record(failed(LATER, "menu is clipped"))
    held = ledger.get(keys[0])
    assert held is not None and (held.trust, held.pinned) == (Trust.VERIFIED, True)
    hits = ledger.check_regressions(failed(LATER, "menu is clipped"))
    assert [(hit.fingerprint, hit.finding.message) for hit in hits] == [(keys[0], LATER)]
    gate = regression_report(hits)
    assert (gate.grader, gate.verdict) == ("contract", Verdict.FAIL)
    assert gate.summary == "1 fixed failure came back: overflow"
    assert gate.findings[0].gating


def test_without_a_regression_the_gate_passes(ledger: FailureLedger) -> None:
    """Another failure does not fail it."""
    ledger.mark_fixed(ledger.record(failed(OVERFLOW)))
    gate = regression_report(ledger.check_regressions(failed("menu is clipped")))
    assert (gate.verdict, gate.findings) == (Verdict.PASS, ())


def test_a_graders_fingerprint_is_taken_everywhere(ledger: FailureLedger) -> None:
    """As it was given, or the key that stands for it."""
    report = failed(OVERFLOW, fingerprint="<overflow:card>")
    (key,) = ledger.record(report)
    ledger.mark_fixed(["<overflow:card>"])
    assert [hit.fingerprint for hit in ledger.check_regressions(report)] == [key]
    assert ledger.get("<overflow:card>") == ledger.get(key)


def test_an_unknown_failure_cannot_be_fixed(ledger: FailureLedger) -> None:
    """And the known one beside it is left as it was."""
    (key,) = ledger.record(failed(OVERFLOW))
    with pytest.raises(Refused, match="unknown_record"):
        ledger.mark_fixed([key, "never seen"])
    held = ledger.get(key)
    assert held is not None and held.trust is Trust.CANDIDATE


def test_a_rejected_failure_stays_rejected(mem: LocalMemory, ledger: FailureLedger) -> None:
    """A reviewer said that it is none; it is recorded no more, and fails no gate."""
    keys = ledger.record(failed(OVERFLOW, "menu is clipped"))
    held = ledger.get(keys[0])
    assert held is not None
    mem.reject(held.id, reason="the test was wrong")
    assert ledger.record(failed(OVERFLOW, "menu is clipped")) == keys
    assert [found.trust for key in keys if (found := ledger.get(key))] == [Trust.REJECTED, Trust.CANDIDATE]
    assert ledger.check_regressions(failed(OVERFLOW)) == []


def test_control_records_never_appear_in_recall(mem: LocalMemory, ledger: FailureLedger) -> None:
    """Fixed or not; a fact with the same words does."""
    ledger.mark_fixed(ledger.record(failed("card overflows")))
    mem.write(MemoryRecord(subject="card", predicate="is", text="what overflows", scope=SCOPE))
    for kind in (None, MemoryKind.FAILURE, MemoryKind.FACT):
        hits = mem.recall("card overflows", scope=SCOPE, kind=kind)
        assert [hit.text for hit in hits] == ([] if kind is MemoryKind.FAILURE else ["what overflows"])
    spelled = MemoryRecord(kind=MemoryKind.FAILURE, subject="x", predicate=" FAILS", text="card overflows", scope=SCOPE)
    mem.write(spelled)
    assert [hit.text for hit in mem.recall("card overflows", scope=SCOPE)] == ["what overflows"]


def test_ledgers_of_other_scopes_know_nothing_of_it(mem: LocalMemory, ledger: FailureLedger) -> None:
    """A failure is fixed where it was fixed; in another spelling of the scope it is the same one."""
    ledger.mark_fixed(ledger.record(failed(OVERFLOW)))
    assert FailureLedger(mem, "repo:other").check_regressions(failed(OVERFLOW)) == []
    assert len(FailureLedger(mem, "REPO:App").check_regressions(failed(OVERFLOW))) == 1


def test_secrets_and_endless_messages_are_not_kept(mem: LocalMemory, ledger: FailureLedger) -> None:
    """The fingerprint is of all of the message, so that two long ones are two failures."""
    ledger.record(failed("login with sk-abcdefghijklmnopqrstuv failed", "x" * 50_000 + " one", "x" * 50_000 + " two"))
    held = list(mem.all(scope=SCOPE))
    assert len(held) == 3
    assert "sk-abc" not in str([record.model_dump() for record in held])
    assert max(len(record.text) for record in held) == 2_000
