"""What a node process offers beside memory: probes, health, reflection, administration; and how it starts and ends."""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import grpc_cluster
import pytest
from grpc_cluster import NodeProcess, ProcessCluster, fact, process_cluster
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from veridical.client import ConnectedMemory
from veridical.log.configuration import Configuration
from veridical.log.entry import Entry
from veridical.node import wire
from veridical.proto.channel import open_channel
from veridical.proto.generated import admin_pb2, admin_pb2_grpc, replication_pb2, replication_pb2_grpc

pytestmark = pytest.mark.process

Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def asked(endpoint: str, question: Callable[[grpc.aio.Channel], Awaitable[Answer]]) -> Answer:
    async def work() -> Answer:
        async with open_channel(endpoint) as channel, asyncio.timeout(20):
            return await question(channel)

    return asyncio.run(work())


def page(node: NodeProcess, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{node.http}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_probes_and_metrics(cluster: ProcessCluster):
    """Every node is alive and ready; one of them leads."""
    leading = 0
    for node in cluster.nodes.values():
        assert page(node, "/livez") == (200, "ok\n")
        assert page(node, "/readyz?sync") == (200, "ok\n")
        status, text = page(node, "/metrics")
        assert status == 200
        assert "veridical_has_leader 1.0" in text
        leading += "veridical_is_leader 1.0" in text
    assert leading == 1


def test_health_says_what_readyz_says(cluster: ProcessCluster):
    """By gRPC, for the node and for each of its services."""

    async def question(channel: grpc.aio.Channel) -> list[int]:
        health: Any = health_pb2_grpc.HealthStub(channel)  # its types know no asyncio
        services = ("", "veridical.v1.Memory")
        states = [(await health.Check(health_pb2.HealthCheckRequest(service=service))).status for service in services]
        watch = health.Watch(health_pb2.HealthCheckRequest())
        return [*states, (await watch.read()).status]

    serving = health_pb2.HealthCheckResponse.SERVING
    assert asked(cluster.leader().endpoint, question) == [serving] * 3


def test_services_can_be_looked_up(cluster: ProcessCluster):
    """Reflection names them, for grpcurl and its like."""

    async def question(channel: grpc.aio.Channel) -> set[str]:
        async def requests() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
            yield reflection_pb2.ServerReflectionRequest(list_services="")

        make: Any = reflection_pb2_grpc.ServerReflectionStub  # its types know no asyncio
        stub = make(channel)
        async for answer in stub.ServerReflectionInfo(requests()):
            return {service.name for service in answer.list_services_response.service}
        return set()

    names = asked(cluster.leader().endpoint, question)
    assert {"veridical.v1.Memory", "veridical.v1.Admin", "veridical.v1.Replication", "grpc.health.v1.Health"} <= names


async def exported(channel: grpc.aio.Channel, first: int, last: int = 0) -> tuple[admin_pb2.ExportReply, list[Entry]]:
    head: admin_pb2.ExportReply | None = None
    entries: list[Entry] = []
    async for chunk in admin_pb2_grpc.AdminStub(channel).Export(admin_pb2.ExportRequest(first=first, last=last)):
        head = head or chunk
        entries += map(wire.entry_from_wire, chunk.entries)
    assert head is not None
    return head, entries


def test_history_can_be_exported(cluster: ProcessCluster):
    """From any node, whole or in part: entries that chain, and who was who."""
    with ConnectedMemory.connect(cluster.endpoints) as memory:
        memory.write_many([fact(f"exported {number}") for number in range(300)], timeout_s=20)
        _, last = memory.last_seen
    follower = cluster.follower()
    grpc_cluster.eventually(lambda: cluster.statuses()[follower.name].commit_index >= last or None)
    head, entries = asked(follower.endpoint, lambda channel: exported(channel, 1))
    configuration: Configuration = wire.configuration_from_wire(head.configuration)
    assert {member.name for member in configuration.members} == {"n1", "n2", "n3"}
    assert [entry.index for entry in entries] == list(range(1, entries[-1].index + 1))
    assert all(entry.prev_hash == before.hash for before, entry in pairwise(entries))
    assert entries[-1].index >= last
    _, some = asked(follower.endpoint, lambda channel: exported(channel, 2, 2))
    assert some[0] == entries[1]


def test_equal_index_means_equal_digests(cluster: ProcessCluster):
    """256 of them, on every node."""

    async def question(channel: grpc.aio.Channel) -> admin_pb2.BucketsReply:
        return await admin_pb2_grpc.AdminStub(channel).Buckets(admin_pb2.BucketsRequest())

    def equal() -> bool | None:
        replies = [asked(endpoint, question) for endpoint in cluster.endpoints]
        if len({reply.applied_index for reply in replies}) > 1:
            return None
        assert all(len(reply.digests) == 256 for reply in replies)
        return len({tuple(reply.digests) for reply in replies}) == 1

    assert grpc_cluster.eventually(equal)


def test_leadership_can_be_handed_over(cluster: ProcessCluster):
    """To a member that is named; to one that does not exist it is not, and the answer says so."""
    leader, follower = cluster.leader(), cluster.follower()
    target = cluster.statuses()[follower.name].id

    async def transfer(channel: grpc.aio.Channel, to: str) -> str:
        reply = await admin_pb2_grpc.AdminStub(channel).Transfer(admin_pb2.TransferRequest(target=to))
        return reply.reason

    assert asked(leader.endpoint, lambda channel: transfer(channel, "nobody")) != ""
    assert asked(leader.endpoint, lambda channel: transfer(channel, target)) == ""
    assert grpc_cluster.eventually(lambda: cluster.leader() is follower or None)


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        ({"cluster": "another", "node": "x"}, "belongs to cluster 'test', not to 'another'"),
        ({"cluster": "test", "node": "x", "receiver": "somebody else"}, "not somebody else"),
        ({}, "carries no greeting"),
    ],
)
def test_a_stranger_is_not_listened_to(cluster: ProcessCluster, greeting: dict[str, str], reason: str):
    """Who means another cluster or another node is told so, and nothing it says is taken."""

    async def question(channel: grpc.aio.Channel) -> str:
        stream = replication_pb2_grpc.ReplicationStub(channel).Exchange()
        await stream.write(replication_pb2.Parcel(greeting=replication_pb2.Greeting(**greeting)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        return caught.value.details() or ""

    assert reason in asked(cluster.endpoints[0], question)


def test_sigterm_hands_over_and_ends_well(tmp_path: Path):
    """Exit code 0, another leader, and nothing that was acknowledged is missing."""
    with process_cluster(tmp_path) as cluster, ConnectedMemory.connect(cluster.endpoints) as memory:
        written = [memory.write(fact(f"before {number}")) for number in range(20)]
        leader = cluster.leader()
        leader.signal(signal.SIGTERM)
        after = memory.write(fact("after"))
        assert leader.ended() == 0
        assert after.epoch > written[0].epoch
        found = memory.get_many([record.id for record in written], consistency="strong")
        assert all(record is not None for record in found)
        lines = [json.loads(line) for line in leader.log().splitlines()]
        assert lines[-1]["event"] == "ended"


def test_all_nodes_can_be_stopped_and_started(tmp_path: Path):
    """In any order, on the same files: what was acknowledged is there."""
    with process_cluster(tmp_path) as cluster, ConnectedMemory(cluster.endpoints, timeout_s=20) as memory:
        record = memory.write(fact("kept"))
        for node in cluster.nodes.values():
            node.kill()
        for node in reversed(cluster.nodes.values()):
            node.start()
        found = memory.get(record.id, consistency="quorum")
        assert found is not None
        assert memory.write(fact("more")).epoch > record.epoch


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    """The process ends with 2 and says which address it could not have."""
    with process_cluster(tmp_path / "a", count=1) as cluster:
        taken = cluster.nodes["n1"]
        second = NodeProcess(tmp_path, "n1", taken.endpoint, "127.0.0.1:0", {"n1": taken.endpoint})
        second.start()
        assert second.ended() == 2
        assert taken.endpoint in second.log()
        (port,) = grpc_cluster.free_ports(1)
        third = NodeProcess(tmp_path, "n2", f"127.0.0.1:{port}", taken.http, {"n2": f"127.0.0.1:{port}"})
        third.start()
        assert third.ended() == 2
        assert "address already in use" in third.log()


def test_a_single_node_is_a_cluster(tmp_path: Path):
    """One member, every mode."""
    with process_cluster(tmp_path, count=1) as cluster, ConnectedMemory.connect(cluster.endpoints) as memory:
        record = memory.write(fact("alone"))
        for consistency in ("local", "session", "strong", "quorum"):
            assert memory.get(record.id, consistency=consistency) is not None
