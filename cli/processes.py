"""Node processes of a local cluster: started apart from this one, waited for, and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from ..memory.errors import Invalid, Unavailable
from ..node.system import Clock, SystemClock
from .local import LocalCluster, LocalNode
from .survey import Health, Survey, surveyed

HOST: Final = "127.0.0.1"
HTTP_OFFSET: Final = 100
"""The HTTP port of a node lies so far above its gRPC port."""

CONFIGURATION: Final = "node.toml"
PAUSE_S: Final = 0.05
SECOND_US: Final = 1_000_000
KILL_TIMEOUT_S: Final = 5.0
LINES_SHOWN: Final = 3
PATIENCE_US: Final = 10 * SECOND_US
"""For so long a damaged node may ask the others for what it lacks; they may only just be starting."""

DAMAGED: Final = "damaged"
"""How the condition of a node begins whose log does not hold what was written."""

MODULE: Final = "veridical.cli.main"
STEPPED_MODULE: Final = "veridical.cli.stepped"


def new_cluster(data: Path, name: str, count: int, base_port: int) -> LocalCluster:
    """A cluster of so many nodes, written down; base port 0: any free ones. Raises `Invalid` when a port is taken."""
    ports = free_ports(2 * count) if base_port == 0 else _numbered_ports(count, base_port)
    nodes = tuple(
        LocalNode(f"n{place + 1}", f"{HOST}:{grpc}", f"{HOST}:{http}", str(data / f"n{place + 1}"))
        for place, (grpc, http) in enumerate(zip(ports[:count], ports[count:], strict=True))
    )
    cluster = LocalCluster(data, name, nodes)
    for node in nodes:
        node.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (node.directory / CONFIGURATION).write_text(configuration(cluster, node))
    cluster.store()
    return cluster


def further_node(cluster: LocalCluster) -> LocalNode:
    """One more node of this cluster, at free ports, written down. Its configuration names all of them."""
    taken = {node.name for node in cluster.nodes}
    number = next(number for number in count(1) if _unclaimed(cluster, f"n{number}", taken))
    grpc, http = free_ports(2)
    node = LocalNode(f"n{number}", f"{HOST}:{grpc}", f"{HOST}:{http}", str(cluster.data / f"n{number}"))
    grown = replace(cluster, nodes=(*cluster.nodes, node))
    node.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (node.directory / CONFIGURATION).write_text(configuration(grown, node))
    grown.store()
    return node


def _unclaimed(cluster: LocalCluster, name: str, taken: Collection[str]) -> bool:
    """Whether no node has that name, and none that was removed has left its data there."""
    return name not in taken and not (cluster.data / name / "identity.json").exists()


def wait_until_answers(started: Started, timeout_s: float) -> None:
    """Wait until the node says who it is. Raises `Unavailable` when it ends, or time does."""
    deadline_us = SystemClock().elapsed_us() + round(timeout_s * SECOND_US)
    while not asyncio.run(surveyed([started.node.endpoint])).members:
        if started.died:
            raise Unavailable(f"{started.node.name} ended: {last_words(started.node)}", (started.node.endpoint,))
        if SystemClock().elapsed_us() >= deadline_us:
            raise Unavailable(f"{started.node.name} does not answer after {timeout_s:g} s", (started.node.endpoint,))
        time.sleep(PAUSE_S)


def _numbered_ports(count: int, base_port: int) -> list[int]:
    ports = [base_port + place for place in range(count)] + [base_port + HTTP_OFFSET + place for place in range(count)]
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise Invalid("base-port", f"port {taken[0]} is in use; choose another base port, or 0 for any free ones")
    return ports


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address at which nobody listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def is_free(port: int) -> bool:
    """Whether nobody listens at that port of the loopback address."""
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True


def configuration(cluster: LocalCluster, node: LocalNode, reached: Mapping[str, str] | None = None) -> str:
    """What a node is told; `reached` says where it finds the others by name, unless at their own endpoints."""
    reached = reached or {}
    peers = "".join(f'{peer.name} = "{reached.get(peer.name, peer.endpoint)}"\n' for peer in cluster.nodes)
    return (
        f'name = "{node.name}"\ncluster = "{cluster.cluster}"\nendpoint = "{node.endpoint}"\nhttp = "{node.http}"\n'
        f"\n[peers]\n{peers}"
    )


@dataclass(slots=True)
class Started:
    """A process of a node that this command started."""

    node: LocalNode
    process: subprocess.Popen[bytes]

    @property
    def died(self) -> bool:
        """Whether it has ended already."""
        return self.process.poll() is not None


def start(node: LocalNode, clock: Path | None = None) -> Started:
    """Start the node in a session of its own, its output appended to `node.log`; it outlives this process.

    With `clock` its wall clock is off by what that file says (`stepped`).
    """
    module = [MODULE] if clock is None else [STEPPED_MODULE, str(clock)]
    command = [sys.executable, "-P", "-m", *module, "node", "--config", str(node.directory / CONFIGURATION)]
    with node.output.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--data", node.data],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=node.directory,
        )
    return Started(node, process)


def wait_until_ready(
    cluster: LocalCluster, started: Sequence[Started], clock: Clock, timeout_s: float, says: Callable[[str], None]
) -> Survey:
    """Wait until every member is ready and one leads. Raises `Unavailable` when a node ends, or time does."""
    deadline_us = clock.elapsed_us() + round(timeout_s * SECOND_US)
    hopeless_since_us: int | None = None
    while True:
        survey = asyncio.run(surveyed(cluster.endpoints))
        if survey.health is Health.HEALTHY and len(survey.members) >= len(cluster.nodes):
            return survey
        for each in started:
            if each.died:
                raise Unavailable(f"{each.node.name} ended: {last_words(each.node)}", (each.node.endpoint,))
        hopeless = _hopeless(survey)
        if not hopeless:
            hopeless_since_us = None
        elif hopeless_since_us is None:
            hopeless_since_us = clock.elapsed_us()
        elif clock.elapsed_us() - hopeless_since_us > PATIENCE_US:
            raise Unavailable(hopeless)
        if clock.elapsed_us() >= deadline_us:
            raise Unavailable(f"not ready after {timeout_s:g} s: {survey.reason} (see {cluster.data}/n*/node.log)")
        says(survey.reason)
        time.sleep(PAUSE_S)


def _hopeless(survey: Survey) -> str:
    """What is damaged, once a leader is there and nothing else is waited for; empty while waiting may mend it."""
    unready = [member for member in survey.members if not member.ready]
    if survey.leader is None or not all(member.condition.startswith(DAMAGED) for member in unready):
        return ""
    return "; ".join(f"{member.name}: {member.condition}" for member in unready)


def last_words(node: LocalNode) -> str:
    """The last lines that the node's process printed."""
    try:
        lines = node.output.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    return " / ".join(line for line in lines[-LINES_SHOWN:] if line.strip()) or f"{node.output} says nothing"


def stop(nodes: Sequence[LocalNode], clock: Clock, timeout_s: float) -> list[LocalNode]:
    """SIGTERM for all that run, and SIGKILL for those that still do after the time-out; returns the latter."""
    asked = _signal(nodes, signal.SIGTERM)
    stubborn = _wait_until_gone(asked, clock, timeout_s)
    _signal(stubborn, signal.SIGKILL)
    if _wait_until_gone(stubborn, clock, KILL_TIMEOUT_S):
        raise Unavailable("processes that cannot be killed", tuple(node.endpoint for node in stubborn))
    return stubborn


def _signal(nodes: Sequence[LocalNode], number: signal.Signals) -> list[LocalNode]:
    reached: list[LocalNode] = []
    for node in nodes:
        pid = node.running_pid()
        if pid and _reached(pid, number):
            reached.append(replace(node, pid=pid))
    return reached


def _reached(pid: int, number: int) -> bool:
    """Send a signal (0: none); whether there is such a process, and it is more than a zombie that nobody reaps."""
    try:
        os.kill(pid, number)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return True  # a system without /proc has an init that reaps
    return state != "Z"


def _wait_until_gone(nodes: Sequence[LocalNode], clock: Clock, timeout_s: float) -> list[LocalNode]:
    deadline_us = clock.elapsed_us() + round(timeout_s * SECOND_US)
    while True:
        running = [node for node in nodes if node.running_pid() or _reached(node.pid, 0)]
        if not running or clock.elapsed_us() >= deadline_us:
            return running
        time.sleep(PAUSE_S)
