"""`AntiEntropy`: members of this process compare, look and repair, now or again and again."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from veridical.memory import AntiEntropy, LocalMemory, MemoryRecord, ReplicatedMemory
from veridical.memory.errors import Invalid, Unavailable

Members = tuple[ReplicatedMemory, ReplicatedMemory, ReplicatedMemory]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    """Three members with a few facts."""
    stores = [LocalMemory(tmp_path / name / "brain.db") for name in "abc"]
    first = ReplicatedMemory(stores[0], cluster_key="brain", owner="a")
    second = ReplicatedMemory(stores[1], cluster_key="brain", owner="b", peers=[first])
    third = ReplicatedMemory(stores[2], cluster_key="brain", owner="c", peers=[first])
    with first, second, third:
        for number in range(8):
            first.write(MemoryRecord(subject=f"s{number}", predicate="is", text=f"value {number}"))
        for member in (first, second, third):
            member.recall("value", consistency="strong")
        yield first, second, third


def rot(directory: Path) -> None:
    """A row of that member's projection is not what was folded."""
    with closing(sqlite3.connect(directory / "brain.db.projection", timeout=10)) as connection:
        connection.execute("UPDATE content SET body = zeroblob(30) WHERE number = 2")
        connection.commit()


def test_members_that_are_equal_are_left_alone(members: Members) -> None:
    """Each compares with the two others."""
    reconciled = AntiEntropy(*members).run_once()
    assert set(reconciled) == {"a", "b", "c"}
    for standing in reconciled.values():
        assert [(peer.differing, peer.reason) for peer in standing.peers] == [(0, ""), (0, "")]
        assert (standing.repairs, standing.findings) == ({}, 0)


def test_what_rotted_is_put_right_and_told(members: Members, tmp_path: Path) -> None:
    """By the member that it happened to; the others repaired nothing."""
    rot(tmp_path / "b")
    reconciled = AntiEntropy(*members).run_once()
    assert {name: dict(standing.repairs) for name, standing in reconciled.items()} == {
        "a": {}, "b": {"projection": 1}, "c": {},
    }  # fmt: skip
    assert AntiEntropy(members[1]).status()["b"].repairs == {"projection": 1}
    assert len(members[1].recall("value", k=10, consistency="local")) == 8


def test_it_does_so_again_and_again(members: Members, tmp_path: Path) -> None:
    """Between start and stop; afterwards nothing runs."""
    with AntiEntropy(members[2], interval_s=0.01) as reconciler:
        reconciler.start()
        rot(tmp_path / "c")
        waiting = threading.Event()
        while not reconciler.status()["c"].repairs:
            assert not waiting.wait(0.02)
    reconciler.stop()
    passes = reconciler.status()["c"].scrub.passes
    assert reconciler.status()["c"].scrub.passes == passes >= 1


def test_a_memory_alone_looks_after_its_rows(tmp_path: Path) -> None:
    """There is nobody to compare with."""
    with LocalMemory(tmp_path / "brain.db") as memory:
        memory.write(MemoryRecord(subject="s", predicate="is", text="one"))
        memory.write(MemoryRecord(subject="t", predicate="is", text="two"))
        rot(tmp_path)
        [standing] = AntiEntropy(memory).run_once().values()
        assert (standing.peers, dict(standing.repairs)) == ((), {"projection": 1})
        assert memory.recall("two")


def test_what_cannot_be_looked_after_says_so(members: Members) -> None:
    """No memory, no positive interval, a memory that was closed."""
    with pytest.raises(Invalid, match="memories"):
        AntiEntropy()
    with pytest.raises(Invalid, match="interval_s"):
        AntiEntropy(members[0], interval_s=0)
    members[2].close()
    with pytest.raises(Unavailable):
        AntiEntropy(members[2]).status()
    assert AntiEntropy(members[0]).status()["a"].repairs == {}
