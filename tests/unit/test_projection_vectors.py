"""Recall by vectors: the fold makes them, filters hold, every reader sees its own moment, no index is a stranger's."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from projection_world import ALICE, Folder, World, fact_id

from veridical.embedding.embedder import Embedder
from veridical.embedding.hashing import HashEmbedder
from veridical.embedding.static import local_embedder
from veridical.embedding.vectors import quantised
from veridical.log.entry import Entry
from veridical.memory import commands as c
from veridical.memory import trust_commands as t
from veridical.memory.record import CANDIDATE, VERIFIED
from veridical.projection import nearest, vectors
from veridical.projection.answers import ANYTHING, Filters, Hit
from veridical.projection.errors import OtherEmbedder
from veridical.projection.filters import Allowed
from veridical.projection.nearest import COSINE_FLOOR, Shelf
from veridical.projection.projection import Projection
from veridical.projection.reader import Reader
from veridical.projection.recall import SLICE, Search
from veridical.projection.vectors import NOBODY, VectorChanges

LOCAL = local_embedder()
SIGN_IN = "the sign-in page times out after five minutes"


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections with vectors of the model that ships with the product, and closes them."""
    with Folder(LOCAL) as folder:
        yield folder


def texts(reader: Reader, query: str, filters: Filters = ANYTHING, k: int = 5) -> list[str]:
    """The texts that a recall gives, best first."""
    return [hit.record.text for hit in hits(reader, query, filters, k)]


def hits(reader: Reader, query: str, filters: Filters = ANYTHING, k: int = 5) -> Sequence[Hit]:
    """What a recall gives."""
    return reader.recall(query, 0, k=k, filters=filters).hits


def test_meaning_is_found_without_a_word_in_common(fold: Folder) -> None:
    """And by words alone it is not; the answer says by which lane each hit came."""
    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    world.write("invoices are kept for ten years", "finance", "policy")
    reader = fold(world.entries).reader()
    assert texts(reader, "login") == [SIGN_IN]
    assert [list(hit.lanes) for hit in hits(reader, "login")] == [["vectors"]]
    assert [list(hit.lanes) for hit in hits(reader, "invoices")] == [["words", "vectors"]]
    assert hits(reader, "login")[0].lanes["vectors"] > COSINE_FLOOR
    with Folder() as lexical:
        assert texts(lexical(world.entries).reader(), "login") == []


def test_what_is_unlike_everything_finds_nothing(fold: Folder) -> None:
    """A vector always has a nearest one; it does not count below the floor."""
    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    reader = fold(world.entries).reader()
    assert texts(reader, "zucchini recipe") == []
    assert texts(reader, "🙂") == [] and texts(reader, "") == []


def test_filters_are_inside(fold: Folder) -> None:
    """However many nearer ones lie outside of scope, kind, trust and validity."""
    world = World()
    for number in range(SLICE + 20):
        world.write("login login", f"s{number}", "is", "other")
    world.write(SIGN_IN, "portal", "behaviour", "team")
    world.write(SIGN_IN, "portal", "lesson", "team", kind="skill")
    world.write(SIGN_IN, "portal", "once", "team", valid_from_us=1, valid_to_us=5)
    found = {
        Filters(("team",)): 3,
        Filters(("team",), kind="skill"): 1,
        Filters(("team",), valid_at_us=3): 3,
        Filters(("team",), valid_at_us=9): 2,
        Filters(("team",), trust=VERIFIED): 0,
        Filters(("team",), trust=CANDIDATE): 3,
        Filters(("nowhere",)): 0,
    }
    reader = fold(world.entries).reader()
    for filters, count in found.items():
        assert texts(reader, "login", filters) == [SIGN_IN] * count, filters


def test_episodes_are_found_by_who_asks_for_them(fold: Folder) -> None:
    """As by words."""
    world = World()
    world.write(SIGN_IN, kind="episode")
    reader = fold(world.entries).reader()
    assert texts(reader, "login") == []
    assert texts(reader, "login", Filters(kind="episode")) == [SIGN_IN]


def test_no_flood_of_nearer_candidates_hides_the_verified(fold: Folder) -> None:
    """The verified have a list of their own in this lane too."""
    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    world.say((c.PROMOTE, c.PromoteBody(fact_id("portal", "behaviour"), "seen")), author=ALICE)
    for number in range(5 * SLICE):
        world.write("login", f"s{number}", "is")
    assert SIGN_IN in texts(fold(world.entries).reader(), "login")


def test_what_is_gone_leaves_no_vector(tmp_path: Path) -> None:
    """Forgotten, rejected, erased, replaced: the row goes with the words, in the same transaction."""
    world = World()
    for number in range(4):
        world.write(SIGN_IN, f"portal {number}", "says")
    with Folder(LOCAL) as fold:
        projection = fold(world.entries, path=tmp_path / "p.db")
        reader = projection.reader()
        assert len(texts(reader, "login")) == 4
        world.say((c.FORGET, c.ForgetBody(fact_id("portal 0", "says"))), author=ALICE)
        world.say((c.DEMOTE, c.DemoteBody(fact_id("portal 1", "says"), "rejected", "wrong")), author=ALICE)
        world.say((t.ERASE, t.EraseBody(fact_id("portal 2", "says"), "asked")), author=ALICE)
        world.write("the moon is far away", "portal 3", "says")
        projection.apply(world.entries)
        assert texts(reader, "login") == []
        assert texts(reader, "lunar distance") == ["the moon is far away"]
        assert list(projection.findings()) == []
    with sqlite3.connect(tmp_path / "p.db") as file:
        assert file.execute("SELECT count(*) FROM vector").fetchone() == (1,)


def test_batches_leave_no_trace(fold: Folder) -> None:
    """Whatever was folded with what: the same history gives the same answers, shelf kept or begun anew."""
    world = eventful(random.Random(7), 300)
    one, other = fold(world.entries), fold([])
    asked = other.reader()
    for place in range(0, len(world.entries), 13):
        other.apply(world.entries[place : place + 13])
        asked.recall("what is kept", 0)
    fresh = one.reader()
    for query in ("what is kept", "login", "who pays", "animal", "the moon", "s1"):
        for filters in (ANYTHING, Filters(("a",)), Filters(trust=VERIFIED), Filters(("a", "b"), kind="skill")):
            assert fresh.recall(query, 0, k=20, filters=filters) == asked.recall(query, 0, k=20, filters=filters)
    assert list(one.findings()) == []


def test_a_reader_behind_the_shelf_sees_its_own_moment(fold: Folder, tmp_path: Path) -> None:
    """Readers share the vectors in memory; each answers from its snapshot all the same."""
    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    projection = fold(world.entries, path=tmp_path / "p.db")
    behind, ahead = projection.reader(), projection.reader()
    with behind.snapshot():
        assert texts(behind, "login") == [SIGN_IN]
        world.write("the login form is blue", "form", "colour")
        world.say((c.FORGET, c.ForgetBody(fact_id("portal", "behaviour"))), author=ALICE)
        projection.apply(world.entries)
        assert texts(ahead, "login") == ["the login form is blue"]
        assert texts(behind, "login") == [SIGN_IN]
    assert texts(behind, "login") == ["the login form is blue"]


def test_a_reader_that_missed_too_many_removals_begins_anew(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last of them are kept."""
    monkeypatch.setattr(vectors, "VANISHED_KEPT", 2)
    world = World()
    for number in range(8):
        world.write(SIGN_IN, f"portal {number}", "says")
    projection = fold(world.entries)
    reader = projection.reader()
    assert len(texts(reader, "login", k=20)) == 8
    for number in range(6):
        world.say((c.FORGET, c.ForgetBody(fact_id(f"portal {number}", "says"))), author=ALICE)
        projection.apply(world.entries)
    assert len(texts(reader, "login", k=20)) == 2


def test_shelves_take_a_bounded_part_of_memory(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was used longest ago goes; what it held is found all the same."""
    world = World()
    for scope in ("a", "b", "c"):
        world.write(SIGN_IN, "portal", "behaviour", scope)
    reader = fold(world.entries).reader()
    monkeypatch.setattr(nearest, "SHELVES_BYTES_LIMIT", 1)
    assert len(texts(reader, "login")) == 3
    assert [len(texts(reader, "login", Filters((scope,)))) for scope in "abca"] == [1, 1, 1, 1]


def test_many_scopes_give_no_more_candidates_than_one(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighing candidates is what a question over many scopes would spend its time with."""
    world = World()
    for number in range(200):
        world.write(f"{SIGN_IN} {'x' * number}", f"portal {number}", "says", f"repo:{number % 20}")
    reader = fold(world.entries).reader()
    weighed: list[int] = []
    weigh = Search._weigh  # pyright: ignore[reportPrivateUsage]

    def counted(search: Search, numbers: Iterable[int]) -> None:
        weighed.append(len(found := list(numbers)))
        weigh(search, found)

    monkeypatch.setattr(Search, "_weigh", counted)
    assert len(texts(reader, "login")) == 5
    assert max(weighed) <= SLICE


def test_an_index_belongs_to_its_embedder(tmp_path: Path) -> None:
    """Another one is refused, naming what to do, as long as there is anything to find."""
    path = tmp_path / "p.db"
    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    assert Projection.maker(path) == NOBODY
    with Folder(LOCAL) as fold:
        fold([], path=path)
    with Folder(HashEmbedder()) as fold:  # nothing is in it yet
        fold(world.entries, path=path)
    assert Projection.maker(path).name == HashEmbedder().name
    for other in (None, LOCAL):
        with pytest.raises(OtherEmbedder, match="veridical reembed"):
            Projection.open(path, other)
    with Folder(HashEmbedder()) as fold:
        fold(world.entries, path=path)


def test_rebuilt_and_beside_it_has_its_vectors(tmp_path: Path) -> None:
    """A fold of the log gives them too, and taking it over forgets what was in memory."""
    world = eventful(random.Random(3), 60)
    projection = Projection.rebuild(tmp_path / "p.db", world, world.last, embedder=LOCAL)
    try:
        reader = projection.reader()
        before = reader.recall("what is kept", 0, k=20)
        assert before.hits
        again = projection.beside()
        again.catch_up(world, world.last)
        projection.take_over(again)
        again.discard()
        assert reader.recall("what is kept", 0, k=20) == before
        assert list(projection.findings()) == []
    finally:
        projection.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vector SET components = zeroblob(256) WHERE number = 2",
        "UPDATE vector SET trust = 1 WHERE number = 2",
        "DELETE FROM vector WHERE number = 2",
        "INSERT INTO vector SELECT 99, scope, stamp, trust, kind, expiry_us, valid_from_us, valid_to_us, components"
        " FROM vector WHERE number = 2",
    ],
)
def test_rot_is_found(tmp_path: Path, change: str) -> None:
    """By making the vectors again: as a whole, and little by little in use."""
    world = World()
    for number in range(4):
        world.write(SIGN_IN, f"portal {number}", "says")
    path = tmp_path / "p.db"
    with Folder(LOCAL) as fold:
        fold(world.entries, path=path)
    assert list(Projection.inspect(path)) == []
    with sqlite3.connect(path) as file:
        file.execute(change)
    assert {finding.where for finding in Projection.inspect(path)} == {"vector"}


def test_without_an_embedder_nothing_is_kept(tmp_path: Path) -> None:
    """And nothing is paid."""
    world = eventful(random.Random(5), 30)
    with Folder() as fold:
        fold(world.entries, path=tmp_path / "p.db")
    with sqlite3.connect(tmp_path / "p.db") as file:
        assert file.execute("SELECT (SELECT count(*) FROM vector), (SELECT count(*) FROM vanished)").fetchone() == (
            0,
            0,
        )


def test_a_shelf_is_what_was_put_on_it() -> None:
    """Any order of puts and removals leaves the same products as the rows themselves."""
    chance = random.Random(11)
    width, held = 32, dict[int, bytes]()
    shelf = Shelf(width)
    question = np.array([chance.randint(-127, 127) for _ in range(width)], np.int8)
    allowed = Allowed(0, None, None, None, None)
    for _ in range(200):
        rows = {
            chance.randrange(300): quantised([chance.randint(-9, 9) for _ in range(width)])
            for _ in range(chance.randrange(12))
        }
        gone = chance.sample(range(300), chance.randrange(6))
        shelf.remove(gone)
        for number in gone:
            held.pop(number, None)
        shelf.put([(number, 0, "fact", 1, -1, 1, row) for number, row in rows.items()])
        held |= rows
        near = shelf.near(question, allowed)
        wanted = {number: cosine(question.tobytes(), row) for number, row in held.items()}
        assert dict(zip(near.numbers.tolist(), near.cosines.tolist(), strict=True)) == pytest.approx(
            {number: value for number, value in wanted.items() if value >= COSINE_FLOOR}
        )


def test_wide_vectors_are_added_up_exactly() -> None:
    """Beyond what a float32 can count, wider floats are used."""
    width = 4 * nearest.EXACT_WIDTH
    row, question = bytes([127]) * width, np.full(width, 127, np.int8)
    shelf = Shelf(width)
    shelf.put([(1, 0, "fact", 1, -1, 1, row)])
    assert shelf.near(question, Allowed(0, None, None, None, None)).cosines.tolist() == [1.0]


def test_an_embedder_that_fails_is_no_half_written_batch(tmp_path: Path) -> None:
    """The transaction goes back as for any other error."""

    class Broken(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            raise RuntimeError("no vectors today")

    world = World()
    world.write(SIGN_IN, "portal", "behaviour")
    embedder: Embedder = Broken()
    with Folder(embedder) as fold:
        projection = fold([], path=tmp_path / "p.db")
        with pytest.raises(RuntimeError):
            projection.apply(world.entries)
        assert projection.applied.index == 0


def test_nothing_is_noted_for_nobody() -> None:
    """Without an embedder a batch has no changes to write; a connection would not even be looked at."""
    changes = VectorChanges(None)
    changes.unsay(1, 1)
    changes.keep((1,))
    changes.write(sqlite3.connect(":memory:"), 1)


def cosine(question: bytes, row: bytes) -> float:
    """The definition, in integers as far as it goes."""
    one, other = ([byte - (byte > 127) * 256 for byte in each] for each in (question, row))
    dot = sum(map(int.__mul__, one, other))
    lengths = [math.sqrt(sum(a * a for a in each)) for each in (one, other)]
    return dot / (lengths[0] * lengths[1]) if all(lengths) else 0.0


def eventful(chance: random.Random, commands: int) -> World:
    """A history of facts that come, change and go."""
    said = (
        "the cat sleeps all day", "invoices are kept for ten years", SIGN_IN, "the moon is far away", "bob pays",
        "logs are kept for a week", "dogs bark at night", "the login form is blue",
    )  # fmt: skip
    world = World()
    for _ in range(commands):
        subject, scope = f"s{chance.randrange(40)}", chance.choice("abc")
        id = fact_id(subject, "is", scope)
        match chance.randrange(8):
            case 0:
                world.say((c.FORGET, c.ForgetBody(id)), author=ALICE)
            case 1:
                world.say((c.PROMOTE, c.PromoteBody(id, "seen")), author=ALICE)
            case 2:
                world.say((c.DEMOTE, c.DemoteBody(id, "rejected", "wrong")), author=ALICE)
            case _:
                kind = chance.choice(("fact", "fact", "skill"))
                world.write(chance.choice(said), subject, "is", scope, kind=kind)
    return world


def test_the_world_is_eventful() -> None:
    """It has what the tests above are about."""
    world: World = eventful(random.Random(7), 300)
    entries: list[Entry] = world.entries
    assert len(entries) == 300
    assert {record.trust for record in world.memory.records.values()} >= {CANDIDATE, VERIFIED}
