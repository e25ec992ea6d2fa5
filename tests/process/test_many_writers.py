"""Four programs write at once and one of them is killed: every fact is there, and every file opens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from grpc_cluster import process_cluster

from veridical.cli.audit import verified
from veridical.cli.sources import Place
from veridical.memory import ReplicatedMemory

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

WRITERS, FACTS = 4, 250

WRITER = """
import json, sys
from veridical.memory import MemoryRecord, ReplicatedMemory
from veridical.memory.errors import VeridicalError
name, endpoints, facts, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with ReplicatedMemory.connect(endpoints, read_consistency="session", timeout_s=30) as memory:
    for number in range(first, facts):
        memory.write(MemoryRecord(subject=f"{name} {number}", predicate="is", text=f"fact {number}", scope="many"))
        print(json.dumps(number), flush=True)
"""


def writer(name: str, endpoints: str, first: int = 0) -> subprocess.Popen[str]:
    """A program that writes its facts from `first` on, and prints each as it is acknowledged."""
    command = [sys.executable, "-P", "-c", WRITER, name, endpoints, str(FACTS), str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_parallel_writers_lose_nothing_to_a_kill(tmp_path: Path) -> None:
    """One writer is killed in the middle and begun again, and so is a node; a thousand facts, each once."""
    with process_cluster(tmp_path) as cluster:
        endpoints = ",".join(cluster.endpoints)
        writers = {f"w{place}": writer(f"w{place}", endpoints) for place in range(WRITERS)}
        victim = writers["w0"]
        assert victim.stdout is not None
        acknowledged = [json.loads(victim.stdout.readline()) for _ in range(FACTS // 3)]
        cluster.follower().kill()
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        writers["w0"] = writer("w0", endpoints, acknowledged[-1])  # the last one again: it is no second fact
        for process in writers.values():
            _, said = process.communicate(timeout=200)
            assert process.returncode == 0, said
        with ReplicatedMemory.connect(endpoints, read_consistency="strong", timeout_s=30) as memory:
            held = {record.subject: record for record in memory.all(scope="many")}
            assert memory.scopes() == {"many": WRITERS * FACTS}
        assert set(held) == {f"w{place} {number}" for place in range(WRITERS) for number in range(FACTS)}
        assert {record.support_count for record in held.values()} == {1}
        names = list(cluster.nodes)
    for name in names:
        finding = verified(Place(directory=tmp_path / name), "", True)
        assert finding.good, finding
