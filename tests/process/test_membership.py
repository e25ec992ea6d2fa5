"""Members that come and go, as an operator has them do so, on real nodes under load."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell

from veridical.memory import MemoryRecord, ReplicatedMemory
from veridical.memory.errors import OutcomeUnknown, Unavailable

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

INVALID = 10
ASKED_LIMIT = 100


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A cluster of the test's own; it does not outlive it."""
    shell = Shell(tmp_path / "cluster")
    yield shell
    shell("down")


@contextmanager
def load(endpoints: list[str]) -> Generator[list[str]]:
    """One writer that goes on meanwhile; what it got acknowledged, by subject."""
    acknowledged: list[str] = []
    done = threading.Event()

    def run() -> None:
        with ReplicatedMemory.connect(endpoints, timeout_s=10) as memory:
            while not done.is_set():
                subject = f"s{len(acknowledged)}"
                try:
                    memory.write(MemoryRecord(subject=subject, predicate="is", text="there"))
                except (OutcomeUnknown, Unavailable):
                    continue
                acknowledged.append(subject)

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield acknowledged
    finally:
        done.set()
        writer.join()


def voters(answer: Any) -> list[str]:
    """Names of the members that count."""
    return [member["name"] for member in answer["members"] if member["voting"]]


def ids(answer: Any) -> set[str]:
    """Ids of all members."""
    return {member["id"] for member in answer["members"]}


def test_one_node_grows_to_three_loses_its_first_and_changes_another(shell: Shell) -> None:
    """`member add` twice beside the first, under load; the founder goes, a further one takes a member's place."""
    first = shell.well("up", "--nodes", "1", "--base-port", "0")["nodes"][0]
    with load([first["endpoint"]]) as acknowledged:
        assert voters(shell.well("member", "add")) == ["n1", "n2"]
        assert voters(shell.well("member", "add")) == ["n1", "n2", "n3"]
        assert shell("status").code == 0
        assert voters(shell.well("member", "remove", "n1")) == ["n2", "n3"]
        assert voters(shell.well("member", "replace", "n2")) == ["n3", "n4"]
        assert voters(shell.well("member", "add", "--learner")) == ["n3", "n4"]
        assert voters(shell.well("member", "promote", "n5")) == ["n3", "n4", "n5"]
    assert shell("status").code == 0
    assert shell.well("audit", "compare")["equal"]
    for subject in (acknowledged[0], acknowledged[len(acknowledged) // 2], acknowledged[-1]):
        assert shell.well("get", subject, "is", "--read", "quorum")["text"] == "there"
    gone = shell("member", "remove", "n9")
    assert (gone.code, "n9 is no member" in gone.said) == (INVALID, True)


def test_a_wiped_node_is_a_member_again_by_itself(shell: Shell) -> None:
    """Its directory is gone; `up` starts it as it was told, and the others take it in under a new id."""
    nodes = shell.up()
    shell.well("remember", "auth", "uses", "passkeys")
    lost = nodes[2]
    os.kill(lost["pid"], signal.SIGKILL)
    for file in Path(lost["data"]).iterdir():
        if file.name not in ("node.toml", "node.log"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    again = shell.well("up")["nodes"][2]
    assert again["id"] != lost["id"]
    wanted = {nodes[0]["id"], nodes[1]["id"], again["id"]}
    asked = 0
    while ids(shell.well("member", "list")) != wanted:
        asked += 1
        assert asked < ASKED_LIMIT, "it is not taken in"
    assert shell("status").code == 0
    assert shell.well("audit", "compare")["equal"]
