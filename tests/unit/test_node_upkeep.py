"""Nodes compare, look and repair: rows folded again from the own log, entries fetched from others, proven first."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from node_cluster import Cluster, cluster, read, write

from veridical.antientropy.digests import LANDMARK_ENTRIES, LANDMARKS_KEPT
from veridical.antientropy.standing import Standing
from veridical.log.store import LogStore
from veridical.memory.digest import BUCKETS, DIGEST_BYTES
from veridical.memory.errors import Refused, Unavailable, VeridicalError
from veridical.node import repairs
from veridical.node.ports import CompareRequest, MemberProof, RefetchRequest, Verb
from veridical.node.runtime import Node
from veridical.projection.rows import record_of, stored

FACTS = 12
COMPARISON_BYTES_LIMIT = 20_000


@asynccontextmanager
async def filled(data: Path, count: int = 3) -> AsyncGenerator[Cluster]:
    """A cluster that has a few facts."""
    async with cluster(data, count) as made:
        leader = await made.leader()
        for number in range(FACTS):
            await write(leader, f"s{number}", f"value {number}")
        await made.level()
        yield made


async def ran(node: Node) -> Standing:
    """All of it, once, without resting; the last word."""
    standings = [standing async for standing, _ in node.antientropy(run=True)]
    return standings[-1]


async def standing(node: Node) -> Standing:
    """What the node says, without doing anything."""
    async for found, done in node.antientropy(run=False):
        assert done
        return found
    raise AssertionError("a node always has a standing")


def forge(path: Path) -> None:
    """Change a fact by hand so well that row, digest and bucket fit together again."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        number, digest, body = connection.execute(
            "SELECT number, digest, body FROM content JOIN record USING (number) ORDER BY number LIMIT 1 OFFSET 3"
        ).fetchone()
        record = record_of(body)
        new_digest, new_body = stored(record._replace(reason="forged"))
        place = record.id[0]
        [raw] = connection.execute("SELECT digests FROM bucket WHERE number = ?", (place // 16,)).fetchone()
        at = place % 16 * DIGEST_BYTES
        old = int.from_bytes(raw[at : at + DIGEST_BYTES], "big")
        new = old ^ int.from_bytes(digest, "big") ^ int.from_bytes(new_digest, "big")
        raw = raw[:at] + new.to_bytes(DIGEST_BYTES, "big") + raw[at + DIGEST_BYTES :]
        connection.execute("UPDATE content SET digest = ?, body = ? WHERE number = ?", (new_digest, new_body, number))
        connection.execute("UPDATE bucket SET digests = ? WHERE number = ?", (raw, place // 16))
        connection.commit()


def rot(path: Path) -> None:
    """One row's body is another one."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("UPDATE content SET body = zeroblob(40) WHERE number = 4")
        connection.commit()


def rot_entry(path: Path, index: int) -> None:
    """One bit of an entry's events."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("UPDATE entries SET time_us = time_us + 1 WHERE entry_index = ?", (index,))
        connection.commit()


def test_equal_nodes_say_so_and_exchange_little(tmp_path: Path) -> None:
    """256 digests of 32 bytes, whatever the size of the state, and nothing is repaired."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            node = made.nodes["n1"]
            found = await ran(node)
            assert [(peer.differing, peer.reason) for peer in found.peers] == [(0, ""), (0, "")]
            assert all(peer.index > FACTS for peer in found.peers)
            assert (found.repairs, found.findings, found.differences, found.doing) == ({}, 0, 0, "")
            assert (found.scrub.passes, found.scrub.done) == (1, found.scrub.total)
            proofs = made.nodes["n2"]._proofs  # pyright: ignore[reportPrivateUsage]
            indexes = tuple(range(LANDMARK_ENTRIES, (LANDMARKS_KEPT + 1) * LANDMARK_ENTRIES, LANDMARK_ENTRIES))
            asked = CompareRequest(proofs.made(CompareRequest.PURPOSE), (*indexes, node.status().applied_index))
            answer = node.compare(asked)
            assert len(answer.digests) == BUCKETS
            sizes = (repairs.compare_request_to_wire(asked).ByteSize(), repairs.snapshot_to_wire(answer).ByteSize())
            assert 0 < sum(sizes) * len(found.peers) < COMPARISON_BYTES_LIMIT
            assert node.compare(replace(asked, indexes=(1,))).digests == ()

    asyncio.run(play())


def test_members_with_other_vectors_are_named(tmp_path: Path) -> None:
    """Their rows are equal, their answers are not: the operator hears of it, once, and until it is put right."""

    async def play() -> None:
        async with cluster(tmp_path, embedder="local") as made:
            await made.leader()
            assert {peer.embedder for peer in (await ran(made.nodes["n1"])).peers} == {""}
            await made.stop("n2")
            (tmp_path / "n2" / "projection.db").unlink()
            made.embedder = "hash"
            await made.start("n2")
            await made.level()
            await ran(made.nodes["n1"])
            found = await ran(made.nodes["n1"])
            others = {peer.name: peer.embedder for peer in found.peers}
            assert others == {"n2": "hash-256 (256 components)", "n3": ""}
            assert [peer.differing for peer in found.peers] == [0, 0]
            said = [note.text for note in found.notes if "vectors are made by" in note.text]
            assert len(said) == 1 and "n2" in said[0] and "veridical reembed" in said[0]
            reply = repairs.standing_to_wire("n1", found, done=True)
            assert {peer.name: peer.embedder for peer in reply.peers} == others

    asyncio.run(play())


def test_members_that_count_the_receipts_of_another_runner_are_named(tmp_path: Path) -> None:
    """The leader decides alone which receipts count: the operator hears of it before another one leads."""

    async def play() -> None:
        async with cluster(tmp_path) as made:
            await made.leader()
            assert {peer.runner for peer in (await ran(made.nodes["n1"])).peers} == {""}
            await made.stop("n2")
            made.runner_key = "ab" * 32
            await made.start("n2")
            await made.level()
            await ran(made.nodes["n1"])
            found = await ran(made.nodes["n1"])
            assert {peer.name: peer.runner for peer in found.peers} == {"n2": "ab" * 32, "n3": ""}
            assert {peer.name: peer.runner for peer in (await ran(made.nodes["n2"])).peers} == {
                "n1": "nobody",
                "n3": "nobody",
            }
            said = [note.text for note in found.notes if "receipts of runner" in note.text]
            assert len(said) == 1 and "n2" in said[0] and "runner_key" in said[0]
            reply = repairs.standing_to_wire("n1", found, done=True)
            assert {peer.name: peer.runner for peer in reply.peers} == {"n2": "ab" * 32, "n3": ""}

    asyncio.run(play())


def test_a_forged_row_that_fits_its_digests_is_found_by_comparing(tmp_path: Path) -> None:
    """The node folds its own log again; the other one, which is asked at the same time, finds itself right."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            [bad, good, _] = [*made.followers(), await made.leader()]
            name = bad.status().name
            await made.stop(name)
            forge(tmp_path / name / "projection.db")
            await made.start(name)
            await made.level()
            bad = made.nodes[name]
            assert len({(await read(node, Verb.DIGEST)).value.digest for node in made.nodes.values()}) == 2
            seen = await ran(good)
            assert {peer.name: (peer.differing, peer.judged) for peer in seen.peers}[name] == (1, True)
            assert seen.repairs == {}
            found = await ran(bad)
            assert found.repairs == {"projection": 1}
            assert any("folded again from the log" in note.text for note in found.notes)
            assert len(await made.digests()) == 1
            again = await ran(bad)
            assert [peer.differing for peer in again.peers] == [0, 0]
            assert again.repairs == {"projection": 1}
            assert b'veridical_repairs_total{kind="projection"} 1.0' in bad.metrics.exposition()
            await write(await made.leader(), "after", "it goes on")
            assert len(await made.digests()) == 1

    asyncio.run(play())


@pytest.mark.parametrize("count", [1, 3])
def test_rot_in_rows_is_found_without_a_peer(tmp_path: Path, count: int) -> None:
    """Also by a node alone, and while it serves."""

    async def play() -> None:
        async with filled(tmp_path, count) as made:
            node = await made.leader()
            rot(tmp_path / node.status().name / "projection.db")
            found = await ran(node)
            assert found.findings >= 1
            assert found.repairs == {"projection": 1}
            assert (await ran(node)).findings == found.findings
            await made.leader()
            assert len(await made.digests()) == 1

    asyncio.run(play())


def test_a_damaged_entry_is_fetched_and_the_node_goes_on(tmp_path: Path) -> None:
    """At the start: from whoever has it, by the chain, without another start; the log has all of its entries."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            name = made.followers()[0].status().name
            await made.stop(name)
            for index in (4, 5, 9):
                rot_entry(tmp_path / name / "log.db", index)
            await made.start(name)
            await made.level()
            node = made.nodes[name]
            found = await standing(node)
            assert found.repairs == {"log": 2}
            assert any("entries 4 to 5 fetched from" in note.text for note in found.notes)
            assert len(await made.digests()) == 1
            await made.stop(name)
            with closing(LogStore.open(tmp_path / name / "log.db", read_only=True)) as log:
                assert log.check() == []
            await made.start(name)

    asyncio.run(play())


def test_a_damaged_node_takes_no_part_until_others_can_help(tmp_path: Path) -> None:
    """Without anybody who has the entry it answers nobody, and says what is missing and what would help."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            names = [node.status().name for node in made.followers()]
            await made.stop(*made.nodes)
            rot_entry(tmp_path / names[0] / "log.db", 6)
            await made.start(names[0])
            node = made.nodes[names[0]]
            await made.until(lambda: "cannot be had" in node.status().condition)
            condition = node.status().condition
            assert "log.db, entry 6" in condition
            assert "nobody is there" in condition
            assert "comes back as a new member" in condition
            assert not node.status().ready
            with pytest.raises(Unavailable):
                await read(node, Verb.COUNTS)
            await made.start(names[1])
            await made.leader()
            await made.level()
            assert node.status().condition == ""

    asyncio.run(play())


def test_rot_in_the_log_of_a_running_node_is_found_and_repaired(tmp_path: Path) -> None:
    """It lets go of its place, opens its files again, fetches, and takes its place; also where it led."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            node = await made.leader()
            name = node.status().name
            rot_entry(tmp_path / name / "log.db", 7)
            with pytest.raises(Unavailable, match="damaged"):
                await ran(node)
            await made.until(lambda: node.status().condition == "" and made.leaders())
            assert (await standing(node)).repairs == {"log": 1}
            await write(await made.leader(), "after", "it goes on")
            assert len(await made.digests()) == 1
            assert (await ran(node)).repairs == {"log": 1}

    asyncio.run(play())


@pytest.mark.parametrize("forged", ["unknown node", "another purpose", "another cluster", "old"])
def test_only_members_are_told(tmp_path: Path, forged: str) -> None:
    """Digests and entries go to those who prove a member's key. The control is an honest proof."""

    async def play() -> None:
        async with filled(tmp_path) as made:
            node, other = made.nodes["n1"], made.nodes["n2"]
            proofs = other._proofs  # pyright: ignore[reportPrivateUsage]
            honest = proofs.made(RefetchRequest.PURPOSE)
            entries, seals = await node.refetch(RefetchRequest(honest, 2, 4))
            assert ([entry.index for entry in entries], bool(seals)) == ([2, 3, 4], True)
            bad = {
                "unknown node": MemberProof("0" * 16, honest.cluster_id, honest.wall_us, honest.signature),
                "another purpose": proofs.made(CompareRequest.PURPOSE),
                "another cluster": MemberProof(honest.node_id, "0" * 32, honest.wall_us, honest.signature),
                "old": MemberProof(honest.node_id, honest.cluster_id, honest.wall_us - 10**9, honest.signature),
            }[forged]
            refused: list[VeridicalError] = []
            try:
                await node.refetch(RefetchRequest(bad, 2, 4))
            except VeridicalError as error:
                refused.append(error)
            assert [type(error) for error in refused] == [Refused]

    asyncio.run(play())
