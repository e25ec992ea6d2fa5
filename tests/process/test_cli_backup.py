"""Backup, restore and recovery by the command line, with real nodes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from grpc_cluster import fact

from veridical.cli.failures import DAMAGED
from veridical.client import ConnectedMemory
from veridical.memory.changes import Cursor
from veridical.memory.errors import HistoryChanged

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

INVALID = 10
UNAVAILABLE = 23
CANNOT_START = 32


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A cluster of the test's own; it does not outlive it."""
    shell = Shell(tmp_path / "cluster")
    yield shell
    shell("down")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Shell]:
    """A cluster to be: the directory does not exist yet."""
    shell = Shell(tmp_path / "elsewhere")
    yield shell
    shell("down")


def endpoints(nodes: list[Any]) -> list[str]:
    """Where the nodes answer."""
    return [node["endpoint"] for node in nodes]


class Load:
    """Facts written one after the other until told to stop; `acknowledged` are those that were."""

    def __init__(self, asked: list[str]) -> None:
        self.acknowledged: list[str] = []
        self._asked = asked
        self._ended = threading.Event()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Load:
        self._thread.start()
        assert self._enough.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        with ConnectedMemory(self._asked) as memory:
            while not self._ended.is_set():
                text = f"fact {len(self.acknowledged)}"
                memory.write(fact(text))
                self.acknowledged.append(text)
                if len(self.acknowledged) == 50:
                    self._enough.set()


def test_a_backup_under_load_is_restored_elsewhere(shell: Shell, elsewhere: Shell, tmp_path: Path) -> None:
    nodes = shell.up()
    file, key = tmp_path / "one.vlog", tmp_path / "digest.key"
    status = shell.well("status")
    follower = next(member["endpoint"] for member in status["members"] if member["role"] == "follower")
    with Load(endpoints(nodes)) as load:
        before = list(load.acknowledged)
        made = shell.well("backup", "create", "--to", str(file), "--endpoint", follower, target=False)
    assert made["good"]
    assert shell.well("backup", "create", "--to", str(tmp_path), "--key-to", str(key))["key"]
    then = shell.well("audit", "replay", "--to", str(made["index"]), "--out", str(tmp_path / "then"))

    without = elsewhere("restore", str(file))
    assert (without.code, elsewhere.data.exists()) == (INVALID, False)
    assert elsewhere.well("restore", str(file), "--dry-run")["index"] == made["index"]
    assert not elsewhere.data.exists()
    restored = elsewhere.well("restore", str(file), "--key", str(key))
    assert restored["cluster_id"] != made["cluster_id"]
    assert restored["index"] == made["index"] + 1
    assert elsewhere("restore", str(file), "--key", str(key)).code == INVALID

    replayed = elsewhere.well("audit", "replay", "--to", str(made["index"]), "--out", str(tmp_path / "now"))
    assert replayed["digest"] == then["digest"]
    there = endpoints(elsewhere.well("up")["nodes"])
    with ConnectedMemory(there) as memory:
        held = {record.subject for record in memory.all()}
        assert held >= set(before)
        memory.write(fact("written after the restore"))
        with pytest.raises(HistoryChanged):
            next(iter(memory.watch(after=Cursor(made["cluster_id"], 1))))
    elsewhere.well("member", "add")
    assert len(elsewhere.well("status")["members"]) == 2
    assert elsewhere.well("audit", "verify")["good"]
    elsewhere.well("audit", "compare")


def test_damage_to_a_backup_is_found_and_nothing_is_restored(shell: Shell, elsewhere: Shell, tmp_path: Path) -> None:
    shell.up()
    said = shell.well("remember", "the sky is blue")
    file, key = tmp_path / "one.vlog", tmp_path / "digest.key"
    made = shell.well("backup", "create", "--to", str(file), "--key-to", str(key))
    assert made["index"] >= said["index"], "what was acknowledged is in it"
    shell.well("forget", said["id"], "--reason", "it is not")
    shell.well("audit", "replay", str(file), "--to", str(made["index"]), "--out", str(tmp_path / "then"), target=False)
    again = shell("import", str(tmp_path / "then" / "records.jsonl"))
    assert again.code == 1, "what was forgotten since does not come back by way of a backup"
    assert shell("get", said["id"]).answer is None
    shell.well("down")
    later = shell.well("backup", "create", "--to", str(tmp_path / "stopped.vlog"))
    assert later["index"] > made["index"], "nobody needs to run"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    found = shell("backup", "verify", str(file), target=False)
    assert found.code == DAMAGED
    assert found.answer["bad_index"] >= 1
    assert elsewhere("restore", str(file), "--key", str(key)).code == DAMAGED
    assert not elsewhere.data.exists()


def test_one_survivor_goes_on_and_the_others_join_when_wiped(shell: Shell) -> None:
    shell.up()
    shell.well("remember", "sky", "colour", "the sky is blue")
    survivor = shell.data / "n1"
    running = shell("recover", "--accept-data-loss", "--data", str(survivor), target=False)
    assert running.code == CANNOT_START
    shell.well("down")
    assert shell("recover", "--data", str(survivor), target=False).code == INVALID
    planned = shell.well("recover", "--dry-run", "--data", str(survivor), target=False)
    assert "n1, n2, n3" in planned["note"]
    done = shell.well("recover", "--accept-data-loss", "--data", str(survivor), target=False)
    assert Path(done["kept"]).is_dir()
    assert shell.well("audit", "verify", str(survivor), target=False)["good"]
    apart = shell("audit", "verify")
    assert apart.code == DAMAGED
    for name in ("n2", "n3"):
        told = (shell.data / name / "node.toml").read_text()
        shutil.rmtree(shell.data / name)
        (shell.data / name).mkdir()
        (shell.data / name / "node.toml").write_text(told)
    assert shell("up", "--timeout", "5").code == UNAVAILABLE
    alone, *others = [node["endpoint"] for node in json.loads((shell.data / "cluster.json").read_text())["nodes"]]
    for endpoint in others:
        shell.well("member", "add", endpoint, "--endpoint", alone, target=False)
    assert len(shell.well("status")["members"]) == 3
    assert [record["text"] for record in shell.well("recall", "sky")["records"]] == ["the sky is blue"]
    assert shell.well("audit", "verify")["good"]
