"""The client against three real nodes: every mode, every kind of answer, every way to share it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator

import grpc_cluster
import pytest
from grpc_cluster import ProcessCluster, fact, process_cluster, took

from veridical.client import AsyncReplicatedMemory, ConnectedMemory, Consistency, Records
from veridical.client.envelope import Command, command_id, signed_envelope
from veridical.client.system import SystemClock, SystemEntropy
from veridical.memory.commands import WRITE, WriteBody, encode_body
from veridical.memory.errors import Conflict, Invalid, NotLeader, OutcomeUnknown, Refused, TooLarge, Unavailable
from veridical.memory.view import MemoryKind, MemoryRecord, MemoryView, Trust
from veridical.node.errors import raised
from veridical.proto.channel import open_channel
from veridical.proto.generated import memory_pb2
from veridical.proto.submissions import SubmissionStream
from veridical.security.principal import Principal

pytestmark = pytest.mark.process

TENTH_S = 0.1
ALICE = Principal(bytes([1]) * 32)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def memory(cluster: ProcessCluster) -> Iterator[ConnectedMemory]:
    with ConnectedMemory.connect(cluster.endpoints, read_consistency="session") as memory:
        yield memory


def test_it_is_a_memory(memory: ConnectedMemory):
    """The same contract as every other store."""
    assert isinstance(memory, MemoryView)


def test_a_write_tells_what_became_of_it(memory: ConnectedMemory):
    """The record with its outcome, its command, and where in history it stands."""
    record = memory.write(fact("told"))
    assert record.outcome == "asserted"
    assert record.trust is Trust.CANDIDATE
    assert len(bytes.fromhex(record.command_id)) == 16
    assert (record.epoch, record.index) == memory.last_seen
    assert memory.write(fact("told", "another value")).outcome == "superseded"
    found = memory.get(record.id)
    assert found is not None
    assert [item.text for item in found.corrections] == ["a value"]


@pytest.mark.parametrize("consistency", list(Consistency))
def test_every_mode_reads_what_was_written(memory: ConnectedMemory, consistency: str):
    """After the session has seen it, all nodes have it sooner or later, and all but `local` at once."""
    record = memory.write(fact(f"mode {consistency}"))
    if consistency in (Consistency.LOCAL, Consistency.EVENTUAL):
        grpc_cluster.eventually(lambda: memory.get(record.id, consistency=consistency))
    found = memory.get(record.id, consistency=consistency)
    assert found is not None
    assert found.text == "a value"


def test_lists_say_what_they_are_the_answer_at(memory: ConnectedMemory):
    """Index, moment and scopes of a recall and of a stream of all records."""
    record = memory.write(fact("listed", "pomegranate", scope="test:lists"))
    hits = memory.recall("pomegranate", scope="test:lists")
    assert isinstance(hits, Records)
    assert [hit.id for hit in hits] == [record.id]
    assert hits[0].score is not None
    assert hits.index >= record.index
    assert record.updated_at is not None
    assert hits.now >= record.updated_at
    assert hits.scopes == ("test:lists",)
    stream = memory.all(scope="test:lists")
    assert stream.index >= record.index
    assert [each.id for each in stream] == [record.id]
    assert memory.recall("pomegranate", scope="nobody:here").unknown_scopes == ("nobody:here",)


def test_all_streams_in_pages(memory: ConnectedMemory):
    """More records than one page holds, each once, in order."""
    records = [fact(f"many {number}", scope="test:many") for number in range(1100)]
    written = memory.write_many(records, timeout_s=30)
    ids = [record.id for record in memory.all(scope="test:many")]
    assert ids == sorted(record.id for record in written if isinstance(record, MemoryRecord))
    assert memory.scopes()["test:many"] == 1100
    assert len(memory.get_many(ids[:1000])) == 1000


def test_all_verbs(memory: ConnectedMemory):
    """Each one does what it says, and answers with the record as it is then."""
    id = memory.write(fact("verbs")).id
    assert memory.corroborate(id, source="elsewhere").epistemic_confidence == pytest.approx(0.65)
    assert memory.contradict(id, evidence="a test", reason="doubt").epistemic_confidence == pytest.approx(0.4)
    assert memory.promote(id).trust is Trust.VERIFIED
    assert memory.demote(id).trust is Trust.CANDIDATE
    assert memory.annotate(id, metadata={"seen": 1}).metadata == {"seen": 1}
    assert memory.set_flags(id, ttl_s=3600).expires_at is not None
    assert memory.pin(id).pinned
    assert not memory.unpin(id).pinned
    assert memory.decay(now=None) >= 0
    assert memory.history(id, limit=2)[0].text == "a value"
    memory.forget(id, reason="test over")
    assert memory.get(id) is None
    assert memory.history(id)[0].ended_by == "forgotten"


def test_a_refusal_names_its_rule(memory: ConnectedMemory):
    """And in bulk it stands at its place and stops nothing."""
    with pytest.raises(Refused) as caught:
        memory.write(MemoryRecord(subject="x", predicate="author_trust", text="me", scope="test"))
    assert caught.value.rule
    first, second, third = memory.write_many(
        [fact("before"), MemoryRecord(subject="x", predicate="fails", text="me", scope="test"), fact("after")]
    )
    assert isinstance(first, MemoryRecord)
    assert isinstance(second, Refused)
    assert isinstance(third, MemoryRecord)


MISTAKES: list[tuple[Callable[[ConnectedMemory], object], type[Exception]]] = [
    (lambda memory: memory.write(fact("x", "long" * 5001)), TooLarge),
    (lambda memory: memory.write(fact("x", "")), Invalid),
    (lambda memory: memory.write(fact("x", scope="a/../b")), Invalid),
    (lambda memory: memory.get("not an id"), Invalid),
    (lambda memory: memory.get("ab" * 16, consistency="fresh"), Invalid),
    (lambda memory: memory.get("ab" * 16, timeout_s=0), Invalid),
    (lambda memory: memory.recall("x", k=0), Invalid),
    (lambda memory: memory.get_many(["ab" * 16] * 1001), TooLarge),
    (lambda memory: memory.write(fact("x"), command_id="short"), Invalid),
    (lambda memory: memory.corroborate("ab" * 16), Refused),
]


@pytest.mark.parametrize(("call", "error"), MISTAKES)
def test_a_mistake_is_a_typed_error(
    memory: ConnectedMemory, call: Callable[[ConnectedMemory], object], error: type[Exception]
):
    """Nothing is sent that cannot be right; what only a node can know is refused there."""
    with pytest.raises(error):
        call(memory)


def test_any_text_is_a_valid_question(memory: ConnectedMemory):
    """10 000 words, only punctuation, an id that nobody has: an empty answer, no error."""
    assert memory.recall("?! ... ---", scope="test:empty") == []
    assert memory.recall("zzyzx " * 10_000, scope="test:empty") == []
    assert memory.get("00" * 16) is None


def test_a_command_is_done_once(memory: ConnectedMemory):
    """The same id again is answered with the first outcome; with another content it is a conflict."""
    id = command_id(SystemClock().wall_us(), SystemEntropy().bytes(8)).hex()
    first = memory.write(fact("once"), command_id=id)
    again = memory.write(fact("once"), command_id=id)
    assert (again.outcome, again.index) == (first.outcome, first.index)
    assert again.support_count == 1
    with pytest.raises(Conflict):
        memory.write(fact("once", "something else"), command_id=id)


def test_the_author_is_the_key_that_signed(cluster: ProcessCluster):
    """A principal's commands carry its key; without one a node signs on behalf of nobody."""
    with ConnectedMemory.connect(cluster.endpoints, principal=ALICE) as memory:
        assert memory.write(fact("signed")).author == ALICE.key_id
        (bulk,) = memory.write_many([fact("signed too")])
        assert isinstance(bulk, MemoryRecord)
        assert bulk.author == ALICE.key_id
    with ConnectedMemory.connect(cluster.endpoints) as memory:
        assert memory.write(fact("unsigned")).author == ""


def test_concurrent_calls_share_envelopes(cluster: ProcessCluster):
    """Sixty-four callers, far fewer entries; each gets its own answer."""

    async def work() -> list[MemoryRecord]:
        async with await AsyncReplicatedMemory.connect(cluster.endpoints, principal=ALICE) as memory:
            return await asyncio.gather(*(memory.write(fact(f"shared {number}")) for number in range(64)))

    records = asyncio.run(work())
    assert [record.subject for record in records] == [f"shared {number}" for number in range(64)]
    assert len({record.index for record in records}) <= 4
    assert len({record.command_id for record in records}) == 64


def test_a_bad_command_in_company_fails_alone(cluster: ProcessCluster):
    """What is wrong with one caller's command is no other caller's problem."""

    async def work() -> list[object]:
        async with await AsyncReplicatedMemory.connect(cluster.endpoints, principal=ALICE) as memory:
            system = Command(command_id(SystemClock().wall_us(), bytes(8)), "leader.elected", b"")
            deadline = asyncio.get_running_loop().time() + 5
            wrong = memory._route.submit(  # pyright: ignore[reportPrivateUsage] - no public call makes such a command
                [system], ALICE, deadline
            )
            good = [memory.write(fact(f"company {number}")) for number in range(3)]
            return await asyncio.gather(wrong, *good, return_exceptions=True)

    wrong, *good = asyncio.run(work())
    assert isinstance(wrong, Refused)
    assert all(isinstance(record, MemoryRecord) for record in good)


def submitted(endpoint: str, relayed: bool, cluster_id: str) -> memory_pb2.SubmitResult:
    async def work() -> memory_pb2.SubmitResult:
        content = encode_body(WRITE, WriteBody("fact", "raw", "is", "test", "by hand"))
        command = Command(command_id(SystemClock().wall_us(), SystemEntropy().bytes(8)), WRITE, content)
        envelope = signed_envelope(cluster_id, ALICE, [command], SystemClock().wall_us(), bytes(16))
        submission = memory_pb2.Submission(
            envelope=envelope.raw, signature=envelope.signature, bodies=envelope.bodies, timeout_us=5_000_000,
            relayed=relayed,
        )  # fmt: skip
        async with open_channel(endpoint) as channel:
            stream = SubmissionStream(channel)
            try:
                return await asyncio.wait_for(stream.call(submission), 10)
            finally:
                await stream.close()

    return asyncio.run(work())


def test_a_follower_relays_to_the_leader(cluster: ProcessCluster):
    """Any node takes any command, and says where the leader is; what was relayed is not relayed again."""
    follower, leader = cluster.follower(), cluster.leader()
    cluster_id = cluster.statuses()[follower.name].cluster_id
    result = submitted(follower.endpoint, False, cluster_id)
    assert result.outcomes[0].code in ("asserted", "repeated")
    assert result.leader == leader.endpoint
    refusal = raised(submitted(follower.endpoint, True, cluster_id).failure)
    assert isinstance(refusal, NotLeader)
    assert refusal.leader == leader.endpoint


def test_one_endpoint_is_enough(cluster: ProcessCluster):
    """The members are learned from whoever answers, and the leader is found among them."""
    with ConnectedMemory.connect(cluster.follower().endpoint) as memory:
        memory.write(fact("found"))
        assert len(memory.status()) == 3


def test_a_node_that_never_answers_costs_nothing(cluster: ProcessCluster):
    """It accepts connections and says nothing; the others are asked at the same time."""
    with grpc_cluster.black_hole() as hole, ConnectedMemory([hole, *cluster.endpoints], timeout_s=5) as memory:
        elapsed, record = took(lambda: memory.write(fact("past the hole")))
        assert isinstance(record, MemoryRecord)
        assert elapsed < 1.0
        assert took(lambda: memory.get(record.id, consistency="strong"))[0] < 1.0


@pytest.mark.parametrize("timeout_s", [0.05, 0.3, 1.0])
def test_every_call_ends_in_time(timeout_s: float):
    """With nobody but a black hole to talk to: each call ends by its deadline, and says that nothing happened."""
    with grpc_cluster.black_hole() as hole, ConnectedMemory(hole, timeout_s=timeout_s) as memory:
        calls = [
            lambda: memory.write(fact("nowhere")),
            lambda: memory.write_many([fact("nowhere")] * 300),
            lambda: memory.get("ab" * 16),
            lambda: memory.recall("anything", consistency="quorum"),
            lambda: list(memory.all(consistency="strong")),
            lambda: memory.status(),
            lambda: memory.decay(),
        ]
        for call in calls:
            elapsed, error = took(call)
            assert isinstance(error, Unavailable), error
            assert hole in error.who
            assert elapsed < timeout_s + TENTH_S


def test_nobody_there_is_unavailable():
    """A refused connection is no reason to give up before the deadline, nor to stay longer."""
    (port,) = grpc_cluster.free_ports(1)
    elapsed, error = took(lambda: ConnectedMemory.connect(f"127.0.0.1:{port}", timeout_s=0.5))
    assert isinstance(error, Unavailable)
    assert 0.4 < elapsed < 0.5 + TENTH_S


def test_threads_share_one_memory(memory: ConnectedMemory):
    """Each gets its own answers; together they use one connection."""
    found: dict[int, list[MemoryRecord]] = {}

    def work(number: int) -> None:
        found[number] = [memory.write(fact(f"thread {number} {turn}")) for turn in range(10)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(
        [record.subject for record in found[number]] == [f"thread {number} {turn}" for turn in range(10)]
        for number in range(8)
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_memory_survives_a_fork(memory: ConnectedMemory):
    """Parent and child go on with the same object, while another thread of the parent is writing."""
    before = memory.write(fact("forked", "before"))
    stop, errors, written = threading.Event(), list[Exception](), list[MemoryRecord]()

    def write_on() -> None:
        while not stop.is_set():
            try:
                written.append(memory.write(fact(f"during {len(written)}")))
            except Exception as error:  # noqa: BLE001 - a test looks at it
                errors.append(error)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for turn in range(3):
            child = os.fork()
            if child == 0:
                os._exit(_child(memory, before.id, turn))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert memory.get(before.id) is not None
    finally:
        stop.set()
        writer.join(30)
    assert errors == []
    assert len({record.index for record in written}) == len(written) > 0


def _child(memory: ConnectedMemory, id: str, turn: int) -> int:
    """What the child does; its exit code says whether it went well. Pytest must not see its end."""
    try:
        found = memory.get(id)
        written = memory.write(fact(f"child {turn}"))
        return 0 if found is not None and written.outcome == "asserted" else 1
    except BaseException:  # noqa: BLE001 - nothing may leave a forked child
        return 2


def test_an_async_memory_says_so_after_a_fork(cluster: ProcessCluster):
    """Its loop is the parent's: the child hears what to do instead."""
    memory = AsyncReplicatedMemory(cluster.endpoints)
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(memory.get("ab" * 16))
        except Exception as error:  # noqa: BLE001 - nothing may leave a forked child
            os._exit(0 if "before a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_session_never_goes_back(cluster: ProcessCluster):
    """Reads go to any node, and see what this client wrote."""
    with ConnectedMemory.connect(cluster.endpoints, read_consistency="session") as memory:
        for turn in range(30):
            record = memory.write(fact("session", f"value {turn}"))
            found = memory.get(record.id)
            assert found is not None
            assert found.text == f"value {turn}"


def test_kinds_and_trust_narrow_an_answer(memory: ConnectedMemory):
    """Filters travel with the question."""
    memory.write(fact("narrow", "quince jelly", scope="test:narrow"))
    rule = MemoryRecord(
        kind=MemoryKind.FAILURE, subject="narrow", predicate="broke", text="quince jam", scope="test:narrow"
    )
    memory.write(rule)
    assert len(memory.recall("quince", scope="test:narrow")) == 2
    (only,) = memory.recall("quince", scope="test:narrow", kind=MemoryKind.FAILURE)
    assert only.text == "quince jam"
    assert memory.recall("quince", scope="test:narrow", trust=Trust.VERIFIED) == []


def test_a_stale_answer_is_refused_when_asked_to_be_fresh(cluster: ProcessCluster):
    """`max_staleness_s` bounds the age of local answers; with a living leader it is met."""
    with ConnectedMemory.connect(cluster.endpoints, max_staleness_s=2) as memory:
        record = memory.write(fact("fresh"))
        assert grpc_cluster.eventually(lambda: memory.get(record.id)) is not None


def test_unknown_outcomes_name_their_command():
    """The error carries what the caller needs to ask again."""
    error = OutcomeUnknown("ab" * 16)
    assert error.command_id == "ab" * 16
