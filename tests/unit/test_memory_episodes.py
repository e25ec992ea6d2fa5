"""Episodes: what was said, kept as it was said; facts that are taken from it live as long as somebody states them."""

from __future__ import annotations

from typing import Any

import pytest
from memory_world import ALICE, BOB, CAROL, HOUR_US, START_US, World, replayed

from veridical.memory import limits, rules
from veridical.memory.commands import WRITE, WriteBody, encode_body
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.machine import Outcome
from veridical.memory.record import CANDIDATE, VERIFIED


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


def said(world: World, text: str, source: str = "chat:1", author: bytes | None = None, **fields: Any) -> Outcome:
    """Keep an episode."""
    return world.write(text, "", "", kind="episode", source=source, author=author, **fields)


def taken(world: World, *episodes: bytes, subject: str = "Theo", author: bytes | None = None) -> bytes:
    """State a fact that those episodes say; returns its id."""
    outcome = world.write("15", subject, "age", author=author, derived_from=episodes)
    assert outcome.code in ("asserted", "corroborated", "repeated")
    return outcome.record_id


# --- identity -------------------------------------------------------------------------------------------------------


def test_the_same_episode_again_is_a_repetition(world: World) -> None:
    """Whoever brings it, in whatever spelling; it gains nothing by that."""
    first = said(world, "Theo is 15", author=ALICE)
    for author, text in ((ALICE, "Theo is 15"), (BOB, "Theo is 15\n"), (None, "theo is 15")):
        again = said(world, text, author=author)
        assert (again.code, again.record_id) == ("repeated", first.record_id)
    record = world.record(first.record_id)
    assert (record.support, record.confidence_ppm, len(record.sources)) == (1, 500_000, 1)


def test_what_makes_two_episodes_two(world: World) -> None:
    """Another text, source, scope, time, or place in its conversation."""
    first = said(world, "ok").record_id
    others = [
        said(world, "no"), said(world, "ok", "chat:2"), said(world, "ok", scope="repo:b"),
        said(world, "ok", follows=first), said(world, "ok", valid_from_us=START_US), said(world, "ok", ""),
    ]  # fmt: skip
    assert {outcome.code for outcome in others} == {"asserted"}
    assert len({first, *(outcome.record_id for outcome in others)}) == 7


def test_an_episode_is_no_sentence(world: World) -> None:
    """The same words as a fact are another record: each is what it is."""
    episode, sentence = said(world, "Theo is 15"), world.write("Theo is 15", "", "")
    assert (episode.code, sentence.code) == ("asserted", "asserted")
    assert episode.record_id != sentence.record_id


def test_an_episode_follows_one_that_is_there(world: World) -> None:
    """An episode of the same scope; but an episode that is kept already does not ask again."""
    first = said(world, "one").record_id
    second = said(world, "two", follows=first)
    assert world.record(second.record_id).follows == first
    fact = world.write("a fact", "", "").record_id
    elsewhere = said(world, "one", scope="repo:b").record_id
    for previous in (bytes(16), fact, elsewhere):
        assert said(world, "three", follows=previous).rule == rules.NO_PREDECESSOR
    world.forget(first)
    assert said(world, "two", follows=first).code == "repeated"
    assert said(world, "three", follows=first).rule == rules.NO_PREDECESSOR


def test_what_may_not_be_read_is_not_followed(guarded: World) -> None:
    """As if it were not there."""
    guarded.enroll(b"d" * 32, ("repo:app", "write"), author=CAROL)
    first = said(guarded, "one", author=ALICE).record_id
    assert said(guarded, "two", author=b"d" * 32, follows=first).rule == rules.NO_PREDECESSOR
    assert said(guarded, "two", author=BOB, follows=first).code == "asserted"


def test_the_form_of_an_episode() -> None:
    """It may be long, its limit is named, and it has nothing that only facts have."""
    body = WriteBody("episode", "", "", "global", "x" * limits.EPISODE_CHARACTERS_LIMIT)
    encode_body(WRITE, body)
    encode_body(WRITE, body._replace(text="\U0001f680" * limits.EPISODE_CHARACTERS_LIMIT))
    with pytest.raises(TooLarge, match="text"):
        encode_body(WRITE, body._replace(text=body.text + "x"))
    for wrong in (
        {"text": " \n"}, {"subject": "a", "predicate": "b"}, {"derived_from": (bytes(16),)}, {"follows": b"short"},
    ):  # fmt: skip
        with pytest.raises(Invalid, match=next(iter(wrong))):
            encode_body(WRITE, body._replace(**wrong))
    fact = body._replace(kind="fact", text="short")
    encode_body(WRITE, fact)
    with pytest.raises(Invalid, match="follows"):
        encode_body(WRITE, fact._replace(follows=bytes(16)))
    with pytest.raises(TooLarge):
        encode_body(WRITE, fact._replace(text=body.text))


def test_recalled_text_is_no_episode(world: World) -> None:
    """What this memory has said itself is no source."""
    assert said(world, "Theo is 15", "recall:1").rule == rules.RECALLED_TEXT


# --- what it is not -------------------------------------------------------------------------------------------------


def test_an_episode_is_neither_believed_nor_doubted(world: World) -> None:
    """No verb judges it; a fact beside it is judged."""
    episode, fact = said(world, "Theo is 15").record_id, world.write("15").record_id
    for verb in ("corroborate", "contradict", "promote", "approve", "reject", "demote"):
        assert getattr(world, verb)(episode).rule == rules.IS_SOURCE
    assert world.edit(episode, "x").rule == rules.IS_SOURCE
    assert world.mark_fixed(episode).rule == rules.OTHER_KIND
    assert world.corroborate(fact, "doc:1").code == "endorsed"


def test_principals_do_not_verify_an_episode(guarded: World) -> None:
    """However many bring it."""
    for author in (ALICE, BOB, CAROL):
        id = said(guarded, "Theo is 15", author=author).record_id
    assert (guarded.record(id).trust, guarded.record(id).authenticated) == (CANDIDATE, ())


# --- what is taken from it ------------------------------------------------------------------------------------------


def test_an_episode_states_what_is_taken_from_it(world: World) -> None:
    """Each one is a source: it supports, and no more than once."""
    first, second = said(world, "Theo is 15").record_id, said(world, "He is 15", "chat:2").record_id
    id = taken(world, first)
    assert (world.record(id).support, world.record(id).derived_from) == (1, (first,))
    taken(world, first)
    assert world.record(id).support == 1
    taken(world, first, second)
    record = world.record(id)
    assert (record.support, record.confidence_ppm, record.derived_from) == (2, 600_000, (first, second))


def test_a_principal_counts_once_whatever_it_cites(guarded: World) -> None:
    """Its episodes are its grounds; support counts who says it."""
    episodes = [said(guarded, f"turn {number}", author=ALICE).record_id for number in range(3)]
    id = taken(guarded, *episodes, author=ALICE)
    taken(guarded, episodes[0], author=ALICE)
    assert (guarded.record(id).support, guarded.record(id).trust) == (1, CANDIDATE)
    taken(guarded, episodes[0], author=BOB)
    assert (guarded.record(id).support, guarded.record(id).trust) == (2, VERIFIED)


def test_forgetting_an_episode_retracts_what_only_it_states(world: World) -> None:
    """What another source states stays, with the support that is left."""
    first, second = said(world, "Theo is 15").record_id, said(world, "He is 15", "chat:2").record_id
    only, both, stated = taken(world, first, subject="a"), taken(world, first, second), taken(world, first, subject="b")
    world.write("15", "b", "age", source="doc:1")
    world.forget(first)
    assert world.state.record(only) is None
    for id in (both, stated):
        assert (world.record(id).support, world.record(id).confidence_ppm) == (1, 500_000)
    assert world.record(both).derived_from == (second,)
    assert replayed(world).state_digest() == world.state.state_digest()


def test_whoever_said_it_otherwise_too_is_still_a_supporter(guarded: World) -> None:
    """Of a principal that has stated it apart from the episode nothing is lost; of one that has not, all is."""
    episode = said(guarded, "Theo is 15", author=ALICE).record_id
    before = taken(guarded, episode, subject="a", author=ALICE)
    guarded.write("15", "a", "age", author=ALICE)
    guarded.write("15", "b", "age", author=ALICE)
    after = taken(guarded, episode, subject="b", author=ALICE)
    guarded.write("15", "c", "age", author=BOB)
    cited = taken(guarded, episode, subject="c", author=ALICE)
    guarded.forget(episode, author=ALICE)
    for id in (before, after):
        record = guarded.record(id)
        assert (record.support, len(record.principals), record.authenticated) == (1, 1, (ALICE,))
    assert (guarded.record(cited).support, guarded.record(cited).authenticated) == (1, (BOB,))


def test_a_forgotten_episode_stays_forgotten(world: World) -> None:
    """Fed again it is refused, and so is what is taken from it; only who takes the forgetting back brings it back."""
    episode = said(world, "Theo is 15")
    fact = taken(world, episode.record_id)
    done = world.forget(episode.record_id)
    for text in ("Theo is 15", " THEO is 15"):
        again = said(world, text, author=BOB)
        assert (again.code, again.rule, again.record_id) == ("refused", rules.FORGOTTEN_SOURCE, episode.record_id)
    refusal = world.write("15", "Theo", "age", derived_from=(episode.record_id,))
    assert refusal.rule == rules.SOURCE_GONE
    assert world.undo(episode.record_id, done).code == "undone"
    assert taken(world, episode.record_id) == fact


def test_an_expired_episode_states_nothing_new(world: World) -> None:
    """What was taken from it stays: it was not withdrawn."""
    episode = said(world, "Theo is 15", ttl_us=1).record_id
    fact = taken(world, episode)
    world.wait(HOUR_US)
    assert world.write("16", "Theo", "age", derived_from=(episode,)).rule == rules.SOURCE_GONE
    assert world.record(fact).derived_from == (episode,)
