"""Reviews and what is taken back: only with the right, only with a reason, never around the ledger (MEMORY § 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, DAY_US, Digests, World, replayed, uuid7

from veridical.memory import rules
from veridical.memory.commands import FORGET, WRITE, ForgetBody, WriteBody, encode_body
from veridical.memory.context import Context, OperatorRights
from veridical.memory.errors import Invalid
from veridical.memory.machine import Command, Outcome, decide_envelope, evolve_entry
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED, Record, Version
from veridical.memory.state import MemoryState, Workspace
from veridical.memory.trust_commands import (
    APPROVE,
    REJECT,
    REVOKE_REJECTION,
    UNDO,
    ReviewBody,
    RevokeRejectionBody,
    UndoBody,
)
from veridical.security.keys import verify
from veridical.security.principal import Principal as Signer

DANA = b"d" * 32


@pytest.fixture
def world() -> World:
    """Carol administers and reviews; Alice, Bob and Dana write in every repository."""
    world = World()
    world.guard(CAROL)
    for key in (ALICE, BOB, DANA):
        world.enroll(key, ("repo:*", "read write"), author=CAROL)
    return world


def disputed(world: World) -> tuple[bytes, bytes]:
    """A verified fact of Alice and a contending value of Bob: the id, and the digest of that value."""
    id = world.write("JWT", author=ALICE).record_id
    world.approve(id, author=CAROL)
    assert world.write("cookies", author=BOB).code == "conflicted"
    [contender] = world.state.contending(id)
    return id, contender.value_digest


# --- approve, reject, edit ------------------------------------------------------------------------------------------


def test_only_a_reviewer_reviews(world: World) -> None:
    """Whatever the verb: without the right in that scope nothing changes."""
    id, value = disputed(world)
    before = world.state.buckets()
    for author in (ALICE, BOB, None):
        refusals = [
            world.approve(id, author=author), world.reject(id, author=author), world.edit(id, "x", author=author),
            world.approve(id, value, author=author), world.reject(id, value, author=author),
            world.revoke_rejection(id, "x", author=author), world.undo(id, world.approve(id, author=ALICE), author),
        ]  # fmt: skip
        assert {outcome.rule for outcome in refusals} == {rules.NOT_GRANTED}
    assert world.state.buckets() == before


def test_the_right_counts_in_its_scope(world: World) -> None:
    """A reviewer of one repository is none of another."""
    world.give(ALICE, "repo:app", "review", author=CAROL)
    here, there = world.write("a", author=BOB).record_id, world.write("a", scope="repo:b", author=BOB).record_id
    assert world.approve(here, author=ALICE).code == "promoted"
    assert world.approve(there, author=ALICE).rule == rules.NOT_GRANTED


def test_approving_a_contending_version_replaces_what_is_held(world: World) -> None:
    """The former value becomes a correction, and stays queryable."""
    id, value = disputed(world)
    assert world.approve(id, value, author=CAROL).code == "preferred"
    record = world.record(id)
    assert (record.text, record.trust, record.author, record.corrections_count) == ("cookies", VERIFIED, BOB.hex(), 1)
    assert world.state.contending(id) == ()
    last = world.state.history(id)[-1]
    assert (last.record.text, last.ended_by) == ("JWT", "superseded")


def test_rejecting_a_contending_version_bars_its_value(world: World) -> None:
    """What is held stays as it is; the other value does not come again, in no spelling."""
    id, value = disputed(world)
    assert world.reject(id, value, author=CAROL).code == "dismissed"
    assert (world.record(id).text, world.record(id).trust) == ("JWT", VERIFIED)
    assert world.state.contending(id) == ()
    assert world.write("COOKIES\u200b", author=DANA).rule == rules.REJECTED_VALUE
    assert world.approve(id, value, author=CAROL).rule == rules.UNKNOWN_VALUE


def test_a_value_rejected_since_cannot_be_preferred(world: World) -> None:
    """The queue refuses what the ledger refuses."""
    id, value = disputed(world)
    world.state.rejections.add((id, value))
    assert world.approve(id, value, author=CAROL).rule == rules.REJECTED_VALUE


def test_an_edit_is_verified_and_leaves_nothing_of_the_old_support(world: World) -> None:
    """The reviewer vouches for the new words; the old ones are a correction."""
    id, _ = disputed(world)
    assert world.edit(id, "JWT, 15 min", author=CAROL).code == "edited"
    record = world.record(id)
    assert (record.text, record.trust, record.author, record.support) == ("JWT, 15 min", VERIFIED, CAROL.hex(), 1)
    assert (record.confidence_ppm, record.corrections_count, record.reason) == (500_000, 1, "known better")
    assert (record.authenticated, record.corroborators, record.contradictors) == ((), (), ())
    assert len(world.state.contending(id)) == 1
    assert world.write("JWT", author=ALICE).code == "conflicted"


def test_an_edit_of_spelling_keeps_support(world: World) -> None:
    """The value is the same; only how it is written changes."""
    id = world.write("jwt", author=ALICE).record_id
    world.write("jwt", author=BOB)
    assert world.edit(id, "JWT", author=CAROL).code == "edited"
    record = world.record(id)
    assert (record.text, record.trust, record.support, record.corrections_count) == ("JWT", VERIFIED, 2, 0)
    assert world.edit(id, "JWT", author=CAROL).code == "unchanged"


def test_an_edit_refuses_what_the_ledger_refuses(world: World) -> None:
    """A reviewer revokes the rejection first, by an event of its own."""
    id = world.write("wrong", author=ALICE).record_id
    world.reject(id, author=CAROL)
    assert world.edit(id, "WRONG", author=CAROL).rule == rules.REJECTED_VALUE
    assert world.edit(id, "right", author=CAROL).code == "edited"
    assert world.record(id).trust == VERIFIED


def test_where_the_value_is_part_of_the_key_it_is_not_edited(world: World) -> None:
    """A sentence, or one of many values, would become another record."""
    world.declare("repo:*", "likes", author=CAROL)
    for id in (
        world.write("JWT", "", "", author=ALICE).record_id,
        world.write("a", "x", "likes", author=ALICE).record_id,
    ):
        assert world.edit(id, "something else", author=CAROL).rule == rules.VALUE_IS_KEY


def test_a_review_says_why(world: World) -> None:
    """Without a reason there is no review."""
    with pytest.raises(Invalid, match="reason"):
        world.send(APPROVE, ReviewBody(bytes(16), b"", " "), CAROL)
    with pytest.raises(Invalid, match="reason"):
        world.send(UNDO, UndoBody(bytes(16), (1, 1, 0), ""), CAROL)


# --- the rejection ledger -------------------------------------------------------------------------------------------


def test_a_revoked_rejection_lets_the_value_in_again_as_a_candidate(world: World) -> None:
    """By an event with a reason, which history keeps; nothing of the old doubts counts."""
    id = world.write("JWT", author=ALICE).record_id
    world.contradict(id, "x", author=BOB)
    world.reject(id, author=CAROL)
    assert world.revoke_rejection(id, author=CAROL).code == "rejection_revoked"
    record = world.record(id)
    assert (record.trust, record.confidence_ppm, record.contradictors) == (CANDIDATE, 500_000, ())
    assert record.reason == "was right after all"
    assert world.write("jwt", author=BOB).code == "corroborated"
    assert world.revoke_rejection(id, author=CAROL).code == "unchanged"


def test_a_rejection_of_a_former_value_is_revoked_by_its_text(world: World) -> None:
    """In whatever spelling; the value that is held now is not touched."""
    id = world.write("JWT", author=ALICE).record_id
    world.reject(id, author=CAROL)
    world.write("cookies", author=ALICE)
    assert world.write("JWT", author=ALICE).rule == rules.REJECTED_VALUE
    before = world.record(id)
    assert world.revoke_rejection(id, "ｊｗｔ", author=CAROL).code == "rejection_revoked"
    assert world.record(id) == before
    assert world.write("JWT", author=ALICE).code == "superseded"


def test_a_rejection_outlives_its_record(world: World) -> None:
    """Pruned or forgotten, the value stays out; only who reviews everything can revoke that then."""
    id = world.write("JWT", author=ALICE, ttl_us=1).record_id
    world.reject(id, author=CAROL)
    world.wait(DAY_US)
    assert world.forget(id, author=CAROL).code == "forgotten"
    assert world.write("JWT", author=BOB).rule == rules.REJECTED_VALUE
    world.give(ALICE, "repo:*", "review", author=CAROL)
    assert world.revoke_rejection(id, "JWT", author=ALICE).rule == rules.NOT_GRANTED
    assert world.revoke_rejection(id, "", author=CAROL).rule == rules.UNKNOWN_RECORD
    assert world.revoke_rejection(id, "JWT", author=CAROL).code == "rejection_revoked"
    assert world.write("JWT", author=BOB).code == "asserted"


# --- k principals ---------------------------------------------------------------------------------------------------


def test_two_enrolled_principals_verify_a_fact(world: World) -> None:
    """The second, different one does; repeating oneself does not."""
    id = world.write("JWT", author=ALICE, volatile=True).record_id
    for _ in range(12):
        world.write("JWT", author=ALICE)
    assert (world.record(id).trust, world.record(id).support) == (CANDIDATE, 1)
    assert world.write("jwt", author=BOB).code == "corroborated"
    record = world.record(id)
    assert (record.trust, record.authenticated, record.volatile_until_us) == (VERIFIED, (ALICE, BOB), None)


def test_corroborating_counts_as_stating(world: World) -> None:
    """By the verb, as by the same value."""
    id = world.write("JWT", author=ALICE).record_id
    assert world.corroborate(id, author=BOB).code == "endorsed"
    assert world.record(id).trust == VERIFIED


def test_support_given_to_another_value_does_not_count(world: World) -> None:
    """A new value starts from nothing."""
    world.write("JWT", author=ALICE)
    id = world.write("cookies", author=ALICE).record_id
    world.write("JWT", author=BOB)
    assert (world.record(id).trust, world.record(id).authenticated) == (CANDIDATE, (BOB,))


def test_keys_that_nobody_enrolled_verify_nothing() -> None:
    """Signing is free; in an open store it takes a review."""
    world = World()
    id = world.write("JWT", author=ALICE).record_id
    for key in range(20):
        world.write("JWT", author=bytes([key]) * 32)
    assert (world.record(id).trust, world.record(id).support) == (CANDIDATE, 21)
    world.guard(CAROL)
    world.enroll(BOB, ("repo:*", "write"), author=CAROL)
    world.write("JWT", author=BOB)
    assert (world.record(id).trust, world.record(id).authenticated) == (CANDIDATE, (BOB,))


def test_who_was_enrolled_since_is_recognised_when_it_says_it_again() -> None:
    """Saying it again adds no support, but now it counts who says it."""
    world = World()
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", author=BOB)
    world.guard(ALICE)
    world.enroll(BOB, ("*", "write"), author=ALICE)
    assert world.write("JWT", author=ALICE).code == "repeated"
    assert world.write("JWT", author=BOB).code == "repeated"
    assert (world.record(id).trust, world.record(id).support) == (VERIFIED, 2)
    assert world.state.history(id)[-1].ended_by == "repeated"


def test_support_of_a_revoked_principal_does_not_count(world: World) -> None:
    """What a stolen key has said verifies nothing later."""
    id = world.write("JWT", author=ALICE).record_id
    world.revoke(ALICE, author=CAROL)
    world.write("JWT", author=BOB)
    assert world.record(id).trust == CANDIDATE
    world.write("JWT", author=DANA)
    assert world.record(id).trust == VERIFIED


def test_what_a_reviewer_has_doubted_is_not_confirmed_by_more_voices(world: World) -> None:
    """Demoted, it stays a candidate however many say it; a review lifts that, and so does another value."""
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", author=BOB)
    world.demote(id, author=CAROL)
    for author in (ALICE, BOB, DANA):
        world.write("JWT", author=author)
    assert (world.record(id).trust, len(world.record(id).authenticated)) == (CANDIDATE, 3)
    world.approve(id, author=CAROL)
    assert (world.record(id).trust, world.record(id).doubted) == (VERIFIED, False)
    world.demote(id, author=CAROL)
    world.write("cookies", author=ALICE)
    world.write("cookies", author=BOB)
    assert world.record(id).trust == VERIFIED


def test_after_a_revoked_rejection_everybody_is_heard_anew(world: World) -> None:
    """One voice of before is not one of the two."""
    id = world.write("JWT", author=ALICE).record_id
    world.reject(id, author=CAROL)
    world.revoke_rejection(id, author=CAROL)
    assert world.record(id).authenticated == ()
    world.write("JWT", author=BOB)
    assert world.record(id).trust == CANDIDATE
    world.write("JWT", author=ALICE)
    assert world.record(id).trust == VERIFIED


def test_support_counts_for_a_person_not_for_a_key(world: World) -> None:
    """Also once the key has been rotated: whoever revokes the new one means the person."""
    id = world.write("JWT", author=ALICE).record_id
    successor = Signer(b"n" * 32)
    world.rotate(ALICE, successor, author=ALICE)
    world.write("JWT", author=successor.public_key)
    assert (world.record(id).trust, world.record(id).authenticated) == (CANDIDATE, (ALICE,))
    world.revoke(successor.public_key, author=CAROL)
    world.write("JWT", author=BOB)
    assert world.record(id).trust == CANDIDATE


def test_recalled_text_is_nobodys_statement(world: World) -> None:
    """Our own answer coming back through another principal counts for nothing."""
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", author=BOB, source=f"recall:{id.hex()}")
    assert (world.record(id).trust, world.record(id).authenticated) == (CANDIDATE, (ALICE,))


def test_an_author_who_often_was_wrong_needs_three(world: World) -> None:
    """Two rejected claims bring the reputation under 0.35."""
    for number in range(2):
        world.reject(world.write("wrong", f"topic {number}", author=ALICE).record_id, author=CAROL)
    author = world.state.principals[ALICE]
    assert (author.lost, author.reputation_ppm, author.is_distrusted) == (2, 333_333, True)
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", author=BOB)
    assert world.record(id).trust == CANDIDATE
    world.write("JWT", author=DANA)
    assert (world.record(id).trust, world.state.principals[ALICE].kept) == (VERIFIED, 1)


# --- vouching -------------------------------------------------------------------------------------------------------


def test_the_operator_vouches_for_whom_it_has_authenticated() -> None:
    """In an open store, in process: two people it knows verify a fact; one who repeats itself does not."""
    world = World()
    id = world.write("dark mode", "dana", "prefers", vouched="dana").record_id
    world.write("dark mode", "dana", "prefers", vouched=" DANA".strip())
    assert world.record(id).trust == CANDIDATE
    world.write("dark mode", "dana", "prefers", vouched="lee")
    assert world.record(id).trust == VERIFIED


def test_vouching_needs_its_right(world: World) -> None:
    """A writer cannot make up people."""
    assert world.write("JWT", author=ALICE, vouched="dana").rule == rules.NOT_GRANTED
    world.give(ALICE, "repo:*", "vouch", author=CAROL)
    id = world.write("JWT", author=ALICE, vouched="dana").record_id
    assert world.record(id).trust == CANDIDATE
    assert world.write("JWT", author=ALICE, vouched="lee").code == "corroborated"
    assert world.record(id).trust == VERIFIED


def test_somebody_vouched_for_by_key_is_the_holder_of_that_key(world: World) -> None:
    """One person is one principal, whether it signs or is vouched for."""
    world.give(BOB, "repo:*", "vouch", author=CAROL)
    id = world.write("JWT", author=ALICE).record_id
    assert world.write("JWT", author=BOB, vouched=ALICE.hex()).code == "repeated"
    assert (world.record(id).trust, world.record(id).support) == (CANDIDATE, 1)


def test_no_key_of_a_person_makes_a_second_person(world: World) -> None:
    """Neither an old one nor a new one, in whatever spelling; nor does a key that nobody enrolled, or a revoked one."""
    world.give(BOB, "repo:*", "vouch", author=CAROL)
    successor = Signer(b"n" * 32)
    world.rotate(ALICE, successor, author=ALICE)
    world.revoke(DANA, author=CAROL)
    id = world.write("JWT", author=successor.public_key).record_id
    for key in (ALICE, successor.public_key):
        for spelling in (key.hex(), key.hex().upper()):
            assert world.write("JWT", author=BOB, vouched=spelling).code == "repeated"
    for key in (DANA, b"z" * 32):
        world.write("JWT", author=BOB, vouched=key.hex())
    assert (world.record(id).trust, world.record(id).authenticated[0]) == (CANDIDATE, ALICE)
    world.enroll(b"z" * 32, ("repo:*", "write"), author=CAROL)
    assert world.write("JWT", author=b"z" * 32).code == "repeated"
    assert world.record(id).trust == VERIFIED


# --- rejecting a verified fact --------------------------------------------------------------------------------------


def test_a_verified_fact_falls_by_two_principals(world: World) -> None:
    """One may doubt it as often as it likes; of an anonymous doubt of earlier days nothing counts."""
    id = world.write("JWT", author=ALICE).record_id
    world.approve(id, author=CAROL)
    for evidence in "abc":
        world.contradict(id, evidence, author=BOB)
    assert (world.record(id).trust, world.record(id).confidence_ppm) == (VERIFIED, 0)
    world.contradict(id, "d", author=DANA)
    assert world.record(id).trust == REJECTED


def test_anonymous_doubt_is_no_principal() -> None:
    """Who was nobody when the store was open is none of the two."""
    world = World()
    id = world.write("JWT", author=ALICE).record_id
    world.contradict(id)
    world.guard(CAROL)
    world.approve(id, author=CAROL)
    world.enroll(BOB, ("*", "write"), author=CAROL)
    world.contradict(id, "1", author=BOB)
    world.contradict(id, "2", author=BOB)
    assert world.record(id).trust == VERIFIED


# --- undo -----------------------------------------------------------------------------------------------------------

REVERSIBLE: list[Callable[[World, bytes], Outcome]] = [
    lambda world, id: world.approve(id, author=CAROL),
    lambda world, id: world.reject(id, author=CAROL),
    lambda world, id: world.edit(id, "cookies", author=CAROL),
    lambda world, id: world.edit(id, "jwt", author=CAROL),
    lambda world, id: world.write("cookies", author=BOB),
    lambda world, id: world.write("JWT", author=BOB),
    lambda world, id: world.corroborate(id, author=BOB),
    lambda world, id: world.contradict(id, "x", author=BOB),
    lambda world, id: world.annotate(id, author=ALICE, metadata='{"a":1}'),
    lambda world, id: world.pin(id, author=ALICE),
    lambda world, id: world.set_flags(id, author=ALICE, ttl_us=DAY_US),
    lambda world, id: world.forget(id, author=ALICE),
]


def substance(record: Record) -> Record:
    """A row without when and why it came to be."""
    return record._replace(updated_at_us=0, version=record.version._replace(index=0), cause="", reason="")


@pytest.mark.parametrize("change", REVERSIBLE)
def test_every_change_can_be_taken_back(world: World, change: Callable[[World, bytes], Outcome]) -> None:
    """The row is what it was, its value is barred as it was, and history keeps both events."""
    id = world.write("JWT", author=ALICE).record_id
    before, events = world.record(id), len(world.state.history(id))
    done = change(world, id)
    assert world.undo(id, done, author=CAROL).code == "undone"
    assert substance(world.record(id)) == substance(before)
    assert (world.record(id).cause, world.record(id).reason) == ("undone", "a mistake")
    assert not world.state.rejected(id, before.value_digest)
    assert not world.state.retracted(id, before.value_digest, before.sources[0])
    assert len(world.state.history(id)) > events
    assert set(people_of(world).values()) == {(0, 0)}
    assert world.write("JWT", author=DANA).code == "corroborated"


@pytest.mark.parametrize("change", REVERSIBLE)
def test_taking_back_can_be_taken_back(world: World, change: Callable[[World, bytes], Outcome]) -> None:
    """It is an event like any other, the ledger and reputation included."""
    id = world.write("JWT", author=ALICE).record_id
    done = change(world, id)
    after, people = world.state.record(id), people_of(world)
    barred = {row for row in world.state.rejections if row[0] == id}
    undone = world.undo(id, done, author=CAROL)
    world.undo(id, undone, author=CAROL)
    assert {row for row in world.state.rejections if row[0] == id} == barred
    assert people_of(world) == people
    if after is None:
        assert world.record(id).text == "JWT"
    else:
        assert substance(world.record(id)) == substance(after)


def people_of(world: World) -> dict[bytes, tuple[int, int]]:
    """What is counted of everybody."""
    return {key: (row.kept, row.lost) for key, row in world.state.principals.items()}


def test_undoing_the_first_write_removes_it(world: World) -> None:
    """It was never there; unlike after forgetting, its source may say it again."""
    first = world.write("JWT", author=ALICE)
    assert world.undo(first.record_id, first, author=CAROL).code == "undone"
    assert world.state.record(first.record_id) is None
    assert world.state.history(first.record_id)[-1].ended_by == "undone"
    assert world.write("JWT", author=ALICE).code == "asserted"


def test_only_the_last_event_is_taken_back(world: World) -> None:
    """Later ones rest on it."""
    first = world.write("JWT", author=ALICE)
    id = first.record_id
    approved = world.approve(id, author=CAROL)
    pinned = world.pin(id, author=CAROL)
    assert world.undo(id, first, author=CAROL).rule == rules.OVERTAKEN
    assert world.undo(id, approved, author=CAROL).rule == rules.OVERTAKEN
    assert world.undo(bytes(16), approved, author=CAROL).rule == rules.UNKNOWN_RECORD
    assert world.undo(id, pinned, author=CAROL).code == "undone"


def test_being_recalled_does_not_hide_what_to_take_back(world: World) -> None:
    """Reinforcement and repetition are no versions of their own."""
    id = world.write("JWT", author=ALICE).record_id
    approved = world.approve(id, author=CAROL)
    world.reinforce(id)
    world.write("JWT", author=ALICE)
    assert world.undo(id, approved, author=CAROL).code == "undone"
    assert world.record(id).trust == CANDIDATE


def test_a_rejected_value_does_not_come_back_by_undoing_something_else(world: World) -> None:
    """Undoing a correction would bring back the value; its rejection stands in the way."""
    id = world.write("JWT", author=ALICE).record_id
    corrected = world.write("cookies", author=ALICE)
    world.write("JWT", "auth", "uses", author=ALICE)
    again = world.write("cookies", author=ALICE)
    assert corrected.record_id == again.record_id == id
    value = world.state.history(id)[0].record.value_digest
    world.state.rejections.add((id, value))
    assert world.undo(id, again, author=CAROL).rule == rules.REJECTED_VALUE


def test_undoing_a_preference_puts_the_contender_back(world: World) -> None:
    """Both values are where they were, for another review."""
    id, value = disputed(world)
    preferred = world.approve(id, value, author=CAROL)
    world.undo(id, preferred, author=CAROL)
    assert (world.record(id).text, world.record(id).trust) == ("JWT", VERIFIED)
    assert [rival.value_digest for rival in world.state.contending(id)] == [value]
    assert people_of(world)[BOB] == (0, 0)


def test_a_preference_that_is_restored_leaves_no_double(world: World) -> None:
    """Taking the undoing back: the preferred value is held, and waits no longer."""
    id, value = disputed(world)
    preferred = world.approve(id, value, author=CAROL)
    undone = world.undo(id, preferred, author=CAROL)
    world.undo(id, undone, author=CAROL)
    assert (world.record(id).text, world.state.contending(id)) == ("cookies", ())
    assert people_of(world)[BOB] == (1, 0)


def test_a_forgotten_record_returns_for_what_it_held_only(world: World) -> None:
    """Other values that were forgotten with it stay forgotten."""
    world.write("first", author=ALICE)
    id = world.write("second", author=ALICE).record_id
    forgotten = world.forget(id, author=ALICE)
    world.undo(id, forgotten, author=CAROL)
    assert world.record(id).text == "second"
    assert world.write("first", author=ALICE).rule == rules.FORGOTTEN_SOURCE


def test_within_one_envelope_each_command_sees_the_one_before(world: World) -> None:
    """Forgotten it is barred at once, brought back it is not; rejected and readmitted likewise."""
    id = world.write("JWT", author=ALICE).record_id
    world.give(ALICE, "repo:*", "review", author=CAROL)
    again = WriteBody("fact", "auth", "uses", "repo:app", "JWT")
    version = Version(world.epoch, len(world.log) + 1, 0)
    steps: list[tuple[str, Any]] = [
        (FORGET, ForgetBody(id)),
        (WRITE, again),
        (UNDO, UndoBody(id, version, "a mistake")),
        (WRITE, again),
        (REJECT, ReviewBody(id, b"", "wrong")),
        (WRITE, again),
        (REVOKE_REJECTION, RevokeRejectionBody(id, "", "right")),
        (WRITE, again),
    ]
    commands = [
        Command(uuid7(world.now_us, number), kind, encode_body(kind, body), ALICE)
        for number, (kind, body) in enumerate(steps)
    ]
    assert [outcome.rule or outcome.code for outcome in world.envelope(commands)] == [
        "forgotten", rules.FORGOTTEN_SOURCE, "undone", "repeated", "rejected", rules.REJECTED_VALUE,
        "rejection_revoked", "repeated",
    ]  # fmt: skip


# --- any history ----------------------------------------------------------------------------------------------------

writers = st.sampled_from([ALICE, BOB, DANA, ALICE, BOB, CAROL, None])
reviewers = st.sampled_from([CAROL, CAROL, CAROL, CAROL, ALICE])
steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(["JWT", "jwt ", "cookies", "ＪＷＴ"]), writers),
    st.tuples(st.sampled_from(["corroborate", "contradict"]), st.sampled_from("ab"), writers),
    st.tuples(st.sampled_from(["approve", "reject"]), st.sampled_from(["", "contender"]), reviewers),
    st.tuples(st.just("edit"), st.sampled_from(["JWT", "other"]), reviewers),
    st.tuples(st.just("revoke_rejection"), st.sampled_from(["", "JWT"]), reviewers),
    st.tuples(st.just("undo"), st.just(""), reviewers),
    st.tuples(st.just("undo"), st.just(""), reviewers),
    st.tuples(st.just("vouch"), st.sampled_from(["dana", "lee"]), reviewers),
    st.tuples(st.sampled_from(["approve", "reject", "forget"]), st.just(""), writers),
)
histories = st.lists(steps, max_size=25)


def live(history: list[Any]) -> World:
    """A guarded store in which that happened, to one fact."""
    world = World()
    world.guard(CAROL)
    for key in (ALICE, BOB, DANA):
        world.enroll(key, ("repo:*", "read write"), author=CAROL)
    last = world.write("JWT", author=ALICE)
    id = last.record_id
    for verb, word, author in history:
        match verb:
            case "write":
                outcome = world.write(word, author=author)
            case "vouch":
                outcome = world.write("JWT", author=author, vouched=word)
            case "approve" | "reject":
                rivals = world.state.contending(id)
                value = rivals[0].value_digest if word and rivals else b""
                outcome = getattr(world, verb)(id, value, author=author)
            case "undo":
                outcome = world.undo(id, last, author)
            case "forget":
                outcome = world.forget(id, author)
            case _:
                outcome = getattr(world, verb)(id, word, author=author)
        if outcome.code not in ("refused", "unchanged", "repeated"):
            last = outcome
    return world


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_no_history_gets_around_the_ledger(history: list[Any]) -> None:
    """A value that stands rejected is held by no record that can be recalled, whatever was done in whatever order."""
    world = live(history)
    for record in world.state.records.values():
        assert (record.trust == REJECTED) == world.state.rejected(record.id, record.value_digest)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_nothing_is_verified_but_by_a_review_or_two_principals(history: list[Any]) -> None:
    """Of everybody but the reviewer, it takes two who are enrolled."""
    world = live([step for step in history if step[2] != CAROL])
    for record in world.state.records.values():
        assert record.trust != VERIFIED or len(record.authenticated) >= 2


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_any_history_replays_to_the_same_state(history: list[Any]) -> None:
    """With its bodies to the byte, without them but for the text."""
    world = live(history)
    again, bare = replayed(world), replayed(world, with_bodies=False)
    assert again.state_digest() == world.state.state_digest()
    assert (bare.rejections, bare.retractions) == (world.state.rejections, world.state.retractions)
    trusts = {id: (record.trust, record.authenticated) for id, record in bare.records.items()}
    assert trusts == {id: (record.trust, record.authenticated) for id, record in world.state.records.items()}
    assert {key: row._replace(name="") for key, row in world.state.principals.items()} == bare.principals


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, st.integers(2, 5))
def test_how_a_history_is_cut_into_batches_does_not_matter(history: list[Any], size: int) -> None:
    """Many entries folded in one overlay give what one at a time gives: what is lifted in it counts, too."""
    world, batched = live(history), MemoryState()
    for start in range(0, len(world.log), size):
        workspace = Workspace(batched)
        for entry in world.log[start : start + size]:
            evolve_entry(workspace, entry.index, 1, entry.time_us, entry.author, entry.heads, entry.items, entry.bodies)
        batched.apply(workspace)
    assert batched.state_digest() == world.state.state_digest()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_deciding_leaves_what_folding_leaves(history: list[Any]) -> None:
    """On one overlay that never is applied, a leader decides the same events, and stands where the fold stands."""
    world, base = live(history), MemoryState()
    overlay = Workspace(base)
    for entry in world.log:
        named = zip(entry.heads, entry.bodies, strict=True)
        commands = [Command(id, kind, content or b"", entry.author) for (id, kind), content in named]
        context = Context(Digests(), OperatorRights(), 1, verify)
        assert decide_envelope(overlay, commands, entry.time_us, context, entry.index) == entry.items
    base.apply(overlay)
    assert base.state_digest() == world.state.state_digest()
