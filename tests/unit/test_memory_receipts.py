"""What a receipt does to a record: it verifies or rejects it once, when its key may attest there (MEMORY § 3)."""

from __future__ import annotations

from typing import Any

import pytest
from memory_world import ALICE, BOB, CAROL, DAY_US, START_US, World, replayed

from veridical.memory import rules
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED
from veridical.memory.trust_commands import ATTEST, AttestBody
from veridical.security.keys import KeyPair
from veridical.security.principal import Principal
from veridical.verdict import GateReceipt, Report, Runner, Verdict, attest_fact, signed_report

GRADER = Runner(KeyPair(b"g" * 32), lambda: START_US)
STRANGER = Runner(KeyPair(b"s" * 32), lambda: START_US)
NEW = Principal(b"n" * 32)


@pytest.fixture
def world() -> World:
    """Carol administers, Alice and Bob write, a grader attests in the repositories."""
    world = World()
    world.guard(CAROL)
    for key in (ALICE, BOB):
        world.enroll(key, ("*", "read write"), author=CAROL)
    world.enroll(GRADER.public_key, ("repo:*", "attest"), author=CAROL)
    return world


def receipt(text: str = "JWT", verdict: Verdict = Verdict.PASS, runner: Runner = GRADER, **options: Any) -> GateReceipt:
    """A receipt about what `World.write` writes."""
    report = signed_report(Report(grader="tests", verdict=verdict), runner)
    claim: Any = {"subject": "auth", "predicate": "uses", "text": text}
    return attest_fact(verdict, [report], runner=runner, **claim, **options)


def test_a_pass_verifies(world: World) -> None:
    """Whoever brings it, as long as they may write there; confidence and strength stay what they are."""
    id = world.write("JWT", author=ALICE, volatile=True).record_id
    before = world.record(id)
    assert world.attest(id, receipt(), author=BOB).code == "attested"
    record = world.record(id)
    assert (record.trust, record.volatile_until_us, record.confidence_ppm) == (VERIFIED, None, before.confidence_ppm)
    assert world.state.principals[ALICE].kept == 1


def test_a_fail_rejects_even_a_verified_fact(world: World) -> None:
    """And bars the value."""
    id = world.write("JWT", author=ALICE).record_id
    world.approve(id, author=CAROL)
    assert world.attest(id, receipt(verdict=Verdict.FAIL), author=BOB).code == "attested"
    assert world.record(id).trust == REJECTED
    assert world.write("jwt", author=ALICE).rule == rules.REJECTED_VALUE


def test_each_receipt_is_spent_by_its_first_use(world: World) -> None:
    """Not in another scope, and not again after a reviewer has doubted it; also after a restart."""
    id = world.write("JWT", author=ALICE).record_id
    elsewhere = world.write("JWT", scope="repo:other", author=ALICE).record_id
    used = receipt()
    assert world.attest(id, used, author=ALICE).code == "attested"
    assert world.attest(elsewhere, used, author=ALICE).rule == rules.RECEIPT_SPENT
    world.demote(id, author=CAROL)
    assert world.attest(id, used, author=ALICE).rule == rules.RECEIPT_SPENT
    assert world.record(id).trust == CANDIDATE
    assert replayed(world).receipts == world.state.receipts == {next(iter(world.state.receipts)): id}


def test_a_receipt_that_changed_nothing_is_not_spent(world: World) -> None:
    """What is verified already needs none."""
    id = world.write("JWT", author=ALICE).record_id
    world.approve(id, author=CAROL)
    assert world.attest(id, receipt(), author=ALICE).code == "unchanged"
    assert world.state.receipts == {}


def test_taking_the_attestation_back_leaves_the_receipt_spent(world: World) -> None:
    """Undo is no way to use evidence twice."""
    id = world.write("JWT", author=ALICE).record_id
    used = receipt()
    world.undo(id, world.attest(id, used, author=ALICE), author=CAROL)
    assert world.record(id).trust == CANDIDATE
    assert world.attest(id, used, author=ALICE).rule == rules.RECEIPT_SPENT


@pytest.mark.parametrize(
    ("evidence", "rule"),
    [
        (receipt(runner=STRANGER), rules.RECEIPT_STRANGER),
        (receipt("cookies"), rules.RECEIPT_OTHER_CLAIM),
        (receipt(scope="repo:other"), rules.RECEIPT_OTHER_SCOPE),
        (receipt(lifetime_us=1), rules.RECEIPT_EXPIRED),
        (receipt().model_copy(update={"signature": "00" * 64}), rules.RECEIPT_FORGED),
        (receipt(scope="repo:other").model_copy(update={"scope": None}), rules.RECEIPT_FORGED),
    ],
)
def test_bad_evidence_is_refused_by_name(world: World, evidence: GateReceipt, rule: str) -> None:
    """Recorded, and nothing else changes."""
    id = world.write("JWT", author=ALICE).record_id
    world.wait(1)
    before = world.record(id)
    outcome = world.attest(id, evidence, author=ALICE)
    assert (outcome.code, outcome.rule) == ("refused", rule)
    assert world.record(id) == before
    assert world.log[-1].items[0][1][0] == "refused"


def test_the_key_must_be_in_force_in_that_scope(world: World) -> None:
    """Revoked, rotated away or granted elsewhere, a grader attests nothing."""
    there = world.write("JWT", scope="team:a", author=ALICE).record_id
    here = world.write("JWT", author=ALICE).record_id
    assert world.attest(there, receipt(), author=ALICE).rule == rules.RECEIPT_STRANGER
    world.rotate(GRADER.public_key, NEW, author=CAROL)
    assert world.attest(here, receipt(), author=ALICE).rule == rules.RECEIPT_STRANGER
    renewed = receipt(runner=Runner(KeyPair(NEW.seed), lambda: START_US))
    world.revoke(NEW.public_key, author=CAROL)
    assert world.attest(here, renewed, author=ALICE).rule == rules.RECEIPT_STRANGER


def test_bringing_a_receipt_needs_the_right_to_write(world: World) -> None:
    """Strangers bring nothing, and the right to attest is not that to write."""
    id = world.write("JWT", author=ALICE).record_id
    for author in (None, GRADER.public_key, STRANGER.public_key):
        assert world.attest(id, receipt(), author=author).rule == rules.NOT_GRANTED


def test_what_the_author_changed_since_is_not_attested(world: World) -> None:
    """The receipt is about the words that were graded."""
    id = world.write("JWT", author=ALICE).record_id
    evidence = receipt()
    world.write("cookies", author=ALICE)
    assert world.attest(id, evidence, author=ALICE).rule == rules.RECEIPT_OTHER_CLAIM


def test_a_rejection_is_not_attested_away(world: World) -> None:
    """Evidence comes too late; a reviewer revokes the rejection first."""
    id = world.write("JWT", author=ALICE).record_id
    world.reject(id, author=CAROL)
    assert world.attest(id, receipt(), author=ALICE).rule == rules.STANDING_REJECTION
    world.revoke_rejection(id, author=CAROL)
    assert world.attest(id, receipt(), author=ALICE).code == "attested"


def test_garbage_is_malformed(world: World) -> None:
    """JSON that is no receipt."""
    id = world.write("JWT", author=ALICE).record_id
    assert world.send(ATTEST, AttestBody(id, '{"a":1}'), ALICE).rule == rules.MALFORMED


def test_an_open_store_trusts_its_own_runner_only() -> None:
    """And none at all when it has none."""
    world = World()
    id = world.write("JWT").record_id
    assert world.attest(id, receipt()).rule == rules.RECEIPT_STRANGER
    world.runner_key = GRADER.public_key
    assert world.attest(id, receipt(runner=STRANGER)).rule == rules.RECEIPT_STRANGER
    assert world.attest(id, receipt()).code == "attested"
    world.wait(DAY_US)
    assert world.record(id).trust == VERIFIED
