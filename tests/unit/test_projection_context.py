"""A record is found by what stands around it, within its scope, as long as that is held; its own words weigh more."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from projection_world import ALICE, BOB, Folder, World

from veridical.embedding.static import local_embedder
from veridical.memory import commands as c
from veridical.memory import trust_commands as t
from veridical.memory.record import EPISODE
from veridical.projection.answers import Filters
from veridical.projection.context import CHARACTERS_TAKEN
from veridical.projection.reader import Reader

TURNS = Filters(kind=EPISODE)
MAY_7_2023_US = 1_683_460_800_000_000


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def texts(reader: Reader, query: str, filters: Filters = TURNS) -> list[str]:
    """The texts that a recall gives, best first."""
    return [hit.record.text for hit in reader.recall(query, 0, k=10, filters=filters).hits]


def conversation(world: World, *turns: str, scope: str = "talk") -> list[bytes]:
    """Turns that follow each other."""
    ids: list[bytes] = []
    for turn in turns:
        ids.append(world.write(turn, kind=EPISODE, scope=scope, follows=ids[-1] if ids else b""))
    return ids


def test_an_answer_is_found_by_its_question(fold: Folder) -> None:
    """And a turn by the one after it; its own words weigh more."""
    world = World()
    conversation(world, "Where shall we meet?", "At the harbour, by the old crane.", "Fine, bring an umbrella.")
    reader = fold(world.entries).reader()
    assert texts(reader, "meet")[:2] == ["Where shall we meet?", "At the harbour, by the old crane."]
    assert texts(reader, "harbour")[0] == "At the harbour, by the old crane."
    assert set(texts(reader, "harbour")) == {
        "At the harbour, by the old crane.", "Where shall we meet?", "Fine, bring an umbrella."
    }  # fmt: skip
    assert "Where shall we meet?" not in texts(reader, "umbrella")


def test_a_fact_is_found_by_its_source(fold: Folder) -> None:
    """What was said around it there."""
    world = World()
    [turn] = conversation(world, "After the accident on the bridge I sold the car.")
    world.write("no car", "Dana", "owns", "talk", derived_from=(turn,))
    assert texts(fold(world.entries).reader(), "bridge", Filters()) == ["no car"]


def test_context_stays_in_its_scope(fold: Folder) -> None:
    """A source of another scope gives no words: whoever may read the fact may not read that."""
    world = World()
    secret = world.write("the password is swordfish", kind=EPISODE, scope="private")
    world.write("has a password", "door", "state", "public", derived_from=(secret,))
    reader = fold(world.entries).reader()
    assert texts(reader, "swordfish", Filters(("public",))) == []
    assert texts(reader, "door", Filters(("public",))) == ["has a password"]


@pytest.mark.parametrize("ending", ["forget", "erase"])
def test_what_is_gone_is_around_nothing(fold: Folder, ending: str) -> None:
    """Its neighbours are not found by its words any more, and what was taken from it neither."""
    world = World()
    first, secret, _ = conversation(world, "Good morning.", "My word is swordfish.", "Noted.")
    world.write("knows a word", "Dana", "state", "talk", derived_from=(secret, first))
    projection = fold(world.entries)
    reader = projection.reader()
    assert len(texts(reader, "swordfish")) == 3 and texts(reader, "swordfish", Filters()) == ["knows a word"]
    body = {
        "forget": (c.FORGET, c.ForgetBody(secret)),
        "erase": (t.ERASE, t.EraseBody(secret, "asked")),
    }[ending]
    world.say(body, author=ALICE)
    projection.apply(world.entries)
    assert texts(reader, "swordfish") == [] and texts(reader, "swordfish", Filters()) == []
    assert list(projection.findings()) == []


def test_a_long_neighbour_is_bounded(fold: Folder) -> None:
    """The end of what came before, the beginning of what came after."""
    world = World()
    long = "unicorn " + "filler " * CHARACTERS_TAKEN + "phoenix"
    conversation(world, long, "Short.", long)
    reader = fold(world.entries).reader()
    assert "Short." in texts(reader, "phoenix") and "Short." in texts(reader, "unicorn")
    world = World()
    conversation(world, long, "Short.")
    assert "Short." not in texts(fold(world.entries).reader(), "unicorn")


def test_a_day_is_found_as_people_say_it(fold: Folder) -> None:
    """By date, month, day of the month and of the week."""
    world = World()
    world.write("We went hiking.", kind=EPISODE, scope="talk", valid_from_us=MAY_7_2023_US)
    reader = fold(world.entries).reader()
    for query in ("2023-05-07", "7 May 2023", "what happened in May?", "that sunday"):
        assert texts(reader, query) == ["We went hiking."], query


def test_an_answer_lies_near_its_question() -> None:
    """In meaning too, as long as the question is held; and the check makes the same vectors."""
    world = World()
    question, _ = conversation(
        world, "What happened to your old laptop?", "I poured cocoa over it, and the backup is old."
    )
    with Folder(local_embedder()) as fold:
        projection = fold(world.entries)
        reader = projection.reader()
        assert "I poured cocoa over it, and the backup is old." in texts(reader, "notebook computer")
        assert list(projection.findings()) == []
        world.say((c.FORGET, c.ForgetBody(question)), author=ALICE)
        projection.apply(world.entries)
        assert texts(reader, "notebook computer") == []
        assert list(projection.findings()) == []


@pytest.mark.parametrize("seed", range(8))
def test_the_index_is_a_function_of_the_state(seed: int) -> None:
    """Whatever came and went, in whatever batches: it says what the records and their neighbours say now."""
    print(f"seed {seed}")
    with Folder(local_embedder() if seed % 2 else None) as fold:
        check_history(random.Random(seed), fold)


def check_history(chance: random.Random, fold: Folder) -> None:
    """One history in random batches."""
    world, turns, facts = World(), list[bytes](), list[bytes]()
    projection = fold([])
    for step in range(150):
        scope = chance.choice(("a", "b"))
        match chance.randrange(8):
            case 0 | 1 | 2:
                follows = chance.choice([*turns, b""])
                outcome = world.say(
                    (c.WRITE, c.WriteBody(EPISODE, "", "", scope, f"turn {step} apple", follows=follows)), author=ALICE
                )
                turns += [outcome[0].record_id] if outcome[0].record_id else []
            case 3 | 4 if turns:
                sources = tuple(chance.sample(turns, min(len(turns), chance.randint(1, 3))))
                subject = f"s{chance.randrange(12)}"
                body = c.WriteBody("fact", subject, "is", scope, f"value {step % 5}", derived_from=sources)
                outcome = world.say((c.WRITE, body), author=chance.choice((ALICE, BOB)))
                facts += [outcome[0].record_id] if outcome[0].record_id else []
            case 5 if turns:
                world.say((c.FORGET, c.ForgetBody(chance.choice(turns))), author=ALICE)
            case 6 if turns:
                world.say((t.ERASE, t.EraseBody(chance.choice(turns), "asked")), author=ALICE)
            case 7 if facts:
                world.say((c.FORGET, c.ForgetBody(chance.choice(facts))), author=ALICE)
            case _:
                pass
        if chance.random() < 0.2:
            projection.apply(world.entries)
            assert list(projection.findings()) == []
    projection.apply(world.entries)
    assert list(projection.findings()) == []
    whole = fold(world.entries)
    for query in ("apple", "turn 7", "value 3"):
        for filters in (TURNS, Filters(), Filters(("a",))):
            one = projection.reader().recall(query, 0, k=30, filters=filters)
            assert one == whole.reader().recall(query, 0, k=30, filters=filters)
