"""The claim on leading, kept in a real etcd: the contract of all lease sources, and what happens when etcd is away."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from contract_of_leases import TTL_US, ContractOfLeases

from veridical.lease.etcd import EtcdLeaseStore
from veridical.lease.sources import LeaseStoreDown

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

HOST = "127.0.0.1"
ATTEMPTS = 500
PAUSE_S = 0.02
UNAVAILABLE = 23


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((HOST, 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Etcd:
    """One etcd of its own, with its data in a folder; it can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client, self._peer = free_ports(2)
        self.url = f"http://{HOST}:{self._client}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        peer = f"http://{HOST}:{self._peer}"
        self._process = subprocess.Popen(
            ["etcd", "--data-dir", str(self._folder), "--listen-client-urls", self.url, "--advertise-client-urls",
             self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
             f"default={peer}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(ATTEMPTS):
            try:
                EtcdLeaseStore([self.url], timeout_s=2).acquire("is it there", "the test", 1, 0)
            except LeaseStoreDown:
                time.sleep(PAUSE_S)
            else:
                return
        raise AssertionError("etcd does not answer")

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A running etcd."""
    if shutil.which("etcd") is None:
        missing = "etcd is not installed (on Debian: apt-get install etcd-server)"
        assert "CI" not in os.environ, missing
        pytest.skip(missing)
    made = Etcd(tmp_path_factory.mktemp("etcd") / "data")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def source(etcd: Etcd, request: pytest.FixtureRequest) -> EtcdLeaseStore:
    """A store with keys of the test's own."""
    return EtcdLeaseStore([etcd.url], timeout_s=5, prefix=f"/{request.node.name}/")


class TestEtcdLease(ContractOfLeases):
    """The contract."""


def test_a_claim_runs_out_for_others_once_they_have_seen_it_unchanged_for_its_time(etcd: Etcd) -> None:
    """Each member counts on its own clock; a renewal begins the count anew, and of two who try at once one gets it."""
    first, second, third = (EtcdLeaseStore([etcd.url], timeout_s=5, prefix="/members/") for _ in range(3))
    assert first.acquire("brain", "A", TTL_US, 0)
    assert second.acquire("brain", "B", TTL_US, 77_000_000) is None
    assert second.acquire("brain", "B", TTL_US, 77_000_000 + TTL_US - 1) is None
    assert first.acquire("brain", "A", TTL_US, 400_000)
    assert second.acquire("brain", "B", TTL_US, 77_000_000 + TTL_US) is None, "it was renewed meanwhile"
    assert third.acquire("brain", "C", TTL_US, 5) is None
    taken = second.acquire("brain", "B", TTL_US, 77_000_000 + 2 * TTL_US)
    assert taken and taken.token == 2
    assert third.acquire("brain", "C", TTL_US, 5 + TTL_US) is None, "somebody was faster"
    assert first.acquire("brain", "A", TTL_US, 500_000) is None


def test_an_etcd_that_is_away_is_a_typed_error_and_one_that_is_back_goes_on(etcd: Etcd) -> None:
    """The error names the endpoints; the claim and its token are where they were; another endpoint may answer."""
    source = EtcdLeaseStore(["http://127.0.0.1:1", etcd.url], timeout_s=5, prefix="/away/")
    held = source.acquire("brain", "A", TTL_US, 0)
    etcd.stop()
    with pytest.raises(LeaseStoreDown, match=etcd.url.removeprefix("http://")):
        source.acquire("brain", "A", TTL_US, 1)
    with pytest.raises(LeaseStoreDown):
        source.release("brain", "A")
    etcd.start()
    again = source.acquire("brain", "A", TTL_US, 2)
    assert held and again and again.token == held.token


@pytest.fixture
def shell(tmp_path: Path, etcd: Etcd) -> Iterator[Shell]:
    """A cluster whose members ask that etcd who may try to lead."""
    shell = Shell(tmp_path / "cluster")
    shell.up()
    shell.well("down")
    for node in shell.data.glob("n?"):
        with (node / "node.toml").open("a") as file:
            file.write(f'\n[lease]\nsource = "etcd"\nendpoints = ["{etcd.url}"]\n')
    shell.well("up")
    yield shell
    shell("down")


def leader_of(shell: Shell) -> Any:
    """The member that leads."""
    return next(member for member in shell("status").answer["members"] if member["role"] == "leader")


def test_a_cluster_fails_over_by_an_etcd_and_goes_on_reading_without_it(shell: Shell, etcd: Etcd) -> None:
    """Whoever has the claim leads. With etcd away writes are refused at once, saying so; it is back by itself."""
    shell.well("remember", "auth", "uses", "passkeys")
    first = leader_of(shell)
    os.kill(first["pid"], signal.SIGKILL)
    assert shell.well("remember", "auth", "needs", "a phone", "--timeout", "20")["outcome"] == "asserted"
    assert leader_of(shell)["id"] != first["id"]
    shell.well("up")

    etcd.stop()
    refused = shell("remember", "auth", "is", "slow", "--timeout", "10")
    for _ in range(ATTEMPTS):
        if refused.code == UNAVAILABLE:
            break
        refused = shell("remember", "auth", "is", "slow", "--timeout", "10")
    assert "lease store" in refused.said
    for mode in ("local", "strong", "quorum"):
        assert shell.well("get", "auth", "uses", "--read", mode)["text"] == "passkeys"
    etcd.start()
    assert shell.well("remember", "auth", "is", "fast", "--timeout", "20")["text"] == "fast"


def test_an_endpoint_that_is_none_is_refused() -> None:
    """Before anything is asked."""
    for wrong in ([], ["127.0.0.1:2379"], ["ftp://127.0.0.1"]):
        with pytest.raises(ValueError, match="etcd"):
            EtcdLeaseStore(wrong)
