"""Three real nodes in one process, with real files: writes, reads, failover, restart, drain, damage."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from node_cluster import CLOCK, SECOND_US, Cluster, cluster, read, signed, write, write_command

from veridical.log.store import LogStore
from veridical.memory.errors import NotLeader, OutcomeUnknown, Refused, Retry, Unavailable
from veridical.node.decider import Decider
from veridical.node.identity import DirectoryInUse
from veridical.node.inprocess import InProcessNetwork
from veridical.node.ports import BareCommand, KeyRequest, ReadRequest, SubmitResult, Verb, Wait
from veridical.node.runtime import Node
from veridical.node.settings import Limits, Settings
from veridical.node.system import SystemClock, SystemEntropy
from veridical.projection.projection import Projection
from veridical.projection.reader import Reader
from veridical.replication.messages import ReadMode
from veridical.security.principal import Principal

PRINCIPAL = Principal(bytes([5]) * 32)


Work = Callable[[Cluster], Awaitable[None]]


def within(data: Path, work: Work, count: int = 3, limits: Limits | None = None) -> None:
    """Run `work` on a fresh cluster."""

    async def run() -> None:
        async with cluster(data, count, limits=limits) as running:
            await work(running)

    asyncio.run(run())


def test_a_write_is_on_every_node_and_the_same(tmp_path: Path) -> None:
    """Any node takes a write; all fold the same history to the same digest."""

    async def work(running: Cluster) -> None:
        await running.leader()
        for place, node in enumerate(running.nodes.values()):
            result = await write(node, f"subject {place}", "a value")
            assert [outcome.code for outcome in result.outcomes] == ["asserted"]
            record = result.records[0]
            assert record is not None and record.text == "a value" and record.version.index == result.index
        assert len(await running.digests()) == 1

    within(tmp_path, work)


@pytest.mark.parametrize("mode", list(ReadMode))
def test_every_mode_reads_what_was_acknowledged(tmp_path: Path, mode: ReadMode) -> None:
    """Strong, lease, quorum, and session with its index: from any node, at once after the acknowledgement."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        for place in range(5):
            result = await write(leader, "counter", f"value {place}")
            for node in running.nodes.values():
                min_index = result.index if mode is ReadMode.SESSION else 0
                request = ReadRequest(Verb.GET, {"id": result.outcomes[0].record_id}, mode, 5 * SECOND_US, min_index)
                reply = await node.read(request)
                assert (reply.epoch, reply.index) <= (result.epoch, result.index)
                if mode is not ReadMode.LOCAL:
                    assert reply.value.record.text == f"value {place}"
                    assert reply.index == result.index

    within(tmp_path, work)


def test_the_same_command_is_done_once(tmp_path: Path) -> None:
    """A command sent again, to another node, is answered with its first outcome."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        command = write_command("sky", "is blue")
        first = await leader.submit_anonymous([command], 5 * SECOND_US)
        again = await running.followers()[0].submit_anonymous([command], 5 * SECOND_US)
        assert again.outcomes[0].repeated_command
        assert again.outcomes[0].version == first.outcomes[0].version
        record = again.records[0]
        assert record is not None and record.support == 1

    within(tmp_path, work)


def test_an_envelope_is_one_entry_with_an_outcome_for_each_command(tmp_path: Path) -> None:
    """Commands of one envelope are decided one after the other and answered each by itself."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        commands = [write_command("sky", "is blue"), write_command("sky", "is blue"), write_command("sea", "is wet")]
        submission = signed(PRINCIPAL, leader.status().cluster_id, commands)
        result = await leader.submit(submission)
        assert [outcome.version.place for outcome in result.outcomes] == [0, 1, 2]
        assert {outcome.version.index for outcome in result.outcomes} == {result.index}

    within(tmp_path, work, count=1)


def test_many_callers_share_rounds(tmp_path: Path) -> None:
    """Concurrent submissions at all nodes are all answered, in fewer rounds than submissions, and none is lost."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        nodes = list(running.nodes.values())
        before = leader.status().last_index
        results = await asyncio.gather(
            *(write(nodes[place % 3], f"subject {place}", f"value {place}") for place in range(120))
        )
        assert len({result.index for result in results} - set(range(before + 1))) == 120
        for place in (0, 60, 119):
            reply = await read(nodes[0], Verb.GET, ReadMode.STRONG, id=results[place].outcomes[0].record_id)
            assert reply.value.record.text == f"value {place}"
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_all_waits_for_every_voter(tmp_path: Path) -> None:
    """A caller may wait for more replicas than W; when one is cut off, that promise ends as unknown, never as kept."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        result = await leader.submit_anonymous([write_command("a", "b")], 5 * SECOND_US, Wait.ALL)
        for member in leader.status().members:
            assert member.match_index is not None and member.match_index >= result.index
        silent = running.followers()[0]
        running.network.isolate(silent.status().endpoint)
        with pytest.raises(OutcomeUnknown):
            await leader.submit_anonymous([write_command("c", "d")], SECOND_US // 5, Wait.ALL)
        running.network.heal()

    within(tmp_path, work)


def test_the_leader_stops_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Another node leads, holds everything, and takes writes; the old one returns as a follower and catches up."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        before = [await write(leader, f"before {place}", "x") for place in range(10)]
        name = leader.status().name
        await running.stop(name)
        after = await write(next(iter(running.nodes.values())), "after", "y")
        assert after.epoch > before[-1].epoch
        survivor = await running.leader()
        for result in before:
            reply = await read(survivor, Verb.GET, ReadMode.STRONG, id=result.outcomes[0].record_id)
            assert reply.value is not None
        await running.start(name)
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_writes_go_on_while_leaders_come_and_go(tmp_path: Path) -> None:
    """Callers who retry with the same command see each write applied exactly once over three hand-overs."""

    async def work(running: Cluster) -> None:
        await running.leader()
        written: list[bytes] = []
        done = asyncio.Event()

        async def caller(number: int) -> None:
            while not done.is_set():
                command = write_command(f"caller {number}", f"value {len(written)}", predicate=f"p{len(written)}")
                result = await retried(running, command)
                assert [outcome.code for outcome in result.outcomes] == ["asserted"]
                written.append(result.outcomes[0].record_id)

        callers = [asyncio.create_task(caller(number)) for number in range(4)]
        for _ in range(3):
            leader = await running.leader()
            seen = len(written)
            await leader.transfer()
            await running.until(lambda seen=seen: len(written) > seen + 10)
        done.set()
        await asyncio.gather(*callers)
        reply = await read(await running.leader(), Verb.GET_MANY, ReadMode.STRONG, ids=written[-1000:])
        assert all(found is not None and found.record.support == 1 for found in reply.value)
        assert len(await running.digests()) == 1

    async def retried(running: Cluster, command: BareCommand) -> SubmitResult:
        while True:
            for node in running.nodes.values():
                try:
                    return await node.submit_anonymous([command], 2 * SECOND_US)
                except (OutcomeUnknown, Unavailable, Retry):
                    continue

    within(tmp_path, work)


def test_without_a_quorum_nothing_is_promised(tmp_path: Path) -> None:
    """A leader that is cut off answers neither writes nor strong or quorum reads, and says who was silent."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        result = await write(leader, "a", "b")
        running.network.isolate(leader.status().endpoint)
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await write(leader, "c", "d", timeout_us=SECOND_US // 2)
        for mode in (ReadMode.STRONG, ReadMode.QUORUM):
            with pytest.raises(Unavailable) as error:
                await read(leader, Verb.GET, mode, timeout_us=SECOND_US // 3, id=result.outcomes[0].record_id)
            assert error.value.who
        local = await read(leader, Verb.GET, id=result.outcomes[0].record_id)
        assert local.value.record.text == "b"
        other = next(node for node in running.nodes.values() if node is not leader)
        await write(other, "e", "f")
        running.network.heal()
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_stale_local_reads_can_be_refused(tmp_path: Path) -> None:
    """A local read may bound the age of the state; a node that hears nothing cannot keep that."""

    async def work(running: Cluster) -> None:
        await running.leader()
        follower = running.followers()[0]
        request = ReadRequest(Verb.COUNTS, {}, ReadMode.LOCAL, SECOND_US, max_staleness_us=SECOND_US // 10)
        await running.until(lambda: follower.status().ready)
        await follower.read(request)
        running.network.isolate(follower.status().endpoint)

        async def refused() -> bool:
            try:
                await follower.read(request)
            except Unavailable:
                return True
            return False

        async with asyncio.timeout(5):
            while not await refused():  # noqa: ASYNC110 (time has to pass)
                await asyncio.sleep(0.005)
        running.network.heal()

    within(tmp_path, work)


def test_drain_hands_over_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    """On SIGTERM: unready, another leader, everything under way answered."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        writes = [asyncio.create_task(write(leader, f"s{place}", "v")) for place in range(30)]
        await asyncio.sleep(0)
        await leader.drain(5 * SECOND_US)
        assert await leader.ready() == "draining"
        assert not leader.status().serves
        await asyncio.gather(*writes)
        await running.stop(leader.status().name)
        await write(next(iter(running.nodes.values())), "after", "w")

    within(tmp_path, work)


def test_a_drain_gives_up_at_once_where_nobody_can_take_over(tmp_path: Path) -> None:
    """The last one of three: it waits for no successor, and whoever waits for an answer is told."""

    async def work(running: Cluster) -> None:
        last = await running.leader()
        others = [node.status().name for node in running.followers()]
        await running.stop(*others)
        waits = asyncio.ensure_future(write(last, "a", "b", 30 * SECOND_US))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await last.drain(60 * SECOND_US)
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await waits
        with pytest.raises(Unavailable):
            await write(last, "c", "d")

    within(tmp_path, work)


def test_a_lone_node_answers_those_it_has_in_hand_before_it_ends(tmp_path: Path) -> None:
    """It needs nobody for that; those who come later are refused, so that it ends under any load."""

    async def work(running: Cluster) -> None:
        lone = await running.leader()
        writes = [asyncio.create_task(write(lone, f"s{place}", "v")) for place in range(30)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await lone.drain(60 * SECOND_US)
        assert len(await asyncio.gather(*writes)) == 30
        with pytest.raises(Unavailable):
            await write(lone, "too", "late")

    within(tmp_path, work, count=1)


def test_a_stop_ends_every_read_and_write_under_way(tmp_path: Path) -> None:
    """Nobody waits for a node that is gone, however long they were ready to."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        await write(leader, "a", "b")
        running.network.isolate(leader.status().endpoint)
        calls: list[asyncio.Task[Any]] = [
            asyncio.create_task(read(leader, Verb.COUNTS, ReadMode.STRONG, timeout_us=60 * SECOND_US)),
            asyncio.create_task(read(leader, Verb.COUNTS, ReadMode.QUORUM, timeout_us=60 * SECOND_US)),
            asyncio.create_task(leader.submit_anonymous([write_command("c", "d")], 60 * SECOND_US)),
        ]
        await asyncio.wait(calls, timeout=0.05)
        await running.stop(leader.status().name)
        running.network.heal()
        async with asyncio.timeout(5):
            ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, (Unavailable, OutcomeUnknown)) for end in ends)

    within(tmp_path, work)


def test_a_stop_in_the_middle_of_a_start_lets_go_of_everything(tmp_path: Path) -> None:
    """The same directory can be started again at once."""

    async def work(running: Cluster) -> None:
        await running.stop(*running.names)
        for _ in range(3):
            await running.start("n1")
            await running.stop("n1")
        await running.start(*running.names)
        await write(await running.leader(), "a", "b")

    within(tmp_path, work)


def test_all_stop_at_once_and_start_again(tmp_path: Path) -> None:
    """What was acknowledged is there after a stop of everything; the identity of the cluster too."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        cluster_id = leader.status().cluster_id
        results = [await write(leader, f"s{place}", "v") for place in range(5)]
        await running.stop(*running.names)
        await running.start(*reversed(running.names))
        again = await running.leader()
        assert again.status().cluster_id == cluster_id
        assert again.status().epoch > results[-1].epoch
        for result in results:
            reply = await read(again, Verb.GET, ReadMode.STRONG, id=result.outcomes[0].record_id)
            assert reply.value is not None
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_a_cluster_of_one_needs_nobody(tmp_path: Path) -> None:
    """One node founds, serves, and goes on after a restart."""

    async def work(running: Cluster) -> None:
        node = await running.leader()
        result = await write(node, "a", "b")
        await running.stop("n1")
        await running.start("n1")
        reply = await read(await running.leader(), Verb.GET, ReadMode.QUORUM, id=result.outcomes[0].record_id)
        assert reply.value.record.text == "b"

    within(tmp_path, work, count=1)


def test_a_missing_projection_is_folded_again(tmp_path: Path) -> None:
    """The projection is only a fold of the log: without it, or with another one, a node comes to the same state."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        for place in range(20):
            await write(leader, f"s{place}", "v")
        digests = await running.digests()
        await running.stop(*running.names)
        for path in (tmp_path / "n1").glob("projection.db*"):
            path.unlink()
        (tmp_path / "n2" / "projection.db").write_bytes(b"not a database" * 1000)
        await running.start(*running.names)
        await running.leader()
        for node in running.nodes.values():
            reply = await read(node, Verb.DIGEST, ReadMode.STRONG)
            assert {reply.value.digest} == digests

    within(tmp_path, work)


def test_a_damaged_log_neither_serves_nor_votes(tmp_path: Path) -> None:
    """One byte flipped in an entry: the node says which one, and takes no part until another member has given it."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        await write(leader, "sun", "shines today")
        await running.level()
        await running.stop(*running.names)
        flip(tmp_path / "n1" / "log.db", b"shines today")
        await running.start("n1")
        damaged = running.nodes["n1"]
        await running.until(lambda: damaged.status().condition.startswith("damaged"))
        assert "entry 3" in damaged.status().condition
        assert not damaged.status().serves
        with pytest.raises(Unavailable, match="damaged"):
            await read(damaged, Verb.COUNTS)
        assert await damaged.ready() != ""
        assert damaged.alive
        await running.start("n2", "n3")
        await running.leader()
        await running.until(lambda: damaged.status().condition == "")

    within(tmp_path, work)


def flip(path: Path, marker: bytes) -> None:
    """Change one byte of `marker` wherever it stands in the file."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(path.read_bytes())
    place = content.find(marker)
    assert place > 0
    content[place] ^= 1
    path.write_bytes(content)


def test_a_second_process_on_the_same_files_is_refused(tmp_path: Path) -> None:
    """Two nodes on one directory would make two histories of one promise."""

    async def work(running: Cluster) -> None:
        await running.leader()
        with pytest.raises(DirectoryInUse):
            await running.start("n1")

    within(tmp_path, work, count=1)


def test_the_loop_touches_no_disk_and_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads, writes, folds, decides or queries does so on a thread of its own."""
    threads: dict[str, set[str]] = {}

    def watch(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name.rstrip("0123456789"))
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)

    for owner, names in (
        (LogStore, ("write_many", "read", "check", "restored")),
        (Projection, ("apply", "reader")),
        (Decider, ("decide",)),
        (Reader, ("snapshot",)),
    ):
        for name in names:
            watch(owner, name)

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        await asyncio.gather(*(write(leader, f"s{place}", "v") for place in range(20)))
        await read(leader, Verb.RECALL, ReadMode.STRONG, query="v")
        await leader.export(1, 1 << 20)

    within(tmp_path, work, count=1)
    assert threads.keys() >= {"write_many", "read", "check", "apply", "decide", "snapshot"}
    assert not any("MainThread" in names for names in threads.values())
    assert (threads["write_many"], threads["apply"], threads["decide"]) == ({"log-writer"}, {"applier"}, {"applier"})


def test_too_much_at_once_is_turned_away_with_a_hint(tmp_path: Path) -> None:
    """Queues are bounded: what does not fit is told when to come back, and nothing else suffers."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        results = await asyncio.gather(
            *(write(leader, f"s{place}", "v") for place in range(40)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, Retry)]
        assert len(refused) == 30
        assert all(refusal.retry_after_s > 0 for refusal in refused)
        await write(leader, "later", "w")

    within(tmp_path, work, count=1, limits=Limits(waiting_commands=10))


def test_a_full_disk_leaves_the_cluster_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without room turns unready and stays readable, the others go on, and it comes back by itself."""
    full: set[Path] = set()

    def disk_usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=0 if path in full else 1 << 40)

    monkeypatch.setattr("veridical.node.health.shutil.disk_usage", disk_usage)

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        result = await write(leader, "a", "b")
        await running.level()
        full.add(tmp_path / leader.status().name)
        async with asyncio.timeout(5):
            while await leader.ready() != "disk full":  # noqa: ASYNC110 (it looks once a second)
                await asyncio.sleep(0.01)
        await running.until(lambda: running.leaders() not in ([], [leader]))
        await write(running.leaders()[0], "c", "d")
        local = await read(leader, Verb.GET, id=result.outcomes[0].record_id)
        assert local.value.record.text == "b"
        full.clear()
        assert await leader.ready(5 * SECOND_US) == ""
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_a_node_that_was_away_for_long_catches_up(tmp_path: Path) -> None:
    """What the others no longer keep in memory is read from their logs."""

    async def work(running: Cluster) -> None:
        await running.leader()
        await running.stop("n3")
        leader = await running.leader()
        commands = [[write_command(f"s{place} {number}", "v" * 1000) for number in range(50)] for place in range(10)]
        for some in commands:
            await leader.submit_anonymous(some, 5 * SECOND_US)
        await running.start("n3")
        assert len(await running.digests()) == 1

    within(tmp_path, work, limits=Limits(tail_bytes=1 << 16, batch_bytes=1 << 17))


def test_a_memory_without_files_works(tmp_path: Path) -> None:
    """For embedded use: one node, nothing on disk."""

    async def run() -> None:
        network, fatal = InProcessNetwork(), list[str]()
        transport = network.transport("here")
        node = Node(Settings(endpoint="here"), transport, SystemClock(), SystemEntropy(), fatal.append)
        transport.attach(node)
        await node.start()
        result = await write(node, "a", "b")
        reply = await read(node, Verb.GET, ReadMode.STRONG, id=result.outcomes[0].record_id)
        assert reply.value.record.text == "b"
        await node.stop()
        assert fatal == []

    asyncio.run(run())


def test_who_is_no_member_gets_no_digest_key(tmp_path: Path) -> None:
    """The digest key leaves a node only sealed to a member that proves its node key."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        status = leader.status()
        stranger = KeyRequest("stranger", status.cluster_id, CLOCK.wall_us(), bytes(64))
        forged = KeyRequest(running.followers()[0].node_id, status.cluster_id, CLOCK.wall_us(), bytes(64))
        for request in (stranger, forged):
            with pytest.raises(Refused):
                leader.keys(request)

    within(tmp_path, work)


def test_a_member_that_lost_its_digest_key_gets_it_back(tmp_path: Path) -> None:
    """It asks the others at its start, and can lead afterwards."""

    async def work(running: Cluster) -> None:
        await running.leader()
        await running.level()
        await running.stop("n1")
        (tmp_path / "n1" / "digest.key").unlink()
        await running.start("n1")
        await running.until((tmp_path / "n1" / "digest.key").exists)
        node = running.nodes["n1"]
        leader = await running.leader()
        if leader is not node:
            await running.until(lambda: node.status().leader is not None)
            assert await leader.transfer(node.node_id) == ""
        await running.until(lambda: node.status().serves)
        await write(node, "a", "b")
        assert len(await running.digests()) == 1

    within(tmp_path, work)


def test_a_wiped_node_does_not_found_a_second_history(tmp_path: Path) -> None:
    """*lost-disk-is-a-new-member*: it finds that there is a history, waits to be added, and changes nothing."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        await write(leader, "a", "b")
        await running.level()
        name = running.followers()[0].status().name
        await running.stop(name)
        for path in (tmp_path / name).iterdir():
            path.unlink()
        await running.start(name)
        wiped = running.nodes[name]
        await running.until(lambda: wiped.status().cluster_id == leader.status().cluster_id)
        await write(leader, "c", "d")
        assert wiped.status().last_index == 0
        assert wiped.node_id not in {member.id for member in leader.status().members}

    within(tmp_path, work)


def test_relaying_ends_at_the_leader(tmp_path: Path) -> None:
    """What was relayed to a node that does not lead is not relayed again; the error names the leader."""

    async def work(running: Cluster) -> None:
        leader = await running.leader()
        follower: Node = running.followers()[0]
        await running.until(lambda: follower.status().leader == leader.node_id)
        submission = signed(PRINCIPAL, leader.status().cluster_id, [write_command("a", "b")])
        with pytest.raises(NotLeader) as error:
            await follower.submit(submission, relayed=True)
        assert error.value.leader == leader.status().endpoint

    within(tmp_path, work)
