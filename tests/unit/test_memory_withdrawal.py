"""A statement is taken back: what others state stays, with the support that is left; what nobody states is gone."""

from __future__ import annotations

from typing import Any

import pytest
from memory_world import ALICE, BOB, CAROL, World, replayed

from veridical.memory import rules
from veridical.memory.machine import Outcome
from veridical.memory.record import CANDIDATE, VERIFIED
from veridical.security.keys import KeyPair
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report


@pytest.fixture
def world() -> World:
    """A store in which nobody is enrolled."""
    return World()


@pytest.fixture
def guarded() -> World:
    """Carol administers; Alice and Bob write in every repository."""
    world = World()
    world.guard(CAROL)
    for key in (ALICE, BOB):
        world.enroll(key, ("repo:*", "read write"), author=CAROL)
    return world


def test_what_somebody_else_states_stays(guarded: World) -> None:
    """With one voice less, in support, confidence, and towards verification."""
    guarded.promote(guarded.write("JWT", "other", author=ALICE).record_id, author=CAROL)
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.corroborate(id, author=BOB)
    assert (guarded.record(id).trust, guarded.record(id).confidence_ppm) == (VERIFIED, 650_000)
    assert guarded.withdraw(id, author=BOB).code == "unsaid"
    record = guarded.record(id)
    assert (record.support, record.confidence_ppm, record.authenticated) == (1, 500_000, (ALICE,))
    assert (record.trust, record.doubted) == (CANDIDATE, False)
    assert (len(record.principals), record.corroborators) == (1, ())
    last = guarded.state.history(id)[-1]
    assert (last.record.support, last.ended_by) == (2, "unsaid")
    assert guarded.withdraw(id, author=BOB).rule == rules.NOT_STATED
    assert replayed(guarded).state_digest() == guarded.state.state_digest()


def test_what_nobody_states_any_more_is_gone(guarded: World) -> None:
    """With what rests on it; but it is not barred, and may be said again."""
    id = guarded.write("JWT", author=ALICE).record_id
    rule = guarded.write("stateless", "login", author=BOB, derived_from=(id,)).record_id
    assert guarded.withdraw(id, author=ALICE).code == "unsaid"
    assert (guarded.state.record(id), guarded.state.record(rule)) == (None, None)
    last = guarded.state.history(id)[-1]
    assert (last.ended_by, last.reason) == ("unsaid", "not sure any more")
    assert guarded.write("JWT", author=ALICE).code == "asserted"


def test_who_has_not_said_so_takes_nothing_back(guarded: World) -> None:
    """Nor who has only derived it, nor a stranger; an episode is no statement."""
    premise = guarded.write("a", "premise", author=ALICE).record_id
    id = guarded.write("JWT", author=ALICE, derived_from=(premise,)).record_id
    for author in (ALICE, BOB):
        assert guarded.withdraw(id, author=author).rule == rules.NOT_STATED
    assert guarded.withdraw(id, author=b"x" * 32).rule == rules.NOT_GRANTED
    episode = guarded.write("said", "", "", kind="episode", author=ALICE).record_id
    assert guarded.withdraw(episode, author=ALICE).rule == rules.IS_SOURCE


def test_what_was_derived_too_rests_on_that(guarded: World) -> None:
    """A statement that is taken back leaves what the value was derived from."""
    premise = guarded.write("a", "premise", author=ALICE).record_id
    id = guarded.write("JWT", author=ALICE, source="doc:1").record_id
    guarded.write("JWT", author=BOB, derived_from=(premise,))
    guarded.withdraw(id, author=ALICE)
    record = guarded.record(id)
    assert (record.sources, record.support, record.trust) == ((premise,), 0, CANDIDATE)
    guarded.forget(premise, author=ALICE)
    assert guarded.state.record(id) is None


def test_what_a_principal_took_from_episodes_goes_with_it(guarded: World) -> None:
    """An episode that another one cites too is still a source."""
    first, second = (guarded.write(text, "", "", kind="episode", author=ALICE).record_id for text in ("one", "two"))
    id = guarded.write("JWT", author=ALICE, derived_from=(first, second)).record_id
    guarded.write("JWT", author=BOB, derived_from=(second,))
    guarded.withdraw(id, author=ALICE)
    record = guarded.record(id)
    assert (record.derived_from, record.sources, record.support) == ((second,), (second,), 1)


def test_an_anonymous_source_takes_back_what_it_said(world: World) -> None:
    """By its name; one that a principal cites is that principal's."""
    id = world.write("JWT", source="doc:1").record_id
    world.write("JWT", source="doc:2")
    assert world.withdraw(id).rule == rules.NOT_STATED
    assert world.withdraw(id, "doc:1").code == "unsaid"
    assert (world.record(id).support, len(world.record(id).sources)) == (1, 1)
    assert world.withdraw(id, "doc:1").rule == rules.NOT_STATED
    assert world.withdraw(id, "doc:2").code == "unsaid"
    assert world.state.record(id) is None
    cited = world.write("JWT", "other", author=ALICE, source="doc:1").record_id
    assert world.withdraw(cited, "doc:1").rule == rules.NOT_STATED
    assert world.withdraw(cited, author=ALICE).code == "unsaid"


def test_taking_back_is_undone(guarded: World) -> None:
    """By its event, whether the record had gone by it or not."""
    id = guarded.write("JWT", author=ALICE).record_id
    gone = guarded.withdraw(id, author=ALICE)
    assert guarded.undo(id, gone, author=CAROL).code == "undone"
    guarded.write("JWT", author=BOB)
    less = guarded.withdraw(id, author=ALICE)
    assert guarded.undo(id, less, author=CAROL).code == "undone"
    assert (guarded.record(id).support, len(guarded.record(id).principals)) == (2, 2)


# --- what principals have verified ----------------------------------------------------------------------------------


def agreed(world: World, *authors: bytes, **fields: Any) -> bytes:
    """A fact that these have stated."""
    [id] = {world.write("JWT", author=author, **fields).record_id for author in authors}
    assert world.record(id).trust == VERIFIED
    return id


def test_what_too_few_are_left_to_confirm_is_a_candidate(guarded: World) -> None:
    """Two of three are enough, one is not; it is not doubted, so that another voice verifies it again."""
    id = agreed(guarded, ALICE, BOB, CAROL)
    guarded.withdraw(id, author=CAROL)
    assert (guarded.record(id).trust, guarded.record(id).confirmed) == (VERIFIED, True)
    before = guarded.state.principal(ALICE)
    guarded.withdraw(id, author=BOB)
    assert (guarded.record(id).trust, guarded.record(id).confirmed) == (CANDIDATE, False)
    after = guarded.state.principal(ALICE)
    assert before is not None and after is not None and after.kept == before.kept - 1
    guarded.write("JWT", author=BOB)
    assert (guarded.record(id).trust, guarded.record(id).confirmed) == (VERIFIED, True)
    assert replayed(guarded).state_digest() == guarded.state.state_digest()


@pytest.mark.parametrize("way", ["approve", "promote", "edit", "attest", "mark_fixed"])
def test_what_is_verified_by_more_than_agreement_stays(guarded: World, way: str) -> None:
    """Also where that came on top of it: a review or a receipt of something verified is no idle act."""
    fields = {"kind": "failure", "predicate": "fails"} if way == "mark_fixed" else {}
    id = agreed(guarded, ALICE, BOB, **fields)

    def settle() -> Outcome:
        match way:
            case "edit":
                return guarded.edit(id, "JWT", author=CAROL)
            case "attest":
                grader = Runner(KeyPair(b"g" * 32), lambda: guarded.now_us)
                guarded.enroll(grader.public_key, ("*", "attest"), author=CAROL)
                report = signed_report(Report(grader="eval", verdict=Verdict.PASS), grader)
                receipt = attest_fact(
                    Verdict.PASS, [report], subject="auth", predicate="uses", text="JWT", runner=grader
                )
                return guarded.attest(id, receipt, author=ALICE)
            case _:
                return getattr(guarded, way)(id, author=CAROL)

    assert settle().code in ("promoted", "edited", "attested", "fixed")
    assert guarded.record(id).confirmed is False
    assert guarded.withdraw(id, author=BOB).code == "unsaid"
    assert guarded.record(id).trust == VERIFIED
    if way not in ("attest", "edit"):
        assert getattr(guarded, way)(id, author=CAROL).code == "unchanged"


@pytest.mark.parametrize("shared", [True, False])
def test_a_forgotten_episode_takes_the_voices_that_it_gave(guarded: World, shared: bool) -> None:
    """Those who had it from there say so no longer; who says it on their own still does."""
    said = guarded.write("we use JWT", "", "", kind="episode", author=ALICE).record_id
    for author in (ALICE, BOB):
        id = guarded.write("JWT", author=author, derived_from=(said,)).record_id
    guarded.write("JWT", author=CAROL)
    if not shared:
        guarded.write("JWT", author=ALICE)
    assert guarded.record(id or b"").trust == VERIFIED
    guarded.forget(said, author=ALICE)
    assert guarded.record(id or b"").trust == (CANDIDATE if shared else VERIFIED)
    assert replayed(guarded).state_digest() == guarded.state.state_digest()


def test_taking_back_a_withdrawal_verifies_again(guarded: World) -> None:
    """The row of before it returns as it was."""
    id = agreed(guarded, ALICE, BOB)
    done = guarded.withdraw(id, author=BOB)
    assert guarded.record(id).trust == CANDIDATE
    guarded.undo(id, done, author=CAROL)
    assert (guarded.record(id).trust, guarded.record(id).confirmed) == (VERIFIED, True)
    guarded.withdraw(id, author=ALICE)
    assert guarded.record(id).trust == CANDIDATE


@pytest.mark.parametrize("gone", [True, False])
def test_a_row_that_returns_is_asked_anew(guarded: World, gone: bool) -> None:
    """Brought back, it is verified as it was; but not by those whose episode was forgotten meanwhile."""
    said = guarded.write("we use JWT", "", "", kind="episode", author=ALICE).record_id
    guarded.write("JWT", author=CAROL)
    id = guarded.write("JWT", author=BOB, derived_from=(said,)).record_id
    assert guarded.record(id).trust == VERIFIED
    done = guarded.forget(id, author=CAROL)
    if gone:
        guarded.forget(said, author=ALICE)
    assert guarded.undo(id, done, author=CAROL).code == "undone"
    assert guarded.record(id).trust == (CANDIDATE if gone else VERIFIED)
    assert replayed(guarded).state_digest() == guarded.state.state_digest()


def test_revoking_a_key_takes_nothing_back(guarded: World) -> None:
    """What was said in force stays said; but where another one takes it back, only who is in force is counted."""
    id = agreed(guarded, ALICE, BOB, CAROL)
    guarded.revoke(ALICE, author=CAROL)
    assert guarded.record(id).trust == VERIFIED
    guarded.withdraw(id, author=BOB)
    assert guarded.record(id).trust == CANDIDATE
