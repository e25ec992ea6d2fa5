"""Where another memory with a trust layer was seen to fail: what must come out here, behind every door.

Beside every refusal stands the same call as it is allowed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from contract_of_memory import ELSEWHERE, GRADER_SEED, HERE, Guarded, fact, new_id, receipt_for, refuses

from veridical.client.blocking import BlockingMemory
from veridical.memory import (
    EvalCase,
    FailureLedger,
    HeldOutCorpus,
    MemoryRecord,
    PromotionGate,
    Trust,
    librarian_pass,
    regression_report,
    rules,
)
from veridical.memory.errors import Conflict, Invalid
from veridical.security.keys import KeyPair
from veridical.trust.design import DesignRule, rule_record
from veridical.verdict import Finding, Report, Runner, Verdict, attest_fact

SPELLINGS = {
    "double space": "the  office closed",
    "full width": "ｔｈｅ ｏｆｆｉｃｅ ｃｌｏｓｅｄ",
    "zero width": "the office\u200b closed",
    "no break": "the\u00a0office closed",
    "other case": "THE OFFICE CLOSED",
    "joiner": "the office closed\u2060",
    "line end": "the office closed\n",
    "direction": "\u202ethe office closed",
}


class ReferenceTrust:
    """Nothing is believed by say-so, and what was rejected does not come back by a detour."""

    def test_a_rejected_value_does_not_come_back_by_a_detour(self, unguarded: BlockingMemory) -> None:
        """Over another value, with trust in the record, under another id, with its ledger emptied; revoked, it may."""
        id = unguarded.write(fact("office", "the office closed")).id
        unguarded.reject(id, reason="it is open")
        unguarded.write(fact("office", "the office moved"))
        claims: list[dict[str, object]] = [
            {}, {"trust": Trust.VERIFIED, "epistemic_confidence": 1.0, "support_count": 99}, {"id": "0" * 32},
            {"subj_pred_key": "another|key|altogether"}, {"detail": {"rejected_values": [], "rejections": []}},
            {"metadata": {"rejections": None}}, {"source": "doc:another"}, {"pinned": True},
        ]  # fmt: skip
        for claim in claims:
            again = fact("office", "the office closed").model_copy(update=claim)
            refuses(unguarded, rules.REJECTED_VALUE, lambda again=again: unguarded.write(again), id)
        refuses(unguarded, rules.REJECTED_VALUE, lambda: unguarded.edit(id, "the office closed"), id)
        assert [value.text for value in unguarded.rejections(id)] == ["the office closed"]
        assert [hit.text for hit in unguarded.recall("office", scope=HERE)] == ["the office moved"]
        unguarded.revoke_rejection(id, "the office closed", reason="it closed after all")
        assert unguarded.write(fact("office", "the office closed")).outcome == "superseded"

    @pytest.mark.parametrize(("name", "spelling"), SPELLINGS.items(), ids=SPELLINGS)
    def test_no_spelling_gets_around_the_ledger(self, unguarded: BlockingMemory, name: str, spelling: str) -> None:
        """Refused, and not recalled; what really is another value is welcome."""
        bank = f"bank {name}"
        id = unguarded.write(fact(bank, "the office closed")).id
        unguarded.reject(id, reason="it is open")
        refuses(unguarded, rules.REJECTED_VALUE, lambda: unguarded.write(fact(bank, spelling)), id)
        assert not [hit for hit in unguarded.recall(f"{bank} office closed", scope=HERE, k=50) if hit.id == id]
        unguarded.write(fact(bank, "the office closes"))
        assert [hit.text for hit in unguarded.recall(bank, scope=HERE, k=50) if hit.id == id] == ["the office closes"]

    def test_no_key_of_the_callers_making_gets_around_interference(self, unguarded: BlockingMemory) -> None:
        """An id, a key, another normal form of the names: it is the same record, and its value is superseded."""
        first = unguarded.write(fact("Café Central", "open"))
        for subject, claim in (
            (unicodedata.normalize("NFD", "Café Central"), {}),
            ("CAFÉ CENTRAL ", {"id": "f" * 32}),
            ("Café Central", {"subj_pred_key": "nobody|ever|here"}),
        ):
            written = unguarded.write(fact(subject, f"closed since {len(claim)}").model_copy(update=claim))
            assert written.id == first.id
            assert set(claim) <= set(written.ignored)
        assert len([record for record in unguarded.all(scope=HERE) if "central" in record.subject.lower()]) == 1
        assert unguarded.write(fact("Cafe Central", "open")).id != first.id

    def test_a_signed_command_is_done_once(self, guarded: Guarded) -> None:
        """Sent again, it tells its first outcome; its id does not serve for anything else."""
        command = new_id()
        first = guarded.alice.write(fact("letter", "sent"), command_id=command)
        guarded.alice.write(fact("letter", "received"))
        again = guarded.alice.write(fact("letter", "sent"), command_id=command)
        assert (again.outcome, again.index) == ("asserted", first.index)
        held = guarded.alice.get(first.id)
        assert held is not None and held.text == "received"
        with pytest.raises(Conflict):
            guarded.alice.write(fact("letter", "burnt"), command_id=command)

    def test_an_attestation_is_about_this_claim_or_nothing(self, guarded: Guarded) -> None:
        """Not over no reports, not for another text or scope, not after the value changed; about the value it is."""
        grader = Runner(KeyPair(GRADER_SEED))
        record = guarded.alice.write(fact("schema", "is normal"))
        with pytest.raises(Invalid, match=rules.RECEIPT_EMPTY):
            attest_fact(
                Verdict.PASS, [], subject=record.subject, predicate=record.predicate, text=record.text, runner=grader
            )
        for rule, receipt in (
            (rules.RECEIPT_OTHER_CLAIM, receipt_for(record, grader, text="is not normal")),
            (rules.RECEIPT_OTHER_SCOPE, receipt_for(record, grader, scope=ELSEWHERE)),
        ):
            refuses(guarded.alice, rule, lambda receipt=receipt: guarded.alice.attest(record.id, receipt), record.id)
        good = receipt_for(record, grader)
        guarded.alice.write(fact("schema", "is denormal"))
        refuses(guarded.alice, rules.RECEIPT_OTHER_CLAIM, lambda: guarded.alice.attest(record.id, good), record.id)
        guarded.alice.write(fact("schema", "is normal"))
        assert guarded.alice.attest(record.id, good).trust == Trust.VERIFIED

    def test_nothing_from_outside_displaces_what_is_verified(self, guarded: Guarded) -> None:
        """Neither an import, nor what siblings agree on, nor a stranger's say-so: it waits beside it."""
        parent, children = "contract/parent", ["contract/child-a", "contract/child-b"]
        for memory in (guarded.alice, guarded.admin):
            held = memory.write(fact("logger", "structlog", parent))
            for child in children:
                memory.write(fact("logger", "print", child))
        belief = guarded.admin.approve(guarded.bob.write(fact("logger", "loguru", "contract/peer")).id)
        outcomes = [guarded.bob.import_belief(belief, "peer", scope=parent).outcome]
        outcomes += [one.outcome for one in guarded.bob.graduate(parent, children) if isinstance(one, MemoryRecord)]
        outcomes.append(guarded.bob.write(fact("logger", "none", parent)).outcome)
        assert outcomes == ["conflicted"] * 3
        found = guarded.alice.get(held.id)
        assert found is not None and (found.text, found.trust) == ("structlog", Trust.VERIFIED)
        assert guarded.alice.write(fact("logger", "stdlib", parent)).outcome == "superseded"

    def test_no_flood_of_candidates_hides_the_verified_fact(self, unguarded: BlockingMemory) -> None:
        """Eighty that fit better by words; it is among five. Without any verified one, five of them are."""
        scope = "flood:x"
        verified = unguarded.approve(unguarded.write(fact("deploy", "by the pipeline only", scope)).id)
        unguarded.write_many([
            fact(f"note {number}", "deploy deploy manually deploy by hand deploy", scope) for number in range(80)
        ])  # fmt: skip
        hits = unguarded.recall("deploy manually by hand", scope=scope, k=5)
        assert len(hits) == 5 and verified.id in [hit.id for hit in hits]
        unguarded.reject(verified.id)
        hits = unguarded.recall("deploy manually by hand", scope=scope, k=5)
        assert len(hits) == 5 and verified.id not in [hit.id for hit in hits]

    def test_repeating_oneself_convinces_nobody(self, guarded: Guarded) -> None:
        """Twelve times, by whatever source, in whatever spelling; somebody else's once does."""
        spellings = ["is cheese", "IS CHEESE"] * 6
        said = [guarded.alice.write(fact("moon", text, source=f"doc:{n}")) for n, text in enumerate(spellings)]
        record = said[-1]
        assert (record.support_count, record.epistemic_confidence, record.trust) == (1, 0.5, Trust.CANDIDATE)
        other = guarded.bob.write(fact("moon", "is cheese"))
        assert (other.support_count, other.trust) == (2, Trust.VERIFIED)

    def test_a_rejection_is_not_promoted_away(self, unguarded: BlockingMemory) -> None:
        """By no verb that raises trust; the answer says which rule."""
        id = unguarded.write(fact("myth", "is true")).id
        unguarded.reject(id, reason="it is not")
        for raise_it in (unguarded.promote, unguarded.approve, unguarded.corroborate):
            refuses(unguarded, rules.STANDING_REJECTION, lambda raise_it=raise_it: raise_it(id), id)
        assert unguarded.approve(unguarded.write(fact("myth", "is a myth")).id).trust == Trust.VERIFIED

    # --- failures and rules -------------------------------------------------------------------------------------------

    def test_a_fixed_failure_that_is_back_is_seen(self, unguarded: BlockingMemory) -> None:
        """Also when it was recorded before it is checked, and with another number in it; a new one is none."""
        ledger = FailureLedger(unguarded, "repo:reference")
        then, now, other = (
            Report(grader="vision", verdict=Verdict.FAIL, findings=(Finding(kind="overflow", message=message),))
            for message in ("the card overflows by 12px", "the card overflows by 7px", "the menu is clipped")
        )
        keys = ledger.record(then)
        ledger.mark_fixed(keys)
        ledger.record(now)
        ledger.record(other)
        held = ledger.get(keys[0])
        assert held is not None and (held.trust, held.pinned) == (Trust.VERIFIED, True)
        assert regression_report(ledger.check_regressions(now)).verdict == Verdict.FAIL
        assert regression_report(ledger.check_regressions(other)).verdict == Verdict.PASS

    def test_passes_of_the_librarian_raise_nothing(self, unguarded: BlockingMemory) -> None:
        """Six without new evidence; a rule that was verified keeps its words, however a model words it now."""
        scope = "repo:librarian"

        def words(action: str) -> Callable[[str], str]:
            return lambda _: f'{{"condition": "it is wide", "action": "{action}"}}'

        ledger = FailureLedger(unguarded, scope)
        for what in ("card", "menu"):
            ledger.record(_failing(Finding(kind="wide", message=f"the {what} overflows")))
        first = librarian_pass(unguarded, scope=scope, chat=words("wrap it"))
        (rule,) = first.rules
        assert (first.rules.written, rule.trust, rule.text) == (1, Trust.CANDIDATE, "when it is wide: wrap it")
        unguarded.approve(rule.id)

        def seen() -> Sequence[object]:
            records = unguarded.all(scope=scope)
            return sorted((one.id, one.trust, one.epistemic_confidence, one.support_count, one.text) for one in records)

        before = seen()
        for _ in range(6):
            report = librarian_pass(unguarded, scope=scope, chat=words("grow it"))
            assert (report.rules.written, report.schemas.written, report.graduated) == (0, 0, 0)
        assert seen() == before
        ledger.record(_failing(Finding(kind="narrow", message="the card is cut")))
        ledger.record(_failing(Finding(kind="narrow", message="the menu is cut")))
        assert librarian_pass(unguarded, scope=scope, chat=words("grow it")).rules.written == 1

    def test_decay_does_not_depend_on_how_often_it_runs(self, unguarded: BlockingMemory) -> None:
        """Twice at one moment, or now as well: the same is left. A time to live counts from the write itself."""
        written = unguarded.write(fact("snow", "lies"))
        fleeting = unguarded.write(fact("frost", "lies", ttl_s=3 * 86_400))
        assert fleeting.expires_at is not None and fleeting.updated_at is not None
        assert (fleeting.expires_at - fleeting.updated_at).total_seconds() == pytest.approx(3 * 86_400)
        unguarded.decay()
        assert unguarded.get(fleeting.id) is not None
        in_a_week = datetime.now(UTC) + timedelta(days=7)
        unguarded.decay(now=in_a_week)
        assert unguarded.decay(now=in_a_week) == 0
        assert unguarded.get(fleeting.id) is None
        held = unguarded.get(written.id)
        assert held is not None and (held.version, held.trust) == (written.version, Trust.CANDIDATE)
        assert held.retrieval_strength == pytest.approx(1.0, abs=0.01)

    @pytest.mark.parametrize("field", ["subject", "text", "provenance", "metadata"])
    def test_a_rule_is_promoted_by_what_it_does(self, unguarded: BlockingMemory, runner: Runner, field: str) -> None:
        """A good one is; one that knows the canary or was rejected is not, and the answer says what happened."""
        corpus = HeldOutCorpus(
            [
                EvalCase("a card overflows a narrow screen", f"kind {field}", "prevent"),
                EvalCase("the layout is fine on desktop", f"kind {field}", "allow"),
            ]
        )
        gate = PromotionGate(unguarded, corpus, applies=lambda _, text: "overflows" in text, runner=runner)

        def rule(name: str, **fields: object) -> MemoryRecord:
            condition = DesignRule("it is wider than the screen", "set max-width", f"kind {field}")
            record = rule_record(condition, subject=f"kind {field}", scope=f"rules:{name}-{field}")
            return unguarded.write(record.model_copy(update=fields))

        leaks: dict[str, object] = {
            "subject": f"x {corpus.canary}", "text": f"IF {corpus.canary} THEN nothing", "provenance": [corpus.canary],
            "metadata": {"note": corpus.canary},
        }  # fmt: skip
        assert gate.consider(rule("leaky", **{field: leaks[field]})).promoted is False
        rejected = rule("rejected")
        unguarded.reject(rejected.id, reason="it breaks the print view")
        result = gate.consider(rejected)
        assert result.promoted is False
        held = unguarded.get(rejected.id)
        assert held is not None and held.trust == Trust.REJECTED
        good = rule("good")
        assert gate.consider(good).promoted is True
        held = unguarded.get(good.id)
        assert held is not None and held.trust == Trust.VERIFIED


def _failing(finding: Finding) -> Report:
    return Report(grader="vision", verdict=Verdict.FAIL, findings=(finding,))
