"""PySyncObj behind the same kind of gRPC door, tuned for speed. It never waits for a disk, tuned or not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import grpc.aio

from .processes import HOST, call, free_ports, is_listening, wait_until

NAME = "PySyncObj"
MISSING = "it is not installed (`make bench` does that)"
NODE = Path(__file__).parent / "syncobj_node.py"
VALUE = b"x" * 250
MEMBERS = 3
START_S = 60.0
START_ATTEMPTS = 1000
PAUSE_S = 0.02
CALL_TIMEOUT_S = 10.0
TRIAL_TIMEOUT_S = 0.5


class PySyncObj:
    """Three processes; those who call wait for a majority to have the value in memory."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._raft = free_ports(MEMBERS)
        self._clients = free_ports(MEMBERS)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._channels: list[grpc.aio.Channel] = []
        self._leader = 0

    @staticmethod
    def is_installed() -> bool:
        """Whether this Python has it."""
        return find_spec("pysyncobj") is not None

    @staticmethod
    def version() -> str:
        """Which one it is."""
        return version("pysyncobj")

    async def start(self) -> None:
        """Start the processes, and wait until one of them leads."""
        self._processes = [self._started(member) for member in range(MEMBERS)]
        wait_until(lambda: all(map(is_listening, self._clients)), START_S, NAME)
        self._channels = [grpc.aio.insecure_channel(f"{HOST}:{port}") for port in self._clients]
        await self._find_leader()

    async def stop(self) -> None:
        """End them."""
        for channel in self._channels:
            await channel.close()
        for process in self._processes:
            process.kill()
            process.wait()

    async def put(self, number: int) -> None:
        """One replicated call at the leader."""
        await call(self._channels[self._leader], "/peer/Put", b"%16d" % number + VALUE, CALL_TIMEOUT_S)

    async def _find_leader(self) -> None:
        for _ in range(START_ATTEMPTS):
            for channel in self._channels:
                try:
                    leader = await call(channel, "/peer/Leader", b"", TRIAL_TIMEOUT_S)
                except grpc.aio.AioRpcError:
                    continue
                if leader:
                    self._leader = self._raft.index(int(leader.rsplit(b":", 1)[1]))
                    return
            await asyncio.sleep(PAUSE_S)
        raise TimeoutError("PySyncObj found no leader")

    def _started(self, member: int) -> subprocess.Popen[bytes]:
        me = f"{HOST}:{self._raft[member]}"
        others = ",".join(f"{HOST}:{port}" for port in self._raft if port != self._raft[member])
        journal = str(self._folder / f"syncobj{member}.journal")
        command = [sys.executable, str(NODE), me, others, str(self._clients[member]), journal]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
