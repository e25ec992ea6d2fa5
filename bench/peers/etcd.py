"""etcd from the machine's packages. Puts go to the leader through one gRPC channel."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import grpc.aio

from .processes import HOST, call, free_ports
from .protobuf import field, integers, part

NAME = "etcd"
MISSING = "it is not installed (on Debian: apt-get install etcd-server)"
VALUE = b"x" * 250
MEMBERS = 3
START_ATTEMPTS = 2000
PAUSE_S = 0.01
CALL_TIMEOUT_S = 5.0
TRIAL_TIMEOUT_S = 0.2
"""A client that does not know who leads waits no longer than this before it asks somebody else."""

SETTLE_S = 0.5
END_TIMEOUT_S = 30.0

STATUS = "/etcdserverpb.Maintenance/Status"
PUT = "/etcdserverpb.KV/Put"
TRANSACTION = "/etcdserverpb.KV/Txn"
STATUS_HEADER, STATUS_LEADER, HEADER_MEMBER = 1, 4, 2


class Etcd:
    """Three members with the defaults of the package."""

    name = NAME

    def __init__(self, folder: Path, bulk: int) -> None:
        self._folder = folder
        self._bulk = bulk
        self._clients = free_ports(MEMBERS)
        self._peers = free_ports(MEMBERS)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._channels: list[grpc.aio.Channel] = []
        self._leader = 0

    @staticmethod
    def is_installed() -> bool:
        """Whether the machine has an etcd."""
        return shutil.which("etcd") is not None

    @staticmethod
    def version() -> str:
        """Which one it is."""
        said = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout
        return said.splitlines()[0].rpartition(" ")[2]

    async def start(self) -> None:
        """See `Peer`."""
        self._processes = [self._started(member) for member in range(MEMBERS)]
        self._channels = [grpc.aio.insecure_channel(f"{HOST}:{port}") for port in self._clients]
        await self._settle()

    async def stop(self) -> None:
        """See `Peer`."""
        for channel in self._channels:
            await channel.close()
        for process in self._processes:
            process.kill()
            process.wait()

    def pids(self) -> Sequence[int]:
        """See `Peer`."""
        return [process.pid for process in self._processes]

    async def put(self, number: int) -> None:
        """See `Peer`: on disk at a majority."""
        await self._put(number, CALL_TIMEOUT_S)

    async def put_many(self, number: int) -> None:
        """See `Peer`: one transaction."""
        puts = (field(1, b"key%d" % (number * self._bulk + n)) + field(2, VALUE) for n in range(self._bulk))
        request = b"".join(field(2, field(2, put)) for put in puts)
        await call(self._channels[self._leader], TRANSACTION, request, CALL_TIMEOUT_S)

    async def put_anywhere(self, number: int) -> None:
        """See `Peer`."""
        at = self._leader
        try:
            if self._processes[at].poll() is not None:
                raise ConnectionError("that member is gone")
            await self._put(number, TRIAL_TIMEOUT_S)
        except (grpc.aio.AioRpcError, ConnectionError):
            if self._leader == at:
                self._leader = (at + 1) % MEMBERS
            raise

    async def leader_pid(self) -> int:
        """See `Peer`."""
        await self._settle()
        return self._processes[self._leader].pid

    async def revive(self, pid: int) -> None:
        """See `Peer`."""
        member = self.pids().index(pid)
        await asyncio.to_thread(self._processes[member].wait, END_TIMEOUT_S)
        self._processes[member] = self._started(member)
        await self._settle()

    async def _put(self, number: int, timeout_s: float) -> None:
        request = field(1, b"key%d" % number) + field(2, VALUE)
        await call(self._channels[self._leader], PUT, request, timeout_s)

    async def _settle(self) -> None:
        """Wait until every member knows the leader, and a little longer: a member that was away has to catch up."""
        for _ in range(START_ATTEMPTS):
            statuses = [await self._status(channel) for channel in self._channels]
            if all(leads is not None for leads in statuses) and True in statuses:
                self._leader = statuses.index(True)
                await asyncio.sleep(SETTLE_S)
                return
            await asyncio.sleep(PAUSE_S)
        raise TimeoutError("etcd found no leader")

    @staticmethod
    async def _status(channel: grpc.aio.Channel) -> bool | None:
        """Whether that member leads; None when it knows of no leader, or says nothing."""
        try:
            reply = await call(channel, STATUS, b"", TRIAL_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None
        leader = integers(reply).get(STATUS_LEADER)
        return integers(part(reply, STATUS_HEADER)).get(HEADER_MEMBER) == leader if leader else None

    def _started(self, member: int) -> subprocess.Popen[bytes]:
        client, peer = (f"http://{HOST}:{ports[member]}" for ports in (self._clients, self._peers))
        cluster = ",".join(f"e{other}=http://{HOST}:{port}" for other, port in enumerate(self._peers))
        command = [
            "etcd", "--name", f"e{member}", "--data-dir", str(self._folder / f"etcd{member}"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", cluster, "--log-level", "error",
        ]  # fmt: skip
        environment = {**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"}
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
