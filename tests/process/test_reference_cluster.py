"""Where the reference system failed as a cluster, as tests with real processes: each scenario with its control.

Nodes are killed (`kill -9`), paused (SIGSTOP: they accept connections and say nothing), or replaced by a listener that
never answers. What needs an exact moment, another clock or a count of messages stands in
`tests/unit/test_reference_cluster.py`; failover under load in `test_failover.py`.
"""

from __future__ import annotations

import signal
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, fact, process_cluster, took

from veridical.client import ConnectedMemory
from veridical.memory.errors import OutcomeUnknown, Unavailable, VeridicalError
from veridical.memory.view import MemoryRecord

pytestmark = pytest.mark.process

SCOPE = "test"
TTL_S = 0.6
SHORT_S = 1.0
GRACE_S = 0.1
NORMAL_S = 0.5
TURN_AWAY_S = 1.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three nodes for tests that leave all of them running."""
    with process_cluster(tmp_path_factory.mktemp("shared")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """The shared nodes, all in step."""
    in_step(shared)
    return shared


def in_step(cluster: ProcessCluster) -> None:
    """Wait until every node is ready and has applied the same."""

    def level() -> bool | None:
        statuses = cluster.statuses().values()
        ready = sum(status.ready for status in statuses) == len(cluster.nodes)
        return (ready and len({status.applied_index for status in statuses}) == 1) or None

    eventually(level)


def others(cluster: ProcessCluster, *nodes: NodeProcess) -> list[NodeProcess]:
    """All nodes but these."""
    return [node for node in cluster.nodes.values() if node not in nodes]


@contextmanager
def paused(*nodes: NodeProcess) -> Generator[None]:
    """These processes stand still, and go on afterwards."""
    for node in nodes:
        node.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for node in nodes:
            node.signal(signal.SIGCONT)


def text_at(node: NodeProcess, id: str, consistency: str = "local") -> str | None:
    """What this node says the record holds; None when it says that there is none."""
    with ConnectedMemory(node.endpoint, read_consistency=consistency, timeout_s=10) as memory:
        found = memory.get(id)
        return None if found is None else found.text


# --- who leads -------------------------------------------------------------------------------------------------------


def test_who_missed_acknowledged_writes_does_not_lead_without_them(cluster: ProcessCluster) -> None:
    """C misses two acknowledged writes, A dies, C may get the lease: every acknowledged write is readable on every
    node, in every mode. The control: while C was away it really lacked them.
    """
    leader = cluster.leader()
    left_out, witness = others(cluster, leader)
    with ConnectedMemory(cluster.endpoints, timeout_s=10) as memory:
        left_out.signal(signal.SIGSTOP)
        written = [memory.write(fact(f"missed by one {number}", f"value {number}", SCOPE)) for number in range(2)]
        leader.kill()
        left_out.signal(signal.SIGCONT)
        lacking = cluster.statuses().get(left_out.name)
        assert lacking is None or lacking.applied_index < written[0].index or lacking.epoch > written[0].epoch
        successor = cluster.leader()
        assert successor in (left_out, witness)
        for number, record in enumerate(written):
            for consistency in ("strong", "quorum"):
                for node in (left_out, witness):
                    assert text_at(node, record.id, consistency) == f"value {number}"
        leader.start()
        in_step(cluster)
        for number, record in enumerate(written):
            assert [text_at(node, record.id) for node in cluster.nodes.values()] == [f"value {number}"] * 3


def test_asking_who_leads_changes_nothing(cluster: ProcessCluster) -> None:
    """Status, probes and hello, many times at every node: same epoch, same leader, not an entry more. The control: a
    write is an entry.
    """

    def state() -> dict[str, tuple[int, str, int, str]]:
        statuses = cluster.statuses()
        return {name: (each.epoch, each.leader, each.last_index, each.role) for name, each in statuses.items()}

    before = state()
    for _ in range(30):
        assert state() == before
        for node in cluster.nodes.values():
            with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=10) as answer:
                assert answer.status == 200
    with ConnectedMemory(cluster.endpoints) as memory:
        memory.write(fact("asked"))
    assert state() != before


def test_a_leader_that_was_paused_with_its_peers_gone_acknowledges_nothing(cluster: ProcessCluster) -> None:
    """A leader takes a write, its peers unreachable, and is paused beyond its lease; the others elect. When it wakes
    up, it does not acknowledge in its epoch: the outcome is unknown, or what the new epoch says.
    """
    leader = cluster.leader()
    epoch = cluster.statuses()[leader.name].epoch
    outcome: list[object] = []

    def write() -> None:
        with ConnectedMemory(leader.endpoint, timeout_s=10) as memory:
            entered.set()
            outcome.append(took(lambda: memory.write(fact("paused", "by the old leader", SCOPE)))[1])

    entered = threading.Event()
    writer = threading.Thread(target=write)
    last = cluster.statuses()[leader.name].last_index
    for node in others(cluster, leader):
        node.kill()
    writer.start()
    assert entered.wait(10)
    eventually(lambda: last_index(leader) > last or None)
    leader.signal(signal.SIGSTOP)
    for node in others(cluster, leader):
        node.start()
    successor = eventually(lambda: serving(cluster, others(cluster, leader)))
    assert cluster.statuses()[successor.name].epoch > epoch
    leader.signal(signal.SIGCONT)
    writer.join(30)
    [answer] = outcome
    assert isinstance(answer, OutcomeUnknown | Unavailable) or (
        isinstance(answer, MemoryRecord) and answer.epoch > epoch
    )
    in_step(cluster)


def last_index(node: NodeProcess) -> int:
    """How far the log of this node goes, 0 while it does not answer."""
    with ConnectedMemory(node.endpoint, timeout_s=1) as memory, suppress(Unavailable):
        return next((each.last_index for each in memory.status().values() if each.name == node.name), 0)
    return 0


def serving(cluster: ProcessCluster, among: Sequence[NodeProcess]) -> NodeProcess | None:
    """Who of these leads and serves."""
    statuses = cluster.statuses()
    return next((node for node in among if node.name in statuses and statuses[node.name].serves), None)


# --- writes without a quorum -----------------------------------------------------------------------------------------


def test_a_write_below_its_quorum_is_unknown_and_seen_by_nobody(cluster: ProcessCluster) -> None:
    """It ends in time in a typed error with its command id; no read shows it, the verified value stays; sent again
    under that id, once the members are back, it is done once and counts as one support. The client knows all nodes.
    """
    leader = cluster.leader()
    with ConnectedMemory(leader.endpoint, timeout_s=10) as memory:
        kept = memory.write(fact("below", "the verified value", SCOPE))
        memory.promote(kept.id)
        assert len(memory.status()) == 3, "it learned of the others"
        unknown: list[OutcomeUnknown] = []
        with paused(*others(cluster, leader)):
            for number in range(3):
                record = fact(f"below {number}", "never acknowledged", SCOPE)
                elapsed, error = took(lambda record=record: memory.write(record, timeout_s=SHORT_S))
                assert isinstance(error, OutcomeUnknown | Unavailable), error
                assert elapsed < SHORT_S + GRACE_S
                unknown += [error] if isinstance(error, OutcomeUnknown) else []
            assert unknown, "the first write reached a leader that did not know yet that it was alone"
            assert memory.recall("never acknowledged", scope=SCOPE, consistency="local") == []
            assert all(record.text != "never acknowledged" for record in memory.all(scope=SCOPE, consistency="local"))
            local = memory.get(kept.id, consistency="local")
            assert local is not None and (local.text, local.trust.value) == ("the verified value", "verified")
        command_id = unknown[0].command_id
        again = [
            memory.write(fact("below 0", "never acknowledged", SCOPE), command_id=command_id, timeout_s=15)
            for _ in range(3)
        ]
        assert {record.command_id for record in again} == {command_id}
        found = memory.get(again[0].id, consistency="strong")
        assert found is not None and found.support_count == 1
    in_step(cluster)


def test_the_client_follows_the_leader_wherever_it_goes(cluster: ProcessCluster) -> None:
    """Connected to one node only, it goes on through the others when that one is killed."""
    leader = cluster.leader()
    with ConnectedMemory.connect(leader.endpoint, timeout_s=10) as memory:
        before = memory.write(fact("followed", "before", SCOPE))
        leader.kill()
        after = memory.write(fact("followed after", "after", SCOPE))
        assert after.epoch > before.epoch
        assert memory.get(before.id, consistency="quorum") is not None
    leader.start()
    in_step(cluster)


# --- reads keep their promise or fail --------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[ConnectedMemory, str], object]] = {
    "get": lambda memory, id: memory.get(id),
    "get_many": lambda memory, id: memory.get_many([id]),
    "recall": lambda memory, _: memory.recall("promise", scope=SCOPE),
    "all": lambda memory, _: list(memory.all(scope=SCOPE)),
    "history": lambda memory, id: memory.history(id),
    "scopes": lambda memory, _: memory.scopes(),
}


@pytest.mark.parametrize("asked", ["leader", "follower"])
@pytest.mark.parametrize("consistency", ["strong", "quorum"])
def test_a_read_without_enough_members_names_the_silent(cluster: ProcessCluster, consistency: str, asked: str) -> None:
    """Two of three stand still: every verb ends in time in `Unavailable`, which names them; local reads go on. With
    all members the same calls answer.
    """
    node = cluster.leader() if asked == "leader" else cluster.follower()
    with ConnectedMemory(cluster.endpoints, timeout_s=10, read_consistency=consistency) as memory:
        id = memory.write(fact("promise", "kept", SCOPE)).id
    in_step(cluster)
    with ConnectedMemory(node.endpoint, read_consistency=consistency, timeout_s=SHORT_S) as memory:
        assert all(question(memory, id) for question in QUESTIONS.values()), "the control"
        gone = others(cluster, node)
        with paused(*gone):
            for name, question in QUESTIONS.items():
                elapsed, error = took(lambda question=question: question(memory, id))
                assert isinstance(error, Unavailable), (name, error)
                assert elapsed < SHORT_S + GRACE_S, name
                assert set(error.who) & {each for other in gone for each in (other.name, other.endpoint)}, (name, error)
            assert text_at(node, id, "local") == "kept"
    in_step(cluster)


def test_strong_reads_stay_strong_when_nobody_writes(cluster: ProcessCluster) -> None:
    """No writes for several times the lease: the same leader, strong reads answered; and they are strong, not quietly
    local: as soon as its members stand still, the leader refuses them.
    """
    leader = cluster.leader()
    with ConnectedMemory(cluster.endpoints, read_consistency="strong", timeout_s=5) as memory:
        written = memory.write(fact("idle", "still here", SCOPE))
        idle_until = time.monotonic() + 4 * TTL_S
        eventually(lambda: time.monotonic() > idle_until or None)
        for node in cluster.nodes.values():
            assert text_at(node, written.id, "strong") == "still here"
        assert cluster.statuses()[leader.name].epoch == written.epoch
    with ConnectedMemory(leader.endpoint, read_consistency="strong", timeout_s=SHORT_S) as memory:
        assert memory.get(written.id) is not None
        with paused(*others(cluster, leader)), pytest.raises(Unavailable):
            memory.get(written.id)
    in_step(cluster)


# --- what is gone stays gone -----------------------------------------------------------------------------------------


def test_what_is_gone_is_gone_everywhere_and_stays_gone(cluster: ProcessCluster) -> None:
    """Forgotten, expired and pruned at the leader: gone on followers, on the next leader, and on the old one when it
    is back. A record that was none of these is there each time.
    """
    leader = cluster.leader()
    with ConnectedMemory(cluster.endpoints, timeout_s=10) as memory:
        kept, forgotten, expired, pruned = [
            memory.write(fact(f"gone {how}", f"{how} pumpernickel", SCOPE)).id
            for how in ("not", "forgotten", "expired", "pruned")
        ]
        memory.forget(forgotten, reason="test")
        memory.set_flags(expired, ttl_s=0.2)
        memory.pin(kept)
        for evidence in ("one test", "another"):
            memory.contradict(pruned, evidence=evidence)
        assert memory.decay(half_life_s=3600, now=datetime.now(UTC) + timedelta(days=300)) >= 1
        gone = (forgotten, expired, pruned)

        def states(nodes: Sequence[NodeProcess]) -> list[tuple[bool, list[str | None]]]:
            return [(text_at(node, kept) is not None, [text_at(node, id) for id in gone]) for node in nodes]

        def right(nodes: Sequence[NodeProcess]) -> bool | None:
            return states(nodes) == [(True, [None] * 3)] * len(nodes) or None

        eventually(lambda: right(list(cluster.nodes.values())))
        leader.kill()
        rest = others(cluster, leader)
        eventually(lambda: serving(cluster, rest))
        assert right(rest)
        for consistency in ("strong", "quorum"):
            assert [hit.id for hit in memory.recall("pumpernickel", scope=SCOPE, consistency=consistency)] == [kept]
        leader.start()
        in_step(cluster)
        assert right(list(cluster.nodes.values()))
        with pytest.raises(VeridicalError):
            memory.write(fact("gone forgotten", "forgotten pumpernickel", SCOPE))


# --- a follower that never answers -----------------------------------------------------------------------------------


@contextmanager
def black_hole_at(endpoint: str) -> Generator[None]:
    """Somebody who accepts connections where a node was, and never says a word."""
    host, _, port = endpoint.rpartition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(128)
        yield


@pytest.mark.parametrize("how", ["black hole", "paused"])
def test_a_follower_that_never_answers_costs_no_time(cluster: ProcessCluster, how: str) -> None:
    """It accepts connections and is silent: writes and reads of every mode go at their normal speed."""
    follower = cluster.follower()

    def durations(name: str) -> tuple[float, float]:
        with ConnectedMemory(cluster.endpoints, timeout_s=15) as memory:
            spent: list[float] = []
            for number in range(20):
                elapsed, record = took(partial(memory.write, fact(f"{name} {number}", "quick", SCOPE)))
                assert isinstance(record, MemoryRecord), record
                spent.append(elapsed)
                for consistency in ("local", "session", "strong", "quorum"):
                    elapsed, found = took(partial(memory.get, record.id, consistency=consistency))
                    assert not isinstance(found, Exception), (consistency, found)
                    spent.append(elapsed)
            return statistics.median(spent), max(spent)

    usual, _ = durations(f"before {how}")
    with ExitStack() as stack, ConnectedMemory.connect(follower.endpoint, timeout_s=5) as its_client:
        assert its_client.scopes(), "it was answered by the follower until now"
        if how == "paused":
            stack.enter_context(paused(follower))
        else:
            follower.kill()
            stack.callback(follower.start)
            stack.enter_context(black_hole_at(follower.endpoint))
        median, longest = durations(f"with a {how}")
        elapsed, scopes = took(its_client.scopes)
        assert scopes and elapsed < TURN_AWAY_S, (elapsed, scopes)
    print(f"{how}: median {usual:.4f} s before, {median:.4f} s with it, at most {longest:.4f} s")
    assert median < 3 * usual + 0.02
    assert longest < NORMAL_S
    in_step(cluster)
