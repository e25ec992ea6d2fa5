"""Two times: what was held then, and what was true then; never what was taken back since."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from projection_world import ALICE, BOB, SECOND_US, Folder, World, fact_id

from veridical.embedding.static import local_embedder
from veridical.memory import commands as c
from veridical.memory import trust_commands as t
from veridical.memory.record import CANDIDATE, VERIFIED, Record
from veridical.projection.answers import ANYTHING, Filters
from veridical.projection.projection import Projection
from veridical.projection.reader import Reader

MARCH_US, JUNE_US, AUGUST_US = 1_709_251_200_000_000, 1_717_200_000_000_000, 1_722_470_400_000_000


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def found(reader: Reader, query: str, world: World, filters: Filters) -> list[str]:
    """The texts that a recall gives."""
    return [hit.record.text for hit in reader.recall(query, world.now_us, k=10, filters=filters).hits]


def listed(reader: Reader, world: World, filters: Filters) -> list[str]:
    """The texts of all records."""
    pages = reader.all(world.now_us, filters=filters, page_records=3)
    return sorted(record.text for page in pages for record in page.records)


def test_what_was_believed_then(fold: Folder) -> None:
    """The value that was held, found by its own words; not by those that came later."""
    world = World()
    world.write("lives in Lisbon", "Dana", "home")
    then = world.now_us
    world.write("lives in Porto", "Dana", "home")
    reader = fold(world.entries).reader()
    assert found(reader, "Lisbon", world, ANYTHING) == []
    assert found(reader, "Lisbon", world, Filters(as_of_us=then)) == ["lives in Lisbon"]
    assert found(reader, "Porto", world, Filters(as_of_us=then)) == []
    assert found(reader, "Dana", world, Filters(as_of_us=then)) == ["lives in Lisbon"]
    assert listed(reader, world, Filters(as_of_us=then)) == ["lives in Lisbon"]
    assert listed(reader, world, Filters(as_of_us=then - SECOND_US)) == []


def test_a_time_to_come_is_now(fold: Folder) -> None:
    """A clock that is a little ahead asks about the present."""
    world = World()
    world.write("lives in Lisbon", "Dana", "home")
    reader = fold(world.entries).reader()
    assert found(reader, "Lisbon", world, Filters(as_of_us=world.now_us + 5 * SECOND_US)) == ["lives in Lisbon"]
    assert listed(reader, world, Filters(as_of_us=world.now_us + 5 * SECOND_US)) == ["lives in Lisbon"]


def test_what_was_true_then(fold: Folder) -> None:
    """Of the values that are held, also those that were superseded, the one whose time it was."""
    world = World()
    world.write("lives in Lisbon", "Dana", "home", valid_from_us=MARCH_US)
    world.write("lives in Porto", "Dana", "home", valid_from_us=JUNE_US)
    reader = fold(world.entries).reader()
    assert found(reader, "where does Dana live", world, Filters(valid_at_us=MARCH_US + 1)) == ["lives in Lisbon"]
    assert found(reader, "where does Dana live", world, Filters(valid_at_us=AUGUST_US)) == ["lives in Porto"]
    assert found(reader, "where does Dana live", world, Filters(valid_at_us=MARCH_US - 1)) == []
    assert listed(reader, world, Filters(valid_at_us=MARCH_US + 1)) == ["lives in Lisbon"]


def test_both_times_at_once(fold: Folder) -> None:
    """What did we believe then about that time?"""
    world = World()
    world.write("lives in Lisbon", "Dana", "home", valid_from_us=MARCH_US)
    before = world.now_us
    world.write("lives in Porto", "Dana", "home", valid_from_us=JUNE_US)
    reader = fold(world.entries).reader()
    asked = Filters(as_of_us=before, valid_at_us=AUGUST_US)
    assert found(reader, "Dana", world, asked) == ["lives in Lisbon"]
    assert listed(reader, world, asked) == ["lives in Lisbon"]


@pytest.mark.parametrize("verb", ["forget", "reject", "erase"])
def test_what_was_taken_back_since_is_in_no_answer(fold: Folder, verb: str, tmp_path: Path) -> None:
    """Whatever moment is asked about; beside it stands what was merely superseded."""
    world = World()
    world.write("the word is swordfish", "door", "word")
    world.write("a value", "other", "is")
    then = world.now_us
    world.write("another value", "other", "is")
    path = tmp_path / "p.db"
    projection = fold(world.entries, path=path)
    reader = projection.reader()
    assert found(reader, "swordfish", world, Filters(as_of_us=then)) == ["the word is swordfish"]
    id = fact_id("door", "word")
    body = {
        "forget": (c.FORGET, c.ForgetBody(id)),
        "reject": (c.DEMOTE, c.DemoteBody(id, "rejected", "no")),
        "erase": (t.ERASE, t.EraseBody(id, "asked")),
    }[verb]
    world.say(body, author=ALICE)
    projection.apply(world.entries)
    assert found(reader, "swordfish", world, Filters(as_of_us=then)) == []
    assert found(reader, "value", world, Filters(as_of_us=then)) == ["a value"]
    assert listed(reader, world, Filters(as_of_us=then)) == ["a value"]
    assert list(projection.findings()) == []
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT count(*) FROM former_words WHERE former_words MATCH 'swordfish'").fetchone()
    assert rows == (0 if verb == "erase" else 1,)


def test_what_came_back_is_told_of_the_past_again(fold: Folder) -> None:
    """A forgetting that was undone forgets nothing; neither does one who takes back what another states as well."""
    world = World()
    world.write("the word is swordfish", "door", "word")
    world.write("the word is swordfish", "door", "word", author=BOB)
    then, id = world.now_us, fact_id("door", "word")
    world.say((c.WITHDRAW, c.WithdrawBody(id, "", "")), author=BOB)
    reader = fold(world.entries).reader()
    assert found(reader, "swordfish", world, Filters(as_of_us=then)) == ["the word is swordfish"]
    world.say((c.FORGET, c.ForgetBody(id)), author=ALICE)
    forgotten = fold(world.entries).reader().history(id, world.now_us).items[0]
    assert forgotten.ended_by == "forgotten"
    reader = fold(world.entries).reader()
    assert found(reader, "swordfish", world, Filters(as_of_us=then)) == []
    world.say((t.UNDO, t.UndoBody(id, (1, world.last, 0), "a mistake")), author=ALICE)
    world.write("the word is trout", "door", "word")
    reader = fold(world.entries).reader()
    assert found(reader, "swordfish", world, Filters(as_of_us=then)) == ["the word is swordfish"]
    assert listed(reader, world, Filters(as_of_us=then)) == ["the word is swordfish"]


def test_whom_a_question_names_comes_first_then_too(fold: Folder) -> None:
    """Of two who fit as well otherwise."""
    world = World()
    for name in ("Dana", "Noor"):
        world.write(f"{'Noor' if name == 'Dana' else 'Dana'} likes tea", name, "says")
    then = world.now_us
    for name in ("Dana", "Noor"):
        world.write("nothing", name, "says")
    reader = fold(world.entries).reader()
    for name, text in (("Dana", "Noor likes tea"), ("Noor", "Dana likes tea")):
        assert found(reader, f"what does {name} say of tea", world, Filters(as_of_us=then))[0] == text


def test_filters_hold_then_as_now(fold: Folder) -> None:
    """Scope, kind and trust, as they were."""
    world = World()
    for scope in ("a", "b"):
        world.write("lives in Lisbon", "Dana", "home", scope)
    world.write("Lisbon is a lesson", "Dana", "rule", "a", kind="skill")
    world.say((c.PROMOTE, c.PromoteBody(fact_id("Dana", "home", "a"), "seen")), author=ALICE)
    then = world.now_us
    for scope in ("a", "b"):
        world.write("lives in Porto", "Dana", "home", scope)
    world.say((c.DEMOTE, c.DemoteBody(fact_id("Dana", "home", "a"), CANDIDATE, "not seen")), author=ALICE)
    reader = fold(world.entries).reader()
    lisbon = "lives in Lisbon"
    for filters, texts in {
        Filters(("a",), as_of_us=then): {lisbon, "Lisbon is a lesson"},
        Filters(("b",), as_of_us=then): {lisbon},
        Filters((), as_of_us=then): set[str](),
        Filters(("a",), "skill", as_of_us=then): {"Lisbon is a lesson"},
        Filters(trust=VERIFIED, as_of_us=then): {lisbon},
        Filters(("b",), trust=VERIFIED, as_of_us=then): set[str](),
        Filters(trust=CANDIDATE, as_of_us=then): {lisbon, "Lisbon is a lesson"},
    }.items():
        assert set(found(reader, "Lisbon", world, filters)) == texts, filters
        assert set(listed(reader, world, filters)) == texts, filters


def test_what_had_expired_by_then_is_not_held(fold: Folder) -> None:
    """Its time to live counts to the moment that is asked about, not to now."""
    world = World()
    world.write("a short note", "note", "is", ttl_us=10 * SECOND_US)
    written = world.now_us
    world.pass_time(100 * SECOND_US)
    world.write("later", "x", "is")
    reader = fold(world.entries).reader()
    assert found(reader, "note", world, ANYTHING) == []
    assert found(reader, "note", world, Filters(as_of_us=written + SECOND_US)) == ["a short note"]
    assert found(reader, "note", world, Filters(as_of_us=written + 20 * SECOND_US)) == []


def test_a_time_to_come_expires_nothing_yet(fold: Folder) -> None:
    """By id as by words: it is now."""
    world = World()
    id = world.write("a short note", "note", "is", ttl_us=10 * SECOND_US)
    reader, later = fold(world.entries).reader(), world.now_us + 60 * SECOND_US
    assert reader.get(id, world.now_us, as_of_us=later)[1] is not None
    assert found(reader, "note", world, Filters(as_of_us=later)) == ["a short note"]


def test_with_an_embedder_the_past_is_searched_by_words_and_says_so() -> None:
    """What is valid at a time is searched by vectors too, as far as it is held now."""
    world = World()
    world.write("the sign-in page times out", "portal", "behaviour", valid_from_us=MARCH_US)
    then = world.now_us
    world.write("unrelated", "x", "is")
    with Folder(local_embedder()) as fold:
        reader = fold(world.entries).reader()
        past = reader.recall("login", world.now_us, filters=Filters(as_of_us=then))
        assert not past.hits and "words only" in past.notices[0]
        assert found(reader, "login", world, Filters(valid_at_us=JUNE_US)) == ["the sign-in page times out"]


@pytest.mark.parametrize("seed", range(6))
def test_the_past_is_the_history_up_to_it(fold: Folder, seed: int) -> None:
    """At any moment: what a fold of the history up to then holds, but for what was taken back since."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    world = World()
    for _ in range(120):
        step(world, chance)
    whole = fold(world.entries, *[7] * 20).reader()
    for _ in range(12):
        count = chance.randrange(1, len(world.entries))
        as_of_us = world.entries[count - 1].time_us + chance.randrange(SECOND_US)
        prefix = fold(world.entries[:count]).reader()
        wanted = {
            (record.id, record.text, record.trust)
            for page in prefix.all(as_of_us)
            for record in page.records
            if not taken_back(whole, record)
        }
        pages = whole.all(world.now_us, filters=Filters(as_of_us=as_of_us), page_records=5)
        assert {(record.id, record.text, record.trust) for page in pages for record in page.records} == wanted
        recallable = {each for each in wanted if each[2] != "rejected"}
        hits = whole.recall("apple", world.now_us, k=200, filters=Filters(as_of_us=as_of_us)).hits
        assert {(hit.record.id, hit.record.text, hit.record.trust) for hit in hits} == recallable


def taken_back(whole: Reader, record: Record) -> bool:
    """Whether that value is rejected now, or was forgotten after that."""
    held = whole.record(record.id)
    if held is not None and held.version == record.version:
        return False
    items = whole.history(record.id, 1 << 60, limit=1000).items
    later = {item.ended_by for item in items if item.until_us is not None and item.until_us >= record.updated_at_us}
    return whole.rejected(record.id, record.value_digest) or bool(
        later & {"forgotten", "erased", "withdrawn", "unsaid"}
    )


def step(world: World, chance: random.Random) -> None:
    """Something happens."""
    subject = f"s{chance.randrange(8)}"
    id = fact_id(subject, "is")
    match chance.randrange(9):
        case 0:
            world.say((c.FORGET, c.ForgetBody(id)), author=ALICE)
        case 1:
            world.say((c.PROMOTE, c.PromoteBody(id, "seen")), author=ALICE)
        case 2:
            world.say((c.DEMOTE, c.DemoteBody(id, "rejected", "no")), author=ALICE)
        case 3 if chance.random() < 0.3:
            world.say((t.ERASE, t.EraseBody(id, "asked")), author=ALICE)
        case _:
            world.write(f"apple {chance.randrange(6)}", subject, "is", author=chance.choice((ALICE, BOB)))


def test_an_older_file_is_begun_anew_with_its_past(tmp_path: Path) -> None:
    """Folded again, former words and all."""
    world = World()
    world.write("lives in Lisbon", "Dana", "home")
    then = world.now_us
    world.write("lives in Porto", "Dana", "home")
    projection = Projection.rebuild(tmp_path / "p.db", world, world.last)
    try:
        assert found(projection.reader(), "Lisbon", world, Filters(as_of_us=then)) == ["lives in Lisbon"]
    finally:
        projection.close()


def test_a_history_as_it_was_told_then(fold: Folder) -> None:
    """What was begun until then, in pages of any size; what had not ended yet is held still."""
    world = World()
    moments = [world.now_us - 1]
    for number in range(7):
        world.write(f"lives in town {number}", "Dana", "home")
        moments.append(world.now_us)
    id = fact_id("Dana", "home")
    world.say((c.FORGET, c.ForgetBody(id, "")))
    reader = fold(world.entries).reader()
    for known, then in enumerate(moments):
        for size in (1, 2, 3, 100):
            page = reader.history(id, world.now_us, limit=size, as_of_us=then)
            told = [*page.items]
            while page.before is not None:
                page = reader.history(id, world.now_us, limit=size, before=page.before, as_of_us=then)
                assert page.items
                told += page.items
            assert [item.record.text for item in told] == [f"lives in town {number}" for number in range(known)][::-1]
            assert [item.until_us is None for item in told] == [number == 0 for number in range(known)]
    assert reader.history(id, world.now_us).items[0].ended_by == "forgotten"


def test_a_history_of_what_was_true_then(fold: Folder) -> None:
    """Values that were true at a time of the world, however many of others lie between."""
    world = World()
    for number in range(9):
        world.write(f"role {number}", "Dana", "role", valid_from_us=(MARCH_US, JUNE_US, AUGUST_US)[number % 3])
    reader = fold(world.entries).reader()
    id = fact_id("Dana", "role")
    first = reader.history(id, world.now_us, limit=2, valid_at_us=MARCH_US)
    second = reader.history(id, world.now_us, limit=2, valid_at_us=MARCH_US, before=first.before)
    assert [item.record.text for page in (first, second) for item in page.items] == ["role 6", "role 3", "role 0"]
    assert first.before is not None and second.before is None
