"""Whatever comes over the border of a node: a typed error or an empty answer, nothing lost, and the node goes on."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_cluster import NodeProcess, ProcessCluster, fact, free_ports, process_cluster

from veridical.client import ConnectedMemory
from veridical.client.envelope import Command, SignedEnvelope, command_id, signed_envelope
from veridical.client.system import SystemClock, SystemEntropy
from veridical.memory.commands import WRITE, WriteBody, encode_body
from veridical.memory.errors import Invalid, Refused, TooLarge, VeridicalError
from veridical.memory.view import MemoryRecord
from veridical.node.errors import failure_of, raised
from veridical.projection.rows import pack
from veridical.proto.channel import open_channel
from veridical.proto.generated import admin_pb2, admin_pb2_grpc, memory_pb2, memory_pb2_grpc, replication_pb2
from veridical.proto.generated.failure_pb2 import Failure
from veridical.proto.submissions import SubmissionStream
from veridical.security.principal import Principal

pytestmark = pytest.mark.process

ALICE, MALLORY = Principal(bytes([1]) * 32), Principal(bytes([66]) * 32)
SCOPE = "test:border"
NOBODY = "ab" * 16
MINUTE_US = 60_000_000
DAY_US = 86_400_000_000
TIMEOUT_US = 5_000_000
RESIDENT_BYTES_LIMIT = 400 << 20

Call = Callable[[ConnectedMemory], object]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three nodes that must outlive every test of this file, in the epoch in which they began."""
    with process_cluster(tmp_path_factory.mktemp("border")) as cluster:
        yield cluster


@pytest.fixture
def memory(cluster: ProcessCluster) -> Iterator[ConnectedMemory]:
    """A memory beside which bad things happen."""
    with ConnectedMemory.connect(cluster.endpoints, read_consistency="strong") as memory:
        yield memory


@pytest.fixture(autouse=True)
def nothing_is_lost(cluster: ProcessCluster, memory: ConnectedMemory, request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: what was there before is there, every node takes writes and reads, in the same epoch."""
    name = request.node.name[:200]
    before = memory.write(fact(name, "before", SCOPE))
    yield
    found = memory.get(before.id)
    assert found is not None and found.text == "before"
    for endpoint in cluster.endpoints:
        with ConnectedMemory(endpoint, read_consistency="quorum", timeout_s=10) as one:
            assert one.write(fact(f"{name} at {endpoint}"[:500], "after", SCOPE)).epoch == before.epoch
            assert one.get(before.id) is not None


# --- every verb of the client ----------------------------------------------------------------------------------------

LONG = "x" * 20_001
BAD_TEXTS: list[tuple[Call, type[Exception]]] = [
    (lambda memory: memory.write(fact("oversize", LONG)), TooLarge),
    (lambda memory: memory.write(fact(LONG)), TooLarge),
    (lambda memory: memory.write(MemoryRecord(subject="a", predicate=LONG, text="b", scope=SCOPE)), TooLarge),
    (lambda memory: memory.write(fact("a", "b", LONG)), Invalid),
    (lambda memory: memory.write_many([fact("fine"), fact("oversize", LONG)]), TooLarge),
    (lambda memory: memory.corroborate(NOBODY, source=LONG), TooLarge),
    (lambda memory: memory.contradict(NOBODY, evidence=LONG), TooLarge),
    (lambda memory: memory.contradict(NOBODY, reason=LONG), TooLarge),
    (lambda memory: memory.promote(NOBODY, reason=LONG), TooLarge),
    (lambda memory: memory.demote(NOBODY, reason=LONG), TooLarge),
    (lambda memory: memory.forget(NOBODY, reason=LONG), TooLarge),
    (lambda memory: memory.annotate(NOBODY, metadata={"x": "y" * 70_000}), TooLarge),
    (lambda memory: memory.annotate(NOBODY, detail={"x": "y" * 70_000}), TooLarge),
    (lambda memory: memory.recall("q", scope=LONG), Invalid),
    (lambda memory: memory.all(scope=LONG), Invalid),
    (lambda memory: memory.get(LONG), Invalid),
    (lambda memory: memory.get_many([NOBODY] * 1001), TooLarge),
    (lambda memory: memory.write(fact("a"), command_id=LONG), Invalid),
]
EMPTY: list[tuple[Call, type[Exception]]] = [
    (lambda memory: memory.write(fact("a", "")), Invalid),
    (lambda memory: memory.write(fact("a", " \u200b\n")), Invalid),
    (lambda memory: memory.write(fact("a", "b", "")), Invalid),
    (lambda memory: memory.get(""), Invalid),
    (lambda memory: memory.history(""), Invalid),
    (lambda memory: memory.forget(""), Invalid),
    (lambda memory: memory.pin(""), Invalid),
    (lambda memory: memory.write(fact("a"), command_id=""), Invalid),
]
WRONG: list[tuple[Call, type[Exception] | tuple[type[Exception], ...]]] = [
    (lambda memory: memory.get(wrong(17)), (Invalid, TypeError)),
    (lambda memory: memory.get(wrong(None)), (Invalid, TypeError)),
    (lambda memory: memory.get_many(wrong([b"x"])), (Invalid, TypeError)),
    (lambda memory: memory.recall(wrong(5)), (Invalid, TypeError)),
    (lambda memory: memory.recall("a", k=wrong("5")), (Invalid, TypeError)),
    (lambda memory: memory.recall("a", k=-1), Invalid),
    (lambda memory: memory.recall("a", k=1 << 40), Invalid),
    (lambda memory: memory.recall("a", kind=wrong("no such kind")), ValueError),
    (lambda memory: memory.recall("a", trust=wrong("no such trust")), ValueError),
    (lambda memory: memory.recall("a", consistency="fresh"), Invalid),
    (lambda memory: memory.history(NOBODY, limit=0), Invalid),
    (lambda memory: memory.history(NOBODY, limit=1 << 40), Invalid),
    (lambda memory: memory.demote(NOBODY, trust=wrong("no such trust")), ValueError),
    (lambda memory: memory.annotate(NOBODY, metadata=wrong({"x": object()})), (Invalid, TypeError)),
    (lambda memory: memory.annotate(NOBODY, metadata={"x": float("nan")}), Invalid),
    (lambda memory: memory.set_flags(NOBODY, ttl_s=float("nan")), Invalid),
    (lambda memory: memory.set_flags(NOBODY, ttl_s=float("inf")), Invalid),
    (lambda memory: memory.set_flags(NOBODY, ttl_s=1e300), Invalid),
    (lambda memory: memory.decay(half_life_s=-1), Invalid),
    (lambda memory: memory.decay(half_life_s=float("nan")), Invalid),
    (lambda memory: memory.decay(now=datetime(2020, 1, 1)), Invalid),  # noqa: DTZ001 - a naive one is the point
    (lambda memory: memory.get(NOBODY, timeout_s=-1), Invalid),
    (lambda memory: memory.get(NOBODY, timeout_s=float("nan")), Invalid),
    (lambda memory: MemoryRecord(subject="a", predicate="is", text=wrong(7), scope=SCOPE), ValueError),
    (
        lambda memory: memory.write(
            MemoryRecord(
                subject="a", predicate="is", text="b", scope=SCOPE,
                valid_from=datetime(2020, 1, 1),  # noqa: DTZ001 - a naive one is the point
            )
        ),
        ValueError,
    ),
]  # fmt: skip
UNKNOWN: list[Call] = [
    lambda memory: memory.corroborate(NOBODY),
    lambda memory: memory.contradict(NOBODY, evidence="e"),
    lambda memory: memory.promote(NOBODY),
    lambda memory: memory.demote(NOBODY),
    lambda memory: memory.annotate(NOBODY, metadata={"a": 1}),
    lambda memory: memory.set_flags(NOBODY, ttl_s=1),
    lambda memory: memory.pin(NOBODY),
    lambda memory: memory.unpin(NOBODY),
]


def wrong(value: object) -> Any:
    """A value of a type that the signature forbids."""
    return value


def test_bad_arguments_are_typed_errors(memory: ConnectedMemory) -> None:
    """Oversize, empty and of a wrong type, verb by verb: the error that says so, and nothing is stored."""
    surprises: list[str] = []
    with ConnectedMemory(memory._endpoints, read_consistency="strong") as other:  # pyright: ignore[reportPrivateUsage]
        for place, (call, error) in enumerate([*BAD_TEXTS, *EMPTY, *WRONG]):
            try:
                answer = call(other)
            except error:
                continue
            except Exception as surprise:  # noqa: BLE001 - all are told together
                surprises.append(f"{place}: {surprise!r:.200}")
            else:
                surprises.append(f"{place}: {answer!r:.200}")
    assert surprises == []
    assert list(memory.all(scope="test")) == []


def test_what_nobody_has_is_refused_or_empty(memory: ConnectedMemory) -> None:
    """An unknown id cannot be changed, and has no history; an unknown scope has no records, and is named as unknown."""
    for call in UNKNOWN:
        with pytest.raises(Refused):
            call(memory)
    assert memory.get(NOBODY) is None
    assert memory.history(NOBODY) == []
    assert memory.recall("a", scope="nobody:here").unknown_scopes == ("nobody:here",)
    assert list(memory.all(scope="nobody:here")) == []


@pytest.mark.parametrize(
    "query",
    [
        "needle " + "word " * 10_000,
        "?! ... --- ()[]{}\"'*^:+-",
        '"',
        "* NEAR(a b) AND OR NOT",
        "\0",
        "needle\0",
        "😀" * 9999,
    ],
)
def test_any_text_is_a_question(memory: ConnectedMemory, query: str) -> None:
    """10 000 words, only punctuation, the search engine's own words, control characters: hits or none, no error."""
    scope = "test:questions"
    memory.write(fact("needle", "a needle in a haystack", scope))
    hits = memory.recall(query, scope=scope)
    assert [hit.subject for hit in hits] in (["needle"], [])
    assert len(memory.recall("needle", scope=scope)) == 1


# --- envelopes by hand -----------------------------------------------------------------------------------------------


def command(
    subject: str = "raw", wall_us: int | None = None, kind: str = WRITE, content: bytes | None = None
) -> Command:
    """A write of one fact, as no client of ours would have to make it."""
    body = encode_body(WRITE, WriteBody("fact", subject, "is", SCOPE, "by hand")) if content is None else content
    wall_us = SystemClock().wall_us() if wall_us is None else wall_us
    return Command(command_id(wall_us, SystemEntropy().bytes(8)), kind, body)


def signed(cluster_id: str, *commands: Command, author: Principal = ALICE) -> SignedEnvelope:
    """The commands in an envelope of `author`."""
    return signed_envelope(cluster_id, author, commands, SystemClock().wall_us(), bytes(16 * len(commands)))


def submission(whole: SignedEnvelope, **others: Any) -> memory_pb2.Submission:
    """What goes over the wire, with some fields replaced."""
    fields: dict[str, Any] = {
        "envelope": whole.raw, "signature": whole.signature, "bodies": whole.bodies, "timeout_us": TIMEOUT_US,
    }  # fmt: skip
    return memory_pb2.Submission(**(fields | others))


def submitted(endpoint: str, *submissions: memory_pb2.Submission) -> list[memory_pb2.SubmitResult]:
    """The results, one after the other on one stream."""

    async def work() -> list[memory_pb2.SubmitResult]:
        async with open_channel(endpoint) as channel:
            stream = SubmissionStream(channel)
            try:
                return [await asyncio.wait_for(stream.call(each), 10) for each in submissions]
            finally:
                await stream.close()

    return asyncio.run(work())


def error_of(result: memory_pb2.SubmitResult) -> VeridicalError | None:
    """The error that a client would raise."""
    return raised(result.failure) if result.HasField("failure") else None


@pytest.fixture(scope="module")
def cluster_id(cluster: ProcessCluster) -> str:
    """The id that envelopes must name."""
    return cluster.statuses()["n1"].cluster_id


def mangled(envelope: SignedEnvelope) -> Iterator[tuple[memory_pb2.Submission, str]]:
    """Submissions that must fail, with the kind of their failure."""
    kinds = Failure.Kind
    name = kinds.Name
    yield submission(envelope, signature=bytes(64)), name(kinds.REFUSED)
    yield submission(envelope, signature=b""), name(kinds.REFUSED)
    yield submission(envelope, signature=MALLORY.sign(envelope.raw)), name(kinds.REFUSED)
    yield submission(envelope, envelope=b""), name(kinds.INVALID)
    yield submission(envelope, envelope=b"\xc1" * 100), name(kinds.INVALID)
    yield submission(envelope, envelope=envelope.raw[:-1]), name(kinds.INVALID)
    yield submission(envelope, envelope=envelope.raw + b"\0"), name(kinds.INVALID)
    yield submission(envelope, bodies=[]), name(kinds.INVALID)
    yield submission(envelope, bodies=[b"short"]), name(kinds.INVALID)
    yield submission(envelope, bodies=[bytes(100)]), name(kinds.INVALID)
    yield submission(envelope, bodies=[bytes((1 << 20) + 17)]), name(kinds.TOO_LARGE)
    yield submission(envelope, bodies=[bytes(1 << 20)] * 5), name(kinds.TOO_LARGE)
    yield submission(envelope, bodies=[b""] * 257), name(kinds.TOO_LARGE)
    yield submission(envelope, timeout_us=0), name(kinds.INVALID)
    yield submission(envelope, timeout_us=-(1 << 63)), name(kinds.INVALID)


def bare(id: bytes, kind: str = WRITE, content: bytes = b"x", timeout_us: int = TIMEOUT_US) -> memory_pb2.Submission:
    """One command without a principal."""
    return memory_pb2.Submission(
        commands=[memory_pb2.CommandName(id=id, kind=kind)], bodies=[content], timeout_us=timeout_us
    )


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_mangled_envelopes_are_named_for_what_they_are(cluster: ProcessCluster, cluster_id: str, role: str) -> None:
    """At the leader and through a follower. The same envelope, whole, is taken: only what was mangled was wrong."""
    endpoint = (cluster.leader() if role == "leader" else cluster.follower()).endpoint
    envelope = signed(cluster_id, command(f"mangled at a {role}"))
    cases = list(mangled(envelope))
    results = submitted(endpoint, *(case for case, _ in cases), submission(envelope))
    kinds = [Failure.Kind.Name(result.failure.kind) for result in results[:-1]]
    assert kinds == [kind for _, kind in cases]
    assert all(result.failure.reason or result.failure.field or result.failure.rule for result in results[:-1])
    assert error_of(results[-1]) is None
    assert results[-1].outcomes[0].code == "asserted"


def test_envelopes_of_others_are_refused(cluster: ProcessCluster, cluster_id: str) -> None:
    """For another cluster, on behalf of somebody, the cluster's own commands, unknown kinds, bodies that are none."""
    leader = cluster.leader().endpoint
    foreign, system, odd, hollow = submitted(
        leader,
        submission(signed("another-cluster", command("foreign"))),
        submission(signed(cluster_id, command("system", kind="leader.elected"))),
        submission(signed(cluster_id, command("odd", kind="memory.explode"))),
        submission(signed(cluster_id, command("hollow", content=b"\xc1garbage"))),
    )
    assert isinstance(error := error_of(foreign), Refused) and error.rule == "cluster"
    assert isinstance(error := error_of(system), Refused) and error.rule == "system-command"
    for result in (odd, hollow):
        failed = error_of(result)
        assert isinstance(failed, Invalid | Refused) or result.outcomes[0].code == "refused", result


def test_commands_without_a_principal_are_checked_as_well(cluster: ProcessCluster) -> None:
    """Ids that are none, kinds that are none, bodies that are none: invalid or refused, never a bug of the node."""
    good = command().id
    named = memory_pb2.CommandName(id=good, kind=WRITE)
    cases = [
        bare(b""), bare(b"short"), bare(bytes(17)), bare(bytes(16)), bare(b"\xff" * 16), bare(good, kind=""),
        bare(good, kind="leader.elected"), bare(good, kind="x" * 100_000), bare(good, content=b""), bare(good),
        bare(good, content=bytes(2 << 20)), bare(good, timeout_us=1),
        memory_pb2.Submission(commands=[named], timeout_us=TIMEOUT_US),
        memory_pb2.Submission(commands=[named, named], bodies=[b"", b""], timeout_us=TIMEOUT_US),
        memory_pb2.Submission(timeout_us=TIMEOUT_US),
    ]  # fmt: skip
    for endpoint in (cluster.leader().endpoint, cluster.follower().endpoint):
        for place, result in enumerate(submitted(endpoint, *cases)):
            is_failure = result.HasField("failure") and result.failure.kind != Failure.BUG
            assert is_failure or result.outcomes[0].code in ("refused", "conflict"), (place, result)


def test_a_replayed_envelope_is_answered_and_not_done_again(cluster: ProcessCluster, cluster_id: str) -> None:
    """Word for word on every node: the first outcome, nothing new in the record. In another's name: a conflict."""
    made = command("replayed")
    envelope = signed(cluster_id, made)
    first, *again = [submitted(endpoint, submission(envelope))[0] for endpoint in cluster.endpoints]
    assert first.outcomes[0].code == "asserted" and not first.outcomes[0].repeated_command
    for result in again:
        assert result.outcomes[0].code == "asserted" and result.outcomes[0].repeated_command
        assert result.outcomes[0].version.index == first.index
    with ConnectedMemory(cluster.endpoints, read_consistency="strong") as memory:
        record = memory.get(first.outcomes[0].record_id.hex())
        assert record is not None and record.support_count == 1
    [stolen] = submitted(cluster.endpoints[0], submission(signed(cluster_id, made, author=MALLORY)))
    assert stolen.failure.kind == Failure.CONFLICT or stolen.outcomes[0].code in ("conflict", "refused")


def test_command_ids_of_another_time_are_refused_with_that_time(cluster: ProcessCluster, cluster_id: str) -> None:
    """Ten minutes ahead and eight days old: never executed. A minute of either is well."""
    now_us = SystemClock().wall_us()
    times = (now_us + 10 * MINUTE_US, now_us - 8 * DAY_US, now_us + MINUTE_US, now_us - MINUTE_US)
    ahead, old, *fine = submitted(
        cluster.leader().endpoint,
        *(submission(signed(cluster_id, command(f"time {place}", at_us))) for place, at_us in enumerate(times)),
    )
    for result in (ahead, old):
        outcome = result.outcomes[0] if result.outcomes else None
        said = result.failure.reason if outcome is None else outcome.reason
        assert outcome is None or outcome.code == "refused", result
        assert re.search(r"\b\d{16} µs", said), f"it names no time: {said}"
    assert [result.outcomes[0].code for result in fine] == ["asserted", "asserted"]


# --- bytes by hand ---------------------------------------------------------------------------------------------------

UNARY = ("Memory/Read", "Admin/Hello", "Admin/Keys", "Admin/Status", "Admin/Transfer", "Admin/Buckets")
STREAMS = ("Memory/Submit", "Replication/Exchange")


def same(raw: bytes) -> bytes:
    """No serialisation at all."""
    return raw


def garbage(chance: random.Random) -> list[bytes]:
    """Bytes that are no message, and bytes that are one of something else."""
    some = [chance.randbytes(size) for size in (1, 2, 7, 100, 10_000, 1 << 20)]
    return [*some, b"\xff" * 64, b"\x0a" * 1000, b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"]


async def sent(channel: grpc.aio.Channel, method: str, raw: Sequence[bytes]) -> grpc.StatusCode:
    """The status with which that method ends when it gets these bytes."""
    path = f"/veridical.v1.{method}"
    try:
        if method in UNARY:
            unary: Any = channel.unary_unary(path, same, same)
            await unary(raw[0], timeout=10)
        elif method in STREAMS:
            stream: Any = channel.stream_stream(path, same, same)(each_of(raw), timeout=10)
            async for _ in stream:
                pass
        else:
            answers: Any = channel.unary_stream(path, same, same)(raw[0], timeout=10)
            async for _ in answers:
                pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def each_of(raw: Sequence[bytes]) -> AsyncIterator[bytes]:
    """The bytes, one message after the other."""
    for each in raw:
        yield each


@pytest.mark.parametrize("method", [*UNARY, *STREAMS, "Admin/Export", "Memory/Nonsense", "Nonsense/Read"])
def test_garbage_ends_its_own_call_only(cluster: ProcessCluster, method: str) -> None:
    """Random bytes to every method of every service: a status of the call's own, in time, and no crash."""
    chance = random.Random(method)

    async def work() -> set[grpc.StatusCode]:
        async with open_channel(cluster.leader().endpoint) as channel:
            return {await sent(channel, method, [raw]) for raw in garbage(chance)}

    assert grpc.StatusCode.DEADLINE_EXCEEDED not in asyncio.run(work())


READS: list[dict[str, Any]] = [
    {},
    {"get": memory_pb2.Get(ids=[b"short"])},
    {"get": memory_pb2.Get(ids=[bytes(16)] * 1001)},
    {"get": memory_pb2.Get(ids=[bytes(16)], as_of_us=-(1 << 63), valid_at_us=(1 << 63) - 1)},
    {"recall": memory_pb2.Recall(query="x" * 5_000_000, k=5)},
    {"recall": memory_pb2.Recall(query="x", k=(1 << 32) - 1)},
    {"recall": memory_pb2.Recall(query="x", filters=memory_pb2.Filters(kind="nonsense", trust="nonsense"))},
    {"recall": memory_pb2.Recall(query="x", filters=memory_pb2.Filters(scopes=["s"] * 100_000, has_scopes=True))},
    {"all": memory_pb2.All(after=b"x" * 1000, limit=(1 << 32) - 1)},
    {"history": memory_pb2.History(id=b"short", limit=5)},
    {"history": memory_pb2.History(id=bytes(16), before=memory_pb2.Version(epoch=(1 << 64) - 1, index=(1 << 64) - 1))},
    {"prunable": memory_pb2.Prunable(at_us=-(1 << 63), half_life_us=0, limit=(1 << 32) - 1)},
    {"prunable": memory_pb2.Prunable(at_us=(1 << 63) - 1, half_life_us=1, limit=1)},
    {"scopes": memory_pb2.Scopes(), "timeout_us": -5},
    {"scopes": memory_pb2.Scopes(), "mode": 99},
    {"scopes": memory_pb2.Scopes(), "min_index": (1 << 64) - 1, "mode": 1, "timeout_us": 200_000},
    {"scopes": memory_pb2.Scopes(), "max_staleness_us": -1},
    {"review_queue": memory_pb2.ReviewQueue(after=b"x" * 1000, limit=5)},
    {"review_queue": memory_pb2.ReviewQueue(after=pack([b"id", "no such scope", -(1 << 63)]), limit=(1 << 32) - 1)},
    {"review_queue": memory_pb2.ReviewQueue(after=pack([b"id", "global", (1 << 64) - 1]))},
    {"review_queue": memory_pb2.ReviewQueue(id=b"short")},
    {"review_queue": memory_pb2.ReviewQueue(filters=memory_pb2.Filters(scopes=["../x", "*"], has_scopes=True))},
    {"principals": memory_pb2.Principals(key=b"short")},
    {"principals": memory_pb2.Principals(key=bytes(32), after=b"x" * 1000, limit=(1 << 32) - 1)},
    {"rejections": memory_pb2.Rejections(id=b"short")},
    {"lattice": memory_pb2.Lattice()},
]


def test_questions_by_hand_are_answered_or_refused(cluster: ProcessCluster) -> None:
    """Every number at its extreme: an answer, or a failure that is the caller's, never a bug of the node."""

    async def ask(stub: Any, fields: dict[str, Any]) -> str:
        try:
            made: dict[str, Any] = {"timeout_us": TIMEOUT_US, **fields}
            await stub.Read(memory_pb2.ReadRequest(**made), timeout=10)
        except grpc.aio.AioRpcError as error:
            failure = failure_of(error)
            kind = "none" if failure is None else Failure.Kind.Name(failure.kind)
            return kind if kind in ("INVALID", "TOO_LARGE", "UNAVAILABLE", "RETRY") else f"{kind}: {error}: {fields}"
        return "OK"

    async def work() -> list[str]:
        async with open_channel(cluster.leader().endpoint) as channel:
            stub = memory_pb2_grpc.MemoryStub(channel)
            return [await ask(stub, fields) for fields in READS]

    verdicts = asyncio.run(work())
    assert [verdict for verdict in verdicts if " " in verdict] == []
    assert verdicts[0] == "INVALID"


def test_admin_by_hand_is_answered_or_refused(cluster: ProcessCluster) -> None:
    """Keys for who is no member, transfers to nobody, history that is not there."""

    async def work() -> tuple[Failure | None, str, list[admin_pb2.ExportReply]]:
        async with open_channel(cluster.leader().endpoint) as channel:
            admin: Any = admin_pb2_grpc.AdminStub(channel)
            failure = None
            try:
                await admin.Keys(admin_pb2.KeysRequest(node="x" * 10_000, wall_us=-1, signature=b"x"), timeout=10)
            except grpc.aio.AioRpcError as error:
                failure = failure_of(error)
            transfer = await admin.Transfer(admin_pb2.TransferRequest(target="\0" * 100), timeout=10)
            far = admin_pb2.ExportRequest(first=(1 << 64) - 1, last=(1 << 64) - 1)
            return failure, transfer.reason, [reply async for reply in admin.Export(far, timeout=10)]

    failure, reason, exported = asyncio.run(work())
    assert failure is not None and failure.kind in (Failure.REFUSED, Failure.INVALID)
    assert reason
    assert sum(len(reply.entries) for reply in exported) == 0


def holder(name: str) -> replication_pb2.Holder:
    """A process run of that node."""
    return replication_pb2.Holder(node=name, run="mallory")


def hostile(sender: str, epoch: int) -> list[replication_pb2.Message]:
    """What a stranger could say to take over, cut or confuse, in an epoch of its choice."""
    make, me = replication_pb2.Message, holder(sender)
    return [
        make(prepare=replication_pb2.Prepare(request=1, epoch=epoch, candidate=me)),
        make(probe=replication_pb2.Probe(request=1, candidate=me)),
        make(append=replication_pb2.Append(epoch=epoch, leader=me, prev_hash=bytes(32))),
        make(heartbeat=replication_pb2.Heartbeat(epoch=epoch, leader=me, commit_index=1 << 40)),
        make(fetch=replication_pb2.Fetch(epoch=epoch, candidate=me, prev_hash=bytes(32))),
        make(release=replication_pb2.Release(epoch=epoch, holder=me)),
        make(handover=replication_pb2.Handover(epoch=epoch, leader=me)),
        make(fenced=replication_pb2.Fenced(epoch=epoch, promised_epoch=epoch + 1)),
        make(appended=replication_pb2.Appended(epoch=epoch, matched=True, match=1 << 40, applied_index=1 << 40)),
        make(heartbeat_reply=replication_pb2.HeartbeatReply(epoch=epoch, stamp_us=1 << 60, read_round=1 << 40)),
        make(),
    ]


async def exchanged(endpoint: str, sender: str, receiver: str, message: replication_pb2.Message) -> grpc.StatusCode:
    """Greet as `sender`, say one thing, and see how the stream ends."""
    greeting = replication_pb2.Greeting(cluster="test", node=sender, receiver=receiver)
    parcels = [replication_pb2.Parcel(greeting=greeting), replication_pb2.Parcel(messages=[message])]
    async with open_channel(endpoint) as channel:
        return await sent(channel, "Replication/Exchange", [parcel.SerializeToString() for parcel in parcels])


def test_a_stranger_among_the_members_changes_nothing(cluster: ProcessCluster) -> None:
    """It knows the cluster's name and the node's id, but is no member: no epoch rises, no leader falls."""
    before = cluster.statuses()

    async def work() -> None:
        for status in before.values():
            for epoch in (0, status.epoch, status.epoch + 1, 1 << 62, (1 << 64) - 2):
                for message in hostile("mallory", epoch):
                    await exchanged(status.endpoint, "mallory", status.id, message)

    asyncio.run(work())
    after = cluster.statuses()
    assert {name: (status.epoch, status.role) for name, status in after.items()} == {
        name: (status.epoch, status.role) for name, status in before.items()
    }


def test_malformed_messages_of_a_member_end_the_stream_only(cluster: ProcessCluster) -> None:
    """Hashes of a wrong length, a holder without a name, a message of no kind: said, not believed."""
    before = cluster.statuses()
    leader, follower = cluster.leader().name, cluster.follower().name
    make = replication_pb2.Message
    malformed = [
        make(),
        make(append=replication_pb2.Append(epoch=1, leader=holder("x"), prev_hash=b"short")),
        make(append=replication_pb2.Append(epoch=1, prev_hash=bytes(32))),
        make(prepare=replication_pb2.Prepare(request=1, epoch=99)),
    ]

    async def work() -> list[grpc.StatusCode]:
        target, sender = before[follower], before[leader].id
        return [await exchanged(target.endpoint, sender, target.id, message) for message in malformed]

    assert set(asyncio.run(work())) == {grpc.StatusCode.INVALID_ARGUMENT}
    assert {status.epoch for status in cluster.statuses().values()} == {before[leader].epoch}


def test_memory_stays_bounded(cluster: ProcessCluster) -> None:
    """A hundred envelopes over the limit, each of 12 MB, and a message over the transport's: refused, none is kept."""
    leader = cluster.leader()
    large = memory_pb2.Submission(envelope=b"x", bodies=[bytes(6 << 20)] * 2, timeout_us=TIMEOUT_US)

    async def work() -> tuple[set[int], grpc.StatusCode]:
        async with open_channel(leader.endpoint) as channel:
            stream = SubmissionStream(channel)
            results = [await asyncio.wait_for(stream.call(large), 20) for _ in range(100)]
            await stream.close()
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(leader.endpoint, options=options) as channel:
            code = await sent(channel, "Memory/Submit", [bytes(20 << 20)])
        return {result.failure.kind for result in results}, code

    assert asyncio.run(work()) == ({Failure.TOO_LARGE}, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert resident_bytes(leader) < RESIDENT_BYTES_LIMIT


def resident_bytes(node: NodeProcess) -> int:
    """What a node's process holds in memory."""
    pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[1])
    return pages * 4096


# --- what does not even start ----------------------------------------------------------------------------------------


def refused_start(node: NodeProcess) -> str:
    """What a node says that ends at once with 2, having refused to start."""
    node.start()
    assert node.ended() == 2
    return node.log()


def lone(data: Path, endpoint: str, *arguments: str) -> NodeProcess:
    """A node for a cluster of one; `arguments` go before what it is told otherwise."""
    (port,) = free_ports(1)
    return NodeProcess(data, "n1", endpoint, f"127.0.0.1:{port}", {"n1": endpoint}, arguments)


@pytest.mark.parametrize(
    ("endpoint", "arguments", "said"),
    [
        ("192.0.2.7:7400", (), "tls.certificate, tls.key and tls.authority"),
        ("127.0.0.1:7400", ("--listen", "0.0.0.0:7400"), "tls.certificate, tls.key and tls.authority"),
        ("0.0.0.0:7400", (), "names every address"),
        ("[::]:7400", (), "names every address"),
        ("127.0.0.1", (), "is not host:port"),
    ],
)
def test_an_address_that_is_not_safe_is_refused(
    tmp_path: Path, endpoint: str, arguments: tuple[str, ...], said: str
) -> None:
    """Reachable from elsewhere without TLS, or a wildcard as its own address: exit code 2, and what to set instead."""
    assert said in refused_start(lone(tmp_path, endpoint, *arguments))
    assert not (tmp_path / "n1" / "log.db").exists()


def test_a_data_directory_belongs_to_one_process(cluster: ProcessCluster) -> None:
    """A second process on the files of a running node ends with 2, names the directory and who holds it."""
    node = cluster.follower()
    (port,) = free_ports(1)
    second = node.twin(f"127.0.0.1:{port}")
    said = refused_start(second)
    assert f"is in use by process {node.pid}" in said


def test_check_says_whether_a_configuration_can_be_used(tmp_path: Path) -> None:
    """`veridical node --config FILE --check`: 0 or 2, a reason with the setting's name, and nothing is made."""
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    text = f'name = "n1"\ndata = "{tmp_path}/data"\nendpoint = "127.0.0.1:7400"\n'
    good.write_text(text)
    bad.write_text(text + 'http = "0.0.0.0:7500"\nsurprise = 1\n')
    assert checked(good)[0] == 0
    code, said = checked(bad)
    assert code == 2
    assert "surprise" in said
    assert not (tmp_path / "data").exists()


def checked(file: Path) -> tuple[int, str]:
    """Exit code and words of `veridical node --config FILE --check`."""
    command = [sys.executable, "-P", "-m", "veridical.cli.main", "node", "--config", str(file), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr
