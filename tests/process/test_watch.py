"""The change feed of real nodes that are killed, drained and stopped: nothing is left out, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, fact, process_cluster

from veridical.client import AsyncReplicatedMemory, ConnectedMemory
from veridical.client.envelope import command_id
from veridical.client.system import SystemClock, SystemEntropy
from veridical.client.watching import Change
from veridical.log.canonical import decode
from veridical.log.store import LogStore
from veridical.memory import BEGINNING, make_id, make_key
from veridical.memory.changes import Cursor, effects_of
from veridical.memory.errors import OutcomeUnknown, Unavailable

pytestmark = pytest.mark.process

WRITES = 2_000
WRITERS = 16
DEADLINE_S = 120
QUIET_S = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes of their own for each test."""
    with process_cluster(tmp_path) as cluster:
        yield cluster


def new_id() -> str:
    """A command id."""
    return command_id(SystemClock().wall_us(), SystemEntropy().bytes(8)).hex()


def serving(cluster: ProcessCluster) -> NodeProcess | None:
    """The node that a consumer listens to, as its metrics tell."""
    for node in cluster.nodes.values():
        try:
            with urlopen(f"http://{node.http}/metrics", timeout=2) as page:
                if "veridical_watchers 1.0" in page.read().decode():
                    return node
        except OSError:
            continue
    return None


async def served_by(cluster: ProcessCluster) -> NodeProcess:
    """The same, waited for."""
    return await asyncio.to_thread(eventually, lambda: serving(cluster))


class Load:
    """Facts written by several at once, each until it has an outcome; `acknowledged` maps subjects to indexes.

    Of the last third none is begun before `finish`: what the story does happens in the middle, however long it takes.
    """

    def __init__(self, memory: AsyncReplicatedMemory) -> None:
        self._memory = memory
        self._numbers = iter(range(WRITES))
        self._last_third = asyncio.Event()
        self.acknowledged: dict[str, int] = {}

    async def run(self) -> None:
        """Write all of them."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(WRITERS):
                writers.create_task(self._write())

    def finish(self) -> None:
        """Write what is left."""
        self._last_third.set()

    async def until(self, count: int) -> None:
        """Wait until so many are acknowledged."""
        while len(self.acknowledged) < count:  # noqa: ASYNC110 - progress is what is waited for
            await asyncio.sleep(0.005)

    async def _write(self) -> None:
        for number in self._numbers:
            if number >= 2 * WRITES // 3:
                await self._last_third.wait()
            record, id = fact(f"subject {number}"), new_id()
            while record.subject not in self.acknowledged:
                try:
                    written = await self._memory.write(record, command_id=id)
                    self.acknowledged[record.subject] = written.index or 0
                except (OutcomeUnknown, Unavailable):
                    continue


class Consumer:
    """Takes changes until it has those of all subjects."""

    def __init__(self, memory: AsyncReplicatedMemory) -> None:
        self._memory = memory
        self.changes: list[Change] = []

    async def run(self) -> None:
        """From the beginning of history."""
        async with self._memory.watch(BEGINNING, timeout_s=QUIET_S) as changes:
            async for change in changes:
                self.changes.append(change)
                if len(self.changes) == WRITES:
                    return


@asynccontextmanager
async def under_load(cluster: ProcessCluster) -> AsyncGenerator[tuple[Load, Consumer]]:
    """Writers and a consumer at work; at the end both are done."""
    async with (
        asyncio.timeout(DEADLINE_S),
        AsyncReplicatedMemory(cluster.endpoints) as writing,
        AsyncReplicatedMemory(cluster.endpoints) as reading,
        asyncio.TaskGroup() as work,
    ):
        load, consumer = Load(writing), Consumer(reading)
        work.create_task(load.run())
        work.create_task(consumer.run())
        yield load, consumer


def logged(data: Path) -> list[Cursor]:
    """Every change in the log of a stopped node."""
    store = LogStore.open(data / "log.db", read_only=True)
    try:
        assert store.identity is not None
        history, found = store.identity.cluster_id, list[Cursor]()
        for entry, _ in store.history():
            items: list[list[object]] = decode(entry.events)
            for place, item in enumerate(items):
                found += [Cursor(history, entry.index, place, part) for part, _ in enumerate(effects_of(item))]
        return found
    finally:
        store.close()


def agree(cluster: ProcessCluster, data: Path, load: Load, consumer: Consumer) -> None:
    """What was told is what is in the log, in its order; and what was acknowledged is in it, once."""
    told = [change.cursor for change in consumer.changes]
    subjects = [change.record.subject for change in consumer.changes if change.record is not None]
    assert len(subjects) == len(set(subjects)) == WRITES
    assert {
        change.record.subject: change.cursor.index for change in consumer.changes if change.record is not None
    } == load.acknowledged
    for node in cluster.nodes.values():
        node.kill()
    logs = [logged(data / name) for name in cluster.nodes]
    assert told == max(logs, key=len)


def test_a_killed_node_leaves_no_gap(cluster: ProcessCluster, tmp_path: Path) -> None:
    """`kill -9` of whichever node serves, twice in the middle of 2 000 writes."""

    async def story() -> None:
        async with under_load(cluster) as (load, consumer):
            for share in (1, 2):
                await load.until(share * WRITES // 3)
                victim = await served_by(cluster)
                victim.kill()
                victim.start()
                await asyncio.to_thread(eventually, lambda: _all_ready(cluster))
            load.finish()
        agree(cluster, tmp_path, load, consumer)

    asyncio.run(story())


def test_a_drained_or_stopped_node_is_left(cluster: ProcessCluster, tmp_path: Path) -> None:
    """One node is asked to end, which it does in time; then one stands still, and wakes up again."""

    async def story() -> None:
        async with under_load(cluster) as (load, consumer):
            await load.until(WRITES // 3)
            leaving = await served_by(cluster)
            leaving.signal(signal.SIGTERM)
            assert await asyncio.to_thread(leaving.ended) == 0
            leaving.start()
            await asyncio.to_thread(eventually, lambda: _all_ready(cluster))
            asleep = await served_by(cluster)
            asleep.signal(signal.SIGSTOP)
            told = len(consumer.changes)
            load.finish()
            await load.until(WRITES)
            while len(consumer.changes) < WRITES:  # noqa: ASYNC110 - so is progress here
                await asyncio.sleep(0.01)
            assert told < WRITES
            asleep.signal(signal.SIGCONT)
        agree(cluster, tmp_path, load, consumer)

    asyncio.run(story())


def _all_ready(cluster: ProcessCluster) -> bool | None:
    return sum(status.ready for status in cluster.statuses().values()) == len(cluster.nodes) or None


def test_the_command_line_watches(cluster: ProcessCluster) -> None:
    """A JSON object a line; a cursor of it is where the next call goes on. Without a follower it ends."""

    def watch(*arguments: str) -> list[dict[str, object]]:
        endpoints = [word for endpoint in cluster.endpoints for word in ("--endpoint", endpoint)]
        command = [sys.executable, "-P", "-m", "veridical.cli.main", "watch", "--json", *endpoints, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    async def story() -> None:
        async with AsyncReplicatedMemory(cluster.endpoints) as memory:
            for text in ("one", "two", "three"):
                await memory.write(fact("watched", text))

    asyncio.run(story())
    lines = watch("--from", "beginning", "--no-follow")
    assert [line["kind"] for line in lines] == ["asserted", "superseded", "superseded"]
    rest = watch("--from", str(lines[0]["cursor"]), "--no-follow")
    assert [line["cursor"] for line in rest] == [line["cursor"] for line in lines[1:]]
    assert watch("--from", "beginning", "--no-follow", "--scope", "elsewhere") == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_blocking_feed_survives_a_fork(cluster: ProcessCluster) -> None:
    """Each side goes on from its own cursor."""
    with ConnectedMemory(cluster.endpoints) as memory:
        for text in ("one", "two", "three"):
            memory.write(fact("forked", text))
        changes = memory.watch(BEGINNING, ids=[make_id(make_key("forked", "is", "test"))])
        next(changes)
        child = os.fork()
        if child == 0:
            try:
                told = [next(changes).kind for _ in range(2)]
                os._exit(0 if told == ["superseded"] * 2 else 1)
            except BaseException:  # noqa: BLE001 - nothing may leave a forked child
                os._exit(2)
        memory.write(fact("forked", "four"))
        assert [next(changes).kind for _ in range(3)] == ["superseded"] * 3
        changes.close()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
