"""Real node processes on loopback, for tests that need them: started, asked, signalled, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from veridical.client import ConnectedMemory
from veridical.memory.errors import Unavailable
from veridical.memory.view import MemoryRecord
from veridical.proto.generated import admin_pb2

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 15.0

Result = TypeVar("Result")


class NodeProcess:
    """One node: its files, its ports, and the process while there is one."""

    def __init__(
        self, data: Path, name: str, endpoint: str, http: str, peers: dict[str, str], more: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.http = http
        self._data = data
        self._arguments = ["--name", name, "--cluster", "test", "--data", str(data / name), "--http", http]
        self._arguments += ["--endpoint", endpoint, *(f"--peer={peer}={at}" for peer, at in peers.items())]
        self._arguments += more
        self._output = data / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns at once."""
        (self._data / self.name).mkdir(parents=True, exist_ok=True)
        code = "import sys; from veridical.node.main import main; sys.exit(main())"
        with self._output.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, *self._arguments], stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def ended(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self._process is not None
        return self._process.wait(END_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self.ended()

    def log(self) -> str:
        """What it wrote."""
        return self._output.read_text()

    def twin(self, endpoint: str) -> NodeProcess:
        """Another process that is told to use the same files, at an endpoint of its own."""
        twin = NodeProcess(self._data, self.name, endpoint, "127.0.0.1:0", {self.name: endpoint})
        twin._output = self._data / f"{self.name}-twin.log"
        return twin


class ProcessCluster:
    """Nodes n1 to n3, and a memory that is connected to all of them."""

    def __init__(self, data: Path, count: int) -> None:
        ports = free_ports(2 * count)
        names = [f"n{number}" for number in range(1, count + 1)]
        self.peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports[:count], strict=True)}
        self.nodes = {
            name: NodeProcess(data, name, self.peers[name], f"127.0.0.1:{port}", self.peers)
            for name, port in zip(names, ports[count:], strict=True)
        }

    @property
    def endpoints(self) -> list[str]:
        """Where all nodes are."""
        return list(self.peers.values())

    def statuses(self) -> dict[str, admin_pb2.StatusReply]:
        """What the nodes that answer say, by name."""
        with ConnectedMemory(self.endpoints, timeout_s=3) as memory:
            try:
                return {status.name: status for status in memory.status().values()}
            except Unavailable:
                return {}

    def leader(self) -> NodeProcess:
        """Who leads and serves, waited for."""

        def leading() -> str | None:
            return next((name for name, status in self.statuses().items() if status.serves), None)

        return self.nodes[eventually(leading)]

    def follower(self) -> NodeProcess:
        """One that does not lead."""
        leader = self.leader()
        return next(node for node in self.nodes.values() if node is not leader)


@contextmanager
def process_cluster(data: Path, count: int = 3) -> Generator[ProcessCluster]:
    """A cluster that serves; its processes are gone afterwards."""
    cluster = ProcessCluster(data, count)
    try:
        for node in cluster.nodes.values():
            node.start()
        eventually(lambda: sum(status.ready for status in cluster.statuses().values()) == count or None)
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.kill()


def eventually(condition: Callable[[], Result | None], timeout_s: float = START_TIMEOUT_S) -> Result:
    """The first value of `condition` that is not None, within the time."""
    deadline = time.monotonic() + timeout_s
    while (value := condition()) is None:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at just now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def black_hole() -> Generator[str]:
    """An endpoint that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def fact(subject: str, text: str = "a value", scope: str = "test") -> MemoryRecord:
    """A record to write."""
    return MemoryRecord(subject=subject, predicate="is", text=text, scope=scope)


def took(call: Callable[[], object]) -> tuple[float, BaseException | object]:
    """How long it took, and what it returned or raised."""
    begun = time.monotonic()
    try:
        result: BaseException | object = call()
    except Exception as error:  # noqa: BLE001 - the caller looks at it
        result = error
    return time.monotonic() - begun, result
