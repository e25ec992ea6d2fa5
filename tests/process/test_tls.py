"""A cluster that speaks TLS: who may be a peer, who may ask, and certificates replaced under load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc_cluster import END_TIMEOUT_S, NodeProcess, eventually, free_ports

from veridical.client import ConnectedMemory
from veridical.client.environment import tls_credentials
from veridical.memory.errors import Unavailable
from veridical.memory.view import MemoryRecord

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

NAMES = ("n1", "n2", "n3")


class TlsCluster:
    """Three nodes with certificates of an authority that `veridical certs` made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca"
        self.certs("init", str(self.authority))
        ports = free_ports(6)
        self.peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=False)}
        for name in (*NAMES, "alice"):
            self.issue(name)
        self.nodes = {name: self.node(name, ports[3 + place]) for place, name in enumerate(NAMES)}

    def node(self, name: str, http_port: int) -> NodeProcess:
        """A node that is told where its files lie."""
        files = self.folder / name / "tls"
        config = self.folder / f"{name}.toml"
        config.write_text(
            f'[tls]\ncertificate = "{files / name}.pem"\nkey = "{files / name}-key.pem"\n'
            f'authority = "{files / "ca.pem"}"\n'
        )
        more = ("--config", str(config))
        return NodeProcess(self.folder, name, self.peers[name], f"127.0.0.1:{http_port}", self.peers, more)

    def issue(self, name: str) -> None:
        """Give it a certificate, in the place of an earlier one."""
        place = str(self.folder / name / "tls")
        kind = ["--client"] if name == "alice" else ["--host", "127.0.0.1"]
        self.certs("issue", name, "--authority", str(self.authority), "--out", place, *kind)

    def trust(self) -> None:
        """Give everybody the authorities that are trusted now."""
        for name in (*NAMES, "alice"):
            (self.folder / name / "tls" / "ca.pem").write_bytes((self.authority / "ca.pem").read_bytes())

    def certs(self, *arguments: str) -> None:
        """`veridical certs …`"""
        subprocess.run([*VERIDICAL, "certs", *arguments], check=True, capture_output=True, timeout=60)

    def memory(self, name: str = "alice", **options: Any) -> ConnectedMemory:
        """The cluster as the holder of that certificate sees it."""
        files = self.folder / name / "tls"
        credentials = tls_credentials(files / "ca.pem", files / f"{name}.pem", files / f"{name}-key.pem")
        return ConnectedMemory(list(self.peers.values()), credentials=credentials, **options)


VERIDICAL = (sys.executable, "-P", "-c", "import sys; from veridical.cli.main import main; sys.exit(main())")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    """It serves; its processes are gone afterwards."""
    cluster = TlsCluster(tmp_path)
    try:
        for node in cluster.nodes.values():
            node.start()
        with cluster.memory(timeout_s=20) as memory:
            eventually(lambda: sum(status.ready for status in memory.status().values()) == len(NAMES) or None)
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.kill()


def test_a_cluster_speaks_tls_and_its_certificates_are_replaced_under_load(cluster: TlsCluster) -> None:
    """Nothing is lost, and nobody without a certificate of the authority is answered."""
    written: list[str] = []

    def write(number: int) -> None:
        with cluster.memory(timeout_s=20) as memory:
            written.append(memory.write(MemoryRecord(text=f"fact {number}", scope="tls")).id)

    write(0)
    with ConnectedMemory(list(cluster.peers.values()), timeout_s=2) as plain, pytest.raises(Unavailable):
        plain.write(MemoryRecord(text="in clear text"))
    cluster.certs("rotate", "--authority", str(cluster.authority))
    cluster.trust()
    write(1)
    for place, name in enumerate((*NAMES, "alice")):
        cluster.issue(name)
        write(2 + place)
    cluster.certs("rotate", "--authority", str(cluster.authority), "--finish")
    cluster.trust()
    write(6)
    restarted = cluster.nodes["n2"]
    restarted.kill()
    write(7)
    restarted.start()
    with cluster.memory(timeout_s=20, read_consistency="strong") as memory:
        eventually(lambda: sum(status.ready for status in memory.status().values()) == len(NAMES) or None)
        assert {record.id for record in memory.all(scope="tls")} == set(written)


def test_a_client_is_no_peer_and_a_node_no_other(cluster: TlsCluster) -> None:
    """A certificate of the authority does not make a member: a node that runs with another one's stays outside."""
    cluster.nodes["n3"].kill()
    for wrong in ("alice", "n2"):
        files, place = cluster.folder / wrong / "tls", cluster.folder / "n3" / "tls"
        for ending in (".pem", "-key.pem"):
            (place / f"n3{ending}").write_bytes((files / f"{wrong}{ending}").read_bytes())
        cluster.nodes["n3"].start()
        refused = f"the certificate is of {'no node' if wrong == 'alice' else wrong}"
        logs = (cluster.nodes["n1"], cluster.nodes["n2"])
        eventually(lambda refused=refused, logs=logs: any(refused in node.log() for node in logs) or None)
        cluster.nodes["n3"].kill()
    cluster.issue("n3")
    cluster.nodes["n3"].start()
    with cluster.memory(timeout_s=20) as memory:
        eventually(lambda: sum(status.ready for status in memory.status().values()) == len(NAMES) or None)


def test_the_command_line_speaks_tls_by_its_environment(cluster: TlsCluster) -> None:
    """Three variables name the files, for every verb that asks a node."""
    files = cluster.folder / "alice" / "tls"
    environment = {
        "VERIDICAL_TLS_AUTHORITY": str(files / "ca.pem"),
        "VERIDICAL_TLS_CERTIFICATE": str(files / "alice.pem"),
        "VERIDICAL_TLS_KEY": str(files / "alice-key.pem"),
        "VERIDICAL_ENDPOINTS": ",".join(cluster.peers.values()),
        "PYTHONPATH": ":".join(filter(None, sys.path)),
    }
    backup, export = str(cluster.folder / "now.vlog"), str(cluster.folder / "now.export")
    node = ("--endpoint", next(iter(cluster.peers.values())))
    for verb in (
        ("status",), ("remember", "said over TLS"), ("recall", "TLS"), ("antientropy", "status"), ("member", "list"),
        ("watch", "--from", "beginning", "--no-follow"), ("backup", "create", "--to", backup, *node),
        ("audit", "export", "--out", export, *node), ("audit", "verify", *node), ("lattice", "show"),
    ):  # fmt: skip
        done = subprocess.run(
            [*VERIDICAL, *verb, "--json"], env=environment, capture_output=True, text=True, timeout=2 * END_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
