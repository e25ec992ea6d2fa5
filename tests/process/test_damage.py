"""One byte rots in the files of a stopped node: it is named, and mended from other members that can prove what stood
there; where none can, the node says so, and neither serves nor votes from what it holds.

`test_cli_cluster.py` shows the same through the commands of a local cluster, `test_log_damage.py` every byte of a log.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, fact, process_cluster, took

from veridical.cli.failures import DAMAGED
from veridical.client import ConnectedMemory
from veridical.log.entry import Entry
from veridical.log.seal import Seal
from veridical.log.store import LogStore
from veridical.memory.errors import OutcomeUnknown, Unavailable

pytestmark = pytest.mark.process

SCOPE = "test:damage"
TRIAL_S = 3.0
CALL_S = 60


def body_of(entry: Entry, _: Seal) -> bytes:
    """Salt, and what was written."""
    assert entry.bodies[0]
    return entry.bodies[0]


def envelope_of(entry: Entry, _: Seal) -> bytes:
    """What the author signed."""
    return entry.envelope


def seal_of(_: Entry, seal: Seal) -> bytes:
    """The leader's signature."""
    return seal.signature


PARTS: list[Callable[[Entry, Seal], bytes]] = [envelope_of, seal_of, body_of]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes, one of which will rot."""
    with process_cluster(tmp_path) as cluster:
        yield cluster


def audit(directory: Path) -> tuple[int, Any]:
    """Exit code and answer of `veridical audit verify DIR`."""
    command = [sys.executable, "-P", "-m", "veridical.cli.main", "audit", "verify", str(directory), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_S, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def flip(directory: Path, wanted: bytes) -> None:
    """Change one bit in the middle of the only place of the log's files where these bytes are in one piece."""
    for path in (directory / "log.db-wal", directory / "log.db"):
        raw = bytearray(path.read_bytes()) if path.exists() else bytearray()
        place = raw.rfind(wanted)
        if place >= 0:
            raw[place + len(wanted) // 2] ^= 1
            path.write_bytes(raw)
            return
    raise AssertionError("no file holds these bytes in one piece")


def flip_at(path: Path, place: int) -> None:
    """Change one bit of that byte."""
    with path.open("r+b") as file:
        [byte] = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([byte ^ 1]), place)


def part_at(directory: Path, index: int, part: Callable[[Entry, Seal], bytes]) -> bytes:
    """The bytes of that part of an entry of a stopped node."""
    with closing(LogStore.open(directory / "log.db", read_only=True)) as log:
        entry, seal = log.entry(index), log.seal(index)
    assert entry is not None and seal is not None
    return part(entry, seal)


def root_place(path: Path) -> tuple[int, int]:
    """The root page of some table of a database, and where in the file it begins."""
    with closing(sqlite3.connect(path)) as connection:
        [size] = connection.execute("PRAGMA page_size").fetchone()
        [page] = connection.execute("SELECT max(rootpage) FROM sqlite_schema WHERE type = 'table'").fetchone()
    return page, (page - 1) * size


def condition(cluster: ProcessCluster, node: NodeProcess) -> str:
    """What the node says that keeps it from serving; empty when nothing does."""
    status = cluster.statuses().get(node.name)
    return "" if status is None else status.condition


def is_ready(cluster: ProcessCluster, node: NodeProcess) -> bool:
    """Whether the node says that it may be sent traffic."""
    status = cluster.statuses().get(node.name)
    return status is not None and status.ready


def says_damaged(cluster: ProcessCluster, node: NodeProcess, what: str) -> None:
    """Wait until the node says that it is damaged, in its status and in its log, and names `what`."""
    said = eventually(lambda: text if (text := condition(cluster, node)).startswith("damaged") else None)
    assert what in said
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert any(what in line.get("condition", "") and line["level"] == "warning" for line in lines)


def neither_serves_nor_votes(cluster: ProcessCluster, damaged: NodeProcess) -> None:
    """It answers no read of any mode. With one sound node beside it there is no quorum; with two there is."""
    with ConnectedMemory(damaged.endpoint, timeout_s=1) as alone:
        for consistency in ("local", "session", "strong", "quorum"):
            refused = took(lambda consistency=consistency: alone.recall("a", consistency=consistency))[1]
            assert isinstance(refused, Unavailable) or consistency != "local", refused
    status = cluster.statuses()[damaged.name]
    assert (status.ready, status.serves, status.role) == (False, False, "follower")
    other = next(node for node in cluster.nodes.values() if node is not damaged)
    with ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
        assert memory.write(fact("two are enough", scope=SCOPE)).epoch
        other.kill()
        for write in (True, False):
            call = (
                (lambda: memory.write(fact("one is not", scope=SCOPE), timeout_s=TRIAL_S))
                if write
                else (lambda: memory.recall("enough", consistency="quorum", timeout_s=TRIAL_S))
            )
            assert isinstance(took(call)[1], OutcomeUnknown | Unavailable)
        assert not any(status.serves for status in cluster.statuses().values())
        other.start()
        assert memory.write(fact("two again", scope=SCOPE)).epoch


def stopped_after_writing(
    cluster: ProcessCluster, tmp_path: Path, how: signal.Signals
) -> tuple[NodeProcess, Path, int]:
    """A follower that has ended, its files, and the index of one of its entries."""
    with ConnectedMemory(cluster.endpoints, timeout_s=10) as memory:
        index = [memory.write(fact(f"rotting {number}", "x" * 60, SCOPE)).index for number in range(6)][2]
    node = cluster.follower()
    eventually(lambda: cluster.statuses()[node.name].applied_index > index + 2 or None)
    node.signal(how)
    node.ended()
    return node, tmp_path / node.name, index


@pytest.mark.parametrize("part", PARTS)
def test_a_flipped_byte_is_named_and_what_it_spoiled_is_fetched(
    cluster: ProcessCluster, tmp_path: Path, part: Callable[[Entry, Seal], bytes]
) -> None:
    """In an envelope, a seal, a body: `audit verify` names the index, the node says so at start, fetches the entry from
    another member, and goes on without another start. Before the flip and after the repair the same files verify.
    """
    node, directory, index = stopped_after_writing(cluster, tmp_path, signal.SIGTERM)
    code, answer = audit(directory)
    assert (code, answer["good"]) == (0, True)
    flip(directory, part_at(directory, index, part))
    code, answer = audit(directory)
    assert (code, answer["good"], answer["histories"][0]["bad_index"]) == (DAMAGED, False, index)
    node.start()
    eventually(lambda: is_ready(cluster, node) or None)
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert any(f"entry {index}" in line.get("condition", "") for line in lines), "it said what was damaged"
    repaired = next(line for line in lines if line["event"] == "repaired")
    assert repaired["what"].startswith(f"entry {index} fetched from")
    with ConnectedMemory(node.endpoint, timeout_s=10) as alone:
        assert len(alone.recall("rotting", scope=SCOPE, k=10)) == 6
    node.signal(signal.SIGTERM)
    node.ended()
    code, answer = audit(directory)
    assert (code, answer["good"]) == (0, True)


def test_what_nobody_can_give_keeps_a_node_silent(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Alone, it names the entry and what would help, and stays as it is byte for byte; once the others are there, it is
    whole by itself.
    """
    node, directory, index = stopped_after_writing(cluster, tmp_path, signal.SIGTERM)
    others = [other for other in cluster.nodes.values() if other is not node]
    for other in others:
        other.kill()
    flip(directory, part_at(directory, index, body_of))
    size = (directory / "log.db").stat().st_size
    node.start()
    eventually(lambda: "cannot be had" in condition(cluster, node) or None)
    assert f"entry {index}" in condition(cluster, node)
    assert "comes back as a new member" in condition(cluster, node)
    with ConnectedMemory(node.endpoint, timeout_s=1) as alone:
        assert isinstance(took(lambda: alone.recall("a", consistency="local"))[1], Unavailable)
    node.kill()
    code, answer = audit(directory)
    assert (code, answer["histories"][0]["bad_index"]) == (DAMAGED, index), "it did not cut its log to heal"
    assert (directory / "log.db").stat().st_size >= size
    node.start()
    for other in others:
        other.start()
    eventually(lambda: is_ready(cluster, node) or None)


def test_a_flip_in_the_journal_of_a_killed_node_is_no_torn_write(cluster: ProcessCluster, tmp_path: Path) -> None:
    """SQLite would drop what follows the flip as never written. It was acknowledged: it is missed, and said so."""
    node, directory, index = stopped_after_writing(cluster, tmp_path, signal.SIGKILL)
    part = part_at(directory, index, body_of)
    assert part in (directory / "log.db-wal").read_bytes(), "the control: the entry lies in the journal"
    flip(directory, part)
    code, answer = audit(directory)
    assert (code, answer["good"]) == (DAMAGED, False)
    assert answer["histories"][0]["bad_index"] >= index
    node.start()
    says_damaged(cluster, node, "acknowledged writes")
    with ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
        assert memory.write(fact("the others go on", scope=SCOPE)).epoch


def test_a_flip_elsewhere_names_file_and_page(cluster: ProcessCluster, tmp_path: Path) -> None:
    """In what SQLite keeps around the entries: the page is named by the audit and by the node."""
    node, directory, _ = stopped_after_writing(cluster, tmp_path, signal.SIGTERM)
    page, place = root_place(directory / "log.db")
    flip_at(directory / "log.db", place)
    code, answer = audit(directory)
    assert code == DAMAGED
    assert [(each["file"], each["page"]) for each in answer["histories"][0]["files"]] == [("log.db", page)]
    node.start()
    says_damaged(cluster, node, f"log.db, page {page}")
    neither_serves_nor_votes(cluster, node)


def test_a_flip_in_the_projection_costs_nothing_but_a_fold(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The projection is no history: it is folded again from the log, and the node serves what it served."""
    node, directory, _ = stopped_after_writing(cluster, tmp_path, signal.SIGTERM)
    _, place = root_place(directory / "projection.db")
    flip_at(directory / "projection.db", place)
    node.start()
    eventually(lambda: is_ready(cluster, node) or None)
    with ConnectedMemory(node.endpoint, timeout_s=10) as alone:
        assert len(alone.recall("rotting", scope=SCOPE, k=10)) == 6
    assert "folded again" in node.log()
