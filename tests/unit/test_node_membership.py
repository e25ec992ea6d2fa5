"""Membership of real nodes in one process: in, up, out, and back after a lost disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from node_cluster import QUICK, SECOND_US, Cluster, cluster, enrolment, read, write

from veridical.log.configuration import Configuration, Member, founding
from veridical.memory.errors import Invalid, NotLeader, Refused, Retry, Unavailable, VeridicalError
from veridical.node.access import NOBODY, Caller
from veridical.node.membership import Admit, Change, Promote, Remove, Resize, newcomer
from veridical.node.ports import HelloReply, Verb
from veridical.node.readmission import is_reborn, replacing
from veridical.node.runtime import Node
from veridical.security.principal import Principal

TIMEOUT_US = 5 * SECOND_US
FOR_EVER_US = 1 << 60
IN_A_HURRY = QUICK.model_copy(update={"readmit_after_ms": 400})


async def changed(nodes: Cluster, change: Change, caller: Caller = NOBODY) -> Configuration:
    """Make a change at whoever leads, asking again while it is too early, or the leader another."""
    async with asyncio.timeout(15):
        while True:
            leader = await nodes.leader()
            try:
                return await leader.change_members(change, caller, TIMEOUT_US)
            except (Retry, NotLeader, Unavailable):
                await asyncio.sleep(0.01)
            except Refused as refusal:
                if refusal.rule != "catching_up":
                    raise
                await asyncio.sleep(0.01)


async def joined(nodes: Cluster, name: str) -> Node:
    """Start a further node, once there is a history to join, and make it a voter."""
    await nodes.leader()
    nodes.names.append(name)
    await nodes.start(name)
    node = nodes.nodes[name]
    await changed(nodes, Admit(f"{name}:7400"))
    await changed(nodes, Promote(node.node_id))
    return node


def silence_us(node: Node, id: str) -> int:
    """For how long that node has not heard a member; one that it never heard has been silent for ever."""
    found = next(member for member in node.status().members if member.id == id)
    return FOR_EVER_US if found.last_contact_us is None else found.last_contact_us


def voters(node: Node) -> set[str]:
    """Names of the voters that a node knows."""
    return {member.name for member in node.status().members if member.voting}


async def under_load(nodes: Cluster, work: Callable[[], Awaitable[None]]) -> int:
    """Do the work while one writer goes on, at any node that is a member; returns how many facts it wrote."""
    done, written = asyncio.Event(), 0

    async def writer() -> None:
        nonlocal written
        while not done.is_set():
            for node in list(nodes.nodes.values()):
                with suppress(Unavailable):  # it was removed
                    await write(node, f"s{written}", "text", 10 * SECOND_US)
                    written += 1
                    break

    writing = asyncio.create_task(writer())
    try:
        await work()
    finally:
        done.set()
        await writing
    return written


def test_one_node_becomes_three_and_five_and_three_again_under_load(tmp_path: Path) -> None:
    """Nothing acknowledged is lost on the way, and all who stay hold the same."""

    async def scenario() -> None:
        async with cluster(tmp_path, 1) as nodes:

            async def grow_and_shrink() -> None:
                for number in range(2, 6):
                    await joined(nodes, f"n{number}")
                for name in ("n1", "n2"):
                    gone = nodes.nodes[name]
                    await changed(nodes, Remove(gone.node_id))

            written = await under_load(nodes, grow_and_shrink)
            leader = await nodes.leader()
            await nodes.until(lambda: voters(leader) == {"n3", "n4", "n5"})
            for name in ("n1", "n2"):
                await nodes.until(lambda gone=nodes.nodes[name]: not gone.status().ready)
            await nodes.stop("n1", "n2")
            assert len(await nodes.digests()) == 1
            counts = await read(leader, Verb.COUNTS)
            assert counts.value.records == written > 10

    asyncio.run(scenario())


def test_nobody_counts_without_the_digest_key(tmp_path: Path) -> None:
    """Who was promoted can decide by himself, though those who handed him the key are gone."""

    async def scenario() -> None:
        async with cluster(tmp_path, 1) as nodes:
            second = await joined(nodes, "n2")
            assert second.hello().holds_key
            await changed(nodes, Remove(nodes.nodes["n1"].node_id))
            await nodes.stop("n1")
            await write(second, "after", "it goes on", 10 * SECOND_US)
            assert (await read(second, Verb.COUNTS)).value.records == 1

    asyncio.run(scenario())


def test_a_voter_that_lost_its_disk_is_replaced_by_itself(tmp_path: Path) -> None:
    """It comes back empty under its old name: a new id, in as a learner, a voter, and the old id is gone."""

    async def scenario() -> None:
        async with cluster(tmp_path, 3, IN_A_HURRY) as nodes:
            leader = await nodes.leader()
            for number in range(20):
                await write(leader, f"s{number}", "text")
            lost = next(name for name, node in nodes.nodes.items() if node is not leader)
            old = nodes.nodes[lost].node_id
            await nodes.stop(lost)
            shutil.rmtree(tmp_path / lost)
            await nodes.start(lost)
            new = nodes.nodes[lost].node_id
            assert new != old
            wanted = {node.node_id for node in nodes.nodes.values()}
            await nodes.until(lambda: {m.id for m in leader.status().members if m.voting} == wanted, 20)
            assert old not in {member.id for member in leader.status().members}
            assert len(await nodes.digests()) == 1
            assert (await read(nodes.nodes[lost], Verb.COUNTS)).value.records == 20

    asyncio.run(scenario())


def test_a_follower_sends_changes_to_the_leader_and_nobody_can_be_promoted_who_is_no_member(tmp_path: Path) -> None:
    """Clear errors; what was asked for changes nothing."""

    async def scenario() -> None:
        async with cluster(tmp_path, 3) as nodes:
            leader = await nodes.leader()
            with pytest.raises(NotLeader):
                await nodes.followers()[0].change_members(Remove("x"), NOBODY, TIMEOUT_US)
            for change in (Promote("nobody"), Resize(7)):
                with pytest.raises(Invalid):
                    await leader.change_members(change, NOBODY, TIMEOUT_US)
            assert len(voters(leader)) == 3
            assert (await changed(nodes, Resize(3))).write_quorum == 3
            await write(leader, "after", "it goes on")

    asyncio.run(scenario())


def test_the_last_live_quorum_cannot_be_voted_away(tmp_path: Path) -> None:
    """With one of three down, neither of the two that answer may go; the one that is down may."""

    async def scenario() -> None:
        async with cluster(tmp_path, 3) as nodes:
            leader = await nodes.leader()
            down, other = nodes.followers()
            await nodes.stop(next(name for name, node in nodes.nodes.items() if node is down))
            await nodes.until(lambda: silence_us(leader, down.node_id) > QUICK.lease_ttl_ms * 1000)
            with pytest.raises(Refused, match="catching_up"):
                await leader.change_members(Remove(other.node_id), NOBODY, TIMEOUT_US)
            configuration = await changed(nodes, Remove(down.node_id))
            assert configuration.voters == {leader.node_id, other.node_id}

    asyncio.run(scenario())


def test_in_a_guarded_store_only_an_administrator_changes_the_members(tmp_path: Path) -> None:
    """Others are refused by the rule's name."""

    async def scenario() -> None:
        async with cluster(tmp_path, 3) as nodes:
            leader, boss, clerk = await nodes.leader(), Principal.generate(), Principal.generate()
            await leader.submit_anonymous([enrolment(boss)], TIMEOUT_US)
            for caller in (NOBODY, Caller(key=clerk.public_key)):
                with pytest.raises(VeridicalError, match="not_granted"):
                    await leader.change_members(Resize(3), caller, TIMEOUT_US)
            assert (await changed(nodes, Resize(3), Caller(key=boss.public_key))).write_quorum == 3

    asyncio.run(scenario())


def test_a_stranger_is_not_admitted() -> None:
    """Of another cluster, with a history of its own, or with the id of a member and another key."""
    known = Member("id1", "n1", b"1" * 32, "h1:1")
    present = founding([known])

    def hello(**fields: object) -> HelloReply:
        base: dict[str, object] = {
            "node_id": "id2", "name": "n2", "cluster": "c", "public_key": b"2" * 32, "endpoint": "h2:1",
            "has_history": False,
        }  # fmt: skip
        return HelloReply(**(base | fields))  # type: ignore[arg-type]

    assert newcomer(hello(), "h2:1", present, "c", "x") == Member("id2", "n2", b"2" * 32, "h2:1")
    assert newcomer(hello(has_history=True, cluster_id="x"), "h2:1", present, "c", "x").id == "id2"
    for strange in (
        hello(cluster="d"), hello(has_history=True, cluster_id="y"), hello(node_id="id1", public_key=b"9" * 32),
    ):  # fmt: skip
        with pytest.raises(Refused, match="membership"):
            newcomer(strange, "h2:1", present, "c", "x")


def test_only_the_same_node_without_its_data_takes_a_lost_member_s_place() -> None:
    """Not the member itself, not another name, not a node with history, not another cluster."""
    lost = Member("old", "n1", b"1" * 32, "h1:1")
    reborn = HelloReply("new", "n1", "c", b"2" * 32, "h1:1", False)
    assert is_reborn(lost, reborn, "c")
    assert not is_reborn(lost, reborn, "d")
    assert not is_reborn(lost, HelloReply("old", "n1", "c", b"1" * 32, "h1:1", True), "c")
    assert not is_reborn(lost, HelloReply("new", "n2", "c", b"2" * 32, "h1:1", False), "c")
    assert not is_reborn(lost, HelloReply("new", "n1", "c", b"2" * 32, "h1:1", True), "c")


def test_a_replacement_takes_three_steps() -> None:
    """In as a learner (somebody must ask first), a voter, the old one out; an heir that is silent too is none."""
    lost, other = Member("old", "n1", b"1" * 32, "h1:1"), Member("id2", "n2", b"2" * 32, "h2:1")
    heir, learner = Member("new", "n1", b"3" * 32, "h1:1"), Member("new", "n1", b"3" * 32, "h1:1", voting=False)
    live = {"id2", "new"}
    assert replacing(founding([lost, other]), lost, live) is None
    assert replacing(founding([lost, other, learner]), lost, live) == Promote("new")
    assert replacing(founding([lost, other, learner]), lost, {"id2"}) is None
    assert replacing(founding([lost, other, heir]), lost, live) == Remove("old")
    second = Member("third", "n1", b"4" * 32, "h1:1", voting=False)
    assert replacing(founding([lost, other, learner, second]), learner, {"id2", "third"}) == Remove("new")
