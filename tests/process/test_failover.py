"""Real processes, killed, stopped and paused under load: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, process_cluster

from veridical.cli.comparing import compared
from veridical.client import AsyncReplicatedMemory
from veridical.drills.load import Writers, missing
from veridical.log.canonical import decode
from veridical.log.entry import Envelope
from veridical.log.store import LogStore
from veridical.memory import make_id, make_key
from veridical.memory.errors import VeridicalError
from veridical.memory.machine import SEEN
from veridical.node.system import SystemClock

pytestmark = pytest.mark.process

TRIALS = 10
MEDIAN_LIMIT_S = 1.0
HANDOVER_LIMIT_S = 0.1
STANDSTILLS = 3
"""A machine that stands still for over a third of that limit while nothing happens is judged by its own standstills."""

EXCUSED_LIMIT_S = 0.5
"""No standstill excuses more: a handover that failed waits for the lease to run out, which takes longer than that."""

PAUSE_S = 5.0


def times_decided(log: Path) -> dict[str, int]:
    """How often each command id was decided, and not merely answered again, in the log of a stopped node."""
    counts: dict[str, int] = {}
    store = LogStore.open(log, read_only=True)
    try:
        for entry, _ in store.history():
            for head, item in zip(Envelope.parse(entry.envelope).commands, decode(entry.events), strict=True):
                if head.kind.startswith("memory.") and item[0] != SEEN:
                    counts[head.id.hex()] = counts.get(head.id.hex(), 0) + 1
    finally:
        store.close()
    return counts


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes of their own for each test."""
    with process_cluster(tmp_path) as cluster:
        yield cluster


def all_ready(cluster: ProcessCluster) -> bool | None:
    """Whether all nodes have caught up with a leader; None while they have not."""
    return sum(status.ready for status in cluster.statuses().values()) == len(cluster.nodes) or None


async def in_step(cluster: ProcessCluster) -> None:
    """Wait until all nodes are ready."""
    await asyncio.to_thread(eventually, lambda: all_ready(cluster))


async def leader_of(cluster: ProcessCluster) -> NodeProcess:
    """Who leads now."""
    return await asyncio.to_thread(cluster.leader)


async def answers_again(cluster: ProcessCluster, consistency: str) -> float:
    """Seconds until a read of that mode is answered; each attempt has a quarter of a second."""
    begun = time.monotonic()
    id = make_id(make_key("subject 0", "is", "repo:load"))
    async with AsyncReplicatedMemory(cluster.endpoints, read_consistency=consistency, timeout_s=0.25) as memory:
        while True:
            try:
                assert await memory.get(id) is not None
            except VeridicalError:
                assert time.monotonic() < begun + 10, f"no {consistency} read was answered"
            else:
                return time.monotonic() - begun


def test_killed_leaders_lose_nothing(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Ten times `kill -9` on the leader under eight writers, at default settings."""
    failovers: list[float] = []
    strong_reads: list[float] = []
    quorum_reads: list[float] = []

    async def trials() -> dict[str, str]:
        async with Writers(cluster.endpoints) as writers:
            for _ in range(TRIALS):
                await writers.acknowledge(100)
                leader = await leader_of(cluster)
                killed_at = time.monotonic()
                leader.kill()
                quorum, strong, _ = await asyncio.gather(
                    answers_again(cluster, "quorum"), answers_again(cluster, "strong"), writers.acknowledge(50)
                )
                failovers.append(writers.account.first_after(killed_at))
                quorum_reads.append(quorum)
                strong_reads.append(strong)
                leader.start()
                await in_step(cluster)
            assert writers.account.overdue_s == []
        for consistency in ("quorum", "strong"):
            assert await missing(cluster.endpoints, writers.account, consistency) == []
        return writers.account.acknowledged

    acknowledged = asyncio.run(trials())
    for name, taken in (("writes", failovers), ("strong reads", strong_reads), ("quorum reads", quorum_reads)):
        print(f"{name} after s: {sorted(round(each, 3) for each in taken)}")
    for node in cluster.nodes.values():
        node.kill()
    counts = times_decided(tmp_path / "n1" / "log.db")
    assert set(acknowledged.values()) <= set(counts)
    assert {id: count for id, count in counts.items() if count > 1} == {}
    for taken in (failovers, strong_reads, quorum_reads):
        assert statistics.median(taken) < MEDIAN_LIMIT_S


def test_a_leader_that_is_asked_to_end_hands_over(cluster: ProcessCluster) -> None:
    """SIGTERM, ten times: the longest gap between two acknowledgements stays under a tenth of a second, every time."""
    gaps: list[float] = []
    limits: list[float] = []

    async def longest_gap(writers: Writers, acknowledgements: int) -> float:
        begun = time.monotonic()
        await writers.acknowledge(acknowledgements)
        return writers.account.longest_gap_s(begun, time.monotonic())

    async def trials() -> None:
        async with Writers(cluster.endpoints) as writers:
            for _ in range(TRIALS):
                leader = await leader_of(cluster)
                standstill = await longest_gap(writers, 300)
                limits.append(min(max(HANDOVER_LIMIT_S, STANDSTILLS * standstill), EXCUSED_LIMIT_S))
                leader.signal(signal.SIGTERM)
                gaps.append(await longest_gap(writers, 300))
                assert await asyncio.to_thread(leader.ended) == 0
                leader.start()
                await in_step(cluster)
        assert await missing(cluster.endpoints, writers.account, "quorum") == []

    asyncio.run(trials())
    print(f"longest gaps s: {sorted(round(each, 3) for each in gaps)}, limits {[round(each, 3) for each in limits]}")
    assert [(gap, limit) for gap, limit in zip(gaps, limits, strict=True) if gap >= limit] == []


def test_a_leader_that_was_paused_changes_nothing(cluster: ProcessCluster) -> None:
    """SIGSTOP for five seconds, then SIGCONT: another leads meanwhile, and stays; nothing old is acknowledged."""

    async def trial() -> None:
        async with Writers(cluster.endpoints) as writers:
            await writers.acknowledge(100)
            paused = await leader_of(cluster)
            paused.signal(signal.SIGSTOP)
            await writers.acknowledge(100)
            follower = await leader_of(cluster)
            assert follower is not paused
            epoch = cluster.statuses()[follower.name].epoch
            await asyncio.sleep(PAUSE_S)
            paused.signal(signal.SIGCONT)
            await writers.acknowledge(300)
            await in_step(cluster)
            statuses = cluster.statuses()
            assert {status.epoch for status in statuses.values()} == {epoch}
            assert [name for name, status in statuses.items() if status.serves] == [follower.name]
        assert await missing(cluster.endpoints, writers.account, "quorum") == []

    asyncio.run(trial())


def test_all_nodes_stopped_at_once_come_back_with_everything(cluster: ProcessCluster) -> None:
    """Ten times: all three killed at once, started in any order; what was acknowledged is there, digests are equal."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def trials() -> None:
        for _ in range(TRIALS):
            async with Writers(cluster.endpoints) as writers:
                await writers.acknowledge(100)
                for node in cluster.nodes.values():
                    node.kill()
                order = list(cluster.nodes.values())
                chance.shuffle(order)
                for node in order:
                    node.start()
                await writers.acknowledge(50)
                await in_step(cluster)
            assert await missing(cluster.endpoints, writers.account, "strong") == []
            comparison = await asyncio.to_thread(compared, cluster.endpoints, SystemClock(), 10.0)
            assert (comparison.differing, comparison.silent) == ((), ())

    asyncio.run(trials())
