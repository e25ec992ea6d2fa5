"""What all clusters under measurement can do, so that one piece of work fits them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Peer(Protocol):
    """Three processes on loopback, driven as their users drive them. Numbers of puts name the keys."""

    @property
    def name(self) -> str:
        """What it is called in the figures."""
        ...

    async def start(self) -> None:
        """Start the processes, and wait until one of them leads."""
        ...

    async def stop(self) -> None:
        """End them."""
        ...

    def pids(self) -> Sequence[int]:
        """The processes."""
        ...

    async def put(self, number: int) -> None:
        """One value, acknowledged."""
        ...

    async def put_many(self, number: int) -> None:
        """As many values as a bulk has, in one call."""
        ...

    async def put_anywhere(self, number: int) -> None:
        """One value, at whoever takes it; a failed call is followed by one to somebody else."""
        ...

    async def leader_pid(self) -> int:
        """The process that leads now."""
        ...

    async def revive(self, pid: int) -> None:
        """Wait for the end of that process, start it again, and wait until all take part."""
        ...
