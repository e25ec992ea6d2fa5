"""Watching nodes that misbehave on purpose: where the client goes on, and when it stops."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import pytest
from fake_nodes import CLUSTER_ID, FakeNode, fake_nodes

from veridical.client import AsyncReplicatedMemory, listener
from veridical.memory import BEGINNING
from veridical.memory.changes import WHOLE_ENTRY, Cursor
from veridical.memory.errors import Bug, Compacted, Invalid, Refused, Unavailable
from veridical.proto.generated import memory_pb2
from veridical.security.principal import Principal

Replies = Callable[[memory_pb2.WatchRequest], AsyncIterator[memory_pb2.WatchReply]]


def at(index: int, place: int = WHOLE_ENTRY) -> memory_pb2.Cursor:
    return memory_pb2.Cursor(history=CLUSTER_ID, index=index, place=place)


def reply(*indexes: int, end: int = 0, age_us: int | None = 0) -> memory_pb2.WatchReply:
    """One change at each of these indexes."""
    changes = [memory_pb2.Change(cursor=at(index, 0), kinds=["asserted"], id=bytes(16)) for index in indexes]
    return memory_pb2.WatchReply(cursor=at(end or indexes[-1]), changes=changes, age_us=age_us)


def tells(*pages: memory_pb2.WatchReply, then: Exception | None = None, silent: bool = False) -> Replies:
    """These pages; then the stream ends, in that error if any, or nothing more is said."""

    async def replies(request: memory_pb2.WatchRequest) -> AsyncIterator[memory_pb2.WatchReply]:
        for page in pages:
            yield page
        if silent:
            await asyncio.Event().wait()
        if then is not None:
            raise then

    return replies


def against(
    nodes: list[FakeNode],
    work: Callable[[AsyncReplicatedMemory], Awaitable[None]],
    timeout_s: float = 5.0,
    principal: Principal | None = None,
) -> None:
    async def run() -> None:
        async with fake_nodes(*nodes):
            endpoints = [node.endpoint for node in nodes]
            async with AsyncReplicatedMemory(endpoints, timeout_s=timeout_s, principal=principal) as memory:
                async with asyncio.timeout(20):
                    await work(memory)

    asyncio.run(run())


def two(first: Replies, second: Replies) -> list[FakeNode]:
    """Whichever is asked first tells the one, whoever is asked later the other."""
    asked = count()

    def replies(request: memory_pb2.WatchRequest) -> AsyncIterator[memory_pb2.WatchReply]:
        return (second if next(asked) else first)(request)

    return [FakeNode("n1", watch=replies), FakeNode("n2", watch=replies)]


async def indexes(memory: AsyncReplicatedMemory, wanted: int) -> list[int]:
    """Where the next changes stand."""
    found: list[int] = []
    async with memory.watch(BEGINNING) as changes:
        async for change in changes:
            found.append(change.cursor.index)
            if len(found) == wanted:
                break
    return found


def were_both_asked(nodes: list[FakeNode]) -> bool:
    """Once each."""
    return [len(node.watches) for node in nodes] == [1, 1]


def asked(nodes: list[FakeNode]) -> list[tuple[int, int]]:
    """From which cursors, over all nodes, in order of the cursors."""
    return sorted((request.after.index, request.after.place) for node in nodes for request in node.watches)


@pytest.mark.parametrize("end", [None, Unavailable("it is draining")])
def test_a_stream_that_ends_is_taken_up_at_another_node(end: Exception | None):
    """From the last cursor."""

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert await indexes(memory, 4) == [1, 2, 3, 4]

    nodes = two(tells(reply(1, 2), then=end), tells(reply(3, 4), silent=True))
    against(nodes, work)
    assert were_both_asked(nodes)
    assert asked(nodes) == [(0, WHOLE_ENTRY), (2, WHOLE_ENTRY)]


def test_a_silent_node_is_left(monkeypatch: pytest.MonkeyPatch):
    """A node says something every second; one that stands still says nothing."""
    monkeypatch.setattr(listener, "SILENCE_S", 0.1)

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert await indexes(memory, 2) == [1, 2]

    nodes = two(tells(reply(1), silent=True), tells(reply(2), silent=True))
    against(nodes, work)
    assert were_both_asked(nodes)


@pytest.mark.parametrize("age_us", [None, 10_000_000])
def test_a_node_that_is_cut_off_is_left(age_us: int | None):
    """It talks, and knows of nothing new; what it tells counts all the same."""
    stale = [reply(1, age_us=age_us), reply(9, age_us=age_us)]

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert await indexes(memory, 2) == [1, 2]

    nodes = two(tells(*stale, silent=True), tells(reply(2), silent=True))
    against(nodes, work)
    assert were_both_asked(nodes)


def test_the_only_node_is_listened_to_however_stale():
    """There is no better one."""

    async def work(memory: AsyncReplicatedMemory) -> None:
        assert await indexes(memory, 2) == [1, 2]

    node = FakeNode("n1", watch=tells(reply(1, age_us=None), reply(2, age_us=None), silent=True))
    against([node], work)
    assert len(node.watches) == 1


def test_when_nobody_answers_it_ends():
    """After the time of a call; the cursor is where to go on."""

    async def work(memory: AsyncReplicatedMemory) -> None:
        changes = memory.watch(BEGINNING)
        assert (await anext(changes)).cursor.index == 1
        with pytest.raises(Unavailable):
            await anext(changes)
        assert changes.cursor == Cursor(CLUSTER_ID, 1)

    against(two(tells(reply(1), then=Unavailable("no")), tells(then=Unavailable("no"))), work, timeout_s=0.3)


@pytest.mark.parametrize("error", [Compacted(7), Refused("not_granted"), Invalid("kinds", "is none"), Bug("?")])
def test_what_no_other_node_would_say_otherwise_is_raised(error: Exception):
    """At once."""

    async def work(memory: AsyncReplicatedMemory) -> None:
        with pytest.raises(type(error)) as raised:
            await anext(memory.watch(BEGINNING))
        if not isinstance(error, Bug):
            assert vars(raised.value) == vars(error)

    against([FakeNode("n1", watch=tells(then=error))], work)


def test_a_ticket_that_ran_out_is_renewed():
    """A stream outlives its ticket; one that is refused at once is wrong for another reason."""
    refusal = Refused("ticket", "it was issued long ago")

    async def work(memory: AsyncReplicatedMemory) -> None:
        changes = memory.watch(BEGINNING)
        assert (await anext(changes)).cursor.index == 1
        with pytest.raises(Refused):
            await anext(changes)

    node = FakeNode("n1")
    pages = iter([tells(reply(1), then=refusal), tells(then=refusal)])
    node.watch = lambda request: next(pages)(request)
    against([node], work, principal=Principal(bytes(32)))
    assert len(node.watches) == 2
    assert all(watch.HasField("ticket") for watch in node.watches)


def test_a_cursor_is_handed_out_with_the_changes():
    """Not before: within a page it is that of the change, at its end that of the page."""

    async def work(memory: AsyncReplicatedMemory) -> None:
        changes = memory.watch(BEGINNING)
        assert changes.cursor == BEGINNING
        await anext(changes)
        assert changes.cursor == Cursor(CLUSTER_ID, 1, 0)
        await anext(changes)
        assert changes.cursor == Cursor(CLUSTER_ID, 9)

    against([FakeNode("n1", watch=tells(reply(1, 2, end=9), silent=True))], work)
