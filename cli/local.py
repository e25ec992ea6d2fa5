"""A local cluster: which nodes were made in a data directory, and which of them run.

DIR/cluster.json   the cluster's name and, for each node, id, name, endpoint, HTTP endpoint, pid, data directory
DIR/n1, DIR/n2 …   a node's data directory each, with its configuration (`node.toml`) and what it printed (`node.log`)
DIR/up.lock        held while a command starts or stops nodes
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from ..memory.errors import Invalid

FORMAT: Final = 1
CLUSTER_FILE: Final = "cluster.json"
NODES_LIMIT: Final = 7
"""More members make every write slower and no fact safer."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node of a local cluster. `id` is empty until it has started once; `pid` is its process, or 0."""

    name: str
    endpoint: str
    http: str
    data: str
    id: str = ""
    pid: int = 0

    @property
    def directory(self) -> Path:
        """Its data directory."""
        return Path(self.data)

    @property
    def output(self) -> Path:
        """What its processes printed."""
        return self.directory / "node.log"

    def running_pid(self) -> int:
        """The process that holds the data directory, or 0. A pid in a file may be anybody's by now; a lock is not."""
        try:
            lock = os.open(self.directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int((os.pread(lock, 32, 0).split() or [b"0"])[0])
        finally:
            os.close(lock)
        return 0

    def known_id(self) -> str:
        """The id that the node made for itself, or empty before its first start."""
        try:
            identity = cast(dict[str, Any], json.loads((self.directory / "identity.json").read_text()))
        except FileNotFoundError:
            return ""
        return str(identity.get("node_id", ""))

    def refreshed(self) -> LocalNode:
        """The same node with the id and the process that it has now."""
        return replace(self, id=self.known_id(), pid=self.running_pid())


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """What `cluster.json` says."""

    data: Path
    cluster: str
    nodes: tuple[LocalNode, ...]

    @staticmethod
    def load(data: Path) -> LocalCluster | None:
        """The cluster made in `data`, or None. Raises `Invalid` when the file holds something else."""
        file = data / CLUSTER_FILE
        try:
            fields = cast(dict[str, Any], json.loads(file.read_text()))
            if fields["format"] != FORMAT:
                raise Invalid(str(file), f"has format {fields['format']}; this version reads format {FORMAT}")
            nodes = tuple(LocalNode(**node) for node in fields["nodes"])
            return LocalCluster(data, str(fields["cluster"]), nodes)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, Invalid):
                raise
            raise Invalid(str(file), f"is not the description of a local cluster: {error}") from error

    def store(self) -> None:
        """Write it down, atomically."""
        fields = {"format": FORMAT, "cluster": self.cluster, "nodes": [asdict(node) for node in self.nodes]}
        temporary = self.data / f"{CLUSTER_FILE}.new"
        temporary.write_text(json.dumps(fields, indent=2) + "\n")
        temporary.replace(self.data / CLUSTER_FILE)

    def refreshed(self) -> LocalCluster:
        """The same cluster with the ids and processes that its nodes have now."""
        return replace(self, nodes=tuple(node.refreshed() for node in self.nodes))

    @property
    def endpoints(self) -> list[str]:
        """Where its nodes answer."""
        return [node.endpoint for node in self.nodes]


def cluster_in(data: Path) -> LocalCluster:
    """The cluster made in `data`. Raises `Invalid` when there is none."""
    cluster = LocalCluster.load(data)
    if cluster is None:
        raise Invalid("data", f"no cluster in {data}: start one with `veridical up`, or name nodes with --endpoint")
    return cluster


@contextmanager
def only_one(data: Path) -> Generator[None]:
    """Wait until no other command starts or stops nodes in `data`, and keep it so."""
    lock = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
