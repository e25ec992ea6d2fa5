"""`LocalMemory`: the seed's own words, files that come back, and what happens when two want the same one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
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


FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
"""Later releases of Python warn of what is tested here."""


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


WRITER = """
import sys
from veridical.memory import LocalMemory, MemoryRecord
from veridical.memory.errors import Unavailable

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
memory = LocalMemory(path)
try:
    for number in range(count):
        memory.write(MemoryRecord(subject=f"{name} {number}", predicate="is", text="written"))
        print(number, flush=True)
except Unavailable as error:
    sys.exit(f"refused: {error}")
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that writes so many facts, telling each one that was acknowledged."""
    command = [sys.executable, "-P", "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_of_four_processes_one_writes_and_the_others_are_refused(tmp_path: Path) -> None:
    """One file belongs to one process at a time; the others are told so, and what was acknowledged is there, once."""
    path = tmp_path / "brain.db"
    writers = [writer(path, f"process {number}", 250) for number in range(4)]
    acknowledged = 0
    for process in writers:
        said, complaint = process.communicate(timeout=60)
        acknowledged += len(said.splitlines())
        assert process.returncode == 0 or "is in use by process" in complaint, complaint
        assert "Traceback" not in complaint
    assert acknowledged >= 250
    with LocalMemory(path) as memory:
        records = list(memory.all())
    assert len(records) == acknowledged
    assert {record.support_count for record in records} == {1}


def test_a_program_may_end_without_closing(tmp_path: Path) -> None:
    """It ends at once and in silence, and everything is there."""
    process = writer(tmp_path / "brain.db", "open", 3)
    said, complaint = process.communicate(timeout=30)
    assert (process.returncode, said.split(), complaint) == (0, ["0", "1", "2"], "")
    with LocalMemory(tmp_path / "brain.db") as memory:
        assert len(list(memory.all())) == 3


def test_a_killed_program_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """`kill -9` between two writes: the file opens again with every fact that was told."""
    process = writer(tmp_path / "brain.db", "killed", 100_000)
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(20)]
    process.kill()
    told += [int(line) for line in process.communicate(timeout=30)[0].splitlines() if line]
    with LocalMemory(tmp_path / "brain.db") as memory:
        subjects = {record.subject for record in memory.all()}
    assert {f"killed {number}" for number in told} <= subjects


def test_objects_of_one_process_share_a_file(tmp_path: Path) -> None:
    """Two objects on one path see the same facts; one may be closed while the other goes on, and comes back."""
    one, other = LocalMemory(tmp_path / "brain.db"), LocalMemory(str(tmp_path / "brain.db"))
    written = one.write(fact("main"))
    assert other.get(written.id) is not None
    one.close()
    assert other.write(fact("develop")).id == written.id
    assert one.get(written.id) is not None
    one.close()
    other.close()


def test_an_object_that_nobody_refers_to_gives_its_file_back(tmp_path: Path) -> None:
    """As the examples of a manual do: open, use, forget about it."""
    LocalMemory(tmp_path / "brain.db").write(fact("main"))
    gc.collect()
    process = writer(tmp_path / "brain.db", "next", 1)
    deadline = time.monotonic() + 20
    while process.wait(timeout=30) and time.monotonic() < deadline:
        process.communicate()
        process = writer(tmp_path / "brain.db", "next", 1)
    process.communicate()
    assert process.returncode == 0


def test_without_files_the_end_is_the_end() -> None:
    """What was closed is gone, and does not come back empty."""
    memory = LocalMemory(":memory:")
    memory.write(fact("main"))
    memory.close()
    with pytest.raises(Unavailable, match="closed"):
        memory.recall("main")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A key that others can read, a folder that is none: the error says which file, and changes nothing."""
    with LocalMemory(tmp_path / "brain.db") as memory:
        memory.write(fact("main"))
    (tmp_path / "brain.db.key").chmod(0o644)
    with LocalMemory(tmp_path / "brain.db") as memory, pytest.raises(Invalid, match=r"brain\.db\.key"):
        memory.recall("main")
    with LocalMemory(tmp_path / "brain.db" / "inside") as memory, pytest.raises(Invalid, match="path"):
        memory.recall("main")


def test_a_damaged_file_answers_nothing_and_says_where(tmp_path: Path) -> None:
    """One byte changed in an entry: no read and no write rests on it."""
    path = tmp_path / "brain.db"
    with LocalMemory(path) as memory:
        memory.write(fact("shines today", "sun"))
    content = bytearray(path.read_bytes())
    content[content.index(b"shines today")] ^= 1
    path.write_bytes(content)
    with LocalMemory(path) as memory:
        with pytest.raises(Unavailable, match=r"damaged: .*entry 3"):
            memory.recall("sun")
        with pytest.raises(Unavailable, match="damaged"):
            memory.write(fact("sets", "sun"))


def test_nothing_is_said_on_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A library that nobody asked for its log is silent."""
    with LocalMemory(tmp_path / "brain.db") as memory:
        memory.write(fact("main"))
    assert capfd.readouterr() == ("", "")


@FORKS
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


@FORKS
def test_a_forked_child_may_open_a_file_of_its_own(tmp_path: Path) -> None:
    """Also the parent's, once the parent has closed it: the child keeps no lock of it."""
    memory = LocalMemory(tmp_path / "brain.db")
    memory.write(fact("main"))
    ready, go = os.pipe()
    child = os.fork()
    if not child:
        os.read(ready, 1)
        found: list[MemoryRecord] = []
        try:
            LocalMemory(tmp_path / "other.db").write(fact("its own"))
            found = list(LocalMemory(tmp_path / "brain.db").all())
        finally:
            os._exit(len(found))
    memory.close()
    os.write(go, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


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
    with pytest.raises(Invalid):
        LocalMemory(":memory:", max_staleness_s=-1)
    with pytest.raises(TypeError):
        LocalMemory(":memory:", consistency="strong")
    with pytest.raises((Invalid, Refused, OutcomeUnknown, ValueError)):
        memory.write(fact("x" * 20_001))
    assert list(memory.all()) == []


def test_the_last_write_is_there_as_soon_as_it_is_opened_again(tmp_path: Path) -> None:
    """Also where the projection is folded anew, and the log has not been told yet that it is committed."""
    path = tmp_path / "brain.db"
    for number in range(5):
        with LocalMemory(path) as memory:
            memory.write(MemoryRecord(text=f"fact {number}"))
        (tmp_path / "brain.db.projection").unlink()
        with LocalMemory(path) as memory:
            assert len(list(memory.all())) == number + 1
