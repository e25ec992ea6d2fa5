"""What every memory promises, whatever lies behind it: one class of scenarios, inherited by a test class for each door.

A door opens two stores: one in which nobody is enrolled, and a guarded one with `ADMIN`, `ALICE` and `BOB`. Scenarios
share them, so each keeps to a subject of its own. Beside every refusal stands the same call as it is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import time
from typing import Any, NamedTuple

import pytest

from veridical.client.blocking import BlockingMemory
from veridical.client.envelope import command_id
from veridical.client.system import SystemClock, SystemEntropy
from veridical.client.trust import SignedWrite
from veridical.memory import (
    BEGINNING,
    MemoryKind,
    MemoryRecord,
    MemoryView,
    Principal,
    ScopeLattice,
    Trust,
    correction_chain,
    recall_budgeted,
    remember_conversation,
    rules,
)
from veridical.memory.errors import Conflict, HistoryChanged, Invalid, Refused, TooLarge
from veridical.security.keys import KeyPair
from veridical.trust.conversation import Grade
from veridical.verdict import GateReceipt, Report, Runner, Verdict, attest_fact, signed_report

ADMIN, ALICE, BOB = (Principal(bytes([number]) * 32) for number in (1, 2, 3))
EVERYTHING = ("read", "write", "review", "attest", "vouch", "admin")
GRADER_SEED, STRANGER_SEED = b"g" * 32, b"s" * 32
DAY_US = 86_400_000_000
HERE, ELSEWHERE = "contract/here", "elsewhere"


class Guarded(NamedTuple):
    """A store with principals, as each of them sees it. Alice writes everywhere, Bob in `contract/**` only."""

    admin: BlockingMemory
    alice: BlockingMemory
    bob: BlockingMemory

    def enroll(self) -> Guarded:
        """Enroll everybody, the administrator first; a grader may attest everywhere."""
        self.admin.enroll(ADMIN, name="the administrator", grants={"*": EVERYTHING})
        self.admin.enroll(*ALICE.enroll(), grants={"*": ["read", "write"]})
        self.admin.enroll(BOB.key_id, grants={"contract/**": ["read", "write"]})
        self.admin.enroll(Principal(GRADER_SEED), grants={"*": "attest"})
        return self


def fact(subject: str, text: str = "a value", scope: str = HERE, **fields: Any) -> MemoryRecord:
    """A record to write."""
    return MemoryRecord(subject=subject, predicate="is", text=text, scope=scope, **fields)


def receipt_for(record: MemoryRecord, runner: Runner, verdict: Verdict = Verdict.PASS, **options: Any) -> GateReceipt:
    """What a gate of that runner says of the claim that a record makes."""
    report = signed_report(Report(grader="eval", verdict=verdict), runner)
    claim: dict[str, Any] = {"subject": record.subject, "predicate": record.predicate, "text": record.text}
    return attest_fact(verdict, [report], **(claim | options), runner=runner)


def refuses(memory: BlockingMemory, rule: str, call: Callable[[], object], *ids: str) -> None:
    """The call is refused by that rule, and nothing changed: neither the records nor what is remembered of them."""

    def seen() -> list[object]:
        return [(_without_time(memory.get(id)), memory.history(id)) for id in ids]

    before = seen()
    with pytest.raises(Refused) as refusal:
        call()
    assert refusal.value.rule == rule
    assert seen() == before


def _without_time(record: MemoryRecord | None) -> object:
    """A record without what fades while the test runs."""
    return None if record is None else record.model_dump(exclude={"retrieval_strength"})


def new_id() -> str:
    """A command id, to say a thing again with."""
    return command_id(SystemClock().wall_us(), SystemEntropy().bytes(8)).hex()


class ContractOfMemory:
    """The scenarios. A door (`doors.py`) gives the fixtures `unguarded`, `guarded` and `runner`, once for a class."""

    # --- writing, in a store without principals -----------------------------------------------------------------------

    def test_it_is_a_memory(self, unguarded: BlockingMemory) -> None:
        """It keeps the interface of every store."""
        assert isinstance(unguarded, MemoryView)

    def test_a_value_is_asserted_corroborated_and_superseded(self, unguarded: BlockingMemory) -> None:
        """The interference rule: outcome, support, and the chain of corrections."""
        first = unguarded.write(fact("branch", "main", source="doc:1"))
        again = unguarded.write(fact("branch", " MAIN ", source="doc:2"))
        assert (first.outcome, again.outcome, again.support_count) == ("asserted", "corroborated", 2)
        other = unguarded.write(fact("branch", "develop"))
        assert (other.outcome, other.id, other.trust) == ("superseded", first.id, Trust.CANDIDATE)
        found = unguarded.get(first.id)
        assert found is not None
        assert [item["text"] for item in correction_chain(found)] == ["main"]

    def test_belief_is_moved_by_corroborate_and_contradict(self, unguarded: BlockingMemory) -> None:
        """Up once for each source, down for each contradiction; under 0.2 it is rejected."""
        written = unguarded.write(fact("office", "open"))
        assert unguarded.corroborate(written.id, source="doc:1").epistemic_confidence == pytest.approx(0.65)
        assert unguarded.corroborate(written.id, source="doc:1").outcome == "unchanged"
        confidences = [unguarded.contradict(written.id, reason="closed").epistemic_confidence for _ in range(2)]
        assert confidences == pytest.approx([0.4, 0.15])
        found = unguarded.get(written.id)
        assert found is not None and found.trust == Trust.REJECTED

    def test_what_was_rejected_stays_rejected(self, unguarded: BlockingMemory) -> None:
        """In every look-alike spelling, whatever was held in between; another value is welcome."""
        written = unguarded.write(fact("shop", "closed"))
        unguarded.reject(written.id, reason="it is open")
        for text in ("closed", "CLOSED ", "ｃｌｏｓｅｄ", "clo\u200bsed"):
            refuses(unguarded, rules.REJECTED_VALUE, lambda text=text: unguarded.write(fact("shop", text)), written.id)
        assert unguarded.write(fact("shop", "open")).text == "open"
        refuses(unguarded, rules.REJECTED_VALUE, lambda: unguarded.write(fact("shop", "closed")), written.id)
        assert [hit.text for hit in unguarded.recall("shop", scope=HERE)] == ["open"]

    def test_a_rejection_is_revoked_with_a_reason(self, unguarded: BlockingMemory) -> None:
        """And only then the value comes back, as a candidate."""
        written = unguarded.write(fact("bridge", "closed"))
        unguarded.reject(written.id, reason="it is open")
        refuses(unguarded, rules.STANDING_REJECTION, lambda: unguarded.promote(written.id), written.id)
        with pytest.raises(Invalid):
            unguarded.revoke_rejection(written.id, reason=" ")
        assert unguarded.revoke_rejection(written.id, reason="closed again").outcome == "rejection_revoked"
        assert unguarded.write(fact("bridge", "closed")).trust == Trust.CANDIDATE

    def test_a_caller_sets_no_trust(self, unguarded: BlockingMemory) -> None:
        """What a record claims of itself is ignored, and said to be."""
        written = unguarded.write(fact("claim", trust=Trust.VERIFIED, epistemic_confidence=1.0))
        assert (written.trust, written.epistemic_confidence) == (Trust.CANDIDATE, 0.5)
        assert written.ignored == ["trust", "epistemic_confidence"]

    def test_reserved_keys_are_the_memorys_own(self, unguarded: BlockingMemory) -> None:
        """Predicates and scopes that it keeps for itself, in any spelling."""
        for predicate, scope in (("author_trust", HERE), (" Author_Trust ", HERE), ("is", "meta:authors")):
            record = MemoryRecord(subject="me", predicate=predicate, text="trust me", scope=scope)
            refuses(unguarded, rules.RESERVED_KEY, lambda record=record: unguarded.write(record))
        assert unguarded.write(fact("me", "trust me")).outcome == "asserted"

    def test_a_repeated_command_is_done_once(self, unguarded: BlockingMemory) -> None:
        """The same id tells the first outcome; for another content it is a conflict."""
        id = new_id()
        first = unguarded.write(fact("counter", source="doc:1"), command_id=id)
        again = unguarded.write(fact("counter", source="doc:1"), command_id=id)
        assert (again.outcome, again.index, again.support_count) == ("asserted", first.index, 1)
        before = unguarded.history(first.id)
        with pytest.raises(Conflict):
            unguarded.write(fact("counter", "other"), command_id=id)
        assert unguarded.history(first.id) == before
        assert unguarded.write(fact("counter", "other"), command_id=new_id()).outcome == "superseded"

    # --- taking back --------------------------------------------------------------------------------------------------

    def test_the_last_event_is_undone_and_no_earlier_one(self, unguarded: BlockingMemory) -> None:
        """The value before it returns; then the one event that is left, and nothing is there."""
        first = unguarded.write(fact("door", "red"))
        second = unguarded.write(fact("door", "blue"))
        assert first.version is not None and second.version is not None
        made, changed = first.version, second.version
        refuses(unguarded, rules.OVERTAKEN, lambda: unguarded.undo(first.id, made, reason="a typo"), first.id)
        restored = unguarded.undo(first.id, changed, reason="a typo")
        assert restored is not None and (restored.text, restored.outcome) == ("red", "undone")
        refuses(unguarded, rules.OVERTAKEN, lambda: unguarded.undo(first.id, changed, reason="a typo"), first.id)

    def test_forgetting_is_undone_by_its_event(self, unguarded: BlockingMemory) -> None:
        """`forget` says where it stands in history."""
        written = unguarded.write(fact("plan", "secret"))
        done = unguarded.forget(written.id, reason="asked to")
        assert (done.outcome, (done.event.epoch, done.event.index)) == ("forgotten", unguarded.last_seen)
        assert unguarded.get(written.id) is None
        refuses(unguarded, rules.FORGOTTEN_SOURCE, lambda: unguarded.write(fact("plan", "secret")), written.id)
        restored = unguarded.undo(written.id, done.event, reason="the wrong one")
        assert restored is not None and restored.text == "secret"

    def test_an_assertion_that_is_undone_leaves_nothing(self, unguarded: BlockingMemory) -> None:
        """There is no value before the first one."""
        written = unguarded.write(fact("slip"))
        assert written.version is not None
        assert unguarded.undo(written.id, written.version, reason="a slip") is None
        assert unguarded.get(written.id) is None

    # --- what rests on what -------------------------------------------------------------------------------------------

    def test_what_is_derived_falls_with_what_it_rests_on(self, unguarded: BlockingMemory) -> None:
        """From every read, in the same event; what rests on something else stays and no longer names it."""
        premise, other = (
            unguarded.write(fact("premise", "it rains")),
            unguarded.write(fact("other premise", "it pours")),
        )
        alone = unguarded.write(fact("alone", "umbrella", derived_from=[premise.id]))
        both = unguarded.write(fact("both", "raincoat", derived_from=[premise.id, other.id]))
        assert (alone.derived_from, alone.support_count, alone.trust) == ([premise.id], 0, Trust.CANDIDATE)
        assert [hit.id for hit in unguarded.recall("umbrella", scope=HERE)] == [alone.id]
        done = unguarded.forget(premise.id)
        assert unguarded.get_many([premise.id, alone.id]) == [None, None]
        assert unguarded.recall("umbrella", scope=HERE) == []
        [item] = unguarded.history(alone.id)
        assert item.ended_by == "forgotten" and premise.id in item.ended_reason
        left = unguarded.get(both.id)
        assert left is not None and left.derived_from == [other.id]
        refuses(unguarded, rules.SOURCE_GONE, lambda: unguarded.write(fact("late", derived_from=[premise.id])), both.id)
        for id in (premise.id, alone.id):
            assert unguarded.undo(id, done.event, reason="the wrong one") is not None
        assert [hit.id for hit in unguarded.recall("umbrella", scope=HERE)] == [alone.id]

    def test_deriving_is_not_stating(self, unguarded: BlockingMemory) -> None:
        """It supports nothing, neither what it repeats nor what it rests on; an independent source does."""
        first, second = (unguarded.write(fact(f"sign {number}", "smoke")) for number in range(2))
        stated = unguarded.write(fact("cause", "fire", source="doc:1"))
        again = unguarded.write(fact("cause", "FIRE", derived_from=[first.id, second.id]))
        assert (again.outcome, again.support_count, again.epistemic_confidence) == ("repeated", 1, 0.5)
        circle = fact("sign 0", "smoke", derived_from=[stated.id])
        refuses(unguarded, rules.CIRCULAR_SOURCE, lambda: unguarded.write(circle), first.id)
        assert unguarded.write(fact("cause", "fire", source="doc:2")).support_count == 2

    def test_what_rests_on_a_rejected_record_is_recalled_no_more(self, unguarded: BlockingMemory) -> None:
        """A premise that turns out wrong takes its consequences along."""
        premise = unguarded.write(fact("verdict", "safe"))
        rule = unguarded.write(fact("rule", "ladder", derived_from=[premise.id]))
        assert [hit.id for hit in unguarded.recall("ladder", scope=HERE)] == [rule.id]
        unguarded.reject(premise.id, reason="refuted")
        assert unguarded.recall("ladder", scope=HERE) == []

    def test_nothing_is_derived_from_what_may_not_be_read(self, guarded: Guarded) -> None:
        """It is as if it were not there; who may read it may rest something on it."""
        secret = guarded.alice.write(fact("hidden premise", scope=ELSEWHERE))
        for source in (secret.id, "0" * 32):
            refused = fact("leak", derived_from=[source])
            refuses(guarded.bob, rules.SOURCE_GONE, lambda refused=refused: guarded.bob.write(refused))
        assert guarded.alice.write(fact("leak", derived_from=[secret.id])).derived_from == [secret.id]

    # --- corrections --------------------------------------------------------------------------------------------------

    def test_a_fact_is_corrected(self, unguarded: BlockingMemory) -> None:
        """The old value is recalled no more; it is in the chain of corrections, with the reason."""
        old = unguarded.write(fact("Ivo's tea", "green tea", metadata={"turn": 1}))
        new = unguarded.correct(old.id, "black tea", reason="misheard", metadata={"by": "Ivo"})
        assert (new.outcome, new.id, new.metadata) == ("superseded", old.id, {"turn": 1, "by": "Ivo"})
        assert [hit.text for hit in unguarded.recall("Ivo tea", scope=HERE)] == ["black tea"]
        found = unguarded.get(old.id)
        assert found is not None
        assert [(item["text"], item["ended_reason"]) for item in correction_chain(found)] == [("green tea", "misheard")]

    def test_a_sentence_is_corrected(self, unguarded: BlockingMemory) -> None:
        """By another record: the old one is reachable by history, and does not come back from its source."""
        said = MemoryRecord(text="Ada lives in Bristol", scope=HERE)
        old = unguarded.write(said)
        new = unguarded.correct(old.id, "Ada lives in Cardiff")
        assert (new.outcome, new.corrections_count) == ("superseded", 1)
        assert [hit.id for hit in unguarded.recall("where Ada lives", scope=HERE)] == [new.id]
        found, gone = unguarded.get_many([new.id, old.id])
        assert found is not None and gone is None
        assert [item["text"] for item in correction_chain(found)] == ["Ada lives in Bristol"]
        [item] = unguarded.history(old.id)
        assert item.ended_by == "superseded" and new.id in item.ended_reason
        refuses(unguarded, rules.CORRECTED_VALUE, lambda: unguarded.write(said), old.id, new.id)
        independent = MemoryRecord(text="Ada lives in Bristol", scope=HERE, source="doc:ada")
        assert unguarded.write(independent).outcome == "asserted"

    def test_sentences_are_merged_into_one(self, unguarded: BlockingMemory) -> None:
        """Only that one is recalled; its history lists the others."""
        merged = [unguarded.write(MemoryRecord(text=f"Max plays {what}", scope=HERE)) for what in ("chess", "go")]
        new = unguarded.correct([record.id for record in merged], "Max plays chess and go", reason="merged")
        assert [hit.id for hit in unguarded.recall("Max plays", scope=HERE)] == [new.id]
        assert {item.text for item in unguarded.history(new.id)} == {
            "Max plays chess and go", "Max plays chess", "Max plays go",
        }  # fmt: skip

    def test_what_others_verified_is_not_corrected(self, guarded: Guarded) -> None:
        """A fact contends, a sentence is refused; whoever supports it corrects it."""
        held = guarded.alice.write(fact("the port", "7400"))
        told = guarded.alice.write(MemoryRecord(text="the port is 7400", scope=HERE))
        for record in (held, told):
            guarded.admin.approve(record.id)
        assert guarded.bob.correct(held.id, "7500").outcome == "conflicted"
        refuses(guarded.bob, rules.NOT_YOURS, lambda: guarded.bob.correct(told.id, "it is 7500"), told.id)
        assert guarded.alice.correct(told.id, "the port is 7500").text == "the port is 7500"

    def test_a_statement_is_taken_back(self, guarded: Guarded) -> None:
        """What somebody else states stays, with one voice less; what nobody states is gone, and may be said again."""
        held = guarded.alice.write(fact("the motto", "keep it simple"))
        assert guarded.bob.write(fact("the motto", "keep it simple")).trust == Trust.VERIFIED
        assert guarded.bob.withdraw(held.id, reason="never liked it").outcome == "unsaid"
        found = guarded.alice.get(held.id)
        assert found is not None and (found.support_count, found.epistemic_confidence) == (1, 0.5)
        assert found.trust == Trust.CANDIDATE
        refuses(guarded.bob, rules.NOT_STATED, lambda: guarded.bob.withdraw(held.id), held.id)
        rests = guarded.bob.write(fact("the poster", "simple", derived_from=[held.id]))
        guarded.alice.withdraw(held.id)
        assert guarded.alice.get_many([held.id, rests.id]) == [None, None]
        assert guarded.bob.write(fact("the motto", "keep it simple")).outcome == "asserted"

    # --- episodes -----------------------------------------------------------------------------------------------------

    def test_an_episode_is_kept_and_found_only_as_such(self, unguarded: BlockingMemory) -> None:
        """As it was said, with its place; a recall that does not ask for episodes finds facts."""
        spoken = datetime(2026, 5, 1, 12, tzinfo=UTC)
        first = unguarded.remember_episode("Zoe likes figs.", scope=HERE, source="chat:figs", occurred=spoken)
        second = unguarded.remember_episode(
            "And\n  dates, says Zoe.", scope=HERE, source="chat:figs", follows=first, metadata={"turn": 2}
        )
        assert (first.kind, first.valid_from, second.follows) == (MemoryKind.EPISODE, spoken, first.id)
        assert (second.text, second.metadata) == ("And\n  dates, says Zoe.", {"turn": 2})
        again = unguarded.remember_episode("Zoe likes figs.", scope=HERE, source="chat:figs", occurred=spoken)
        assert (again.outcome, again.id) == ("repeated", first.id)
        assert unguarded.recall("Zoe figs dates", scope=HERE) == []
        fact_about = unguarded.write(fact("Zoe", "likes figs", derived_from=[first.id]))
        assert [hit.id for hit in unguarded.recall("Zoe figs dates", scope=HERE)] == [fact_about.id]
        hits = unguarded.recall("Zoe figs dates", scope=HERE, kind=MemoryKind.EPISODE)
        assert {hit.id for hit in hits} == {first.id, second.id}
        assert {first.id, second.id} <= {record.id for record in unguarded.all(scope=HERE)}
        assert not {first.id, second.id} & {item.record.id for item in unguarded.review_queue(scope=HERE, limit=100)}

    def test_a_long_episode_is_kept_whole_or_refused(self, unguarded: BlockingMemory) -> None:
        """Never shortened, never lost; its last words are found."""
        text = "lorem ipsum " * 15_000 + "quixotic"
        kept = unguarded.remember_episode(text, scope=HERE, source="book")
        found = unguarded.get(kept.id)
        assert found is not None and found.text == text
        assert [hit.id for hit in unguarded.recall("quixotic", scope=HERE, kind=MemoryKind.EPISODE)] == [kept.id]
        with pytest.raises(TooLarge):
            unguarded.remember_episode("x" * 200_001, scope=HERE)

    def test_forgetting_an_episode_forgets_what_only_it_states(self, unguarded: BlockingMemory) -> None:
        """Fed again it stays forgotten, and the caller is told; what another source states stays, with less support."""
        episode = unguarded.remember_episode("Theo is 15 and tall.", scope=HERE, source="chat:theo")
        age = unguarded.write(fact("Theo's age", "15", derived_from=[episode.id]))
        tall = unguarded.write(fact("Theo's size", "tall", derived_from=[episode.id]))
        assert (age.support_count, tall.support_count) == (1, 1)
        assert unguarded.write(fact("Theo's size", "tall", source="doc:theo")).support_count == 2
        unguarded.forget(episode.id)
        assert unguarded.get(age.id) is None
        left = unguarded.get(tall.id)
        assert left is not None and (left.support_count, left.epistemic_confidence) == (1, 0.5)

        def fed_again() -> MemoryRecord:
            return unguarded.remember_episode("Theo is 15 and tall.", scope=HERE, source="chat:theo")

        refuses(unguarded, rules.FORGOTTEN_SOURCE, fed_again, episode.id)
        again = fact("Theo's age", "15", derived_from=[episode.id])
        refuses(unguarded, rules.SOURCE_GONE, lambda: unguarded.write(again), age.id)

    def test_an_episode_is_not_judged(self, unguarded: BlockingMemory) -> None:
        """What was said was said; what was taken from it is believed or not."""
        episode = unguarded.remember_episode("The moon is made of cheese.", scope=HERE, source="chat:moon")
        for judge in (unguarded.corroborate, unguarded.promote, unguarded.approve, unguarded.reject):
            refuses(unguarded, rules.IS_SOURCE, lambda judge=judge: judge(episode.id), episode.id)
        taken = unguarded.write(fact("the moon", "cheese", derived_from=[episode.id]))
        assert unguarded.reject(taken.id).trust == Trust.REJECTED

    def test_an_erased_record_is_gone_for_good(self, unguarded: BlockingMemory) -> None:
        """From every read, with what it was before; who said it may not say it again, and no event brings it back."""
        written = unguarded.write(fact("erasable", "a first secret"))
        unguarded.write(fact("erasable", "a second secret"))
        with pytest.raises(Invalid):
            unguarded.erase(written.id, reason=" ")
        assert [hit.id for hit in unguarded.recall("erasable", scope=HERE)] == [written.id]
        done = unguarded.erase(written.id, reason="asked to")
        assert (done.outcome, unguarded.get(written.id)) == ("erased", None)
        assert {item.text for item in unguarded.history(written.id)} == {""}
        assert unguarded.recall("erasable", scope=HERE) == []
        event = done.event
        for call in (
            lambda: unguarded.write(fact("erasable", "a second secret")),
            lambda: unguarded.undo(written.id, event, reason="please"),
        ):
            with pytest.raises(Refused):
                call()
        told = unguarded.watch(BEGINNING, ids=[written.id], follow=False)
        assert [(change.kind, change.record) for change in told] == [
            ("asserted", None),
            ("superseded", None),
            ("erased", None),
        ]
        assert unguarded.write(fact("erasable", "another", source="doc:2")).text == "another"

    def test_what_was_forgotten_can_be_erased(self, unguarded: BlockingMemory) -> None:
        """Its history is emptied too; what was never held cannot be."""
        written = unguarded.write(fact("forgotten", "a secret"))
        unguarded.forget(written.id)
        assert {item.text for item in unguarded.history(written.id)} == {"a secret"}
        assert unguarded.erase(written.id, reason="asked to").outcome == "erased"
        assert {item.text for item in unguarded.history(written.id)} == {""}
        refuses(unguarded, rules.UNKNOWN_RECORD, lambda: unguarded.erase("0" * 32, reason="asked to"))

    # --- receipts -----------------------------------------------------------------------------------------------------

    def test_the_stores_own_runner_attests(self, unguarded: BlockingMemory, runner: Runner) -> None:
        """While nobody is enrolled; nobody else does."""
        written = unguarded.write(fact("build", "passes"))
        stranger = receipt_for(written, Runner(KeyPair(STRANGER_SEED)))
        refuses(unguarded, rules.RECEIPT_STRANGER, lambda: unguarded.attest(written.id, stranger), written.id)
        attested = unguarded.attest(written.id, receipt_for(written, runner))
        assert (attested.outcome, attested.trust) == ("attested", Trust.VERIFIED)

    def test_a_fail_rejects(self, unguarded: BlockingMemory, runner: Runner) -> None:
        """A verdict is a verdict."""
        written = unguarded.write(fact("tests", "pass"))
        assert unguarded.attest(written.id, receipt_for(written, runner, Verdict.FAIL)).trust == Trust.REJECTED
        refuses(unguarded, rules.REJECTED_VALUE, lambda: unguarded.write(fact("tests", "PASS")), written.id)

    def test_a_receipt_is_worth_nothing_when(self, guarded: Guarded) -> None:
        """It is forged, expired, about something else, or of a key that may not attest; a good one verifies."""
        grader = Runner(KeyPair(GRADER_SEED))
        late = Runner(KeyPair(GRADER_SEED), lambda: grader.wall_us() - 40 * DAY_US)
        written = guarded.alice.write(fact("deploy", "by pipeline"))
        good = receipt_for(written, grader)
        bad = {
            rules.RECEIPT_FORGED: good.model_copy(update={"signature": "0" * 128}),
            rules.RECEIPT_STRANGER: receipt_for(written, Runner(KeyPair(STRANGER_SEED))),
            rules.RECEIPT_EXPIRED: receipt_for(written, late),
            rules.RECEIPT_OTHER_CLAIM: receipt_for(written, grader, text="by hand"),
            rules.RECEIPT_OTHER_SCOPE: receipt_for(written, grader, scope=ELSEWHERE),
        }
        for rule, receipt in bad.items():
            refuses(guarded.alice, rule, lambda receipt=receipt: guarded.alice.attest(written.id, receipt), written.id)
        refuses(guarded.alice, rules.MALFORMED, lambda: guarded.alice.attest(written.id, {"form": 1}), written.id)
        assert guarded.alice.attest(written.id, good).trust == Trust.VERIFIED

    def test_a_receipt_is_spent_by_its_first_use(self, guarded: Guarded) -> None:
        """The same claim in another scope needs a receipt of its own."""
        grader = Runner(KeyPair(GRADER_SEED))
        here, there = (guarded.alice.write(fact("release", scope=scope)) for scope in (HERE, ELSEWHERE))
        receipt = receipt_for(here, grader)
        assert guarded.alice.attest(here.id, receipt).trust == Trust.VERIFIED
        refuses(guarded.alice, rules.RECEIPT_SPENT, lambda: guarded.alice.attest(there.id, receipt), there.id)
        assert guarded.alice.attest(there.id, receipt_for(there, grader, scope=ELSEWHERE)).trust == Trust.VERIFIED

    # --- principals ---------------------------------------------------------------------------------------------------

    def test_two_principals_verify_and_one_does_not(self, guarded: Guarded) -> None:
        """However often the one repeats itself, whatever sources it cites."""
        for source in ("", "doc:1", "doc:2"):
            assert guarded.alice.write(fact("auth", "JWT", source=source)).trust == Trust.CANDIDATE
        assert guarded.bob.write(fact("auth", "jwt")).trust == Trust.VERIFIED

    def test_a_verified_value_is_not_overwritten_by_others(self, guarded: Guarded) -> None:
        """Another value contends; one of those who support it may correct it."""
        guarded.alice.write(fact("cache", "redis"))
        guarded.admin.write(fact("cache", "redis"))
        contending = guarded.bob.write(fact("cache", "none"))
        assert (contending.outcome, contending.text) == ("conflicted", "redis")
        id, no_value = contending.id, "0" * 32
        refuses(guarded.admin, rules.UNKNOWN_VALUE, lambda: guarded.admin.approve(id, value=no_value), id)
        assert guarded.alice.write(fact("cache", "memcached")).outcome == "superseded"

    def test_only_reviewers_review(self, guarded: Guarded) -> None:
        """Whatever a reviewer does needs the right in that scope; with it, it happens."""
        written = guarded.alice.write(fact("port", "7400"))
        assert written.version is not None
        id, version = written.id, written.version
        for call in (
            lambda: guarded.alice.approve(id),
            lambda: guarded.alice.promote(id),
            lambda: guarded.alice.reject(id),
            lambda: guarded.alice.demote(id),
            lambda: guarded.alice.edit(id, "7401"),
            lambda: guarded.alice.undo(id, version, reason="mine"),
            lambda: guarded.alice.revoke_rejection(id, "7402", reason="mine"),
        ):
            refuses(guarded.alice, rules.NOT_GRANTED, call, id)
        approved = guarded.admin.approve(id, reason="seen in the configuration")
        assert (approved.trust, approved.reason) == (Trust.VERIFIED, "seen in the configuration")
        edited = guarded.admin.edit(id, "7401", reason="it moved")
        assert (edited.text, edited.trust) == ("7401", Trust.VERIFIED)
        assert guarded.admin.reject(id, reason="it is off").trust == Trust.REJECTED
        refuses(guarded.admin, rules.REJECTED_VALUE, lambda: guarded.admin.edit(id, "7401"), id)
        assert guarded.admin.edit(id, "7402").trust == Trust.VERIFIED

    def test_reviewers_find_what_waits_for_them(self, guarded: Guarded) -> None:
        """Contended values first, with the digests that decide on them, then candidates; each with its evidence."""
        scope = "contract/queue"
        for memory in (guarded.alice, guarded.admin):
            memory.write(fact("store", "redis", scope))
        guarded.bob.write(fact("store", "none", scope, source="doc:7", provenance=["doc:7"]))
        lone = guarded.bob.write(fact("rumour", "told once", scope))
        twice = guarded.bob.write(fact("hearsay", "told twice", scope, source="doc:1"))
        guarded.bob.write(fact("hearsay", "another", scope))
        guarded.alice.contradict(twice.id, reason="I was there")
        first, second, third = guarded.admin.review_queue(scope=scope)
        assert (first.record.text, first.record.trust, first.supporters) == ("redis", Trust.VERIFIED, 2)
        (contender,) = first.contenders
        assert (contender.text, contender.author, contender.provenance) == ("none", BOB.key_id, ["doc:7"])
        assert {second.record.id, third.record.id} == {lone.id, twice.id}
        told = second if second.record.id == twice.id else third
        assert (told.confirmed_by, told.principals_needed, told.contradictions) == (1, 2, 1)
        assert [item.text for item in told.record.corrections] == ["told twice"]
        assert told.author is not None and told.author.author == BOB.key_id
        assert (told.author_standing, first.author_standing) == ("enrolled", "enrolled")
        shown = guarded.admin.review_item(twice.id)
        assert shown is not None and (shown.contradictions, shown.value) == (1, told.value)
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.review_item(twice.id))
        preferred = guarded.admin.approve(first.record.id, value=contender.value, reason="seen")
        assert (preferred.text, preferred.trust) == ("none", Trust.VERIFIED)
        guarded.admin.reject(twice.id, reason="not so")
        assert [item.record.id for item in guarded.admin.review_queue(scope=scope)] == [lone.id]

    def test_a_queue_comes_in_pages(self, guarded: Guarded) -> None:
        """Everything once, in the same order, whatever the size of a page."""
        scope = "contract/pages"
        written = {guarded.bob.write(fact(f"page {number}", scope=scope)).id for number in range(7)}
        whole = [item.record.id for item in guarded.admin.review_queue(scope=scope)]
        page, paged = guarded.admin.review_queue(scope=scope, limit=3), list[str]()
        while True:
            paged += [item.record.id for item in page]
            if not page.cursor:
                break
            page = guarded.admin.review_queue(scope=scope, limit=3, after=page)
        assert paged == whole
        assert set(whole) == written

    def test_only_reviewers_see_the_queue(self, guarded: Guarded) -> None:
        """With the right in one scope, that scope; without it, none."""
        for memory in (guarded.alice, guarded.bob):
            refuses(guarded.admin, rules.NOT_GRANTED, lambda memory=memory: memory.review_queue())
        here, there = "contract/mine", "contract/yours"
        for scope in (here, there):
            guarded.alice.write(fact("seen by", scope=scope))
        guarded.admin.grant(BOB, here, "review")
        for scope, seen in ((here, True), (there, False)):
            id = guarded.alice.write(fact("seen by", scope=scope)).id
            assert (guarded.bob.review_item(id) is not None) == seen
        assert {item.record.scope for item in guarded.bob.review_queue()} == {here}
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.review_queue(scope=there))
        assert {item.record.scope for item in guarded.admin.review_queue(scope=[here, there])} == {here, there}
        guarded.admin.ungrant(BOB, here, "review")
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.review_queue())

    def test_everybody_knows_itself_and_administrators_know_all(self, guarded: Guarded) -> None:
        """Names, rights and reputation; nobody else's."""
        known = {principal.key: principal for principal in guarded.admin.principals()}
        assert {ADMIN.key_id, ALICE.key_id, BOB.key_id} <= set(known)
        assert known[ADMIN.key_id].name == "the administrator"
        assert (known[BOB.key_id].standing, known[BOB.key_id].grants["contract/**"]) == ("enrolled", ["read", "write"])
        assert [principal.key for principal in guarded.bob.principals()] == [BOB.key_id]
        assert guarded.bob.author_trust(BOB) == guarded.admin.author_trust(BOB)
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.author_trust(ALICE))
        before = guarded.admin.author_trust(BOB)
        guarded.admin.approve(guarded.bob.write(fact("promise", "kept")).id)
        guarded.admin.reject(guarded.bob.write(fact("boast", "idle")).id)
        after = guarded.admin.author_trust(BOB)
        assert (after.kept, after.lost) == (before.kept + 1, before.lost + 1)
        assert guarded.admin.author_trust(Principal(b"n" * 32)).rate == 0.5

    def test_the_lattice_is_shown_as_far_as_it_may_be_read(self, guarded: Guarded) -> None:
        """Bob sees no scope that he may not read, neither as a child nor as a parent."""
        guarded.admin.set_scope_parent("contract/x", "contract/y")
        guarded.admin.set_scope_parent("contract/y", "elsewhere/z")
        assert guarded.alice.lattice().ancestors("contract/x") == ("contract/y", "elsewhere/z")
        assert guarded.bob.lattice().parents == {"contract/x": "contract/y"}

    def test_rejected_values_are_listed(self, unguarded: BlockingMemory) -> None:
        """With their texts, until the rejection is revoked."""
        written = unguarded.write(fact("window", "open"))
        assert unguarded.rejections(written.id) == []
        unguarded.reject(written.id, reason="it is shut")
        unguarded.write(fact("window", "shut"))
        ((value, text),) = unguarded.rejections(written.id)
        assert (len(value), text) == (32, "open")
        unguarded.revoke_rejection(written.id, "open", reason="it was opened")
        assert unguarded.rejections(written.id) == []

    def test_a_grant_bounds_what_is_written(self, guarded: Guarded) -> None:
        """Bob has no right elsewhere, until it is given to him; then it is taken again."""
        record = fact("lamp", scope=ELSEWHERE)
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.write(record))
        assert guarded.bob.write(fact("lamp")).outcome == "asserted"
        assert guarded.admin.grant(BOB, ELSEWHERE, ["read", "write"]).outcome == "granted"
        written = guarded.bob.write(record)
        assert guarded.admin.ungrant(BOB, ELSEWHERE, ["read", "write"]).outcome == "taken"
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.write(record), written.id)

    def test_a_grant_bounds_what_is_read(self, guarded: Guarded) -> None:
        """By id, by words and one by one: what lies elsewhere is not there for Bob, and asking for it is refused."""
        here, there = (guarded.alice.write(fact("vault", "a secret", scope=scope)) for scope in (HERE, ELSEWHERE))
        for memory, seen in ((guarded.alice, {here.id, there.id}), (guarded.bob, {here.id})):
            assert {record.id for record in memory.get_many([here.id, there.id]) if record is not None} == seen
            assert {hit.id for hit in memory.recall("vault secret", k=10)} == seen
            assert {record.id for record in memory.all() if record.subject == "vault"} == seen
            assert (ELSEWHERE in memory.scopes()) == (there.id in seen)
            assert bool(memory.history(there.id)) == (there.id in seen)
        refuses(guarded.bob, rules.NOT_GRANTED, lambda: guarded.bob.recall("vault", scope=ELSEWHERE))
        refuses(guarded.bob, rules.NOT_GRANTED, lambda: list(guarded.bob.all(scope=[HERE, ELSEWHERE])))
        assert [hit.id for hit in guarded.alice.recall("vault secret", scope=ELSEWHERE)] == [there.id]

    def test_only_administrators_administer(self, guarded: Guarded) -> None:
        """Enrolling, granting, revoking and settings are theirs; and one of them always remains."""
        other = Principal(b"o" * 32)
        for call in (
            lambda: guarded.alice.enroll(other),
            lambda: guarded.alice.grant(ALICE, "*", "review"),
            lambda: guarded.alice.ungrant(BOB, "contract/**", "write"),
            lambda: guarded.alice.revoke(BOB, reason="a rival"),
            lambda: guarded.alice.set_scope_parent(HERE, "global"),
            lambda: guarded.alice.set_multi_valued("*", "likes"),
        ):
            refuses(guarded.admin, rules.NOT_GRANTED, call)
        refuses(guarded.admin, rules.LAST_ADMINISTRATOR, lambda: guarded.admin.revoke(ADMIN, reason="tired"))
        refuses(guarded.admin, rules.LAST_ADMINISTRATOR, lambda: guarded.admin.ungrant(ADMIN, "*", "admin"))
        refuses(guarded.admin, rules.KNOWN_KEY, lambda: guarded.admin.enroll(ALICE))
        refuses(guarded.admin, rules.STRANGER, lambda: guarded.admin.grant(other, "*", "read"))
        assert guarded.admin.enroll(other).outcome == "enrolled"

    def test_only_administrators_erase(self, guarded: Guarded) -> None:
        """Who may write may forget; and who reads there hears that it was erased, and nothing else of it."""
        here, there = (guarded.alice.write(fact("erased", "a secret", scope=scope)) for scope in (HERE, ELSEWHERE))
        refuses(guarded.alice, rules.NOT_GRANTED, lambda: guarded.alice.erase(here.id, reason="asked to"), here.id)
        with guarded.bob.watch() as changes:
            for record in (there, here):
                assert guarded.admin.erase(record.id, reason="asked to").outcome == "erased"
            change = next(changes)
            while change.kind != "erased":
                change = next(changes)
        assert (change.kind, change.id, change.scope, change.record) == ("erased", here.id, HERE, None)
        assert guarded.alice.get_many([here.id, there.id]) == [None, None]

    def test_a_revoked_key_says_nothing_more(self, guarded: Guarded) -> None:
        """A stranger's key neither; an enrolled one does."""
        carol = Principal(b"c" * 32)

        def says(text: str) -> SignedWrite:
            return guarded.alice.remember_signed(carol, subject="carol", predicate="is", scope=HERE, text=text)

        refuses(guarded.admin, rules.NOT_GRANTED, lambda: says("unknown"))
        guarded.admin.enroll(carol, grants={HERE: "write"})
        id = says("here")["id"]
        guarded.admin.revoke(carol, reason="the key was lost")
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: says("gone"), id)
        refuses(guarded.admin, rules.KNOWN_KEY, lambda: guarded.admin.enroll(carol))

    def test_a_rotated_key_is_the_same_principal(self, guarded: Guarded) -> None:
        """The successor agrees with its signature; what it repeats is no second voice, and the old key is silent."""
        dave, erin = Principal(b"d" * 32), Principal(b"e" * 32)
        guarded.admin.enroll(dave, grants={HERE: "write"})

        def says(author: Principal) -> SignedWrite:
            return guarded.alice.remember_signed(author, subject="dave", predicate="is", scope=HERE, text="one person")

        assert says(dave)["reason"] == "written as candidate (authenticated)"
        refuses(guarded.admin, rules.WRONG_PROOF, lambda: guarded.admin.rotate(dave, Impostor(erin)))
        assert guarded.admin.rotate(dave, erin).outcome == "rotated"
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: says(dave))
        again = says(erin)
        assert (again["outcome"], again["reason"]) == ("repeated", "written as candidate (authenticated)")

    def test_a_signed_write_is_verified_by_its_evidence(self, guarded: Guarded) -> None:
        """A receipt about the claim; one about another claim leaves it a candidate, and the reason is told."""
        grader = Runner(KeyPair(GRADER_SEED))
        claim = fact("sessions", "JWT, 15-min expiry")

        def says(evidence: GateReceipt, id: str | None = None) -> SignedWrite:
            return guarded.alice.remember_signed(
                ALICE, subject=claim.subject, predicate=claim.predicate, text=claim.text, scope=HERE,
                evidence=evidence.model_dump(), command_id=id,
            )  # fmt: skip

        first = says(receipt_for(claim, grader, text="cookies"))
        assert (first["written"], first["reverified"], first["author"]) == (True, False, ALICE.key_id)
        assert rules.RECEIPT_OTHER_CLAIM in first["reason"]
        receipt, id = receipt_for(claim, grader), new_id()
        for _ in range(2):  # the second time it is the same call, as after an outcome that was not known
            result = says(receipt, id)
            assert (result["reverified"], result["reason"]) == (True, "verified by a fact-bound attestation")
        found = guarded.alice.get(first["id"])
        assert found is not None and found.trust == Trust.VERIFIED

    def test_a_signed_write_displaces_nothing_verified(self, guarded: Guarded) -> None:
        """It says that it stands in conflict."""
        for author in (ALICE, ADMIN):
            guarded.admin.remember_signed(author, subject="queue", predicate="is", scope=HERE, text="kafka")
        result = guarded.bob.remember_signed(BOB, subject="queue", predicate="is", scope=HERE, text="rabbit")
        assert (result["conflict"], result["written"]) == (True, False)
        refuses(
            guarded.bob,
            rules.RESERVED_KEY,
            lambda: guarded.bob.remember_signed(BOB, subject="b", predicate="tool", scope=HERE, text="x"),
        )

    # --- the change feed ----------------------------------------------------------------------------------------------

    def test_every_change_is_told_in_order(self, unguarded: BlockingMemory) -> None:
        """What was written, corrected and forgotten since; from any cursor on, and again from the beginning."""
        with unguarded.watch() as changes:
            written = unguarded.write(fact("feed", "one"))
            unguarded.write(fact("feed", "two"))
            done = unguarded.forget(written.id)
            told = [next(changes) for _ in range(3)]
        assert [(change.kind, change.id, change.scope, change.gone) for change in told] == [
            ("asserted", written.id, HERE, False),
            ("superseded", written.id, HERE, False),
            ("forgotten", written.id, HERE, True),
        ]
        assert [change.record.text if change.record else None for change in told] == ["one", "two", None]
        assert (told[2].command_id, told[2].epoch, told[2].cursor.index) == (
            done.command_id,
            done.event.epoch,
            done.event.index,
        )
        for after, rest in ((BEGINNING, told), (told[0].cursor.spelled(), told[1:]), (told[1].cursor, told[2:])):
            again = unguarded.watch(after, ids=[written.id], follow=False)
            assert [change.cursor for change in again] == [change.cursor for change in rest]
            assert again.cursor is not None and again.cursor >= told[2].cursor

    def test_a_feed_is_filtered(self, unguarded: BlockingMemory) -> None:
        """By scope and by what happened; a kind or a place that does not exist is refused."""
        with unguarded.watch(scope="feed/a", kinds=["superseded"]) as changes:
            for scope in ("feed/a", "feed/b"):
                for text in ("one", "two"):
                    unguarded.write(fact("filtered", text, scope=scope))
            assert (next(changes).scope, changes.cursor is not None) == ("feed/a", True)
        everything = unguarded.watch(BEGINNING, scope="feed/b", follow=False)
        assert [change.kind for change in everything] == ["asserted", "superseded"]
        no_kinds: list[str] = []
        for wrong in (
            lambda: unguarded.watch(kinds=["superceded"]),
            lambda: unguarded.watch(kinds=no_kinds),
            lambda: unguarded.watch(ids=["12"]),
            lambda: unguarded.watch("somewhere"),
        ):
            with pytest.raises(Invalid):
                wrong()

    def test_a_cursor_of_another_history_is_refused(self, unguarded: BlockingMemory) -> None:
        """What is here is named, and can be begun with."""
        with pytest.raises(HistoryChanged) as changed:
            unguarded.watch(("f" * 32, 3))
        assert list(unguarded.watch((changed.value.history, unguarded.last_seen[1] + 1), follow=False)) == []

    def test_a_feed_ends_with_its_memory_or_by_itself(self, unguarded: BlockingMemory) -> None:
        """Closed, it tells nothing more, whatever waits."""
        unguarded.write(fact("closing"))
        changes = unguarded.watch(BEGINNING)
        assert next(changes).kind
        changes.close()
        assert list(changes) == []

    def test_a_grant_bounds_what_is_told(self, guarded: Guarded) -> None:
        """Bob hears of his own scopes, and may not ask for others; Alice hears of both."""
        here, there = (guarded.alice.write(fact("told", scope=scope)) for scope in (HERE, ELSEWHERE))
        for memory, seen in ((guarded.alice, [here.id, there.id]), (guarded.bob, [here.id])):
            changes = memory.watch(BEGINNING, ids=[here.id, there.id], follow=False)
            assert [change.id for change in changes] == seen
        with pytest.raises(Refused) as refusal:
            guarded.bob.watch(scope=ELSEWHERE)
        assert refusal.value.rule == rules.NOT_GRANTED
        assert [change.id for change in guarded.bob.watch(BEGINNING, scope=HERE, ids=[here.id], follow=False)] == [
            here.id
        ]

    # --- what is shared -----------------------------------------------------------------------------------------------

    def test_a_failure_is_marked_fixed_and_nothing_else_is(self, unguarded: BlockingMemory) -> None:
        """It is verified and pinned; a fact does not become true that way."""
        failure = unguarded.write(
            MemoryRecord(kind=MemoryKind.FAILURE, subject="card", predicate="fails", text="overflow", scope=HERE)
        )
        fixed = unguarded.mark_fixed(failure.id)
        assert (fixed.trust, fixed.pinned) == (Trust.VERIFIED, True)
        claim = unguarded.write(fact("card"))
        refuses(unguarded, rules.OTHER_KIND, lambda: unguarded.mark_fixed(claim.id), claim.id)

    def test_siblings_graduate_to_their_parent(self, unguarded: BlockingMemory) -> None:
        """What two of them verified, as a candidate; what one knows stays with it."""
        for scope in ("repo:a", "repo:b"):
            unguarded.approve(unguarded.write(fact("logging", "json lines", scope=scope)).id)
        unguarded.approve(unguarded.write(fact("secret", "of a", scope="repo:a")).id)
        lifted = unguarded.graduate("team:f", ["repo:a", "repo:b"])
        assert [(record.scope, record.text, record.trust) for record in lifted if isinstance(record, MemoryRecord)] == [
            ("team:f", "json lines", Trust.CANDIDATE)
        ]
        with pytest.raises(Invalid):
            unguarded.graduate("team:f", ["repo:a", "repo:b"], min_scopes=1)

    # --- time ---------------------------------------------------------------------------------------------------------

    def test_the_past_is_asked_for(self, unguarded: BlockingMemory) -> None:
        """What was held then, by every way of reading; a superseded value that was forgotten by none but `get`."""
        old = unguarded.write(fact("Ida's home", "a flat in Lisbon"))
        then = old.updated_at
        new = unguarded.write(fact("Ida's home", "a house in Porto"))
        assert (new.id, new.outcome) == (old.id, "superseded")
        for text, moment in (("a flat in Lisbon", then), ("a house in Porto", None)):
            (listed,) = (hit.text for hit in unguarded.all(scope=HERE, as_of=moment) if hit.subject == "Ida's home")
            held = unguarded.get(old.id, as_of=moment)
            (many,) = unguarded.get_many([old.id], as_of=moment)
            assert held is not None and many is not None
            assert {listed, held.text, many.text} == {text}
            assert [hit.text for hit in unguarded.recall("Lisbon Porto", scope=HERE, as_of=moment)] == [text]
            assert unguarded.history(old.id, as_of=moment)[0].text == text
        lattice = ScopeLattice({HERE: "global"})
        recalled = unguarded.lattice_recall("Lisbon", scope=HERE, lattice=lattice, as_of=then)
        assert [hit.text for hit in recalled] == ["a flat in Lisbon"]
        assert recall_budgeted(unguarded, "Lisbon", scope=HERE, token_budget=500, as_of=then).records
        assert not recall_budgeted(unguarded, "Lisbon", scope=HERE, token_budget=500).records
        unguarded.forget(old.id)
        assert unguarded.recall("Lisbon", scope=HERE, as_of=then) == []
        assert [hit for hit in unguarded.all(scope=HERE, as_of=then) if hit.subject == "Ida's home"] == []

    def test_what_was_true_is_asked_for(self, unguarded: BlockingMemory) -> None:
        """At a time of the world, whenever it was said."""
        march, june, august = (datetime(2024, month, 1, tzinfo=UTC) for month in (3, 6, 8))
        unguarded.write(fact("Noa's job", "a baker", valid_from=march))
        told = unguarded.write(fact("Noa's job", "a pilot", valid_from=june))
        for moment, text in ((march, "a baker"), (august, "a pilot"), (None, "a pilot")):
            held = unguarded.get(told.id, valid_at=moment)
            assert held is not None and held.text == text
            assert [hit.text for hit in unguarded.recall("Noa", scope=HERE, valid_at=moment)] == [text]
            assert unguarded.history(told.id, valid_at=moment)[0].text == text

    def test_who_had_it_then(self, unguarded: BlockingMemory) -> None:
        """Everybody of whom a predicate said that, at a moment."""

        def role(name: str, text: str) -> MemoryRecord:
            return unguarded.write(MemoryRecord(subject=name, predicate="role", text=text, scope="staff"))

        role("Uri", "an Admin")
        then = role("Vera", "an Admin").updated_at
        role("Uri", "a guest")
        admins = unguarded.members_as_of("Role", value="an admin", scope="staff", as_of=then)
        assert {record.subject for record in admins} == {"Uri", "Vera"}
        assert [record.subject for record in unguarded.members_as_of("role", value="an admin", scope="staff")] == [
            "Vera"
        ]
        assert len(unguarded.members_as_of("role", scope="staff")) == 2

    def test_a_time_needs_its_zone(self, unguarded: BlockingMemory) -> None:
        """A naive one is refused, and what no database holds; with a zone, or in seconds, it is answered."""
        held = unguarded.write(fact("clock", "ticks"))
        for wrong in (datetime(2024, 3, 1), float("nan"), float("inf"), 1e30):  # noqa: DTZ001
            for read in (
                lambda wrong=wrong: unguarded.get(held.id, as_of=wrong),
                lambda wrong=wrong: unguarded.recall("clock", valid_at=wrong),
                lambda wrong=wrong: list(unguarded.all(as_of=wrong)),
                lambda wrong=wrong: unguarded.history(held.id, as_of=wrong),
            ):
                with pytest.raises(Invalid, match=r"as_of|valid_at"):
                    read()
        assert unguarded.get(held.id, as_of=time() + 60) is not None
        assert unguarded.get(held.id, as_of=0.0) is None

    def test_the_past_is_guarded_as_the_present(self, guarded: Guarded) -> None:
        """Whoever may not read a scope may not read what it held."""
        old = guarded.alice.write(fact("locker", "code 1234", scope=ELSEWHERE))
        guarded.alice.write(fact("locker", "code 9999", scope=ELSEWHERE))
        then = old.updated_at
        assert [hit.text for hit in guarded.alice.recall("locker", scope=ELSEWHERE, as_of=then)] == ["code 1234"]
        assert guarded.bob.get(old.id, as_of=then) is None
        assert guarded.bob.history(old.id, as_of=then) == []
        assert guarded.bob.recall("locker 1234", as_of=then) == []
        assert [hit for hit in guarded.bob.all(as_of=then) if hit.scope == ELSEWHERE] == []
        refuses(guarded.bob, rules.NOT_GRANTED, lambda: guarded.bob.recall("locker", scope=ELSEWHERE, as_of=then))

    def test_a_recall_says_why(self, unguarded: BlockingMemory) -> None:
        """The rank of each hit, how well it fits, and the lanes that it came by."""
        unguarded.write(fact("piano", "needs tuning"))
        found = unguarded.recall("piano tuning", scope=HERE)
        (why,) = found.explain()
        assert (why.id, why.score, why.relevance) == (found[0].id, found[0].score, 1.0)
        assert why.lanes["words"] > 0

    def test_a_lattice_is_recalled_upwards(self, unguarded: BlockingMemory) -> None:
        """The scope and all that it lies within, not its siblings; the more specific first."""
        lattice = ScopeLattice({"shop:x": "mall:m", "shop:y": "mall:m", "mall:m": "city:c"})
        for scope in ("city:c", "mall:m", "shop:x", "shop:y"):
            unguarded.write(fact("hours", "nine to five", scope=scope))
        hits = unguarded.lattice_recall("hours", scope="shop:x", lattice=lattice, k=4)
        assert [hit.scope for hit in hits] == ["shop:x", "mall:m", "city:c"]
        assert [hit.scope for hit in unguarded.lattice_recall("hours", scope="shop:x", lattice=lattice, k=1)] == [
            "shop:x"
        ]

    def test_a_lattice_hides_no_verified_hit(self, unguarded: BlockingMemory) -> None:
        """However many candidates of however many scopes fit better: it has a place among the first k."""
        lattice = ScopeLattice({"den:x": "cave:m"})
        told = unguarded.write(MemoryRecord(subject="kiln", predicate="is", text="fires at night", scope="cave:m"))
        unguarded.approve(told.id)
        for number in range(8):
            text = f"kiln kiln heat {number}"
            unguarded.write(MemoryRecord(subject=f"kiln heat {number}", predicate="kiln", text=text, scope="den:x"))
        hits = unguarded.lattice_recall("kiln heat", scope="den:x", lattice=lattice, k=3)
        assert len(hits) == 3 and told.id in {hit.id for hit in hits}

    def test_scopes_are_placed_without_a_circle(self, unguarded: BlockingMemory) -> None:
        """Each has one parent; taking it out is a placement too."""
        assert unguarded.set_scope_parent("part:a", "part:b").outcome == "set"
        refuses(unguarded, rules.LATTICE_CYCLE, lambda: unguarded.set_scope_parent("part:b", "part:a"))
        assert unguarded.set_scope_parent("part:a", None).outcome == "set"
        assert unguarded.set_scope_parent("part:b", "part:a").outcome == "set"

    def test_declared_predicates_hold_many_values(self, unguarded: BlockingMemory) -> None:
        """Side by side there, one after the other elsewhere."""
        unguarded.set_multi_valued("person:*", "is")
        for scope, held in (("person:dana", {"a cook", "a pilot"}), (HERE, {"a pilot"})):
            for text in ("a cook", "a pilot"):
                unguarded.write(fact("dana", text, scope=scope))
            assert {record.text for record in unguarded.all(scope=scope) if record.subject == "dana"} == held

    def test_a_peers_belief_comes_in_as_a_candidate(self, unguarded: BlockingMemory) -> None:
        """However sure the peer was; what it rejected does not come in."""
        belief = unguarded.approve(unguarded.write(fact("wine", "red", scope="peer:x")).id)
        taken = unguarded.import_belief(belief, "lab", scope="peer:y")
        assert (taken.trust, taken.scope, taken.source) == (Trust.CANDIDATE, "peer:y", "import:lab")
        assert "trust" in taken.ignored
        rejected = unguarded.reject(belief.id)
        with pytest.raises(Invalid):
            unguarded.import_belief(rejected, "lab", scope="peer:z")

    # --- conversations ------------------------------------------------------------------------------------------------

    def test_a_conversation_is_graded_by_who_says_it(self, guarded: Guarded) -> None:
        """Two speakers whom a holder of `vouch` has authenticated verify; one alone, or without that right, do not."""
        speakers = {"session 1": "carol", "session 2": "dave"}

        def told(memory: BlockingMemory, source: str, authenticate: Callable[[str], str | None] | None) -> list[Grade]:
            report = remember_conversation(
                memory, "We use the pump", scope=HERE, source=source, authenticate=authenticate,
                chat=lambda _: '[{"subject": "pump", "predicate": "is", "text": "in use"}]',
            )  # fmt: skip
            return [graded.grade for graded in report.facts]

        assert told(guarded.admin, "session 1", speakers.get) == [Grade.CANDIDATE]
        assert told(guarded.admin, "session 1", speakers.get) == [Grade.CANDIDATE]
        with pytest.raises(Refused, match=rules.NOT_GRANTED):
            told(guarded.alice, "session 2", speakers.get)
        assert told(guarded.admin, "session 2", speakers.get) == [Grade.VERIFIED]

    def test_a_recall_keeps_its_budget(self, unguarded: BlockingMemory) -> None:
        """The verified fact goes first, whatever fits the words better."""
        told = unguarded.write(fact("kettle", "boils in a minute"))
        unguarded.approve(told.id)
        unguarded.write(fact("kettle kettle", "kettle kettle kettle"))
        roomy, tight = (recall_budgeted(unguarded, "kettle", scope=HERE, token_budget=budget) for budget in (1_000, 10))
        assert [record.subject for record in roomy.records] == ["kettle", "kettle kettle"]
        assert (tight.records[0].subject, tight.dropped, tight.over_budget) == ("kettle", 1, True)


class Impostor(Principal):
    """Somebody who names another's public key and cannot sign with it."""

    __slots__ = ("_named",)

    def __init__(self, named: Principal) -> None:
        super().__init__(STRANGER_SEED)
        self._named = named

    @property
    def public_key(self) -> bytes:
        """The other's."""
        return self._named.public_key
