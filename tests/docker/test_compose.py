"""The deployment as `compose/` ships it: real containers, killed, restarted and robbed of their volumes under load."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest

from veridical.client import AsyncReplicatedMemory
from veridical.client.environment import tls_credentials
from veridical.drills.load import Writers, missing
from veridical.memory import MemoryRecord, ReplicatedMemory
from veridical.memory.errors import Unavailable

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

FOLDER = Path(__file__).parents[2] / "compose"
FILES = ("--file", str(FOLDER / "compose.yaml"), "--file", str(FOLDER / "compose.five.yaml"))
NODES = ("n1", "n2", "n3")
READY_LIMIT_S = 30.0
LAYERS_LIMIT_BYTES = 220_000_000
MEMORY_LIMIT_BYTES = 120 << 20
ROUNDS = 5
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Compose:
    """One project of its own, on free ports; its client's certificate lies in `tls`."""

    def __init__(self, tls: Path) -> None:
        self.tls = tls
        self.project = f"veridical-test-{os.getpid()}"
        self.image = os.environ.get("VERIDICAL_IMAGE", "veridical:local")
        self.ports: dict[str, int] = dict(zip(NODES, _free_ports(len(NODES)), strict=True))

    @property
    def endpoints(self) -> list[str]:
        """Where a client outside reaches the nodes."""
        return [f"127.0.0.1:{port}" for port in self.ports.values()]

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        """Those of the client."""
        return tls_credentials(self.tls / "ca.pem", self.tls / "client.pem", self.tls / "client-key.pem")

    def container(self, service: str) -> str:
        """The name of a node's container."""
        return f"{self.project}-{service}-1"

    def __call__(self, *arguments: str, text: bool = True) -> Any:
        """What `docker compose` prints. Raises where it fails."""
        ports = {f"{name.upper()}_PORT": str(port) for name, port in self.ports.items()}
        return _ran(
            "docker", "compose", "--project-name", self.project, *FILES, *arguments,
            environment={"VERIDICAL_IMAGE": self.image} | ports, text=text,
        )  # fmt: skip

    def up(self, *nodes: str) -> None:
        """Start nodes, all three without a word, and wait until they are healthy."""
        self("up", "--detach", "--wait", *(nodes or NODES))

    def client(self, *arguments: str) -> str:
        """What the command line says, run inside the network."""
        return self("run", "--rm", "--no-TTY", "client", *arguments)

    def members(self) -> dict[str, dict[str, Any]]:
        """All configured members by name, once every node is ready and one of them leads."""
        deadline = time.monotonic() + 60
        while True:
            try:
                members = {each["name"]: each for each in json.loads(self.client("status", "--json"))["members"]}
            except subprocess.CalledProcessError:
                members = {}
            roles = sorted(each["role"] for each in members.values())
            if roles == ["follower", "follower", "leader"]:
                return members
            assert time.monotonic() < deadline, members
            time.sleep(0.5)

    def leader(self) -> str:
        """The name of the node that leads."""
        return next(name for name, member in self.members().items() if member["role"] == "leader")


def _ran(*arguments: str, environment: Mapping[str, str] | None = None, text: bool = True) -> Any:
    try:
        done = subprocess.run(
            arguments, check=True, capture_output=True, text=text, env=os.environ | dict(environment or {})
        )
    except subprocess.CalledProcessError as error:
        print(error.stdout, error.stderr)
        raise
    return done.stdout


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The cluster, healthy; removed with its volumes at the end."""
    project = Compose(tmp_path_factory.mktemp("tls"))
    try:
        began = time.monotonic()
        project.up()
        assert time.monotonic() - began < READY_LIMIT_S
        files = project(
            "run", "--rm", "--no-deps", "--no-TTY", "--entrypoint", "tar", "client", "-C", "/tls", "-c", ".", text=False
        )
        subprocess.run(["tar", "-C", str(project.tls), "-x"], input=files, check=True)
        yield project
    finally:
        project("--profile", "client", "down", "--volumes", "--timeout", "5")


def test_clients_inside_and_outside_share_one_memory(compose: Compose) -> None:
    """Both with TLS, through any node; without a certificate nobody gets in."""
    compose.client("remember", "Ada", "home", "lives in Lisbon")
    with ReplicatedMemory.connect(compose.endpoints, timeout_s=10, credentials=compose.credentials) as memory:
        assert [hit.text for hit in memory.recall("Ada Lisbon")] == ["lives in Lisbon"]
    for name, port in compose.ports.items():
        with ReplicatedMemory.connect([f"localhost:{port}"], timeout_s=10, credentials=compose.credentials) as memory:
            assert memory.write(MemoryRecord(subject=name, predicate="is", text="reached")).epoch
    assert "reached" in compose.client("recall", "n2 reached")
    for wrong in (None, tls_credentials(compose.tls / "ca.pem")):
        with pytest.raises(Unavailable):
            ReplicatedMemory.connect(compose.endpoints, timeout_s=2, credentials=wrong)


def test_a_killed_leader_costs_nothing_that_was_acknowledged(compose: Compose) -> None:
    """Its container dies under the load of eight writers; the others go on, and it comes back."""
    leader = compose.leader()

    async def play() -> None:
        async with Writers(compose.endpoints, prefix="kill", credentials=compose.credentials) as writers:
            await writers.acknowledge(200, timeout_s=60)
            killed = asyncio.get_running_loop().time()
            await asyncio.to_thread(_ran, "docker", "kill", "--signal", "KILL", compose.container(leader))
            await writers.acknowledge(200, timeout_s=60)
            assert writers.account.first_after(killed) < 10
        for consistency in ("strong", "quorum"):
            assert await missing(compose.endpoints, writers.account, consistency, compose.credentials) == []
        assert writers.account.overdue_s == []

    asyncio.run(play())
    compose.up()
    assert compose.members()[leader]["role"] in ("follower", "leader")


def test_any_restart_forms_the_same_cluster(compose: Compose) -> None:
    """Random subsets in random orders: who is who stays, whatever the addresses are."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choices = random.Random(seed)
    before = {name: member["id"] for name, member in compose.members().items()}
    with ReplicatedMemory.connect(compose.endpoints, timeout_s=30, credentials=compose.credentials) as memory:
        for number in range(ROUNDS):
            some = choices.sample(NODES, choices.randint(1, len(NODES)))
            compose("restart", "--timeout", "10", *some)
            assert memory.write(MemoryRecord(subject="round", predicate="is", text=f"number {number}")).epoch
    compose.up()
    assert {name: member["id"] for name, member in compose.members().items()} == before


def test_a_lost_volume_comes_back_as_a_new_member(compose: Compose) -> None:
    """By itself, under its old name, with all that was acknowledged."""
    before = compose.members()
    lost = next(name for name, member in before.items() if member["role"] == "follower")
    compose("rm", "--stop", "--force", lost)
    _ran("docker", "volume", "rm", f"{compose.project}_{lost}-data")
    compose.up(lost)
    deadline = time.monotonic() + 60
    while (after := compose.members())[lost]["id"] == before[lost]["id"]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert {name for name in NODES if after[name]["id"] != before[name]["id"]} == {lost}

    async def read() -> list[str]:
        endpoint = [f"127.0.0.1:{compose.ports[lost]}"]
        async with AsyncReplicatedMemory(
            endpoint, read_consistency="quorum", timeout_s=20, credentials=compose.credentials
        ) as memory:
            return [hit.text for hit in await memory.recall("Ada Lisbon")]

    assert asyncio.run(read()) == ["lives in Lisbon"]


def test_every_node_is_replaced_under_load(compose: Compose) -> None:
    """One after the other, as for a new image: what was acknowledged stays, and no call hangs."""

    async def play() -> None:
        async with Writers(compose.endpoints, prefix="upgrade", credentials=compose.credentials) as writers:
            for name in NODES:
                await writers.acknowledge(50, timeout_s=60)
                await asyncio.to_thread(compose, "up", "--detach", "--wait", "--no-deps", "--force-recreate", name)
            await writers.acknowledge(50, timeout_s=60)
        assert await missing(compose.endpoints, writers.account, "quorum", compose.credentials) == []
        assert writers.account.overdue_s == []

    asyncio.run(play())


def test_a_fourth_node_joins_and_certificates_are_rotated(compose: Compose) -> None:
    """Both as README.md says, while the cluster answers; then a backup that verifies, and three nodes again."""
    compose.up(*NODES, "n4")
    assert "n4" in compose.client("member", "add", "n4:7400")
    for step in ("rotate", "renew", "finish"):
        compose("run", "--rm", "--no-TTY", "--env", f"STEP={step}", "certificates", *NODES, "n4")
        assert "Ada" in compose.client("remember", "Ada", "step", f"says {step}")
    compose("restart", "--timeout", "10", "n1", "n2", "n3", "n4")
    compose.up(*NODES, "n4")
    assert "says finish" in compose.client("recall", "Ada step", "--read", "quorum")
    compose.client("backup", "create", "--to", "/backups/now.vlog", "--endpoint", "n4:7400")
    compose.client("backup", "verify", "/backups/now.vlog")
    compose.client("member", "remove", "n4")
    assert set(compose.members()) == set(NODES)


def test_containers_hold_little_and_may_do_little(compose: Compose) -> None:
    """Not root, nothing writable but the data; small, and with little at rest."""
    for name in NODES:
        assert compose("exec", "--no-TTY", name, "id", "-u").strip() == "10001"
        with pytest.raises(subprocess.CalledProcessError):
            compose("exec", "--no-TTY", name, "touch", "/opt/veridical/changed")
        used = _ran("docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", compose.container(name)).split()[0]
        [(number, unit)] = re.findall(r"^([\d.]+)([KMG]iB)$", used)
        assert 10 << 20 < float(number) * UNITS[unit] < MEMORY_LIMIT_BYTES, (name, used)
    base = os.environ.get("BASE_IMAGE", "python:3.12-slim")
    sizes = [int(_ran("docker", "image", "inspect", "--format", "{{.Size}}", image)) for image in (compose.image, base)]
    assert sizes[0] - sizes[1] < LAYERS_LIMIT_BYTES
    tools = _ran(
        "docker",
        "run",
        "--rm",
        "--entrypoint",
        "sh",
        compose.image,
        "-c",
        "ls /opt/veridical/bin; command -v gcc cc make || true",
    )
    assert not {"pip", "gcc", "cc", "make"} & set(tools.split())


def test_no_secret_leaves_its_place(compose: Compose) -> None:
    """Keys are in no layer of the image, in no environment, in no log; a node sees its own alone."""
    keys = _ran(
        "docker",
        "run",
        "--rm",
        "--entrypoint",
        "sh",
        compose.image,
        "-c",
        "find / -xdev -name '*-key.pem' 2>/dev/null || true",
    )
    assert keys == ""
    secrets = [compose("exec", "--no-TTY", name, "cat", "/tls/node-key.pem") for name in NODES]
    secrets.append((compose.tls / "client-key.pem").read_text())
    assert all("PRIVATE KEY" in secret for secret in secrets) and len(set(secrets)) == len(secrets)
    said = compose("logs", "--no-color") + "".join(
        _ran("docker", "inspect", compose.container(name)) for name in (*NODES, "certificates")
    )
    assert len(said) > 1000
    for secret in secrets:
        assert secret.splitlines()[1] not in said
    for name in NODES:
        names = set(compose("exec", "--no-TTY", name, "ls", "/tls").split())
        assert names == {"ca.pem", "node.pem", "node-key.pem", f"{name}.pem", f"{name}-key.pem"}
