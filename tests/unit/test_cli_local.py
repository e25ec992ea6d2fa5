"""Local clusters: what is written down of them, and how a running node is told from a stale pid."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tomllib
from pathlib import Path

import pytest

from veridical.cli.local import LocalCluster, LocalNode, cluster_in, only_one
from veridical.cli.options import default_data
from veridical.cli.processes import is_free, last_words, new_cluster
from veridical.memory.errors import Invalid
from veridical.node.config import load


@pytest.fixture
def node(tmp_path: Path) -> LocalNode:
    directory = tmp_path / "n1"
    directory.mkdir()
    return LocalNode("n1", "127.0.0.1:7400", "127.0.0.1:7500", str(directory))


def test_a_node_runs_while_somebody_holds_its_directory(node: LocalNode) -> None:
    assert node.running_pid() == 0
    lock = os.open(node.directory / "lock", os.O_RDWR | os.O_CREAT)
    os.write(lock, b"4711\n")
    assert node.running_pid() == 0, "a pid in a file is nobody's without the lock"
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert node.running_pid() == 4711
    os.close(lock)
    assert node.running_pid() == 0


def test_a_node_has_an_id_once_it_has_made_one(node: LocalNode) -> None:
    assert node.known_id() == ""
    (node.directory / "identity.json").write_text(json.dumps({"node_id": "abc"}))
    assert node.refreshed().id == "abc"


def test_a_new_cluster_can_be_loaded_and_its_nodes_configured(tmp_path: Path) -> None:
    made = new_cluster(tmp_path, "veridical", 3, 0)
    assert LocalCluster.load(tmp_path) == made
    assert cluster_in(tmp_path).endpoints == made.endpoints
    assert len({*made.endpoints, *(node.http for node in made.nodes)}) == 6
    for node in made.nodes:
        config = load(node.directory / "node.toml", {"data": node.directory}, {})
        assert (config.name, config.endpoint, config.http) == (node.name, node.endpoint, node.http)
        assert list(config.peers.values()) == made.endpoints
        assert tomllib.loads((node.directory / "node.toml").read_text())["cluster"] == "veridical"


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        assert not is_free(port)
        with pytest.raises(Invalid, match=f"port {port} is in use"):
            new_cluster(tmp_path, "veridical", 1, port)
    assert is_free(port)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": 1}', '{"format": 9, "nodes": []}', '{"format": 1, "nodes": [1]}']
)
def test_a_file_that_describes_no_cluster_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(Invalid, match=r"cluster\.json"):
        LocalCluster.load(tmp_path)


def test_no_cluster_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="veridical up"):
        cluster_in(tmp_path)


def test_only_one_command_at_a_time_starts_or_stops_nodes(tmp_path: Path) -> None:
    with only_one(tmp_path):
        other = os.open(tmp_path / "up.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_the_last_words_of_a_node_are_the_end_of_its_output(node: LocalNode) -> None:
    assert last_words(node).endswith("says nothing")
    node.output.write_text("a\nb\nc\nd\n")
    assert last_words(node) == "b / c / d"


def test_the_default_directory_follows_variable_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERIDICAL_DATA", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/dana")
    assert default_data() == Path("/home/dana/.local/share/veridical")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert default_data() == Path("/home/dana/.local/share/veridical")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data() == Path("/data/veridical")
    monkeypatch.setenv("VERIDICAL_DATA", "/elsewhere")
    assert default_data() == Path("/elsewhere")
