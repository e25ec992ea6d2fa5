"""This cluster: three node processes on loopback, started and driven as its users do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veridical.client import AsyncReplicatedMemory
from veridical.memory import MemoryKind, MemoryRecord
from veridical.security.principal import Principal

COMMAND = (str(Path(sys.executable).parent / "veridical"),)


def fact(number: int, value: str) -> MemoryRecord:
    """A fact of its own about subject number `number`."""
    return MemoryRecord(
        kind=MemoryKind.FACT, subject=f"subject {number}", predicate="says", text=value, scope="repo:bench"
    )


class Ours:
    """Three nodes, and one client whose calls are signed by a principal."""

    def __init__(self, folder: Path) -> None:
        self.data = str(folder / "veridical")
        self.nodes: list[dict[str, Any]] = []
        self.memory: AsyncReplicatedMemory | None = None
        self.value = "x" * 250

    def command(self, *words: str) -> Any:
        """Run the command of the product, and read its JSON."""
        result = subprocess.run(
            [*COMMAND, *words, "--data", self.data, "--json"], capture_output=True, text=True, timeout=120, check=False
        )
        if not result.stdout.strip():
            raise RuntimeError(f"veridical {' '.join(words)}: {result.stderr.strip()}")
        return json.loads(result.stdout)

    async def start(self) -> None:
        """Start the nodes and connect."""
        self.nodes = self.command("up", "--base-port", "0")["nodes"]
        self.memory = await AsyncReplicatedMemory.connect(
            [node["endpoint"] for node in self.nodes], principal=Principal.generate(), timeout_s=10
        )

    @property
    def client(self) -> AsyncReplicatedMemory:
        """The connected client."""
        assert self.memory is not None, "start first"
        return self.memory

    async def put(self, number: int, _: bytes = b"") -> None:
        """One fact, acknowledged, folded and searchable."""
        await self.client.write(fact(number, self.value))

    async def put_many(self, number: int, count: int) -> None:
        """`count` facts in one call."""
        await self.client.write_many([fact(number * count + n, self.value) for n in range(count)])

    async def put_somewhere(self) -> None:
        """One fact, given half a second."""
        await self.client.write(fact(0, self.value), timeout_s=2.0)

    def leader(self) -> dict[str, Any]:
        """The node that leads now."""
        members = self.command("status")["members"]
        [leader] = [member["id"] for member in members if member["role"] == "leader"]
        return next(node for node in self.nodes if node["id"] == leader)

    def signal_leader(self, signal_number: int = signal.SIGKILL) -> dict[str, Any]:
        """Send a signal to the leader."""
        leader = self.leader()
        os.kill(leader["pid"], signal_number)
        return leader

    def pids(self) -> Sequence[int]:
        """Process ids of the nodes."""
        return [node["pid"] for node in self.nodes]

    async def stop(self) -> None:
        """Disconnect and end the nodes."""
        if self.memory:
            await self.memory.close()
        self.command("down")
