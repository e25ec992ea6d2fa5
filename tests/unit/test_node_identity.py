"""The data directory: identity, keys, and the lock."""

import json
import os
import stat
from pathlib import Path

import pytest

from veridical.node.identity import DataDirectory, DirectoryInUse, StartRefused
from veridical.testing.seams import SeededEntropy


def opened(path: Path, name: str = "n1", cluster: str = "test", seed: int = 0) -> DataDirectory:
    return DataDirectory.open(path, name, cluster, SeededEntropy(seed))


def test_identity_and_keys_survive_a_restart(tmp_path: Path) -> None:
    """The same directory is the same node."""
    first = opened(tmp_path)
    first.join_cluster("c" * 32)
    first.store_digest_secret(bytes(range(32)))
    first.close()
    second = opened(tmp_path, seed=1)
    assert second.identity == first.identity
    assert second.key.public_key == first.key.public_key
    assert second.founding_share == first.founding_share
    assert second.digest_secret == bytes(range(32))
    second.close()


def test_keys_are_private(tmp_path: Path) -> None:
    """Nobody but the owner may read a key."""
    directory = opened(tmp_path)
    directory.join_cluster("c" * 32)
    directory.store_digest_secret(bytes(32))
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("node.key", "digest.key")}
    assert modes == {"node.key": 0o600, "digest.key": 0o600}
    directory.close()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """Two processes on one data directory: the second does not start, and is told who has it."""
    first = opened(tmp_path)
    with pytest.raises(DirectoryInUse, match=str(os.getpid())):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


@pytest.mark.parametrize(("name", "cluster"), [("n2", "test"), ("n1", "other")])
def test_another_node_does_not_take_the_directory(tmp_path: Path, name: str, cluster: str) -> None:
    """A directory belongs to one name in one cluster."""
    opened(tmp_path).close()
    with pytest.raises(StartRefused, match="is the directory of node n1 of test"):
        opened(tmp_path, name, cluster)


def test_a_lost_key_is_not_replaced(tmp_path: Path) -> None:
    """Without its key a node is not that node; it does not quietly become another."""
    opened(tmp_path).close()
    (tmp_path / "node.key").unlink()
    with pytest.raises(StartRefused, match=r"node\.key is missing"):
        opened(tmp_path)


def test_a_lost_identity_beside_a_log_is_not_replaced(tmp_path: Path) -> None:
    """A log without an identity must not be taken over under a new id."""
    (tmp_path / "log.db").touch()
    with pytest.raises(StartRefused, match="restore it"):
        opened(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"node_id": 1}', "[]"])
def test_an_unreadable_identity_is_named(tmp_path: Path, content: str) -> None:
    """Whatever stands in identity.json, the error names the file."""
    (tmp_path / "identity.json").write_text(content)
    with pytest.raises(StartRefused, match=r"identity\.json cannot be read"):
        opened(tmp_path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    """A directory of a format that this version does not know is left alone."""
    opened(tmp_path).close()
    identity = json.loads((tmp_path / "identity.json").read_text())
    (tmp_path / "identity.json").write_text(json.dumps({**identity, "format": 99}))
    with pytest.raises(StartRefused, match="format 99"):
        opened(tmp_path)


def test_the_digest_key_of_another_cluster_does_not_count(tmp_path: Path) -> None:
    """A node that was part of a founding that did not win asks for the key of the one that did."""
    directory = opened(tmp_path)
    directory.join_cluster("a" * 32)
    directory.store_digest_secret(bytes(32))
    directory.join_cluster("b" * 32)
    assert directory.digest_secret is None
    directory.store_digest_secret(bytes([1]) * 32)
    assert directory.digest_secret == bytes([1]) * 32
    directory.close()


def test_a_directory_in_memory_leaves_no_trace() -> None:
    """For a memory that ends with its process."""
    directory = DataDirectory.in_memory("n1", "test", SeededEntropy(3))
    directory.join_cluster("c" * 32)
    directory.store_digest_secret(bytes(32))
    assert (directory.log_path, directory.projection_path) == (":memory:", ":memory:")
    assert directory.digest_secret == bytes(32)
    directory.close()
