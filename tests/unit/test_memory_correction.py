"""Corrections: the new value takes the place of the old one, which stays in its history, and never both are current."""

from __future__ import annotations

from typing import Any

import pytest
from memory_world import ALICE, BOB, CAROL, DAY_US, HOUR_US, World, replayed

from veridical.memory import limits, rules
from veridical.memory.commands import CORRECT, CorrectBody, encode_body
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED


@pytest.fixture
def world() -> World:
    """A store in which nobody is enrolled."""
    return World()


@pytest.fixture
def guarded() -> World:
    """Carol administers and reviews; Alice and Bob write in every repository."""
    world = World()
    world.guard(CAROL)
    for key in (ALICE, BOB):
        world.enroll(key, ("repo:*", "read write"), author=CAROL)
    return world


def sentence(world: World, text: str, **fields: Any) -> bytes:
    """Say a sentence; returns its id."""
    return world.write(text, "", "", **fields).record_id


def past_texts(world: World, id: bytes) -> list[str]:
    """What was held under that id before, oldest first."""
    return [past.record.text for past in world.state.history(id)]


# --- where the value is not part of the key -------------------------------------------------------------------------


def test_a_fact_is_corrected_in_its_place(world: World) -> None:
    """As by a superseding write; names, metadata, dates and pins stay, the reason stands in history."""
    id = world.write("JWT", metadata='{"a":1}', valid_from_us=5, ttl_us=DAY_US, author=ALICE).record_id
    world.pin(id)
    outcome = world.correct("cookies", id, author=BOB, metadata='{"b":2}')
    assert (outcome.code, outcome.record_id) == ("superseded", id)
    record, last = world.record(id), world.state.history(id)[-1]
    assert (record.text, record.subject, record.trust, record.support) == ("cookies", "auth", CANDIDATE, 1)
    assert (record.metadata, record.valid_from_us, record.pinned, record.corrections_count) == (
        '{"a":1,"b":2}', 5, True, 1,
    )  # fmt: skip
    assert (record.author, record.expires_at_us) == (BOB.hex(), last.record.expires_at_us)
    assert (last.record.text, last.ended_by, last.reason) == ("JWT", "superseded", "known better")
    assert world.undo(id, outcome).code == "undone"
    assert world.record(id).text == "JWT"


def test_a_verified_value_of_others_is_not_corrected(guarded: World) -> None:
    """The correction contends; that of a supporter takes its place."""
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.approve(id, author=CAROL)
    assert guarded.correct("cookies", id, author=BOB).code == "conflicted"
    [contender] = guarded.state.contending(id)
    assert (contender.text, contender.subject, guarded.record(id).text) == ("cookies", "auth", "JWT")
    assert guarded.correct("sessions", id, author=ALICE).code == "superseded"
    assert (guarded.record(id).text, guarded.record(id).authenticated) == ("sessions", (ALICE,))


def test_a_correction_is_a_statement(guarded: World) -> None:
    """Of the principal who makes it: another one who agrees verifies it."""
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.correct("cookies", id, author=BOB)
    guarded.write("Cookies", author=ALICE)
    assert guarded.record(id).trust == VERIFIED


def test_what_the_ledger_bars_is_no_correction(world: World) -> None:
    """Neither a rejected value, nor one that its author has had forgotten."""
    id = world.write("wrong").record_id
    world.reject(id)
    assert world.correct("right", id).code == "superseded"
    assert world.correct("WRONG", id).rule == rules.REJECTED_VALUE
    world.forget(id)
    again = world.write("new", author=ALICE).record_id
    assert world.correct("right", again).rule == rules.FORGOTTEN_SOURCE
    assert world.correct("right", again, author=BOB).code == "superseded"


def test_spelling_is_corrected_in_place(guarded: World) -> None:
    """The value is the same, and so is all that is known about it; whoever may not alter it does not."""
    id = guarded.write("jwt", author=ALICE).record_id
    assert guarded.correct("jwt", id, author=BOB).code == "unchanged"
    assert guarded.correct("JWT", id, author=BOB).code == "respelled"
    record = guarded.record(id)
    assert (record.text, record.support, record.author, record.corrections_count) == ("JWT", 1, ALICE.hex(), 0)
    guarded.approve(id, author=CAROL)
    assert guarded.correct("jwt", id, author=BOB).rule == rules.NOT_YOURS
    assert guarded.correct("jwt", id, author=ALICE).code == "respelled"
    assert past_texts(guarded, id)[-1] == "JWT"


def test_what_is_not_there_is_not_corrected(guarded: World) -> None:
    """Nor an episode, nor what may not be written."""
    id = guarded.write("JWT", ttl_us=1, author=ALICE).record_id
    episode = guarded.write("JWT", "", "", kind="episode", author=ALICE).record_id
    elsewhere = guarded.write("JWT", scope="user:carol", author=CAROL).record_id
    guarded.wait(HOUR_US)
    assert guarded.correct("x", id, author=CAROL).rule == rules.UNKNOWN_RECORD
    assert guarded.correct("x", episode, author=CAROL).rule == rules.IS_SOURCE
    assert guarded.correct("x", elsewhere, author=BOB).rule == rules.NOT_GRANTED
    assert guarded.correct("x", elsewhere, author=CAROL).code == "superseded"


def test_the_form_of_a_correction() -> None:
    """At least one record, at most so many, and a text."""
    body = CorrectBody((bytes(16),) * limits.MERGED_LIMIT, "text")
    encode_body(CORRECT, body)
    with pytest.raises(TooLarge, match="ids"):
        encode_body(CORRECT, body._replace(ids=(bytes(16),) * (limits.MERGED_LIMIT + 1)))
    for wrong in ({"ids": ()}, {"text": " "}, {"metadata": "[]"}):
        with pytest.raises(Invalid, match=next(iter(wrong))):
            encode_body(CORRECT, body._replace(**wrong))


# --- where it is ----------------------------------------------------------------------------------------------------


def test_a_sentence_is_replaced_by_another(world: World) -> None:
    """It has another id then; the old one is in the history of both, and not current."""
    old = sentence(world, "I like teal", author=ALICE, metadata='{"a":1}')
    outcome = world.correct("I like indigo", old, author=ALICE)
    new = outcome.record_id
    assert outcome.code == "superseded" and new != old
    assert set(world.state.records) == {new}
    record = world.record(new)
    assert (record.text, record.metadata, record.corrections_count) == ("I like indigo", '{"a":1}', 1)
    assert (record.created_at_us, record.cause) == (world.state.history(old)[0].record.created_at_us, "corrected")
    assert past_texts(world, new) == past_texts(world, old) == ["I like teal"]
    last = world.state.history(old)[-1]
    assert last.ended_by == "superseded" and new.hex() in last.reason


def test_the_old_sentence_does_not_come_back_from_who_said_it(world: World) -> None:
    """Whoever has not said it may say it."""
    old = sentence(world, "I like teal", author=ALICE)
    sentence(world, "I like teal", source="doc:1")
    world.correct("I like indigo", old, author=ALICE)
    again: tuple[dict[str, Any], ...] = ({"author": ALICE}, {"source": "doc:1"})
    for fields in again:
        refusal = world.write("i like TEAL", "", "", **fields)
        assert (refusal.rule, refusal.record_id) == (rules.CORRECTED_VALUE, old)
    assert world.write("I like teal", "", "", author=BOB).code == "asserted"


def test_a_correction_is_corrected_back(world: World) -> None:
    """The value returns as a new statement, and who had stated it is heard again; `undo` says that this is the way."""
    old = sentence(world, "I like teal", author=ALICE)
    sentence(world, "I like teal", author=CAROL)
    outcome = world.correct("I like indigo", old, author=BOB)
    new = outcome.record_id
    for id in (old, new):
        assert world.undo(id, outcome).rule == rules.CORRECT_BACK
    assert world.correct("I like teal", new, author=ALICE).record_id == old
    assert set(world.state.records) == {old}
    assert world.record(old).corrections_count == 2
    assert sentence(world, "I like teal", author=CAROL) == old
    assert world.record(old).support == 2
    assert world.write("I like indigo", "", "", author=BOB).rule == rules.CORRECTED_VALUE


def test_later_events_are_undone_as_ever(world: World) -> None:
    """Down to the correction, and not further."""
    new = world.correct("indigo", sentence(world, "teal")).record_id
    made = world.record(new)
    pinned = world.pin(new)
    assert world.undo(new, pinned).code == "undone"
    assert (world.record(new).pinned, world.record(new).text) == (False, "indigo")
    assert world.record(new).value_digest == made.value_digest


def test_what_was_forgotten_is_not_corrected_back_to(world: World) -> None:
    """Being corrected is no way around being forgotten."""
    forgotten = sentence(world, "teal", author=ALICE)
    world.forget(forgotten)
    other = sentence(world, "indigo", author=ALICE)
    assert world.correct("teal", other, author=ALICE).rule == rules.FORGOTTEN_SOURCE
    assert world.write("teal", "", "", author=BOB).record_id == forgotten
    new = world.correct("green", forgotten, author=BOB).record_id
    assert world.write("teal", "", "", author=ALICE).rule == rules.FORGOTTEN_SOURCE
    assert world.correct("teal", new, author=ALICE).rule == rules.FORGOTTEN_SOURCE
    assert world.correct("teal", new, author=BOB).record_id == forgotten
    assert world.write("teal", "", "", author=ALICE).rule == rules.FORGOTTEN_SOURCE


def test_forgetting_the_correction_does_not_bring_the_old_value_back(world: World) -> None:
    """What it ever held stays away."""
    old = sentence(world, "teal", author=ALICE)
    new = world.correct("indigo", old, author=ALICE).record_id
    world.forget(new)
    assert world.state.records == {}
    for text in ("teal", "indigo"):
        assert world.write(text, "", "", author=ALICE).code == "refused"


def test_a_verified_sentence_is_for_its_supporters(guarded: World) -> None:
    """And for reviewers; others say what they know as another sentence."""
    old = sentence(guarded, "teal", author=ALICE)
    guarded.approve(old, author=CAROL)
    before = guarded.state.buckets()
    assert guarded.correct("indigo", old, author=BOB).rule == rules.NOT_YOURS
    assert guarded.state.buckets() == before
    assert guarded.correct("indigo", old, author=ALICE).code == "superseded"


def test_sentences_are_merged(world: World) -> None:
    """Into one that is new, or one that is there: only it is current, and its history lists them all."""
    one, two, three = (sentence(world, text) for text in ("likes teal", "likes indigo", "likes colours"))
    outcome = world.correct("likes teal and indigo", one, two)
    merged = outcome.record_id
    assert set(world.state.records) == {merged, three}
    assert sorted(past_texts(world, merged)) == ["likes indigo", "likes teal"]
    assert world.correct("likes colours", merged, author=ALICE).record_id == three
    record = world.record(three)
    assert (set(world.state.records), record.support, record.corrections_count) == ({three}, 2, 3)
    assert past_texts(world, three)[-1] == "likes teal and indigo"
    assert replayed(world).state_digest() == world.state.state_digest()


def test_only_what_is_alike_is_merged(world: World) -> None:
    """One kind, one subject and predicate, one scope."""
    one = sentence(world, "teal")
    for other in (world.write("teal").record_id, sentence(world, "teal", scope="repo:b")):
        assert world.correct("green", one, other).rule == rules.NOT_ALIKE
    skill = world.write("indigo", "", "", kind="skill").record_id
    assert world.correct("green", one, skill).rule == rules.NOT_ALIKE


def test_one_of_many_values_is_replaced(world: World) -> None:
    """The others stay beside it."""
    world.declare("*", "likes")
    teal, green = (world.write(text, "Zoe", "likes").record_id for text in ("teal", "green"))
    new = world.correct("indigo", teal).record_id
    assert set(world.state.records) == {green, new}
    assert (world.record(new).subject, past_texts(world, new)) == ("Zoe", ["teal"])


def test_what_rested_on_it_rests_on_what_takes_its_place(world: World) -> None:
    """So that it falls with that; two that are merged are one ground."""
    one, two = sentence(world, "teal"), sentence(world, "indigo")
    rule = world.write("so", "rule", "is", derived_from=(one, two)).record_id
    new = world.correct("both", one, two).record_id
    assert (world.record(rule).derived_from, world.record(rule).sources) == ((new,), (new,))
    assert (world.state.derived(new), world.state.derived(one)) == ((rule,), ())
    world.forget(new)
    assert world.state.record(rule) is None


def test_nothing_is_corrected_to_what_rests_on_it(world: World) -> None:
    """It would rest on itself."""
    premise = sentence(world, "teal")
    conclusion = sentence(world, "a colour", derived_from=(premise,))
    assert world.correct("a colour", premise).rule == rules.CIRCULAR_SOURCE
    assert {premise, conclusion} == set(world.state.records)


def test_a_rejected_sentence_is_corrected(world: World) -> None:
    """What is right takes its place; what is wrong stays barred for everybody."""
    wrong = sentence(world, "teal", author=ALICE)
    world.reject(wrong)
    assert world.record(wrong).trust == REJECTED
    new = world.correct("indigo", wrong, author=ALICE).record_id
    assert set(world.state.records) == {new}
    assert world.write("teal", "", "", author=BOB).rule == rules.REJECTED_VALUE
