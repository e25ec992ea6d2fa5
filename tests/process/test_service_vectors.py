"""Real nodes with vectors of a service: whoever asked it is killed, and all that is left answer alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from embedding_server import EmbeddingServer, embedding_server
from grpc_cluster import eventually, fact, process_cluster

from veridical.client import ConnectedMemory

pytestmark = pytest.mark.process
FACTS = 150
QUESTIONS = ("log on", "colour 7", "which page times out?", "what is the colour of the sky")


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """The service that the nodes inherit from the environment."""
    with embedding_server() as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("VERIDICAL_NODE_EMBEDDER", "openai")
        yield server


def answers(endpoint: str) -> list[list[tuple[str, str]]]:
    """What one node says itself to some questions."""
    with ConnectedMemory([endpoint], read_consistency="local", timeout_s=15) as memory:
        return [[(hit.id, hit.text) for hit in memory.recall(question, k=10)] for question in QUESTIONS]


def test_a_leader_is_killed_while_the_service_is_asked(tmp_path: Path, server: EmbeddingServer) -> None:
    """Nothing that was written is lost, all of it gets its vector, and every node ranks alike."""
    server.gate.clear()
    server.steady = set(QUESTIONS)
    with process_cluster(tmp_path) as cluster:
        with ConnectedMemory(cluster.endpoints, read_consistency="strong", timeout_s=15) as memory:
            for number in range(FACTS):
                memory.write(fact(f"s{number}", f"colour {number}"))
            memory.write(fact("portal", "the sign-in page times out"))
            assert [hit.text for hit in memory.recall("sign-in")] == ["the sign-in page times out"]
            killed = cluster.leader()
            killed.kill()
            server.gate.set()
            memory.write(fact("door", "opens at nine"))
            found = eventually(lambda: [hit.text for hit in memory.recall("login")] or None)
            assert found == ["the sign-in page times out"]
        killed.start()

        def alike() -> bool | None:
            said = [answers(endpoint) for endpoint in cluster.endpoints]
            return True if said[0] == said[1] == said[2] and all(said[0]) else None

        assert eventually(alike)
