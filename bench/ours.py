"""This cluster: three node processes on loopback, started and driven as its users do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import OURS
from peers.processes import wait_until
from texts import Texts

from veridical.cli.local import cluster_in
from veridical.cli.processes import CONFIGURATION, new_cluster
from veridical.client import AsyncReplicatedMemory
from veridical.memory.errors import Refused
from veridical.security.principal import Principal

COMMAND = str(Path(sys.executable).parent / "veridical")
UP_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 180.0
CALL_TIMEOUT_S = 30.0
TRIAL_TIMEOUT_S = 2.0
END_TIMEOUT_S = 30.0
FILL_IN_FLIGHT = 8


class Ours:
    """Three nodes, and clients whose calls are signed by a principal.

    A put is committed at return, and what its client reads afterwards holds it (session reads). Bulk is folded and
    searchable at return.
    """

    name = OURS

    def __init__(self, folder: Path, texts: Texts, bulk: int, simulated_fsync_ms: float = 0) -> None:
        self.data = folder / "veridical"
        self._texts = texts
        self._bulk = bulk
        self._simulated_fsync_ms = simulated_fsync_ms
        self._nodes: list[dict[str, Any]] = []
        self._clients: list[AsyncReplicatedMemory] = []

    async def start(self) -> None:
        """See `Peer`."""
        self.data.mkdir(parents=True)
        cluster = new_cluster(self.data, "bench", 3, 0)
        if self._simulated_fsync_ms:
            for node in cluster.nodes:
                with (node.directory / CONFIGURATION).open("a") as configuration:
                    configuration.write(f"\n[timings]\nsimulated_fsync_ms = {self._simulated_fsync_ms}\n")
        await self._up()
        self._single = await self.connect("session")
        self._folding = await self.connect()

    async def stop(self) -> None:
        """See `Peer`; stopping twice is allowed."""
        for client in self._clients:
            await client.close()
        self._clients.clear()
        await self._command("down")

    async def connect(self, read_consistency: str = "local") -> AsyncReplicatedMemory:
        """Another client, with connections of its own."""
        endpoints = [node["endpoint"] for node in self._nodes]
        client = await AsyncReplicatedMemory.connect(
            endpoints,
            principal=Principal.generate(),
            timeout_s=CALL_TIMEOUT_S,
            read_consistency=read_consistency,
        )
        self._clients.append(client)
        return client

    def pids(self) -> Sequence[int]:
        """See `Peer`."""
        return [node["pid"] for node in self._nodes]

    async def put(self, number: int) -> None:
        """See `Peer`."""
        await self._single.write(self._texts.fact(number))

    async def put_many(self, number: int) -> None:
        """See `Peer`: one envelope."""
        await self._write(range(number * self._bulk, (number + 1) * self._bulk))

    async def put_anywhere(self, number: int) -> None:
        """See `Peer`: the client itself looks for somebody else."""
        await self._single.write(self._texts.fact(number), timeout_s=TRIAL_TIMEOUT_S)

    async def leader_pid(self) -> int:
        """See `Peer`."""
        members = (await self._command("status"))["members"]
        [leader] = [member["id"] for member in members if member["role"] == "leader"]
        return next(node["pid"] for node in self._nodes if node["id"] == leader)

    async def revive(self, pid: int) -> None:
        """See `Peer`."""
        await asyncio.to_thread(wait_until, lambda: not self._runs(pid), END_TIMEOUT_S, f"the end of {pid}")
        await self._up()

    async def fill(self, first: int, last: int) -> None:
        """Write facts `first` to `last - 1`, in bulk."""
        bulks = iter(range(first, last, self._bulk))

        async def caller() -> None:
            for start in bulks:
                await self._write(range(start, min(start + self._bulk, last)))

        await asyncio.gather(*(caller() for _ in range(FILL_IN_FLIGHT)))

    async def _up(self) -> None:
        self._nodes = (await self._command("up", "--timeout", str(UP_TIMEOUT_S)))["nodes"]

    def _runs(self, pid: int) -> bool:
        return any(node.running_pid() == pid for node in cluster_in(self.data).nodes)

    async def _write(self, numbers: Sequence[int]) -> None:
        written = await self._folding.write_many([self._texts.fact(number) for number in numbers])
        for refusal in (item for item in written if isinstance(item, Refused)):
            raise refusal

    async def _command(self, *words: str) -> Any:
        """Run the command of the product, and read its JSON."""
        return await asyncio.to_thread(self._run, words)

    def _run(self, words: Sequence[str]) -> Any:
        result = subprocess.run(
            [COMMAND, *words, "--data", str(self.data), "--json"],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if not result.stdout.strip():
            raise RuntimeError(f"veridical {' '.join(words)}: {result.stderr.strip()}")
        return json.loads(result.stdout)
