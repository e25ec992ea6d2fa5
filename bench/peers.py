"""The peers: etcd and PySyncObj as three processes on loopback, driven as their users drive them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import grpc.aio


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def call(channel: grpc.aio.Channel, method: str, request: bytes, timeout_s: float) -> bytes:
    """One unary call of raw bytes."""
    operation = cast(Callable[..., Awaitable[bytes]], channel.unary_unary(method))
    return await operation(request, timeout=timeout_s)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _field(number: int, value: bytes) -> bytes:
    """One length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _varints(message: bytes) -> dict[int, Any]:
    """Top-level fields of a protobuf message: integers, and bytes of the length-delimited ones."""
    found: dict[int, Any] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            found[key >> 3] = message[place : place + size]
            place += size
        else:
            found[key >> 3] = varint()
    return found


class Etcd:
    """Three etcd servers. Puts go to the leader through one gRPC channel; the protocol's bytes are written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients = free_ports(3)
        self.peers = free_ports(3)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.channels: list[grpc.aio.Channel] = []
        self.leader = 0

    @staticmethod
    def is_installed() -> bool:
        """Whether the machine has an etcd."""
        return shutil.which("etcd") is not None

    async def start(self) -> None:
        """Start three members and wait for their leader."""
        names = ",".join(f"e{n}=http://127.0.0.1:{port}" for n, port in enumerate(self.peers))
        self.processes = [self._process(n, names) for n in range(3)]
        self.channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}") for port in self.clients]
        await self.find_leader()

    def _process(self, number: int, cluster: str) -> subprocess.Popen[bytes]:
        client, peer = self.clients[number], self.peers[number]
        command = [
            "etcd", "--name", f"e{number}", "--data-dir", str(self.folder / f"etcd{number}"),
            "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", cluster, "--log-level", "error",
        ]  # fmt: skip
        environment = {**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"}
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)

    async def find_leader(self) -> None:
        """Ask each member who leads, until one says that it does."""
        for _ in range(2000):
            for number, channel in enumerate(self.channels):
                try:
                    reply = _varints(await call(channel, "/etcdserverpb.Maintenance/Status", b"", 0.5))
                except grpc.aio.AioRpcError:
                    continue
                if reply.get(4) and _varints(reply[1]).get(2) == reply[4]:
                    self.leader = number
                    return
            await asyncio.sleep(0.01)
        raise TimeoutError("etcd found no leader in 20 s")

    async def put(self, number: int, value: bytes) -> None:
        """One put, acknowledged when a majority has it on disk."""
        request = _field(1, b"key%d" % number) + _field(2, value)
        await call(self.channels[self.leader], "/etcdserverpb.KV/Put", request, 5)

    async def put_many(self, number: int, value: bytes, count: int) -> None:
        """One transaction of `count` puts."""
        puts = (_field(1, b"key%d" % (number * count + n)) + _field(2, value) for n in range(count))
        request = b"".join(_field(2, _field(2, put)) for put in puts)
        await call(self.channels[self.leader], "/etcdserverpb.KV/Txn", request, 5)

    async def put_somewhere(self) -> None:
        """One put at whichever member takes it; members are asked in turn with a short time-out."""
        self.leader = (self.leader + 1) % 3
        if self.processes[self.leader].poll() is not None:
            raise ConnectionError("that member is gone")
        request = _field(1, b"failover") + _field(2, b"x")
        await call(self.channels[self.leader], "/etcdserverpb.KV/Put", request, 0.2)

    def kill_leader(self) -> None:
        """SIGKILL to the leader."""
        self.processes[self.leader].kill()
        self.processes[self.leader].wait()

    async def restart(self, number: int) -> None:
        """Bring a killed member back."""
        names = ",".join(f"e{n}=http://127.0.0.1:{port}" for n, port in enumerate(self.peers))
        self.processes[number] = self._process(number, names)
        await asyncio.sleep(2)
        await self.find_leader()

    async def stop(self) -> None:
        """End all members."""
        for channel in self.channels:
            await channel.close()
        for process in self.processes:
            process.kill()
            process.wait()


NODE = Path(__file__).parent / "pysyncobj_node.py"


class PySyncObj:
    """Three PySyncObj processes behind the same kind of gRPC door. It never fsyncs its journal, tuned or not."""

    def __init__(self, folder: Path, tuned: bool) -> None:
        self.folder = folder
        self.tuned = tuned
        self.raft = free_ports(3)
        self.clients = free_ports(3)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.channels: list[grpc.aio.Channel] = []
        self.leader = 0

    async def start(self) -> None:
        """Start three processes and wait for their leader."""
        self.processes = [self._process(number) for number in range(3)]
        wait_until(lambda: all(map(is_listening, self.clients)), 20, "PySyncObj")
        self.channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}") for port in self.clients]
        await self.find_leader()

    def _process(self, number: int) -> subprocess.Popen[bytes]:
        me = f"127.0.0.1:{self.raft[number]}"
        others = ",".join(f"127.0.0.1:{port}" for port in self.raft if port != self.raft[number])
        journal = str(self.folder / f"pysyncobj{number}.journal")
        command = [sys.executable, str(NODE), me, others, str(self.clients[number]), journal, str(int(self.tuned))]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def find_leader(self) -> None:
        """Ask until somebody names a leader."""
        for _ in range(1000):
            for channel in self.channels:
                try:
                    leader = await call(channel, "/peer/Leader", b"", 0.5)
                except grpc.aio.AioRpcError:
                    continue
                if leader:
                    self.leader = self.raft.index(int(leader.rsplit(b":", 1)[1]))
                    return
            await asyncio.sleep(0.02)
        raise TimeoutError("PySyncObj found no leader in 20 s")

    async def put(self, number: int, value: bytes) -> None:
        """One replicated call at the leader."""
        await call(self.channels[self.leader], "/peer/Put", b"%16d" % number + value, 10)

    async def put_somewhere(self) -> None:
        """One call at whichever process takes it."""
        self.leader = (self.leader + 1) % 3
        if self.processes[self.leader].poll() is not None:
            raise ConnectionError("that process is gone")
        await call(self.channels[self.leader], "/peer/Put", b"failover".rjust(16) + b"x", 0.2)

    def kill_leader(self) -> None:
        """SIGKILL to the leader."""
        self.processes[self.leader].send_signal(signal.SIGKILL)
        self.processes[self.leader].wait()

    async def stop(self) -> None:
        """End all processes."""
        for channel in self.channels:
            await channel.close()
        for process in self.processes:
            process.kill()
            process.wait()


def is_listening(port: int) -> bool:
    """Whether somebody accepts at that port of loopback."""
    with closing(socket.socket()) as trial:
        trial.settimeout(0.2)
        return trial.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Any, seconds: float, what: str) -> None:
    """Poll a condition until it holds, or say what did not come."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError(f"{what} did not come in {seconds} s")
        time.sleep(0.01)
