"""What all works are given: how much to do, where to note figures, and the clusters to measure."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from figures import Figures, say
from ours import Ours
from peers import etcd
from peers.etcd import Etcd
from peers.peer import Peer
from scale import Scale, size
from texts import Texts

BLOCK = 64_000_000
"""No work writes so many facts. What it writes is numbered from a multiple of this on, and so is new."""


class Rig:
    """One run. `filled` is the one cluster that several works share, because it takes long to fill."""

    def __init__(self, scale: Scale, figures: Figures, folder: Path) -> None:
        self.scale = scale
        self.figures = figures
        self.texts = Texts()
        self._folder = folder
        self._blocks = count(BLOCK, BLOCK)
        self._shared: Ours | None = None
        self._filled = 0

    def folder(self) -> Path:
        """An empty folder."""
        return Path(tempfile.mkdtemp(dir=self._folder))

    def block(self) -> int:
        """The first of many numbers that nobody has used yet."""
        return next(self._blocks)

    def ours(self, simulated_fsync_ms: float = 0) -> Ours:
        """A new cluster of ours, not started."""
        return Ours(self.folder(), self.texts, self.scale.bulk, simulated_fsync_ms)

    def peers(self) -> list[Peer]:
        """New clusters of all that can do what ours can, not started: etcd where there is one, then ours."""
        if not Etcd.is_installed():
            self.figures.skip(etcd.NAME, etcd.MISSING)
            return [self.ours()]
        self.figures.machine[etcd.NAME] = Etcd.version()
        return [Etcd(self.folder(), self.scale.bulk), self.ours()]

    @asynccontextmanager
    async def started(self, peer: Peer) -> AsyncGenerator[None]:
        """The cluster runs inside, and is gone afterwards."""
        try:
            await peer.start()
            yield
        finally:
            await peer.stop()

    async def filled(self, facts: int) -> Ours:
        """The shared cluster, with at least so many facts."""
        if self._shared is None:
            self._shared = self.ours()
            await self._shared.start()
        if self._filled < facts:
            say(f"  filling the store up to {size(facts)} facts")
            await self._shared.fill(self._filled, facts)
            self._filled = facts
        return self._shared

    async def close(self) -> None:
        """End the shared cluster; the next work that wants it gets a new one."""
        shared, self._shared, self._filled = self._shared, None, 0
        if shared is not None:
            await shared.stop()
