"""The write-ahead log stays bounded, whoever reads and however long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from projection_world import Folder, World

from veridical.memory import commands as c
from veridical.projection import projection as module
from veridical.projection.errors import SnapshotRevoked
from veridical.projection.projection import Projection

WAL_LIMIT = 200_000
GRACE = 300_000  # the pages of the batch that is being written


@pytest.fixture
def folding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Projection, World]]:
    """A projection whose log may grow to 200 kB, and a history that writes twenty times as much."""
    monkeypatch.setattr(module, "WAL_BYTES_LIMIT", WAL_LIMIT)
    monkeypatch.setattr(module, "CHECKPOINT_WAIT_MS", 2_000)
    world = World()
    for batch in range(60):
        world.write_many(
            [c.WriteBody("fact", f"s{batch} {number}", "is", "global", "many words " * 20) for number in range(16)]
        )
    with Folder() as fold:
        yield fold([], path=tmp_path / "projection.db"), world


def sizes(projection: Projection, world: World) -> Iterator[int]:
    """How large the log is after each batch."""
    for entry in world.entries:
        projection.apply([entry])
        yield projection.wal_bytes


def test_without_readers_it_is_emptied(folding: tuple[Projection, World]) -> None:
    """As soon as it is over its limit."""
    assert max(sizes(*folding)) < WAL_LIMIT + GRACE


def test_readers_in_turn_do_not_let_it_grow(folding: tuple[Projection, World]) -> None:
    """One of them is always reading, so that no moment ever comes without a reader."""
    projection, world = folding
    is_over, is_reading = threading.Event(), threading.Event()

    def overlap() -> None:
        readers = [projection.reader() for _ in range(10)]
        open_snapshot = readers[0].snapshot()
        open_snapshot.__enter__()
        readers[0].standing()
        turn = 0
        while not is_over.is_set():
            turn = (turn + 1) % len(readers)
            following = readers[turn].snapshot()
            following.__enter__()
            readers[turn].standing()
            open_snapshot.__exit__(None, None, None)
            open_snapshot = following
            is_reading.set()
        open_snapshot.__exit__(None, None, None)

    thread = threading.Thread(target=overlap)
    thread.start()
    is_reading.wait(10)
    largest = max(sizes(projection, world))
    is_over.set()
    thread.join()
    assert largest < 2 * WAL_LIMIT + GRACE


def test_a_snapshot_that_is_never_closed_is_revoked(
    folding: tuple[Projection, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stand in the way once; then its reader is told, and can ask again."""
    monkeypatch.setattr(module, "CHECKPOINT_WAIT_MS", 1)
    projection, world = folding
    reader = projection.reader()
    snapshot = reader.snapshot()
    snapshot.__enter__()
    assert reader.applied.index == 0
    assert max(sizes(projection, world)) < 2 * WAL_LIMIT + GRACE
    with pytest.raises(SnapshotRevoked):
        snapshot.__exit__(None, None, None)
    assert reader.applied.index == world.last
    assert reader.recall("words", world.now_us).hits


def test_short_reads_are_never_revoked(folding: tuple[Projection, World]) -> None:
    """A reader between two questions holds nothing."""
    projection, world = folding
    reader = projection.reader()
    for entry in world.entries:
        projection.apply([entry])
        assert reader.recall("words", world.now_us, k=1).point.index == entry.index
