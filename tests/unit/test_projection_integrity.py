"""Whatever is changed in the file behind the projection's back is found, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from projection_world import ALICE, BOB, Folder, World, fact_id

from veridical.memory import commands as c
from veridical.projection.integrity import Finding
from veridical.projection.projection import Projection
from veridical.projection.sqlite import Database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A projection on disk with some of everything in it, closed."""
    world = World()
    for number in range(40):
        world.write(f"value {number}", f"s{number}", "is", f"user:{number % 3}", metadata='{"file":"a.py"}')
    world.write("another value", "s1", "is", "user:1")
    world.say((c.PROMOTE, c.PromoteBody(fact_id("s2", "is", "user:2"), "seen")), author=ALICE)
    world.write("contending", "s2", "is", "user:2", author=BOB)
    world.say((c.DEMOTE, c.DemoteBody(fact_id("s3", "is", "user:0"), "rejected", "wrong")))
    world.say((c.FORGET, c.ForgetBody(fact_id("s4", "is", "user:1"))))
    sources = (fact_id("s5", "is", "user:2"), fact_id("s6", "is", "user:0"))
    world.write("follows", "s41", "is", "user:0", derived_from=sources)
    world.write("contends", "s2", "is", "user:2", derived_from=sources)
    first = world.write("turn 1", kind="episode", scope="user:0")
    world.write("turn 2", kind="episode", scope="user:0", follows=first)
    path = tmp_path / "projection.db"
    with Folder() as fold:
        fold(world.entries, 7, 7, 7, path=path)
    return path


def found(file: Path) -> list[Finding]:
    """All that the checks find."""
    return list(Projection.inspect(file))


def test_nothing_is_wrong_with_an_untouched_file(file: Path) -> None:
    """Nor does looking change anything."""
    before = file.read_bytes()
    assert found(file) == []
    assert file.read_bytes() == before


def test_nothing_is_wrong_with_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It will be folded."""
    assert found(tmp_path / "projection.db") == []
    assert not (tmp_path / "projection.db").exists()


def test_an_open_projection_can_be_checked(tmp_path: Path) -> None:
    """Also one in memory."""
    world = World()
    world.write("something")
    with Folder() as fold:
        assert list(fold(world.entries).findings()) == []
        assert list(fold(world.entries, path=tmp_path / "projection.db").findings()) == []


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        ("UPDATE content SET body = replace(body, 'value 7', 'value 8')", {"content"}),
        ("UPDATE content SET digest = zeroblob(32) WHERE number = 3", {"content", "bucket"}),
        ("DELETE FROM content WHERE number = 3", {"content", "bucket", "words"}),
        ("UPDATE record SET trust = 1 WHERE number = 9", {"record"}),
        ("UPDATE record SET expiry_us = 5 WHERE number = 9", {"record"}),
        ("UPDATE record SET scope = 2 WHERE number = 1", {"record", "words"}),
        ("DELETE FROM record WHERE number = 9", {"content", "words", "state", "scope", "bucket"}),
        ("UPDATE past SET body = replace(body, 'value', 'worth')", {"past"}),
        ("DELETE FROM past", {"bucket"}),
        ("DELETE FROM contender", {"bucket", "derivation"}),
        ("DELETE FROM derivation", {"derivation"}),
        ("DELETE FROM following", {"following"}),
        (
            "UPDATE derivation SET source = zeroblob(16) WHERE source = (SELECT min(source) FROM derivation)",
            {"derivation"},
        ),
        ("DELETE FROM rejection", {"bucket"}),
        ("DELETE FROM retraction", {"bucket"}),
        ("UPDATE bucket SET digests = zeroblob(512)", {"bucket"}),
        ("UPDATE scope SET records = 99 WHERE number = 1", {"scope"}),
        ("INSERT INTO words(rowid, value) VALUES (999, 'ghost')", {"words"}),
        ("INSERT INTO words(words, rowid, value) VALUES ('delete', 6, 'value')", {"words"}),
        ("INSERT INTO words(words) VALUES ('delete-all')", {"words"}),
    ],
)
def test_a_hand_edit_is_found(file: Path, edit: str, where: set[str]) -> None:
    """In rows, digests, counts or full text."""
    connection = Database(file).inspector()
    connection.execute(edit)
    connection.close()
    assert {finding.where for finding in found(file)} >= where


def test_the_record_concerned_is_named(file: Path) -> None:
    """So that its history alone can be folded again."""
    connection = Database(file).inspector()
    connection.execute("UPDATE record SET trust = 1 WHERE number = 9")
    (id,) = connection.execute("SELECT id FROM record WHERE number = 9").fetchone()
    connection.close()
    assert [finding.id for finding in found(file)] == [id]


def zeroed(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[4096 * 3 : 4096 * 12] = bytes(4096 * 9)
    file.write_bytes(raw)


def no_database(file: Path) -> None:
    file.write_bytes(b"nothing that SQLite knows" * 400)


@pytest.mark.parametrize("harm", [zeroed, no_database])
def test_damage_is_found_and_never_raised(file: Path, harm: Callable[[Path], None]) -> None:
    """Checks go on as far as they can."""
    harm(file)
    assert found(file)
