"""The sieve never loses an id, and the writer's state answers with it as the database would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from projection_world import Folder, World

from veridical.projection import state
from veridical.projection.projection import Projection
from veridical.projection.sieve import Sieve


@pytest.fixture
def fold() -> Iterator[Folder]:
    with Folder() as folder:
        yield folder


def ids(count: int, name: str) -> list[bytes]:
    return [hashlib.sha256(f"{name} {place}".encode()).digest()[:16] for place in range(count)]


def test_every_id_put_in_may_be_held() -> None:
    """Whatever else is put in."""
    sieve, held = Sieve(1 << 10), ids(5_000, "held")
    sieve.put(held)
    assert all(map(sieve.may_hold, held))


def test_most_others_certainly_are_not() -> None:
    """One bit in eighty is set: about one new id in eighty is looked up in vain."""
    sieve = Sieve(1 << 10)
    sieve.put(ids(100, "held"))
    assert sum(map(sieve.may_hold, ids(10_000, "new"))) < 250


def commands_of(world: World) -> list[bytes]:
    return list(world.memory.outcomes)


def test_commands_of_before_the_file_was_opened_are_known(tmp_path: Path) -> None:
    """The sieve for commands begins empty; older ids are looked up."""
    world, path = World(), tmp_path / "projection.db"
    for text in ("one", "two", "three"):
        world.write(text)
    with Folder() as folder:
        folder(world.entries[:2], path=path)
    projection = Projection.open(path)
    projection.apply(world.entries)
    assert [projection.state.outcome(id) for id in commands_of(world)] == list(world.memory.outcomes.values())
    assert projection.state.outcome(commands_of(world)[-1][:6] + bytes(10)) is None
    projection.close()


def test_commands_are_known_when_the_sieve_has_begun_anew(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so before it is too full to tell anything."""
    monkeypatch.setattr(state, "COMMANDS_SIEVED_LIMIT", 2)
    world = World()
    for place in range(9):
        world.write(f"fact {place}")
    projection = fold(world.entries, *[1] * 9)
    assert [projection.state.outcome(id) for id in commands_of(world)] == list(world.memory.outcomes.values())
    assert projection.state.outcome(b"\xff" * 16) is None


def test_records_of_before_the_file_was_opened_are_known(tmp_path: Path) -> None:
    """The sieve for records is filled when the file is opened."""
    world, path = World(), tmp_path / "projection.db"
    id = world.write("berlin", "dana", "lives_in")
    with Folder() as folder:
        folder(world.entries, path=path)
    projection = Projection.open(path)
    assert projection.state.record(id) == world.memory.records[id]
    world.write("lisbon", "dana", "lives_in")
    projection.apply(world.entries)
    assert projection.reader().state_digest() == world.memory.state_digest()
    projection.close()
