"""Who may do what, at real nodes: enrolment, refusals, restarts, receipts and new keys over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio
import pytest
from grpc_cluster import NodeProcess, ProcessCluster, eventually, fact, free_ports, process_cluster
from reading_rights import ADMINISTRATOR, check_rights

from veridical.cli.comparing import compared
from veridical.cli.options import PRINCIPAL_VARIABLE
from veridical.cli.sources import Place, opened
from veridical.client import ConnectedMemory
from veridical.memory import MemoryRecord, Principal, Trust
from veridical.memory.errors import Refused
from veridical.node.system import SystemClock
from veridical.proto.channel import open_channel
from veridical.proto.generated import admin_pb2, admin_pb2_grpc, ticket_pb2
from veridical.security.keys import KeyPair
from veridical.security.tickets import signed_ticket
from veridical.verdict import GateReceipt, Report, Runner, Verdict, attest_fact, signed_report

pytestmark = pytest.mark.process

GUEST, SUCCESSOR, GRADER = (Principal(bytes([number]) * 32) for number in (101, 102, 103))
CLOCK = SystemClock()
EVERY_RIGHT = ["read", "write", "review", "attest", "vouch", "admin"]

Answer = TypeVar("Answer")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """One node, which is told whose receipts count."""
    grpc_port, http_port = free_ports(2)
    endpoint = f"127.0.0.1:{grpc_port}"
    more = ("--runner-key", GRADER.key_id)
    node = NodeProcess(tmp_path, "n1", endpoint, f"127.0.0.1:{http_port}", {"n1": endpoint}, more)
    node.start()
    try:
        yield node
    finally:
        node.kill()


def as_of(principal: Principal | None, *endpoints: str) -> ConnectedMemory:
    """What that principal sees of the memory there."""
    return ConnectedMemory(endpoints, principal=principal, read_consistency="strong", timeout_s=15)


def receipt_for(record: MemoryRecord, by: Principal) -> GateReceipt:
    """A passed gate about that record's claim."""
    runner = Runner(KeyPair(by.seed))
    report = signed_report(Report(grader="eval", verdict=Verdict.PASS), runner)
    return attest_fact(
        Verdict.PASS, [report], subject=record.subject, predicate=record.predicate, text=record.text, runner=runner
    )  # fmt: skip


def is_refused(call: Callable[[], object]) -> bool:
    """Whether the call is refused since it is not granted."""
    try:
        call()
    except Refused as refusal:
        return refusal.rule == "not_granted"
    return False


def asked(endpoint: str, question: Callable[[admin_pb2_grpc.AdminAsyncStub], Awaitable[Answer]]) -> Answer:
    """What the Admin service there answers."""

    async def work() -> Answer:
        async with open_channel(endpoint) as channel, asyncio.timeout(20):
            return await question(admin_pb2_grpc.AdminStub(channel))

    return asyncio.run(work())


def test_every_question_answers_within_its_askers_grants(node: NodeProcess) -> None:
    """The table of `reading_rights`, over the network: tickets say who asks."""
    with as_of(ADMINISTRATOR, node.endpoint) as memory:
        check_rights(memory)


def test_a_guarded_cluster_stays_guarded(tmp_path: Path) -> None:
    """Enrolled once, enforced at every node, for writes and reads, also by those that restart; and a key can change."""
    with process_cluster(tmp_path) as cluster, as_of(ADMINISTRATOR, *cluster.endpoints) as administrator:
        administrator.enroll(ADMINISTRATOR, name="administrator", grants={"*": EVERY_RIGHT})
        record = administrator.write(fact("sky", "blue"))
        _expect_nothing_for(None, cluster)
        administrator.enroll(GUEST, name="guest", grants={})
        _expect_nothing_for(GUEST, cluster)
        for name in cluster.nodes:
            _restart(cluster, name)
        _expect_nothing_for(GUEST, cluster)
        assert [found.text for found in administrator.recall("sky")] == ["blue"]
        administrator.grant(GUEST, "test", ["read"])
        with as_of(GUEST, *cluster.endpoints) as guest:
            assert [found.text for found in guest.recall("sky")] == ["blue"]
            assert is_refused(lambda: guest.write(fact("sky", "red")))
            assert is_refused(lambda: guest.recall("sky", scope="elsewhere"))
            guest.rotate(GUEST, SUCCESSOR)
            assert is_refused(lambda: guest.recall("sky"))
        with as_of(SUCCESSOR, *cluster.endpoints) as successor:
            assert successor.get(record.id) is not None
            administrator.revoke(SUCCESSOR, reason="left")
            assert is_refused(lambda: successor.get(record.id))
        found = administrator.get(record.id)
        assert found is not None
        assert found.text == "blue"


def _expect_nothing_for(principal: Principal | None, cluster: ProcessCluster) -> None:
    """Through whichever node, neither a write nor a read; nor the history, nor digests."""
    last = cluster.statuses()[cluster.leader().name].last_index
    for endpoint in cluster.endpoints:
        with as_of(principal, endpoint) as memory:
            assert is_refused(lambda memory=memory: memory.write(fact("sky", "red")))
            (refusal,) = memory.write_many([fact("sky", "red")])
            assert isinstance(refusal, Refused)
            assert refusal.rule == "not_granted"
            assert is_refused(lambda memory=memory: memory.recall("sky"))
            assert is_refused(lambda memory=memory: list(memory.all()))
    assert cluster.statuses()[cluster.leader().name].last_index == last


def _restart(cluster: ProcessCluster, name: str) -> None:
    node = cluster.nodes[name]
    node.kill()
    node.start()

    def is_ready() -> bool | None:
        status = cluster.statuses().get(name)
        return True if status is not None and status.ready else None

    eventually(is_ready)


def test_operators_show_who_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs of the command line that read whole histories and states do it as the principal of their process."""

    def entries(endpoint: str) -> int:
        with opened(Place(endpoint=endpoint)) as source:
            return sum(1 for _ in source.history())

    with process_cluster(tmp_path) as cluster, as_of(ADMINISTRATOR, *cluster.endpoints) as administrator:
        administrator.enroll(ADMINISTRATOR, name="administrator", grants={"*": EVERY_RIGHT})
        administrator.enroll(GUEST, name="guest", grants={"*": ["read", "write"]})
        endpoint = cluster.follower().endpoint
        eventually(lambda: is_refused(lambda: entries(endpoint)) or None)
        monkeypatch.setenv(PRINCIPAL_VARIABLE, GUEST.seed.hex())
        assert is_refused(lambda: entries(endpoint))
        eventually(lambda: is_refused(lambda: compared(cluster.endpoints, CLOCK, 20)) or None)
        monkeypatch.setenv(PRINCIPAL_VARIABLE, ADMINISTRATOR.seed.hex())
        assert entries(endpoint) >= 2
        assert compared(cluster.endpoints, CLOCK, 20).differing == ()


def test_history_and_digests_are_for_administrators(node: NodeProcess) -> None:
    """For everybody while the store is open; afterwards for a ticket of somebody who holds the right."""

    async def exported(admin: admin_pb2_grpc.AdminAsyncStub, ticket: ticket_pb2.Ticket | None) -> int:
        request = admin_pb2.ExportRequest(first=1, ticket=ticket)
        return sum([len(reply.entries) async for reply in admin.Export(request)])

    async def digests(admin: admin_pb2_grpc.AdminAsyncStub, ticket: ticket_pb2.Ticket | None) -> int:
        reply = await admin.Buckets(admin_pb2.BucketsRequest(ticket=ticket))
        return len(reply.digests)

    def ticket_of(principal: Principal, cluster_id: str) -> ticket_pb2.Ticket:
        signed = signed_ticket(cluster_id, principal, CLOCK.wall_us())
        return ticket_pb2.Ticket(author=signed.author, issued_at_us=signed.issued_at_us, signature=signed.signature)

    with as_of(ADMINISTRATOR, node.endpoint) as memory:
        memory.write(fact("sky", "blue"))
        (status,) = memory.status().values()
        for question in (exported, digests):
            assert asked(node.endpoint, lambda admin, question=question: question(admin, None)) > 0
        memory.enroll(ADMINISTRATOR, name="administrator", grants={"*": EVERY_RIGHT})
        memory.enroll(GUEST, name="guest", grants={"*": ["read", "write"]})
        assert memory.scopes() == {"test": 1}  # by now all of this is folded
        allowed, other = (ticket_of(principal, status.cluster_id) for principal in (ADMINISTRATOR, GUEST))
        for question in (exported, digests):
            assert asked(node.endpoint, lambda admin, question=question: question(admin, allowed)) > 0
            for ticket in (None, other):
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    asked(node.endpoint, lambda admin, question=question, ticket=ticket: question(admin, ticket))
                assert refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_receipt_verifies_the_fact_that_it_is_about(node: NodeProcess) -> None:
    """In an open store one of the runner that the node was told of, in a guarded one that of an enrolled grader."""
    stranger = Principal(bytes([104]) * 32)
    with as_of(ADMINISTRATOR, node.endpoint) as memory:
        first = memory.write(fact("the build", "is green"))
        with pytest.raises(Refused, match="receipt_stranger"):
            memory.attest(first.id, receipt_for(first, stranger))
        assert memory.attest(first.id, receipt_for(first, GRADER)).trust is Trust.VERIFIED
        memory.enroll(ADMINISTRATOR, name="administrator", grants={"*": EVERY_RIGHT})
        second = memory.write(fact("the tests", "are green"))
        with pytest.raises(Refused, match="receipt_stranger"):
            memory.attest(second.id, receipt_for(second, GRADER))
        memory.enroll(GRADER, name="grader", grants={"test": ["attest"]})
        assert memory.attest(second.id, receipt_for(second, GRADER)).trust is Trust.VERIFIED
        held = memory.get(second.id)
        assert held is not None
        assert held.trust is Trust.VERIFIED


def test_a_ticket_that_is_none_is_refused_at_the_wire(node: NodeProcess) -> None:
    """A client cannot take another's name: what it says without that key's signature is refused as such."""
    with as_of(ADMINISTRATOR, node.endpoint) as memory:
        memory.enroll(ADMINISTRATOR, name="administrator", grants={"*": EVERY_RIGHT})
        memory.write(fact("sky", "blue"))
        (status,) = memory.status().values()
    signed = signed_ticket(status.cluster_id, GUEST, CLOCK.wall_us())
    ticket = ticket_pb2.Ticket(
        author=ADMINISTRATOR.public_key, issued_at_us=signed.issued_at_us, signature=signed.signature
    )

    async def exported(admin: admin_pb2_grpc.AdminAsyncStub) -> object:
        return [reply async for reply in admin.Export(admin_pb2.ExportRequest(first=1, ticket=ticket))]

    with pytest.raises(grpc.aio.AioRpcError, match="not signed by the key") as refusal:
        asked(node.endpoint, exported)
    assert refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED
