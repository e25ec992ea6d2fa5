"""The change feed of nodes: every committed change once, in order, for whoever may see it, from any node and cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from node_cluster import CLOCK, ENTROPY, Cluster, cluster, enrolment, signed, write, write_command

from veridical.log.identifier import uuid7
from veridical.log.store import LogStore
from veridical.memory import commands, rules
from veridical.memory.changes import Cursor
from veridical.memory.commands import ForgetBody, PruneBody, encode_body
from veridical.memory.errors import Compacted, HistoryChanged, Invalid, Refused, Retry, TooLarge, Unavailable
from veridical.memory.lifecycle import HALF_LIFE_US
from veridical.memory.trust_commands import TAKE, GrantBody
from veridical.node import feed
from veridical.node.access import Caller
from veridical.node.feed import Change, ChangePage, WatchRequest
from veridical.node.ports import BareCommand, SubmitResult
from veridical.node.rows import record_of
from veridical.node.runtime import Node
from veridical.security.principal import Principal

START = Cursor("", 0)
ADMIN, READER = (Principal(bytes([number]) * 32) for number in (1, 2))
SECOND_US = 1_000_000


def command(kind: str, body: commands.Body) -> BareCommand:
    """A command of that kind, under an id of its own."""
    return BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), kind, encode_body(kind, body))


async def submit(node: Node, *made: BareCommand) -> SubmitResult:
    """Several commands in one envelope."""
    return await node.submit_anonymous(made, 5 * SECOND_US)


async def all_changes(node: Node, request: WatchRequest | None = None) -> list[Change]:
    """Every change up to what is folded when the watch begins."""
    found: list[Change] = []
    async with aclosing(node.watch(request or WatchRequest(START))) as pages:
        async for page in pages:
            found += page.changes
            if page.cursor.next_index > page.applied_index:
                break
    return found


def story(changes: Sequence[Change]) -> list[tuple[str, str, bool]]:
    """What happened, to what text, and whether it is gone."""
    return [(change.kinds[0], _text(change), change.gone) for change in changes]


def _text(change: Change) -> str:
    record = record_of(change.row)
    return "" if record is None else record.text


def on_one_node(
    test: Callable[[Node, pytest.MonkeyPatch], Awaitable[None]],
) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """A test on a cluster of one."""

    def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def story() -> None:
            async with cluster(tmp_path, 1) as made:
                await test(await made.leader(), monkeypatch)

        asyncio.run(story())

    run.__doc__ = test.__doc__
    return run


def on_three_nodes(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[Path], None]:
    """A test on a cluster of three."""

    def run(tmp_path: Path) -> None:
        async def story() -> None:
            async with cluster(tmp_path) as made:
                await test(made)

        asyncio.run(story())

    run.__doc__ = test.__doc__
    return run


async def told_history(node: Node) -> bytes:
    """A first fact that is written twice, corrected and forgotten beside another one; returns its id."""
    result = await submit(node, write_command("a", "one"), write_command("b", "other"))
    id = result.outcomes[0].record_id
    await submit(node, write_command("a", "one"))
    await submit(node, write_command("a", "two"))
    await submit(node, command(commands.FORGET, ForgetBody(id)))
    return id


@on_one_node
async def test_every_change_is_told_once_in_order(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the record as it was from then on, as far as history tells it apart."""
    id = await told_history(lone)
    changes = await all_changes(lone)
    assert story(changes) == [
        ("asserted", "one", False),
        ("asserted", "other", False),
        ("repeated", "one", False),
        ("superseded", "two", False),
        ("forgotten", "", True),
    ]
    assert [change.id == id for change in changes] == [True, False, True, True, True]
    assert all(change.scope == "global" and change.author == b"" for change in changes)
    cursors = [change.cursor for change in changes]
    assert cursors == sorted(set(cursors))


@on_one_node
async def test_any_cursor_is_a_place_to_go_on_from(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one in the middle of an entry, and one that names an entry only."""
    await told_history(lone)
    changes = await all_changes(lone)
    for place, change in enumerate(changes):
        assert await all_changes(lone, WatchRequest(change.cursor)) == changes[place + 1 :]
    behind_entry = Cursor(changes[0].cursor.history, changes[0].cursor.index)
    assert await all_changes(lone, WatchRequest(behind_entry)) == changes[2:]


@on_one_node
async def test_small_pages_tell_the_same(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little goes into one: in changes, in bytes of rows, in bytes of the log."""
    await told_history(lone)
    changes = await all_changes(lone)
    for name in ("PAGE_CHANGES", "PAGE_ROW_BYTES", "PAGE_LOG_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(feed, name, 1)
            assert await all_changes(lone) == changes


@on_one_node
async def test_a_batch_is_one_change_for_each_record(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune names all that it removed; a refused command is no change."""
    long_ago = CLOCK.wall_us() - 90 * 86_400 * SECOND_US
    written = await submit(lone, *(write_command(subject, "volatile") for subject in "abc"))
    ids = tuple(outcome.record_id for outcome in written.outcomes)
    at_us = CLOCK.wall_us() + 20 * SECOND_US
    flags = [command(commands.SET_FLAGS, commands.FlagsBody(id, ttl_us=SECOND_US)) for id in ids[:2]]
    await submit(lone, *flags)
    await submit(lone, command(commands.PRUNE, PruneBody(at_us, HALF_LIFE_US, ids)))
    await submit(lone, command(commands.PRUNE, PruneBody(long_ago, HALF_LIFE_US, ids)))
    pruned = await all_changes(lone, WatchRequest(START, kinds=frozenset({"pruned"})))
    assert [(change.id, change.gone, change.cursor.part) for change in pruned] == [
        (ids[0], True, 0),
        (ids[1], True, 1),
    ]
    assert await all_changes(lone, WatchRequest(pruned[0].cursor)) == pruned[1:]


@on_one_node
async def test_what_is_filtered_out_moves_the_cursor_along(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes, kinds and ids; a consumer of one rare thing begins far ahead next time."""
    result = await submit(lone, write_command("a", "one", scope="here"), write_command("b", "two", scope="there"))
    id = result.outcomes[1].record_id
    await submit(lone, write_command("b", "three", scope="there"))
    await submit(lone, command(commands.REINFORCE, commands.ReinforceBody((id,))))
    assert story(await all_changes(lone, WatchRequest(START, scopes=("here",)))) == [("asserted", "one", False)]
    kinds = frozenset({"superseded", "reinforced"})
    assert [change.kinds for change in await all_changes(lone, WatchRequest(START, kinds=kinds))] == [
        ("superseded",),
        ("reinforced",),
    ]
    assert [change.kinds for change in await all_changes(lone, WatchRequest(START, ids=frozenset({id})))] == [
        ("asserted",),
        ("superseded",),
    ]
    async with aclosing(lone.watch(WatchRequest(START, ids=frozenset({b"x" * 16})))) as pages:
        page = await anext(pages)
        assert (page.changes, page.cursor.index) == ((), page.applied_index)


@on_one_node
async def test_a_filter_that_means_nothing_is_refused(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that does not exist, and more ids than anybody watches."""
    for request, error in (
        (WatchRequest(START, kinds=frozenset({"assertet"})), Invalid),
        (WatchRequest(START, ids=frozenset(number.to_bytes(16) for number in range(1_001))), TooLarge),
    ):
        with pytest.raises(error):
            await all_changes(lone, request)


@on_one_node
async def test_a_consumer_waits_for_what_comes(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cursor it begins at the present, and hears of a write when it is folded."""
    await write(lone, "before", "x")
    async with aclosing(lone.watch(WatchRequest())) as pages:
        assert (await anext(pages)).changes == ()
        waiting = asyncio.ensure_future(anext(pages))
        await write(lone, "after", "y")
        async with asyncio.timeout(5):
            assert story((await waiting).changes) == [("asserted", "y", False)]


@on_one_node
async def test_a_quiet_feed_says_that_it_is_there(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without changes after each heartbeat, with the same cursor."""
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.01)
    async with aclosing(lone.watch(WatchRequest())) as pages:
        first = await anext(pages)
        assert {(await anext(pages)).cursor for _ in range(3)} == {first.cursor}


@on_one_node
async def test_a_feed_ends_with_its_node(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it drains, without an error: the consumer goes on elsewhere. New ones are turned away."""
    pages = lone.watch(WatchRequest())
    await anext(pages)

    async def rest() -> list[Change]:
        return [change async for page in pages for change in page.changes]

    ending = asyncio.ensure_future(rest())
    await asyncio.sleep(0)
    await lone.drain(SECOND_US // 10)
    async with asyncio.timeout(5):
        assert await ending == []
    with pytest.raises(Unavailable):
        await anext(lone.watch(WatchRequest()))


@on_one_node
async def test_consumers_are_counted_and_bounded(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """They show in the metrics with how far they are behind, and are gone when they let go."""
    monkeypatch.setattr(feed, "WATCHERS_LIMIT", 1)
    await told_history(lone)
    monkeypatch.setattr(feed, "PAGE_CHANGES", 1)
    async with aclosing(lone.watch(WatchRequest(START))) as pages:
        page = await anext(pages)
        with pytest.raises(Retry):
            await anext(lone.watch(WatchRequest()))
        exposed = lone.metrics.exposition().decode()
        assert "veridical_watchers 1.0" in exposed
        assert f"veridical_watch_lag_entries {float(page.applied_index - page.cursor.index)}" in exposed
    assert "veridical_watchers 0.0" in lone.metrics.exposition().decode()


@on_one_node
async def test_a_cursor_of_another_history_is_told_so(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the history that is here; its own is taken."""
    history = lone.status().cluster_id
    with pytest.raises(HistoryChanged) as changed:
        await all_changes(lone, WatchRequest(Cursor("f" * 32, 1)))
    assert changed.value.history == history
    assert await all_changes(lone, WatchRequest(Cursor(history, 1))) == []


@on_one_node
async def test_a_start_that_is_held_no_more_is_told_so(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first index that is; from there on it goes."""
    await told_history(lone)
    changes = await all_changes(lone)
    monkeypatch.setattr(LogStore, "first_index", changes[2].cursor.index)
    with pytest.raises(Compacted) as compacted:
        await all_changes(lone)
    assert compacted.value.first_index == changes[2].cursor.index
    assert await all_changes(lone, WatchRequest(Cursor("", compacted.value.first_index - 1))) == changes[2:]


@on_one_node
async def test_a_grant_bounds_what_is_told(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of one scope hears of it alone; asking for another one is refused; the administrator hears of all."""
    await submit(lone, enrolment(ADMIN))
    cluster_id = lone.status().cluster_id
    made = [
        enrolment(READER, ("here", ("read",))),
        write_command("a", "one", scope="here"),
        write_command("b", "two", scope="there"),
        command(commands.SETTING, commands.SettingBody("window_count", 1_000)),
    ]
    result = await lone.submit(signed(ADMIN, cluster_id, made))
    forget = [command(commands.FORGET, ForgetBody(outcome.record_id)) for outcome in result.outcomes[1:3]]
    await lone.submit(signed(ADMIN, cluster_id, forget))
    reader = Caller(READER.public_key)
    assert story(await all_changes(lone, WatchRequest(START, caller=reader))) == [
        ("asserted", "one", False),
        ("forgotten", "", True),
    ]
    with pytest.raises(Refused) as refused:
        await all_changes(lone, WatchRequest(START, scopes=("there",), caller=reader))
    assert refused.value.rule == rules.NOT_GRANTED
    with pytest.raises(Refused):
        await all_changes(lone)
    told = await all_changes(lone, WatchRequest(START, caller=Caller(ADMIN.public_key)))
    assert [change.kinds[0] for change in told] == [
        "enrolled", "enrolled", "asserted", "asserted", "set", "forgotten", "forgotten",
    ]  # fmt: skip
    assert {change.author for change in told[1:]} == {ADMIN.public_key}


@on_one_node
async def test_a_grant_that_is_taken_ends_the_feed(lone: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next page: what follows is not told any more."""
    await submit(lone, enrolment(ADMIN))
    cluster_id = lone.status().cluster_id
    await lone.submit(signed(ADMIN, cluster_id, [enrolment(READER, ("here", ("read",)))]))
    async with aclosing(lone.watch(WatchRequest(caller=Caller(READER.public_key)))) as pages:
        await anext(pages)
        taking = command(TAKE, GrantBody(READER.public_key, "here", ("read",)))
        await lone.submit(signed(ADMIN, cluster_id, [taking, write_command("a", "one", scope="here")]))
        with pytest.raises(Refused):
            await until_a_change(pages)


async def until_a_change(pages: AsyncGenerator[ChangePage]) -> tuple[Change, ...]:
    """The changes of the next page that has any."""
    while not (page := await anext(pages)).changes:
        pass
    return page.changes


async def nodes_with_history(made: Cluster) -> list[list[Change]]:
    """What every node of a cluster tells, once they are level."""
    await made.level()
    return [await all_changes(node) for node in made.nodes.values()]


@on_three_nodes
async def test_every_node_tells_the_same(made: Cluster) -> None:
    """So that a consumer may go from one to the other at any cursor."""
    await told_history(await made.leader())
    first, *others = await nodes_with_history(made)
    assert len(first) == 5
    assert all(changes == first for changes in others)


@on_three_nodes
async def test_what_was_never_committed_is_never_told(made: Cluster) -> None:
    """A leader that was cut off with a write in hand does not tell of it, then or after it has rejoined."""
    old = await made.leader()
    await write(old, "before", "x")
    made.network.isolate(old.hello().endpoint)
    lost = asyncio.ensure_future(old.submit_anonymous([write_command("lost", "y")], SECOND_US))
    await made.until(lambda: [node for node in made.leaders() if node is not old])
    [new] = [node for node in made.leaders() if node is not old]
    await write(new, "after", "z")
    assert [_text(change) for change in await all_changes(old)] == ["x"]
    made.network.heal()
    await asyncio.wait([lost])
    assert lost.exception() is not None
    told = await nodes_with_history(made)
    assert [[_text(change) for change in changes] for changes in told] == [["x", "z"]] * 3
