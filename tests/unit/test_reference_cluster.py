"""Where the reference system failed as a cluster, as tests of the core and of whole nodes, in one process.

`tests/process/test_reference_cluster.py` shows the same with real processes, killed and paused. What an external lease
does when its store is down stands in `test_embedded_cluster.py`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from node_cluster import CLOCK, ENTROPY, SECOND_US, Cluster, cluster, read, write, write_command
from transcript_world import TranscriptWorld

from veridical.memory.errors import OutcomeUnknown, Unavailable
from veridical.node.ports import Verb
from veridical.node.runtime import Node
from veridical.node.transport import weight_of
from veridical.replication.messages import Append, Fetched, Message, ReadMode

HOUR_US = 3_600 * SECOND_US
ELECTIONS = 3
"""Entries of the cluster about itself that may come in between."""
ENTRY_BYTES = 1500


# --- the core, step by step ------------------------------------------------------------------------------------------


def led_by_a() -> TranscriptWorld:
    """Three replicas of which a leads epoch 1 and serves."""
    world = TranscriptWorld()
    for command in ("found", "wait 250", "tick a", "settle"):
        told = world.run(command)
    assert "a is leader of epoch 1, serves" in told
    return world


def told(world: TranscriptWorld, *commands: str) -> str:
    """All that these commands cause."""
    return "\n".join(world.run(command) for command in commands)


def test_who_missed_writes_has_them_before_it_leads() -> None:
    """*C misses two acknowledged writes, A dies, C gets the lease*: it fetches them from B before it serves."""
    world = led_by_a()
    missed = told(world, "cut c", "propose a first", "settle", "propose a second", "settle")
    assert missed.count("a applies up to") == 2, "both were committed, and so acknowledged, without c"
    assert world.replicas["c"].last.index == 2
    told(world, "crash a", "mend c", "wait 1000")
    lines = told(world, "tick c", *["deliver", "sync"] * 12).splitlines()
    fetched = next(place for place, line in enumerate(lines) if line.startswith("b -> c Fetched"))
    served = next(place for place, line in enumerate(lines) if line.endswith("serves"))
    assert lines[served].startswith("c is leader of epoch 2")
    assert fetched < served
    assert {replica.last for id, replica in world.replicas.items() if id != "a"} == {world.replicas["b"].last}
    assert world.replicas["c"].kernel.applied_index >= 4


def test_with_nothing_missed_nothing_is_fetched() -> None:
    """The positive control: who has everything leads at once."""
    world = led_by_a()
    told(world, "propose a first", "settle", "crash a", "wait 1000")
    lines = told(world, "tick c", *["deliver", "sync"] * 12)
    assert "c is leader of epoch 2, serves" in lines
    assert "Fetch" not in lines


def test_a_leader_paused_after_its_lease_check_acknowledges_nothing() -> None:
    """*Peers unreachable*: it accepts a write, stops, and wakes up after its lease; nobody hears of a commit."""
    world = led_by_a()
    accepted = told(world, "cut b", "cut c", "propose a alone", "sync a")
    assert "a accepts 3..3" in accepted, "it believed that it led"
    woken = told(world, "wait 700", "tick a", "deliver", "sync a", "tick a")
    assert "applies up to 3" not in accepted + woken
    assert world.replicas["a"].kernel.commit_index == 2
    assert not world.replicas["a"].status().serves
    told(world, "cut a", "mend b", "mend c", "wait 700")
    lines = told(world, "tick b", *["deliver", "sync"] * 12)
    assert "b is leader of epoch 2, serves" in lines
    back = told(world, "mend a", "tick a", *["wait 110", "tick b", "deliver", "sync"] * 6)
    assert "a discards 3..3" in back, "it leaves no trace"
    assert world.replicas["a"].last == world.replicas["b"].last


def test_the_same_pause_with_peers_that_answer_is_acknowledged() -> None:
    """The positive control: the write counts once the peers hold it."""
    world = led_by_a()
    assert "a applies up to 3" in told(world, "propose a heard", "settle")


def test_questions_change_nothing_in_the_core() -> None:
    """*Asking a node whether it leads*: not epoch, nor holder, nor log; a thousand times, at every node."""
    world = led_by_a()
    before = {id: (replica.status(), replica.deadline_us) for id, replica in world.replicas.items()}
    for replica in world.replicas.values():
        for _ in range(1000):
            replica.status()
    assert {id: (replica.status(), replica.deadline_us) for id, replica in world.replicas.items()} == before
    assert not world.messages and not any(world.writes.values())


# --- whole nodes: clocks ---------------------------------------------------------------------------------------------


class SetClock:
    """The machine's clocks, of which a test can step the wall and choose where the elapsed one begins."""

    def __init__(self) -> None:
        self.wall_offset_us = 0
        self.elapsed_offset_us = 0

    def elapsed_us(self) -> int:
        """See `Clock`."""
        return CLOCK.elapsed_us() + self.elapsed_offset_us

    def wall_us(self) -> int:
        """See `Clock`."""
        return CLOCK.wall_us() + self.wall_offset_us

    def boot(self) -> None:
        """The machine starts anew: elapsed time begins at nothing."""
        self.elapsed_offset_us = -CLOCK.elapsed_us()


async def start_with(made: Cluster, name: str, clock: SetClock) -> Node:
    """Start a node of the cluster on a clock of its own."""
    settings = made.settings(name)
    transport = made.network.transport(settings.endpoint)
    node = Node(settings, transport, clock, ENTROPY, partial(made.fatal.__setitem__, name))
    transport.attach(node)
    made.nodes[name] = node
    await node.start()
    return node


async def on_set_clocks(made: Cluster) -> dict[str, SetClock]:
    """Restart all nodes, each on a clock that can be set."""
    clocks = {name: SetClock() for name in made.names}
    await made.leader()
    await made.stop(*made.names)
    for name, clock in clocks.items():
        await start_with(made, name, clock)
    await made.leader()
    return clocks


def name_of(made: Cluster, node: Node) -> str:
    """The name under which a node runs."""
    return next(name for name, each in made.nodes.items() if each is node)


async def pass_by(made: Cluster, duration_us: int) -> None:
    """So much time goes by, and the nodes do what they do in it."""
    end_us = CLOCK.elapsed_us() + duration_us
    await made.until(lambda: CLOCK.elapsed_us() > end_us)


def test_a_stepped_wall_clock_steals_no_election_and_locks_nobody_out(tmp_path: Path) -> None:
    """*Wall clock stepped by ± 1 h*: on the leader, on a follower, forth and back, the same leader stays in its epoch,
    and every write is acknowledged. When the leader goes after that, another one comes.
    """

    async def trial() -> None:
        async with cluster(tmp_path) as made:
            clocks = await on_set_clocks(made)
            leader = await made.leader()
            epoch = (await write(leader, "clock", "at first")).epoch
            for name in (name_of(made, leader), name_of(made, made.followers()[0])):
                for offset_us in (HOUR_US, -HOUR_US, 0):
                    clocks[name].wall_offset_us = offset_us
                    await pass_by(made, 2 * made.timings.lease_ttl_ms * 1000)
                    assert (await write(leader, f"clock of {name}", f"{offset_us} µs off")).epoch == epoch
            clocks[name_of(made, leader)].wall_offset_us = HOUR_US
            last = await write(leader, "clock", "an hour ahead")
            await made.stop(name_of(made, leader))
            successor = await made.leader()
            after = await write(successor, "clock", "back again")
            assert after.epoch > epoch
            assert after.time_us >= last.time_us, "log time does not go back"

    asyncio.run(trial())


def test_a_reboot_restarts_the_monotonic_clock_and_nothing_else(tmp_path: Path) -> None:
    """*Monotonic clock restarted by a reboot*: a follower that comes back with elapsed time at nothing steals no
    election; when all machines reboot at once, they lead and write again in time.
    """

    async def trial() -> None:
        async with cluster(tmp_path) as made:
            clocks = await on_set_clocks(made)
            leader = await made.leader()
            epoch = (await write(leader, "boot", "before")).epoch
            name = name_of(made, made.followers()[0])
            await made.stop(name)
            clocks[name].boot()
            node = await start_with(made, name, clocks[name])
            await made.until(lambda: node.status().applied_index == leader.status().applied_index > 0)
            assert (await write(leader, "boot", "with one that booted")).epoch == epoch
            await made.stop(*made.names)
            for each in made.names:
                clocks[each].boot()
                await start_with(made, each, clocks[each])
            assert (await write(await made.leader(), "boot", "all of them")).epoch > epoch
            assert len(await made.digests()) == 1

    asyncio.run(trial())


# --- whole nodes: what is missing ------------------------------------------------------------------------------------


def test_a_write_without_its_quorum_leaves_no_trace(tmp_path: Path) -> None:
    """*A write that missed its quorum*: invisible to every read, gone when another leads, and support 1 when it is
    retried, under its own id as under a new one.
    """

    async def trial() -> None:
        async with cluster(tmp_path) as made:
            leader = await made.leader()
            kept = (await write(leader, "subject", "the value that stays")).outcomes[0].record_id
            made.network.isolate(made.settings(name_of(made, leader)).endpoint)
            lost = [write_command("subject", "the value that missed") for _ in range(3)]
            for command in lost:
                with pytest.raises((OutcomeUnknown, Unavailable)) as caught:
                    await leader.submit_anonymous([command], SECOND_US // 20)
                assert getattr(caught.value, "command_id", command.id.hex()) == command.id.hex()
            seen = await read(leader, Verb.GET_MANY, ids=(kept,))
            assert [found.record.text for found in seen.value] == ["the value that stays"]
            await made.until(lambda: any(node is not leader for node in made.leaders()))
            made.network.heal()
            successor = next(node for node in made.leaders() if node is not leader)
            await write(successor, "other", "the history goes on")
            await made.level()
            for node in made.nodes.values():
                items = (await read(node, Verb.HISTORY, ReadMode.LOCAL, id=kept, limit=10)).value.items
                assert [item.record.text for item in items] == ["the value that stays"]
            for command in lost:
                await successor.submit_anonymous([command], 5 * SECOND_US)
            [found] = (await read(successor, Verb.GET_MANY, ReadMode.STRONG, ids=(kept,))).value
            assert (found.record.text, found.record.support) == ("the value that missed", 1)

    asyncio.run(trial())


class Meter:
    """Counts what a node is sent: the entries, each once however often it came, and the bytes of the largest message.

    A node that still opens its files answers nothing, and is sent the same again until it does.
    """

    def __init__(self, made: Cluster, receiver: str) -> None:
        self.indexes: set[int] = set()
        self.largest_bytes = 0
        self.deliver = made.nodes[receiver].receive
        made.nodes[receiver].receive = self._receive

    def _receive(self, sender: str, message: Message) -> None:
        if isinstance(message, Append | Fetched) and message.entries:
            self.indexes |= {entry.index for entry in message.entries}
            self.largest_bytes = max(self.largest_bytes, weight_of(message))
        self.deliver(sender, message)


def test_catching_up_costs_what_was_missed(tmp_path: Path) -> None:
    """*Bytes on the wire proportional to the gap*: not to the history, which is long. With no gap nothing is sent."""

    async def missed(made: Cluster, count: int) -> Meter:
        leader = await made.leader()
        await made.level()
        name = name_of(made, made.followers()[0])
        await made.stop(name)
        for number in range(count):
            await write(leader, f"missed {count} {number}", "x" * 200)
        settings = made.settings(name)
        transport = made.network.transport(settings.endpoint)
        node = Node(settings, transport, CLOCK, ENTROPY, partial(made.fatal.__setitem__, name))
        made.nodes[name] = node
        meter = Meter(made, name)
        transport.attach(node)
        await node.start()
        await made.level()
        node.receive = meter.deliver
        return meter

    async def trial() -> None:
        async with cluster(tmp_path) as made:
            leader = await made.leader()
            await asyncio.gather(*(write(leader, f"history {number}", "x" * 200) for number in range(400)))
            for number in range(200):
                await write(leader, f"more {number}", "x" * 200)
            none, few, many = [await missed(made, count) for count in (0, 10, 100)]
            assert none.indexes == set()
            for gap, meter in ((10, few), (100, many)):
                assert gap <= len(meter.indexes) <= gap + ELECTIONS
                assert meter.largest_bytes <= len(meter.indexes) * ENTRY_BYTES

    asyncio.run(trial())


def test_who_begins_anew_is_level_without_a_further_write(tmp_path: Path) -> None:
    """A follower that was restarted, its projection lost, in an epoch in which nobody writes any more: it learns again
    how far its log is committed, and folds all of it.
    """

    async def trial() -> None:
        async with cluster(tmp_path) as made:
            leader = await made.leader()
            for number in range(5):
                await write(leader, f"last {number}", "x")
            await made.level()
            name = name_of(made, made.followers()[0])
            await made.stop(name)
            for file in (made.data / name).glob("projection.db*"):
                file.unlink()
            await made.start(name)
            await made.until(lambda: made.nodes[name].status().applied_index == leader.status().applied_index)

    asyncio.run(trial())
