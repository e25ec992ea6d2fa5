"""Vectors that a service made: they come by commands, stay while their record says the same, and go with it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from projection_world import ALICE, BOB, Folder, World, fact_id

from veridical.embedding.choice import Served
from veridical.embedding.embedder import EmbedderUnavailable
from veridical.embedding.vectors import quantised
from veridical.log.entry import Entry
from veridical.memory import commands as c
from veridical.memory import rules
from veridical.memory import trust_commands as t
from veridical.memory.context import RIGHTS
from veridical.projection.projection import Projection
from veridical.projection.recall import AskedOf
from veridical.projection.served import Waiting

SERVICE = Served("openai:any:2", 2)
OTHER = Served("openai:other:2", 2)
EAST, NORTH = quantised([1.0, 0.0]), quantised([0.0, 1.0])


def held(projection: Projection) -> tuple[list[tuple[str, bytes]], list[str]]:
    """What has a vector and what waits for one, by id, which are the same whatever numbers rows have."""
    connection = projection._connection  # pyright: ignore[reportPrivateUsage]
    vectors = connection.execute("SELECT hex(id), components FROM vector JOIN record USING (number) ORDER BY id")
    waiting = connection.execute("SELECT hex(id) FROM unembedded JOIN record USING (number) ORDER BY id")
    return vectors.fetchall(), [id for (id,) in waiting]


def found(projection: Projection, query: str, vector: bytes | None, notice: str = "") -> list[str]:
    """The texts that a recall gives, best first."""
    recalled = projection.reader().recall(query, 0, asked_of=AskedOf(vector, notice))
    assert recalled.notices == ((notice,) if notice else ())
    return [hit.record.text for hit in recalled.hits]


def test_until_its_vector_comes_a_record_is_found_by_words() -> None:
    """And then by both; the answer says by which."""
    world = World()
    id = world.write("the page times out", "portal", "behaviour")
    with Folder(SERVICE) as fold:
        projection = fold(world.entries)
        assert projection.vectors_awaited
        (waiting,) = projection.reader().unembedded(0, 10)
        assert (waiting.id, waiting.text) == (id, "portal behaviour the page times out")
        assert waiting.value_digest == world.memory.records[id].value_digest
        assert found(projection, "page", EAST) == ["the page times out"]
        assert found(projection, "login", EAST) == []
        assert world.embed(id, SERVICE, EAST).code == "embedded"
        projection.apply(world.entries)
        assert found(projection, "login", EAST) == ["the page times out"]
        assert found(projection, "login", NORTH) == []
        (hit,) = projection.reader().recall("page", 0, asked_of=AskedOf(EAST)).hits
        assert list(hit.lanes) == ["words", "vectors"]
        assert projection.reader().waiting() == Waiting(1, 0)
        assert list(projection.findings()) == []


def test_without_the_service_words_are_gone_by() -> None:
    """And the answer says so, in the words of whoever asked."""
    world = World()
    world.embed(world.write("the page times out", "portal", "behaviour"), SERVICE, EAST)
    with Folder(SERVICE) as fold:
        projection = fold(world.entries)
        assert found(projection, "page", None, "the service is down") == ["the page times out"]
        assert found(projection, "login", None, "the service is down") == []
        assert projection.reader().recall("login", 0).hits == ()
        assert found(projection, "login", b"\1\2\3") == []  # of another width


def test_a_vector_goes_with_what_it_was_made_of() -> None:
    """Another value, a rejection, forgetting, erasing: gone in the transaction that changes the record."""
    ends: dict[str, Callable[[World, bytes], object]] = {
        "superseded": lambda world, id: world.write("another value", "portal", "is"),
        "rejected": lambda world, id: world.say((c.DEMOTE, c.DemoteBody(id, "rejected", "no")), author=ALICE),
        "forgotten": lambda world, id: world.say((c.FORGET, c.ForgetBody(id)), author=ALICE),
        "erased": lambda world, id: world.say((t.ERASE, t.EraseBody(id, "asked to")), author=ALICE),
    }
    for how, end in ends.items():
        world = World()
        id = world.write("one value", "portal", "is")
        world.embed(id, SERVICE, EAST)
        with Folder(SERVICE) as fold:
            projection = fold(world.entries)
            assert found(projection, "x", EAST) == ["one value"], how
            end(world, id)
            projection.apply(world.entries)
            assert held(projection) == ([], [id.hex().upper()] if how == "superseded" else []), how
            assert found(projection, "x", EAST) == [], how
            assert list(projection.findings()) == [], how


def test_what_leaves_the_value_leaves_the_vector() -> None:
    """Another spelling, a review, a note: nothing is asked of the service again."""
    world = World()
    id = world.write("Closed", "gate", "is")
    world.embed(id, SERVICE, EAST)
    world.write("closed", "gate", "is", author=BOB)
    world.say((c.PROMOTE, c.PromoteBody(id, "seen")), author=ALICE)
    world.say((c.ANNOTATE, c.AnnotateBody(id, '{"a":1}')), author=ALICE)
    world.say((c.CORRECT, c.CorrectBody((id,), "CLOSED")), author=ALICE)
    with Folder(SERVICE) as fold:
        for sizes in ((), (2, 1, 1, 1, 1)):
            projection = fold(world.entries, *sizes)
            assert held(projection) == ([(id.hex().upper(), EAST)], [])
            assert list(projection.findings()) == []


def test_a_vector_that_comes_too_late_counts_for_nothing() -> None:
    """It is of a value that is not held any more, or of nothing; and nobody but a node has any to give."""
    world = World()
    id = world.write("one value", "portal", "is")
    late = c.EmbedBody(id, world.memory.records[id].value_digest, SERVICE.name, EAST, 1)
    world.write("another value", "portal", "is")
    (outcome,) = world.say((c.EMBED, late), of_node=True)
    assert outcome.rule == rules.NOT_CURRENT
    last, whole = world.last, late._replace(value=world.memory.records[id].value_digest)
    both = world.say((c.EMBED, whole), (c.EMBED, late), of_node=True)
    assert [outcome.rule for outcome in both] == [rules.WITH_OTHERS, rules.NOT_CURRENT]
    assert world.last == last  # no history keeps it
    now = late._replace(value=world.memory.records[id].value_digest)
    for author in (ALICE, None):
        (outcome,) = world.say((c.EMBED, now), author=author)
        assert outcome.rule == rules.NOT_GRANTED
    (outcome,) = world.say((c.EMBED, now._replace(epoch=2)), of_node=True)
    assert outcome.rule == rules.PAST_EPOCH
    (outcome,) = world.say((c.EMBED, now._replace(id=bytes(16))), of_node=True)
    assert outcome.rule == rules.UNKNOWN_RECORD
    (outcome,) = world.say((c.WRITE, c.WriteBody("fact", "a", "b", "global", "c")), of_node=True)
    assert outcome.rule == rules.NOT_GRANTED
    world.say((t.ENROLL, t.EnrollBody(ALICE, "Alice", (("*", RIGHTS),))), author=ALICE)
    assert world.say((c.EMBED, now), author=ALICE)[0].rule == rules.NOT_GRANTED
    assert world.say((c.EMBED, now), of_node=True)[0].code == "embedded"
    with Folder(SERVICE) as fold:
        assert held(fold(world.entries)) == ([(id.hex().upper(), EAST)], [])


def test_an_index_takes_only_what_its_own_service_made() -> None:
    """Another model, another width, a text that says nothing: no row. The last one waits no more."""
    world = World()
    ids = [world.write(f"value {number}", f"s{number}", "is") for number in range(4)]
    world.embed(ids[0], OTHER, EAST)
    world.embed(ids[1], SERVICE, EAST + EAST)
    world.embed(ids[2], SERVICE, b"")
    world.embed(ids[3], SERVICE, bytes(2))
    with Folder(SERVICE) as fold, Folder(OTHER) as another, Folder() as lexical:
        projection = fold(world.entries)
        vectors, waiting = held(projection)
        assert (vectors, sorted(waiting)) == ([], sorted(id.hex().upper() for id in ids[:2]))
        assert found(projection, "value", EAST) and list(projection.findings()) == []
        assert len(held(another(world.entries))[0]) == 1
        assert held(lexical(world.entries)) == ([], [])


def eventful(chance: random.Random, commands: int) -> World:
    """Facts that come, change, go and return, and vectors of them, some too late."""
    world = World()
    late: list[c.EmbedBody] = []
    for _ in range(commands):
        subject = f"s{chance.randrange(8)}"
        id = fact_id(subject, "is")
        record = world.memory.record(id)
        author = chance.choice((ALICE, BOB))
        match chance.randrange(12):
            case 0:
                world.say((c.FORGET, c.ForgetBody(id)), author=author)
            case 1:
                world.say((c.PROMOTE, c.PromoteBody(id, "seen")), author=author)
            case 2:
                world.say((c.DEMOTE, c.DemoteBody(id, chance.choice(("rejected", "")), "wrong")), author=author)
            case 3:
                world.say((t.REVOKE_REJECTION, t.RevokeRejectionBody(id, "", "right after all")), author=author)
            case 4 if record is not None:
                world.say((t.UNDO, t.UndoBody(id, record.version, "a slip")), author=author)
            case 4 if world.memory.history(id):
                world.say((t.UNDO, t.UndoBody(id, world.memory.history(id)[-1].until, "a slip")), author=author)
            case 5 | 6 | 7 if record is not None:
                vector = quantised([chance.uniform(-1, 1), chance.uniform(-1, 1)])
                late.append(c.EmbedBody(id, record.value_digest, SERVICE.name, vector, 1))
                world.say((c.EMBED, late[-1]), of_node=True)
            case 8 if late:
                world.say((c.EMBED, chance.choice(late)), of_node=True)
            case _:
                world.write(chance.choice(("open", "shut", "Shut")), subject, "is", author=author)
    return world


@pytest.mark.parametrize("seed", range(12))
def test_batches_leave_no_trace(seed: int, tmp_path: Path) -> None:
    """One entry at a time, any batches, a replay, a fold beside: the same vectors for the same records."""
    chance = random.Random(seed)
    world = eventful(chance, 160)
    with Folder(SERVICE) as fold:
        single = fold(world.entries, *[1] * world.last)
        expected = held(single)
        assert list(single.findings()) == []
        for _ in range(4):
            sizes = [chance.randrange(1, 40) for _ in range(8)]
            projection = fold(world.entries, *sizes)
            assert held(projection) == expected, (seed, sizes)
            assert list(projection.findings()) == []
    again = Projection.rebuild(tmp_path / "p.db", world, world.last, embedder=SERVICE)
    try:
        assert held(again) == expected
    finally:
        again.close()


def test_the_history_holds_what_it_is_about() -> None:
    """Vectors that count, that came too late, and records that wait."""
    with Folder(SERVICE) as fold:
        ends = [held(fold(eventful(random.Random(seed), 160).entries)) for seed in range(12)]
    assert sum(len(vectors) for vectors, _ in ends) > 12 and sum(len(waiting) for _, waiting in ends) > 12


def test_of_what_was_erased_no_vector_is_left(tmp_path: Path) -> None:
    """Neither in the file nor in a fold of the log that is left."""
    world = World()
    secret = bytes(range(1, 65))
    service = Served("openai:any:64", 64)
    id = world.write("a secret", "portal", "is")
    world.embed(id, service, secret)
    path = tmp_path / "p.db"
    with Folder(service) as fold:
        projection = fold(world.entries, path=path)
        assert held(projection)[0] == [(id.hex().upper(), secret)]
        world.say((t.ERASE, t.EraseBody(id, "asked to")), author=ALICE)
        projection.apply(world.entries)
        assert projection.empty_journal()
        assert secret not in path.read_bytes()
        bereft: list[Entry] = world.bereft()
        assert bereft[1].bodies == (None,)
        assert held(fold(bereft)) == held(projection) == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vector SET trust = 1 WHERE number = 2",
        "UPDATE vector SET components = x'7f' WHERE number = 2",
        "INSERT INTO unembedded VALUES (2)",
        "INSERT INTO unembedded VALUES (99)",
        "INSERT INTO vector SELECT 99, scope, stamp, trust, kind, expiry_us, valid_from_us, valid_to_us, components"
        " FROM vector WHERE number = 2",
    ],
)
def test_rot_is_found(tmp_path: Path, change: str) -> None:
    """As far as it can be seen without the service."""
    world = World()
    for number in range(4):
        world.embed(world.write(f"value {number}", f"s{number}", "is"), SERVICE, EAST)
    path = tmp_path / "p.db"
    with Folder(SERVICE) as fold:
        fold(world.entries, path=path)
    assert list(Projection.inspect(path)) == []
    with sqlite3.connect(path) as file:
        file.execute(change)
    assert {finding.where for finding in Projection.inspect(path)} <= {"vector", "unembedded"}
    assert list(Projection.inspect(path))


def test_what_an_index_knows_of_its_service_makes_nothing() -> None:
    """A fold that asked a service would wait for it."""
    with pytest.raises(EmbedderUnavailable, match="not asked"):
        SERVICE.embed(["x"])
