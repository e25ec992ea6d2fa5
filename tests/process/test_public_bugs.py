"""Failures that users of other replicated systems reported in public, with real processes (`docs/scenarios.md`)."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, fact, process_cluster

from veridical.client import ConnectedMemory
from veridical.memory.errors import TooLarge, Unavailable, VeridicalError
from veridical.memory.limits import EPISODE_CHARACTERS_LIMIT
from veridical.memory.view import MemoryKind, MemoryRecord

pytestmark = pytest.mark.process

IDLE_S = 20
IDLE_SHARE = 0.02
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_s(node: NodeProcess) -> float:
    """What the process has used of processors so far, in seconds."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def gauges(node: NodeProcess) -> dict[str, float]:
    """The gauges of a node, by name; empty where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=2) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {name: float(value) for name, value in re.findall(r"^veridical_(\w+) (\S+)$", text, re.MULTILINE)}


class Chorus:
    """Writers that write short facts until they are told to end; they never stop for an error that passes."""

    def __init__(self, endpoints: list[str], count: int) -> None:
        self._endpoints = endpoints
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        self.acknowledged: list[str] = []

    def __enter__(self) -> Chorus:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        with ConnectedMemory(self._endpoints, timeout_s=20) as memory:
            count = 0
            while not self._ended.is_set():
                count += 1
                subject = f"voice {number} note {count}"
                try:
                    memory.write(fact(subject))
                except VeridicalError:
                    continue
                self.acknowledged.append(subject)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time of processes is read from /proc")
def test_an_idle_cluster_rests(tmp_path: Path) -> None:
    """Nobody asks anything: each node uses less than a fiftieth of a core, and its files do not grow."""
    with process_cluster(tmp_path) as cluster:
        with ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
            for number in range(200):
                memory.write(fact(f"fact {number}"))
        time.sleep(3)  # what the writes left to do in the background
        before = {node.name: (cpu_s(node), size_bytes(tmp_path / node.name)) for node in cluster.nodes.values()}
        began = time.monotonic()
        time.sleep(IDLE_S)
        for node in cluster.nodes.values():
            used_s, size = before[node.name]
            assert (cpu_s(node) - used_s) / (time.monotonic() - began) < IDLE_SHARE, node.name
            assert size_bytes(tmp_path / node.name) <= size, node.name


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the memory of processes is read from /proc")
def test_a_thousand_scopes_cost_little(tmp_path: Path) -> None:
    """Each scope is a name, and nothing is set up for it: less than 50 KB of the node's memory."""
    with process_cluster(tmp_path, count=1) as cluster, ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
        node = cluster.nodes["n1"]
        memory.write_many([fact(f"fact {number}") for number in range(1000)])
        before = resident_bytes(node)
        memory.write_many([fact("the same fact", scope=f"tenant:{number}") for number in range(1000)])
        assert resident_bytes(node) - before < 1000 * 50_000
        assert len(memory.recall("same fact", scope="tenant:7")) == 1


def resident_bytes(node: NodeProcess) -> int:
    """How much memory the process holds."""
    return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size_bytes(directory: Path) -> int:
    """What all files of a node take."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def test_an_epoch_has_one_leader_in_the_gauges(tmp_path: Path) -> None:
    """Scraped while leaders are asked to hand over, paused and killed: at most one node leads in each epoch."""
    claims: dict[float, set[str]] = defaultdict(set)
    ended = threading.Event()
    with process_cluster(tmp_path) as cluster:

        def scrape() -> None:
            while not ended.is_set():
                for node in cluster.nodes.values():
                    seen = gauges(node)
                    if seen.get("is_leader"):
                        claims[seen["epoch"]].add(node.name)

        scraper = threading.Thread(target=scrape)
        scraper.start()
        try:
            for way in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL) * 3:
                old = cluster.leader()
                old.signal(way)
                eventually(lambda old=old: True if successor(cluster, old) else None)
                if way is signal.SIGSTOP:
                    old.signal(signal.SIGCONT)
                    eventually(lambda old=old: True if gauges(old).get("is_leader") == 0.0 else None)
                else:
                    old.ended()
                    old.start()
                eventually(lambda: sum(status.ready for status in cluster.statuses().values()) == 3 or None)
        finally:
            ended.set()
            scraper.join()
    assert len(claims) >= 9
    assert {epoch: names for epoch, names in claims.items() if len(names) > 1} == {}


def successor(cluster: ProcessCluster, old: NodeProcess) -> bool:
    """Whether another node leads."""
    others = [node for node in cluster.nodes.values() if node is not old]
    return any(gauges(node).get("is_leader") for node in others)


def test_all_nodes_come_back_at_other_addresses(tmp_path: Path) -> None:
    """Same directories, other ports: an address is where a node is and not who it is."""
    with process_cluster(tmp_path) as cluster, ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
        kept = memory.write(fact("kept"))
        ids = {status.name: status.id for status in cluster.statuses().values()}
    moved = ProcessCluster(tmp_path, 3)
    try:
        for node in moved.nodes.values():
            node.start()
        eventually(lambda: sum(status.ready for status in moved.statuses().values()) == 3 or None)
        with ConnectedMemory(moved.endpoints, timeout_s=20) as memory:
            found = memory.get(kept.id, consistency="quorum")
            assert found is not None
            assert found.text == kept.text
            memory.write(fact("written at the new place"))
        assert {status.name: status.id for status in moved.statuses().values()} == ids
    finally:
        for node in moved.nodes.values():
            node.kill()


def test_large_payloads_make_no_leader_flap(tmp_path: Path) -> None:
    """Episodes as large as may be, from eight at once: heartbeats do not wait behind them. Larger ones are refused."""
    with process_cluster(tmp_path) as cluster:
        epochs = {status.epoch for status in cluster.statuses().values()}
        failures: list[Exception] = []

        def tell(number: int) -> None:
            with ConnectedMemory(cluster.endpoints, timeout_s=60) as memory:
                try:
                    for turn in range(6):
                        text = f"{number} {turn} ".ljust(EPISODE_CHARACTERS_LIMIT, "é")
                        memory.write(MemoryRecord(kind=MemoryKind.EPISODE, text=text, scope="test"))
                except Exception as error:  # noqa: BLE001 - shown by the assertion below
                    failures.append(error)

        tellers = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
        for teller in tellers:
            teller.start()
        for teller in tellers:
            teller.join()
        assert failures == []
        assert {status.epoch for status in cluster.statuses().values()} == epochs
        too_large = MemoryRecord(kind=MemoryKind.EPISODE, text="é" * (EPISODE_CHARACTERS_LIMIT + 1), scope="test")
        with ConnectedMemory(cluster.endpoints) as memory, pytest.raises(TooLarge, match=f"{EPISODE_CHARACTERS_LIMIT}"):
            memory.write(too_large)


def test_all_records_are_read_from_every_node_while_all_write(tmp_path: Path) -> None:
    """All records, once from each node, beside sixteen writers: no election, and what was written before is there."""
    with process_cluster(tmp_path) as cluster:
        epochs = {status.epoch for status in cluster.statuses().values()}
        with Chorus(cluster.endpoints, 16) as chorus:
            eventually(lambda: len(chorus.acknowledged) > 300 or None)
            for node in cluster.nodes.values():
                with ConnectedMemory([node.endpoint], timeout_s=60) as memory:
                    before = set(chorus.acknowledged)
                    held = {record.subject for record in memory.all(consistency="quorum")}
                    assert before <= held
        assert {status.epoch for status in cluster.statuses().values()} == epochs


def test_nodes_are_started_one_by_one(tmp_path: Path) -> None:
    """The first waits, alive and not ready, for peers where nobody is yet; the cluster forms once all are there."""
    cluster = ProcessCluster(tmp_path, 3)
    first, *later = cluster.nodes.values()
    try:
        first.start()
        eventually(lambda: True if status_of(first, "/livez") == 200 else None)
        time.sleep(1)
        assert (status_of(first, "/livez"), status_of(first, "/readyz")) == (200, 503)
        with ConnectedMemory([first.endpoint], timeout_s=1) as memory, pytest.raises(Unavailable):
            memory.write(fact("too early"))
        for node in later:
            node.start()
            time.sleep(0.5)
        eventually(lambda: True if status_of(first, "/readyz?sync") == 200 else None)
    finally:
        for node in cluster.nodes.values():
            node.kill()


def status_of(node: NodeProcess, path: str) -> int:
    """The status of a page of a node; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{node.http}{path}", timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
