"""`LocalMemory`: the seed's own words, files that come back, and what happens when two want the same one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from veridical.memory import LocalMemory, MemoryKind, MemoryRecord, MemoryView, Trust, correction_chain
from veridical.memory.errors import Invalid, OutcomeUnknown, Refused, Unavailable
from veridical.memory.view import make_key

WRITES = """
import sys
from veridical.memory import LocalMemory, MemoryRecord
from veridical.memory.errors import Unavailable
try:
    LocalMemory(sys.argv[1]).write(MemoryRecord(subject="a", predicate="b", text="c"))
except Unavailable as error:
    print(error)
"""


@pytest.fixture
def memory() -> Iterator[LocalMemory]:
    """One without files."""
    with LocalMemory(":memory:") as memory:
        yield memory


def fact(text: str, subject: str = "branch", predicate: str = "is") -> MemoryRecord:
    """A record to write."""
    return MemoryRecord(subject=subject, predicate=predicate, text=text, scope="repo:app")


def test_it_is_a_memory(memory: LocalMemory) -> None:
    """It keeps the contract of every store."""
    view: MemoryView = memory
    assert view.scopes is not None


def test_the_first_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a path the store lies where the environment says."""
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "brain.db"))
    with LocalMemory() as mem:
        mem.write(
            MemoryRecord(
                kind=MemoryKind.FACT, subject="auth", predicate="uses",
                text="sessions are JWT, 15-min expiry", scope="repo:app",
                subj_pred_key=make_key("auth", "uses", "repo:app"),
            )
        )  # fmt: skip
        hits = mem.recall("which sessions does auth use", scope="repo:app", k=3)
        assert [(hit.trust.value, hit.text) for hit in hits] == [("candidate", "sessions are JWT, 15-min expiry")]
        assert (hits.index, hits.scopes) == (3, ("repo:app",))
    assert (tmp_path / "brain.db.key").stat().st_mode & 0o077 == 0


def test_lifecycle_flags_and_corrections(memory: LocalMemory) -> None:
    """Pin, volatile, time to live; the old value stays in the chain."""
    written = memory.write(fact("current branch is feature/x"))
    assert memory.pin(written.id).pinned
    assert not memory.unpin(written.id).pinned
    assert memory.set_flags(written.id, volatile=True).volatile
    assert memory.set_flags(written.id, ttl_s=3600).expires_at is not None
    memory.write(fact("current branch is main"))
    found = memory.get(written.id)
    assert found is not None
    assert [item["text"] for item in correction_chain(found)] == ["current branch is feature/x"]
    assert memory.decay(half_life_s=604800.0) == 0


def test_it_opens_at_its_first_call(tmp_path: Path) -> None:
    """Making the object touches no file."""
    memory = LocalMemory(tmp_path / "brain.db")
    assert list(tmp_path.iterdir()) == []
    assert memory.get("0" * 32) is None
    assert (tmp_path / "brain.db").exists()
    memory.close()


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    """Facts, rejections and forgotten things all come back from the log."""
    with LocalMemory(tmp_path / "brain.db") as memory:
        kept = memory.write(fact("main"))
        rejected = memory.write(fact("closed", "office"))
        memory.demote(rejected.id, trust=Trust.REJECTED, reason="it is open")
        forgotten = memory.write(fact("secret", "plan"))
        memory.forget(forgotten.id)
    with LocalMemory(tmp_path / "brain.db") as memory:
        again = memory.get(kept.id)
        assert again is not None
        assert again.text == "main"
        assert memory.get(forgotten.id) is None
        with pytest.raises(Refused):
            memory.write(fact("CLOSED", "office"))
        with pytest.raises(Refused):
            memory.write(fact("secret", "plan"))


def test_threads_share_one(memory: LocalMemory) -> None:
    """Four threads write 100 facts each; all are there."""

    def write(thread: int) -> None:
        for number in range(100):
            memory.write(fact(f"value {number}", f"thread {thread}", f"says {number}"))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(memory.all())) == 400


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """One file belongs to one process; the other one is told, and nothing is harmed."""
    path = tmp_path / "brain.db"
    with LocalMemory(path) as memory:
        written = memory.write(fact("main"))
        other = subprocess.run(
            [sys.executable, "-P", "-c", WRITES, str(path)], capture_output=True, text=True, timeout=60, check=True
        )
        assert f"in use by process {os.getpid()}" in other.stdout
        assert memory.get(written.id) is not None


def test_a_forked_child_is_told_to_open_its_own(tmp_path: Path) -> None:
    """The child of a fork does not touch the parent's files."""
    with LocalMemory(tmp_path / "brain.db") as memory:
        written = memory.write(fact("main"))
        child = os.fork()
        if not child:
            try:
                memory.get(written.id)
            except Unavailable:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert memory.get(written.id) is not None


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    """The error says what to name instead."""
    with pytest.raises(Invalid, match="directory"):
        LocalMemory(tmp_path)


def test_bad_input_is_refused_and_loses_nothing(memory: LocalMemory) -> None:
    """Wrong words raise before anything is written."""
    with pytest.raises(Invalid):
        memory.recall("x", k=0)
    with pytest.raises(Invalid):
        LocalMemory(":memory:", read_consistency="sometimes")
    with pytest.raises((Invalid, Refused, OutcomeUnknown, ValueError)):
        memory.write(fact("x" * 20_001))
    assert list(memory.all()) == []
