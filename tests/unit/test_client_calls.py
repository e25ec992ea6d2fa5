"""The client against nodes that misbehave on purpose: what it retries, where it goes, when it stops, what it says."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fake_nodes import FakeNode, accepted, fake_nodes, refusing

from veridical.client import AsyncReplicatedMemory
from veridical.memory.errors import (
    Bug,
    Invalid,
    NotLeader,
    OutcomeUnknown,
    Refused,
    Retry,
    TooLarge,
    Unavailable,
    VeridicalError,
)
from veridical.memory.view import MemoryRecord
from veridical.proto.generated import memory_pb2
from veridical.security.principal import Principal

PRINCIPAL = Principal(bytes(32))
Result = memory_pb2.SubmitResult | None
Work = Callable[[AsyncReplicatedMemory], Awaitable[None]]


def fact(number: int = 0) -> MemoryRecord:
    return MemoryRecord(subject=f"s{number}", predicate="is", text="value")


def against(nodes: list[FakeNode], work: Work, timeout_s: float = 5.0, principal: Principal | None = PRINCIPAL) -> None:
    async def run() -> None:
        async with fake_nodes(*nodes):
            endpoints = [node.endpoint for node in nodes]
            async with AsyncReplicatedMemory(endpoints, timeout_s=timeout_s, principal=principal) as memory:
                async with asyncio.timeout(20):
                    await work(memory)

    asyncio.run(run())


def three() -> list[FakeNode]:
    return [FakeNode("n1"), FakeNode("n2"), FakeNode("n3")]


def held(node: FakeNode, gate: asyncio.Event) -> asyncio.Event:
    """Let the first envelope that comes to a node wait for the gate; the event tells that it is there."""
    arrived = asyncio.Event()

    async def slowly(submission: memory_pb2.Submission) -> Result:
        if len(node.submissions) == 1:
            arrived.set()
            await gate.wait()
        return await accepted(submission)

    node.submit = slowly
    return arrived


def sizes_of(node: FakeNode) -> list[int]:
    """How many commands each envelope held."""
    return [len(submission.bodies) for submission in node.submissions]


@pytest.mark.parametrize(
    ("consistency", "wait"),
    [
        ("local", memory_pb2.WAIT_QUORUM),
        ("eventual", memory_pb2.WAIT_QUORUM),
        ("session", memory_pb2.WAIT_COMMIT),
        ("strong", memory_pb2.WAIT_COMMIT),
        ("quorum", memory_pb2.WAIT_COMMIT),
    ],
)
@pytest.mark.parametrize("principal", [PRINCIPAL, None])
def test_only_reads_that_keep_a_promise_let_a_write_be_answered_at_the_commit(
    consistency: str, wait: int, principal: Principal | None
):
    """Local reads wait for nothing, so that the write has to; signed or not."""
    node = FakeNode("n1")

    async def run() -> None:
        async with (
            fake_nodes(node),
            AsyncReplicatedMemory(node.endpoint, read_consistency=consistency, principal=principal) as memory,
        ):
            await memory.write(fact())

    asyncio.run(run())
    assert [submission.wait for submission in node.submissions] == [wait]


def test_calls_made_together_go_together():
    """One bundle, one envelope, one signature; and each caller hears of its own command."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        records = await asyncio.gather(*(memory.write(fact(number)) for number in range(100)))
        assert [record.subject for record in records] == [f"s{number}" for number in range(100)]
        assert len(nodes[0].submissions) == 1
        assert not nodes[1].submissions
        assert not nodes[2].submissions

    against(nodes, work)


def test_an_envelope_is_never_too_full():
    """256 commands, and not one more; bulk keeps its order."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        await asyncio.gather(*(memory.write(fact(number)) for number in range(600)))
        sizes = [len(submission.bodies) for submission in nodes[0].submissions]
        assert sum(sizes) == 600
        assert max(sizes) == 256
        nodes[0].submissions.clear()
        await memory.write_many([fact(number) for number in range(600)])
        assert [len(submission.bodies) for submission in nodes[0].submissions] == [256, 256, 88]

    against(nodes, work)


def test_while_one_is_on_its_way_the_next_one_fills():
    """A call that comes later waits for company, and then leaves with it."""
    nodes = three()
    gate = asyncio.Event()
    arrived = held(nodes[0], gate)

    async def work(memory: AsyncReplicatedMemory) -> None:
        first = asyncio.ensure_future(memory.write(fact(0)))
        await arrived.wait()
        others = [asyncio.ensure_future(memory.write(fact(number))) for number in range(1, 40)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *others)
        assert sizes_of(nodes[0]) == [1, 39]

    against(nodes, work)


def test_who_comes_back_together_leaves_together():
    """Callers in a closed loop: one envelope for all of them, as often as they come."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        async def caller(number: int) -> None:
            for turn in range(5):
                await memory.write(fact(number * 5 + turn))

        await asyncio.gather(*(caller(number) for number in range(64)))
        assert sizes_of(nodes[0]) == [64] * 5

    against(nodes, work)


def test_who_was_answered_is_waited_for():
    """Callers on threads come back one after the other: the first of them does not leave without the others."""
    nodes = three()

    async def slowly(submission: memory_pb2.Submission) -> Result:
        await asyncio.sleep(0.05)
        return await accepted(submission)

    nodes[0].submit = slowly

    async def work(memory: AsyncReplicatedMemory) -> None:
        async def caller(number: int) -> None:
            await memory.write(fact(number))
            for _ in range(number):
                await asyncio.sleep(0)
            await memory.write(fact(number))

        await asyncio.gather(*(caller(number) for number in range(4)))
        await memory.write(fact(9))
        assert sizes_of(nodes[0]) == [4, 4, 1]

    against(nodes, work)


def test_nobody_waits_long_for_company():
    """The envelope on its way is slow: the next one leaves without waiting for it to come back."""
    nodes = three()
    gate = asyncio.Event()
    arrived = held(nodes[0], gate)

    async def work(memory: AsyncReplicatedMemory) -> None:
        first = asyncio.ensure_future(memory.write(fact(0)))
        await arrived.wait()
        await asyncio.gather(memory.write(fact(1)), memory.write(fact(2)))
        assert not first.done()
        assert sizes_of(nodes[0]) == [1, 2]
        gate.set()
        await first

    against(nodes, work)


def test_a_full_envelope_waits_for_nobody():
    """Many envelopes may be under way, if each of them is full."""
    nodes = three()
    gate = asyncio.Event()
    arrived = held(nodes[0], gate)

    async def work(memory: AsyncReplicatedMemory) -> None:
        first = asyncio.ensure_future(memory.write(fact(0)))
        await arrived.wait()
        await memory.write_many([fact(number) for number in range(512)])
        assert sizes_of(nodes[0]) == [1, 256, 256]
        gate.set()
        await first

    against(nodes, work)


def test_what_failed_together_is_tried_again_together():
    """One pause for all calls of an envelope, and not an envelope for each."""
    nodes = three()

    async def busy_once(submission: memory_pb2.Submission) -> Result:
        if len(nodes[0].submissions) == 1:
            return await refusing(Retry("too much waits", 0.01))(submission)
        return await accepted(submission)

    nodes[0].submit = busy_once

    async def work(memory: AsyncReplicatedMemory) -> None:
        await asyncio.gather(*(memory.write(fact(number)) for number in range(20)))
        assert sizes_of(nodes[0]) == [20, 20]

    against(nodes, work)


def test_closing_ends_every_call():
    """What was sent is unknown, what still waited for company has not happened; nobody is left waiting."""
    nodes = three()
    arrived = held(nodes[0], asyncio.Event())

    async def work(memory: AsyncReplicatedMemory) -> None:
        sent = asyncio.ensure_future(memory.write(fact(0)))
        await arrived.wait()
        waiting = asyncio.ensure_future(memory.write(fact(1)))
        await asyncio.sleep(0)
        await memory.close()
        ends = await asyncio.gather(sent, waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [OutcomeUnknown, Unavailable]

    against(nodes, work)


def test_a_caller_that_gives_up_is_not_sent():
    """It waited for company: its command never leaves."""
    nodes = three()
    gate = asyncio.Event()
    arrived = held(nodes[0], gate)

    async def work(memory: AsyncReplicatedMemory) -> None:
        first = asyncio.ensure_future(memory.write(fact(0)))
        await arrived.wait()
        given_up, other = (asyncio.ensure_future(memory.write(fact(number))) for number in (1, 2))
        await asyncio.sleep(0)
        given_up.cancel()
        await other
        assert sizes_of(nodes[0]) == [1, 1]
        gate.set()
        await first

    against(nodes, work)


def test_a_result_of_the_wrong_size_is_a_bug_and_no_answer():
    """Each caller gets its own part of a result, or none."""
    nodes = three()

    async def short(submission: memory_pb2.Submission) -> Result:
        result = await accepted(submission)
        del result.records[1:]
        return result

    nodes[0].submit = short

    async def work(memory: AsyncReplicatedMemory) -> None:
        ends = await asyncio.gather(*(memory.write(fact(number)) for number in range(3)), return_exceptions=True)
        assert [type(end) for end in ends] == [Bug] * 3

    against(nodes, work)


def test_without_a_principal_the_node_signs():
    """Names and contents travel, and no envelope."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.write(fact())
        (submission,) = nodes[0].submissions
        assert submission.envelope == b""
        assert [command.kind for command in submission.commands] == ["memory.write"]

    against(nodes, work, principal=None)


@pytest.mark.parametrize("error", [Refused("rule", "reason"), Invalid("text", "bad"), TooLarge("text", 2, 1)])
def test_what_is_definite_is_raised_at_once(error: VeridicalError):
    """Repeating it would change nothing."""
    nodes = three()
    nodes[0].submit = refusing(error)

    async def work(memory: AsyncReplicatedMemory) -> None:
        with pytest.raises(type(error)):
            await memory.write(fact())
        assert len(nodes[0].submissions) == 1

    against(nodes, work)


def test_a_definite_error_is_shared_by_nobody_else():
    """The envelope is taken apart, and each call asked by itself: only the guilty one fails."""
    nodes = three()

    async def picky(submission: memory_pb2.Submission) -> Result:
        if any(b"s3" in body for body in submission.bodies):
            return await refusing(Invalid("text", "bad"))(submission)
        return await accepted(submission)

    nodes[0].submit = picky

    async def work(memory: AsyncReplicatedMemory) -> None:
        results = await asyncio.gather(*(memory.write(fact(number)) for number in range(6)), return_exceptions=True)
        assert [type(result) for result in results].count(MemoryRecord) == 5
        assert isinstance(results[3], Invalid)

    against(nodes, work)


def ids_of(node: FakeNode) -> list[bytes]:
    """Of anonymous submissions: the ids of their commands."""
    return [command.id for submission in node.submissions for command in submission.commands]


def test_a_busy_node_is_asked_again_later():
    """`Retry` says when; the command keeps its id."""
    nodes = three()

    async def busy_once(submission: memory_pb2.Submission) -> Result:
        if len(nodes[0].submissions) == 1:
            return await refusing(Retry("too much waits", 0.03))(submission)
        return await accepted(submission)

    nodes[0].submit = busy_once

    async def work(memory: AsyncReplicatedMemory) -> None:
        begun = asyncio.get_running_loop().time()
        await memory.write(fact())
        assert asyncio.get_running_loop().time() - begun >= 0.03
        first, second = ids_of(nodes[0])
        assert first == second

    against(nodes, work, principal=None)


def test_a_redirection_is_followed():
    """A node that does not lead says who does."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        nodes[0].submit = refusing(NotLeader(nodes[1].endpoint))
        await memory.write(fact())
        assert len(nodes[1].submissions) == 1
        await memory.write(fact())
        assert len(nodes[1].submissions) == 2

    against(nodes, work)


def test_a_hint_in_an_answer_is_followed_next_time():
    """The answer came by way of a follower: the next command takes the shorter way."""
    nodes = three()

    async def hinting(submission: memory_pb2.Submission) -> Result:
        result = await accepted(submission)
        result.leader = nodes[2].endpoint
        return result

    nodes[0].submit = hinting

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.write(fact(1))
        await memory.write(fact(2))
        assert [len(node.submissions) for node in nodes] == [1, 0, 1]

    against(nodes, work)


def test_a_stream_that_breaks_is_no_reason_to_say_it_failed():
    """The command may have arrived: it is asked about again, under the same id, at whoever leads then."""
    nodes = three()

    async def dies(submission: memory_pb2.Submission) -> None:
        for node in nodes:
            node.leader, node.epoch = "n2", 2
        nodes[0].stopped.set()

    nodes[0].submit = dies

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.write(fact())
        assert ids_of(nodes[0]) == ids_of(nodes[1])

    against(nodes, work, principal=None)


def test_a_leader_that_falls_silent_is_doubted():
    """It is connected and says nothing; the others say that another one leads now, and the command goes there."""
    nodes = three()

    async def silent(submission: memory_pb2.Submission) -> None:
        for node in nodes[1:]:
            node.leader, node.epoch = "n3", 2

    nodes[0].submit = silent

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.write(fact())
        assert ids_of(nodes[0]) == ids_of(nodes[2])

    against(nodes, work, principal=None)


@pytest.mark.parametrize("timeout_s", [0.05, 0.4])
def test_silence_ends_as_outcome_unknown(timeout_s: float):
    """Sent and never answered: the error carries the id with which to ask again."""
    nodes = three()

    async def silent(submission: memory_pb2.Submission) -> None:
        return None

    nodes[0].submit = silent

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.status()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(OutcomeUnknown) as caught:
            await memory.write(fact(), timeout_s=timeout_s)
        assert asyncio.get_running_loop().time() - begun < timeout_s + 0.1
        assert bytes.fromhex(caught.value.command_id) == ids_of(nodes[0])[0]
        nodes[0].submit = None
        again = await memory.write(fact(), command_id=caught.value.command_id)
        assert again.command_id == caught.value.command_id

    against(nodes, work, principal=None)


def test_without_a_leader_nothing_has_happened():
    """All answer, nobody leads: `Unavailable`, and not a word of an outcome."""
    nodes = [FakeNode("n1", leader=""), FakeNode("n2", leader="")]
    for node in nodes:
        node.submit = refusing(Unavailable("no leader is known", ("n3",)))

    async def work(memory: AsyncReplicatedMemory) -> None:
        with pytest.raises(Unavailable) as caught:
            await memory.write(fact(), timeout_s=0.2)
        assert caught.value.who == ("n3",)

    against(nodes, work)


def test_once_it_may_have_happened_it_is_never_said_to_have_not():
    """The first attempt was sent and broke; all later ones are turned away. The outcome stays unknown."""
    nodes = three()
    nodes[0].submit = refusing(OutcomeUnknown("ab" * 16, "leadership ended"))

    async def work(memory: AsyncReplicatedMemory) -> None:
        async def then_nobody(submission: memory_pb2.Submission) -> Result:
            nodes[0].submit = refusing(Unavailable("no quorum"))
            return await refusing(OutcomeUnknown("ab" * 16))(submission)

        nodes[0].submit = then_nobody
        with pytest.raises(OutcomeUnknown):
            await memory.write(fact(), timeout_s=0.3)
        assert len(nodes[0].submissions) > 1

    against(nodes, work)


def test_a_read_goes_elsewhere_when_a_node_cannot_answer():
    """Unavailable here is not unavailable everywhere."""
    nodes = three()

    async def cannot(request: memory_pb2.ReadRequest) -> memory_pb2.ReadReply:
        raise Unavailable("too old")

    nodes[0].read = nodes[1].read = cannot

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert await memory.recall("anything") == []
        assert len(nodes[2].reads) == 1

    against(nodes, work)


def test_strong_reads_go_to_the_leader():
    """Which spares the step that any other node would take."""
    nodes = three()
    for node in nodes:
        node.leader = "n2"

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.recall("anything", consistency="strong")
        assert [len(node.reads) for node in nodes] == [0, 1, 0]

    against(nodes, work)


def test_a_read_that_nobody_can_answer_says_why():
    """The last reason and the members that it names, by the deadline."""
    nodes = three()

    async def cannot(request: memory_pb2.ReadRequest) -> memory_pb2.ReadReply:
        raise Unavailable("no quorum", ("n4", "n5"))

    for node in nodes:
        node.read = cannot

    async def work(memory: AsyncReplicatedMemory) -> None:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable) as caught:
            await memory.get("ab" * 16, consistency="quorum", timeout_s=0.3)
        assert caught.value.who == ("n4", "n5")
        assert asyncio.get_running_loop().time() - begun < 0.4

    against(nodes, work)


def test_a_session_asks_for_what_it_has_seen():
    """The index of the last answer goes with the next question."""
    nodes = three()

    async def work(memory: AsyncReplicatedMemory) -> None:
        await memory.write(fact())
        await memory.recall("anything", consistency="session")
        (request,) = [request for node in nodes for request in node.reads]
        assert request.min_index == 7

    against(nodes, work)


def test_a_page_is_asked_for_at_another_node_when_its_own_dies():
    """`all` goes on from its cursor, at no older a state."""
    nodes = three()

    async def paging(request: memory_pb2.ReadRequest) -> memory_pb2.ReadReply:
        if not request.all.after:
            return memory_pb2.ReadReply(index=5, page=memory_pb2.Page(after=b"cursor"))
        if len([each for node in nodes for each in node.reads]) == 2:
            raise Unavailable("going down")
        assert (request.all.after, request.min_index) == (b"cursor", 5)
        return memory_pb2.ReadReply(index=6, page=memory_pb2.Page())

    for node in nodes:
        node.read = paging

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert [record async for record in memory.all()] == []
        assert sum(len(node.reads) for node in nodes) == 3

    against(nodes, work)
