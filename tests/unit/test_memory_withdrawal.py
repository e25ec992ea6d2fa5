"""A statement is taken back: what others state stays, with the support that is left; what nobody states is gone."""

from __future__ import annotations

import pytest
from memory_world import ALICE, BOB, CAROL, World, replayed

from veridical.memory import rules
from veridical.memory.record import CANDIDATE, VERIFIED


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
