"""A projection in use is looked through part by part, and takes over what was folded beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from projection_world import ALICE, World, fact_id

from veridical.memory import commands as c
from veridical.memory.digest import bucket
from veridical.projection.projection import BESIDE, Projection
from veridical.projection.scrub import PARTS

ID = fact_id("s2", "is")
FORGED = "UPDATE content SET body = CAST(replace(CAST(body AS TEXT), 'value 2', 'valve 2') AS BLOB)"


@pytest.fixture
def world() -> World:
    """A history with some of everything."""
    world = World()
    for number in range(60):
        world.write(f"value {number}", f"s{number}", "is", metadata='{"file":"a.py"}')
    world.write("another value", "s1", "is")
    world.say((c.PROMOTE, c.PromoteBody(ID, "seen")), author=ALICE)
    world.say((c.FORGET, c.ForgetBody(fact_id("s4", "is"))))
    return world


@pytest.fixture(params=["file", "memory"])
def projection(request: pytest.FixtureRequest, tmp_path: Path, world: World) -> Iterator[Projection]:
    """The history folded, on disk and in memory."""
    path = ":memory:" if request.param == "memory" else tmp_path / "projection.db"
    with closing(Projection.open(path)) as projection:
        projection.apply(world.entries)
        yield projection


def spoil(projection: Projection, *statements: str) -> None:
    """Change the file behind the projection's back."""
    with closing(projection._database.inspector()) as connection:  # pyright: ignore[reportPrivateUsage]
        for statement in statements:
            connection.execute(statement)


def found(projection: Projection) -> dict[int | str, list[str]]:
    """What a pass finds, by bucket and as a whole, where it finds anything."""
    with closing(projection.scrubber()) as scrubber:
        parts: dict[int | str, list[str]] = {
            number: [finding.where for finding in scrubber.look_at_bucket(number).findings] for number in range(PARTS)
        }
        parts["whole"] = [finding.where for finding in scrubber.look_at_whole(lambda rows: None)]
    return {part: findings for part, findings in parts.items() if findings}


def test_nothing_is_wrong_with_what_was_folded(projection: Projection) -> None:
    """And every row is looked at."""
    assert found(projection) == {}
    with closing(projection.scrubber()) as scrubber:
        rows = sum(scrubber.look_at_bucket(number).rows for number in range(PARTS))
        rests: list[int] = []
        scrubber.look_at_whole(rests.append)
    assert rows > sum(rests) >= 59, "records, and what else has a digest"


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("UPDATE content SET body = body || x'00' WHERE number = 3", "content"),
        ("UPDATE record SET trust = 1 WHERE number = 5", "record"),
        ("DELETE FROM content WHERE number = 3", "content"),
        ("UPDATE past SET digest = zeroblob(32) WHERE until_index = (SELECT min(until_index) FROM past)", "past"),
        ("UPDATE content SET digest = zeroblob(32) WHERE number = 7", "content"),
    ],
)
def test_rot_in_rows_is_found_in_their_bucket(projection: Projection, statement: str, where: str) -> None:
    """One part of the pass finds it, and says in which table."""
    spoil(projection, statement)
    parts = {part: findings for part, findings in found(projection).items() if part != "whole"}
    assert len(parts) == 1
    assert where in next(iter(parts.values()))


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("INSERT INTO words(words) VALUES ('delete-all')", "words"),
        ("UPDATE scope SET records = records + 1", "scope"),
        ("INSERT INTO words(rowid, value) VALUES (900, 'planted')", "words"),
    ],
)
def test_what_belongs_to_no_bucket_is_found_in_the_whole(projection: Projection, statement: str, where: str) -> None:
    """Full text and counts."""
    spoil(projection, statement)
    parts = found(projection)
    assert set(parts) == {"whole"}
    assert where in parts["whole"]


@pytest.mark.parametrize("spoiled", [FORGED, "INSERT INTO words(words) VALUES ('delete-all')", "DELETE FROM past"])
def test_what_was_folded_beside_takes_the_place_of_what_is_wrong(
    projection: Projection, world: World, spoiled: str
) -> None:
    """All of it, for the writer and for readers that were there before; and the fold goes on."""
    reader = projection.reader()
    spoil(projection, spoiled)
    assert found(projection)
    beside = projection.beside()
    beside.catch_up(world, world.last)
    projection.take_over(beside)
    beside.discard()
    assert found(projection) == {}
    assert projection.applied.index == world.last
    assert reader.get(ID, world.now_us)[1] is not None
    before = world.last
    world.write("something new", "s2", "says")
    projection.apply(world.entries[before:])
    assert reader.applied.index == world.last
    assert projection.state.bucket_digests() == world.memory.buckets()
    reader.close()


def test_a_reader_keeps_its_state_while_another_is_taken_over(tmp_path: Path, world: World) -> None:
    """A snapshot is one state, before or after."""
    with closing(Projection.open(tmp_path / "projection.db")) as projection:
        projection.apply(world.entries)
        reader = projection.reader()
        spoil(projection, FORGED)
        beside = projection.beside()
        beside.catch_up(world, world.last)
        with reader.snapshot():
            digests = reader.bucket_digests()
            forged = reader.get(ID, world.now_us)[1]
            projection.take_over(beside)
            assert reader.get(ID, world.now_us)[1] == forged
            assert reader.bucket_digests() == digests
        assert reader.get(ID, world.now_us)[1] != forged
        beside.discard()
        assert not list(tmp_path.glob(f"*{BESIDE}*"))


def test_a_broken_page_is_mended_by_what_was_folded_beside(tmp_path: Path, world: World) -> None:
    """Pages are overwritten without being understood; only the first page has to be one."""
    path = tmp_path / "projection.db"
    with closing(Projection.open(path)) as projection:
        projection.apply(world.entries)
    with closing(sqlite3.connect(path)) as connection:
        [page] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'record_id'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    with closing(Projection.open(path)) as projection:
        raw = bytearray(path.read_bytes())
        raw[(page - 1) * size : (page - 1) * size + 64] = b"\xff" * 64
        path.write_bytes(raw)
        with closing(projection.scrubber()) as scrubber:
            assert scrubber.look_at_bucket(bucket(ID)).findings
        beside = projection.beside()
        beside.catch_up(world, world.last)
        projection.take_over(beside)
        beside.discard()
        assert found(projection) == {}
