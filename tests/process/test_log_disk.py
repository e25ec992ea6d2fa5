"""The log on a disk that fills up, fails, or loses its process: in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from log_world import Scribe

from veridical.log.store import LogStore

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]

PRELUDE = """
import os, resource, sys
from pathlib import Path
from log_world import Scribe
from veridical.log import database
from veridical.log.errors import LogFull, LogWriteFailed
from veridical.log.store import LogStore

path = Path(sys.argv[1])
log = LogStore.open(path)
scribe = Scribe()
scribe.store(log, scribe.found())

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""


def _run(path: Path, script: str) -> list[str]:
    """The lines that a process prints which runs this script on a log at `path`."""
    command = [sys.executable, "-c", PRELUDE + script, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"PYTHONPATH": str(TESTS)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def _assert_goes_on(path: Path, entries: int) -> None:
    log = LogStore.open(path)
    assert log.last.index == entries
    assert log.check() == log.check_file() == []
    log.close()


def test_a_full_disk_refuses_the_write_stays_readable_and_resumes(tmp_path: Path) -> None:
    script = """
limit(600_000)
try:
    while True:
        batch = scribe.say("x" * 20_000)
        scribe.store(log, batch)
except LogFull as error:
    print("full", len(log.read(1, 1 << 30)[0]) == log.last.index == batch[0].index - 1)
limit(resource.RLIM_INFINITY)
scribe.store(log, batch)
print(log.last.index)
log.close()
"""
    full, count = _run(tmp_path / "log.db", script)
    assert full == "full True"
    _assert_goes_on(tmp_path / "log.db", int(count))


def test_a_write_that_the_disk_refuses_ends_all_writing(tmp_path: Path) -> None:
    # The look for room is blinded, so that the write itself meets the limit.
    script = """
database._room_bytes = lambda path: 1 << 40
limit(300_000)
try:
    while True:
        batch = scribe.say("x" * 20_000)
        scribe.store(log, batch)
except LogWriteFailed as error:
    print("failed", "SQLITE_IOERR" in str(error))
limit(resource.RLIM_INFINITY)
try:
    scribe.store(log, batch)
except LogWriteFailed as error:
    print("still failed", "an earlier write failed" in str(error))
print(log.last.index, batch[0].index)
"""
    failed, still, indexes = _run(tmp_path / "log.db", script)
    last, refused = map(int, indexes.split())
    assert (failed, still, last) == ("failed True", "still failed True", refused - 1)
    _assert_goes_on(tmp_path / "log.db", last)


def test_a_checkpoint_that_the_disk_refuses_ends_all_writing(tmp_path: Path) -> None:
    script = """
database._room_bytes = lambda path: 1 << 40
database.CHECKPOINT_BYTES = 1 << 18
limit(290_000)
try:
    for _ in range(40):
        batch = scribe.say("x" * 4_000)
        scribe.store(log, batch)
except LogWriteFailed as error:
    print("failed", log.last.index)
"""
    [line] = _run(tmp_path / "log.db", script)
    _assert_goes_on(tmp_path / "log.db", int(line.removeprefix("failed ")))


def test_whatever_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    script = """
print("ready", flush=True)
while True:
    scribe.store(log, scribe.say("fact", "fact"))
    print(log.last.index, flush=True)
"""
    for trial in range(5):
        path = tmp_path / f"log{trial}.db"
        command = [sys.executable, "-c", PRELUDE + script, str(path)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(TESTS)}
        )
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(30 + 7 * trial)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        whole = [line for line in acknowledged if line.endswith("\n")]
        log = LogStore.open(path)
        assert log.last.index >= int(whole[-1])
        assert log.check() == log.check_file() == []
        assert log.seal(log.last.index) is not None
        log.close()


@pytest.mark.parametrize("kilobytes", [64, 256])
def test_a_log_of_a_small_disk_is_whole_after_any_refusal(tmp_path: Path, kilobytes: int) -> None:
    script = f"""
database._room_bytes = lambda path: 1 << 40
limit({kilobytes} * 1024)
try:
    for number in range(1000):
        scribe.store(log, scribe.say("x" * (number * 97 % 3000)))
except (LogFull, LogWriteFailed):
    print(log.last.index)
"""
    [last] = _run(tmp_path / "log.db", script)
    log = LogStore.open(tmp_path / "log.db")
    scribe = Scribe()
    scribe.found()
    for number in range(log.last.index - 2):
        scribe.say("x" * (number * 97 % 3000))
    assert log.last.index == int(last)
    assert list(log.history()) == scribe.history
    log.close()
