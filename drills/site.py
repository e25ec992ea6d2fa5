"""Where a drill takes place: a cluster whose nodes can be broken, by whatever means there are.

A site that has no means for something says why (`Unsuited`), so that a report names what was not exercised.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Unsuited(Exception):
    """This exercise cannot be held here; the message says what it would take."""


class Failed(Exception):
    """The cluster did not do what it owes: the message says what."""


class Means(Enum):
    """What an exercise takes of a cluster that is made for it, besides processes and links."""

    NOTHING = "nothing"
    SMALL_DISKS = "small disks"
    CLOCKS = "clocks that can be stepped"


class Site(Protocol):
    """A cluster at hand. Nodes are named as in its configuration; what is asked for has happened on return."""

    @property
    def names(self) -> Sequence[str]:
        """Its nodes."""
        ...

    @property
    def endpoints(self) -> Sequence[str]:
        """Where clients reach them."""
        ...

    async def leader(self) -> str:
        """The name of the node that leads, once there is one. Raises `Failed` when there is none in time."""
        ...

    async def epoch(self) -> int:
        """The epoch in which somebody leads, once there is one. Raises `Failed` when there is none in time."""
        ...

    async def healthy(self) -> None:
        """Wait until every node is ready and one leads. Raises `Failed` when they are not in time."""
        ...

    async def differences(self) -> Sequence[str]:
        """Wait until all nodes stand at one index; the names of those whose state differs there from the most."""
        ...

    async def kill(self, name: str) -> None:
        """End the process at once."""
        ...

    async def stop(self, name: str) -> None:
        """Ask the process to end, and wait for it."""
        ...

    async def start(self, name: str) -> None:
        """Start a node that does not run."""
        ...

    async def pause(self, name: str) -> None:
        """Hold the process where it is."""
        ...

    async def resume(self, name: str) -> None:
        """Let it go on."""
        ...

    async def wipe(self, name: str) -> None:
        """Take all data from a node that does not run; it keeps what it is told at its start."""
        ...

    async def rot(self, name: str) -> str:
        """Flip a byte in the log of a node that does not run; says where."""
        ...

    async def cut(self, name: str, hears: bool = False, speaks: bool = False) -> None:
        """Part a node from the other nodes; with `hears` it still gets what they send, with `speaks` they do."""
        ...

    async def mend(self) -> None:
        """Join everything again."""
        ...

    async def fill(self, name: str) -> None:
        """Leave no room on the node's disk."""
        ...

    async def empty(self, name: str) -> None:
        """Make room on it again."""
        ...

    async def step_clock(self, name: str, seconds: int) -> None:
        """Set the wall clock of a node that runs to so far from the machine's; 0 sets it right."""
        ...
