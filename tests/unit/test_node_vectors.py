"""A service makes the vectors: once for the cluster, without anybody waiting for it, through the end of a leader."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedding_server import NAME, EmbeddingServer, embedding_server
from node_cluster import CLOCK, ENTROPY, SECOND_US, Cluster, cluster, enrolment, read, signed, write, write_command

from veridical.embedding.vectors import quantised
from veridical.log.identifier import uuid7
from veridical.memory import rules
from veridical.memory.commands import EMBED, EmbedBody, encode_body
from veridical.memory.errors import Refused
from veridical.memory.keys import make_key, record_id
from veridical.memory.trust_commands import ERASE, EraseBody
from veridical.node import vectoring
from veridical.node.ports import BareCommand, Verb
from veridical.node.runtime import Node
from veridical.replication.messages import ReadMode
from veridical.security.principal import Principal

PRINCIPAL = Principal(bytes([6]) * 32)
SIGN_IN = "the sign-in page times out"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """The service that the environment names."""
    with embedding_server() as server:
        yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No long pauses after a failure."""
    monkeypatch.setattr(vectoring, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(vectoring, "LONGEST_PAUSE_S", 0.02)


def rows(
    running: Cluster, name: str, sql: str = "SELECT hex(id), components FROM vector JOIN record USING (number)"
) -> list[Any]:
    """What the file of a node holds."""
    file = sqlite3.connect(running.data / name / "projection.db")
    try:
        return sorted(file.execute(sql).fetchall())
    finally:
        file.close()


def waiting(running: Cluster, name: str) -> int:
    """How many records of a node wait."""
    return rows(running, name, "SELECT count(*) FROM unembedded")[0][0]


async def embedded(running: Cluster, count: int) -> None:
    """Wait until every node has so many vectors, and nothing waits."""
    await running.until(
        lambda: all(len(rows(running, name)) == count and not waiting(running, name) for name in running.nodes)
    )


async def texts(node: Node, query: str, mode: ReadMode = ReadMode.STRONG) -> list[str]:
    """What a recall finds."""
    reply = await read(node, Verb.RECALL, mode, query=query)
    return [hit.record.text for hit in reply.value.hits]


def test_every_node_has_the_vectors_that_one_asked_for(tmp_path: Path, server: EmbeddingServer) -> None:
    """The service never says the same twice, and yet all have the same; each text was asked for once."""

    async def run() -> None:
        async with cluster(tmp_path, embedder="openai") as running:
            leader = await running.leader()
            for number in range(70):
                await write(leader, f"s{number}", f"text {number}")
            await write(leader, "portal", SIGN_IN)
            await embedded(running, 71)
            files = [rows(running, name) for name in running.nodes]
            assert files[0] == files[1] == files[2]
            assert set(server.asked.values()) == {1}
            assert len(await running.digests()) == 1
            for node in running.nodes.values():
                assert await texts(node, "login") == [SIGN_IN]
                reply = await read(node, Verb.RECALL, ReadMode.STRONG, query="login")
                assert list(reply.value.hits[0].lanes) == ["vectors"] and reply.value.notices == ()

    asyncio.run(run())


def test_the_next_leader_goes_on(tmp_path: Path, server: EmbeddingServer) -> None:
    """The one that asked ends before it is answered; the service is silent while writes and recalls go on."""
    server.gate.clear()

    async def run() -> None:
        async with cluster(tmp_path, embedder="openai") as running:
            leader = await running.leader()
            for number in range(10):
                await write(leader, f"s{number}", f"text {number}")
            await write(leader, "portal", SIGN_IN)
            reply = await read(leader, Verb.RECALL, ReadMode.STRONG, SECOND_US, query="sign-in")
            assert [hit.record.text for hit in reply.value.hits] == [SIGN_IN]
            assert "searched by words only" in reply.value.notices[0]
            name = leader.status().name
            await running.stop(name)
            await running.leader()
            assert waiting(running, next(iter(running.nodes))) == 11
            server.gate.set()
            await running.start(name)
            await embedded(running, 11)
            assert len({str(rows(running, name)) for name in running.nodes}) == 1
            assert await texts(running.nodes[name], "login") == [SIGN_IN]

    asyncio.run(run())


def test_a_service_that_is_down_is_nobodys_trouble(tmp_path: Path, server: EmbeddingServer) -> None:
    """Words find everything, with a notice that holds no key; when it is back, nothing was forgotten."""
    server.status = 503

    async def run() -> None:
        async with cluster(tmp_path, 1, embedder="openai") as running:
            node = await running.leader()
            await write(node, "portal", SIGN_IN)
            reply = await read(node, Verb.RECALL, query="sign-in")
            assert [hit.record.text for hit in reply.value.hits] == [SIGN_IN]
            (notice,) = reply.value.notices
            assert notice == "searched by words only: the service that makes vectors does not answer"
            asked = sum(server.asked.values())
            reply = await read(node, Verb.RECALL, query="another question")  # it is not asked again so soon
            assert reply.value.notices and server.asked["another question"] == 0, asked
            server.status = 200
            await embedded(running, 1)

    asyncio.run(run())


def test_a_text_that_is_refused_holds_up_no_other(tmp_path: Path, server: EmbeddingServer) -> None:
    """It waits, and is asked for again when all others have been."""
    server.refused = {"unspeakable"}

    async def run() -> None:
        async with cluster(tmp_path, 1, embedder="openai") as running:
            node = await running.leader()
            for number in range(5):
                await write(node, f"s{number}", f"text {number}" if number != 2 else "the unspeakable")
            await running.until(lambda: len(rows(running, "n1")) == 4)
            assert waiting(running, "n1") == 1
            assert await texts(node, "unspeakable") == ["the unspeakable"]
            await write(node, "s9", "text 9")
            await running.until(lambda: len(rows(running, "n1")) == 5)
            server.refused = set()
            await embedded(running, 6)

    asyncio.run(run())


def test_of_what_is_erased_no_file_holds_a_vector(tmp_path: Path, server: EmbeddingServer) -> None:
    """Not the index, nor the log and its journal, on any node; and a restart asks for nothing again."""

    async def run() -> None:
        async with cluster(tmp_path, embedder="openai") as running:
            leader = await running.leader()
            await write(leader, "portal", SIGN_IN)
            await write(leader, "gate", "opens at nine")
            await embedded(running, 2)
            id = record_id(make_key("portal", "says", "global"))
            (vector,) = [vector for found, vector in rows(running, "n1") if found == id.hex().upper()]
            assert all(holds(tmp_path / name, vector) for name in running.nodes)
            command = BareCommand(
                uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ERASE, encode_body(ERASE, EraseBody(id, "x"))
            )
            await leader.submit_anonymous([command], 5 * SECOND_US)
            await running.until(lambda: not any(holds(tmp_path / name, vector) for name in running.nodes))
            asked = sum(server.asked.values())
            await running.stop(*list(running.nodes))
            await running.start(*running.names)
            await running.leader()
            await embedded(running, 1)
            assert sum(server.asked.values()) == asked

    asyncio.run(run())


def test_what_is_erased_while_the_service_is_asked_gets_into_no_log(tmp_path: Path, server: EmbeddingServer) -> None:
    """Its vector says what it said, and comes too late; the others of the same answer are not asked for again."""
    text = f"portal says {SIGN_IN}"
    server.steady = {text}
    secret = quantised(server.vector(text))
    server.gate.clear()

    async def run() -> None:
        async with cluster(tmp_path, embedder="openai") as running:
            leader = await running.leader()
            commands = [
                write_command("portal", SIGN_IN),
                write_command("gate", "opens at nine"),
                write_command("a", "b"),
            ]
            await leader.submit_anonymous(commands, 5 * SECOND_US)
            await running.until(server.knocked.is_set)
            id = record_id(make_key("portal", "says", "global"))
            command = BareCommand(
                uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ERASE, encode_body(ERASE, EraseBody(id, "x"))
            )
            await leader.submit_anonymous([command], 5 * SECOND_US)
            server.gate.set()
            await embedded(running, 2)
            assert server.asked[text] == 1 and max(server.asked.values()) == 1
            assert not any(holds(tmp_path / name, secret) for name in running.nodes)

    asyncio.run(run())


def holds(data: Path, what: bytes) -> bool:
    """Whether any file of a node holds these bytes."""
    return any(what in path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_nobody_but_a_node_has_vectors_to_give(tmp_path: Path, server: EmbeddingServer) -> None:
    """Neither without a key, nor with every right there is; and in a guarded cluster the nodes still have."""

    async def run() -> None:
        async with cluster(tmp_path, 1, embedder="openai") as running:
            node = await running.leader()
            result = await write(node, "portal", SIGN_IN)
            record = result.records[0]
            assert record is not None
            await embedded(running, 1)
            before = rows(running, "n1")
            body = encode_body(EMBED, EmbedBody(record.id, record.value_digest, NAME, bytes([1]) * 256, result.epoch))
            (outcome,) = (await node.submit_anonymous([embedding(body)], SECOND_US)).outcomes
            assert outcome.rule == rules.NOT_GRANTED
            await node.submit_anonymous([enrolment(PRINCIPAL)], SECOND_US)
            submission = signed(PRINCIPAL, node.hello().cluster_id, [embedding(body), write_command("x", "y")])
            outcomes = (await node.submit(submission)).outcomes
            assert [outcome.rule for outcome in outcomes] == [rules.NOT_GRANTED, ""]
            await embedded(running, 2)
            assert set(before) < set(rows(running, "n1"))
            with pytest.raises(Refused):  # and strangers have nothing asked of the service
                await read(node, Verb.RECALL, query="who pays for this?")
            assert server.asked["who pays for this?"] == 0

    asyncio.run(run())


def embedding(body: bytes) -> BareCommand:
    """A command that gives a vector."""
    return BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), EMBED, body)
