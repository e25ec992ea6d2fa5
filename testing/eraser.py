"""The eraser of a simulated node: destroys what was erased, once the erasing entry is folded here, in the background.

As on a real node it takes its time, waits while the disk has no room, and takes up what its process left when the next
one starts. While the node is not whole it waits too: what is missing comes from others, who may still have the bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .world import MILLISECOND

if TYPE_CHECKING:
    from .process import Process

WORK_US = (200, 150 * MILLISECOND)
RETRY_US = 300 * MILLISECOND


class Eraser:
    """Belongs to one process run; what there is to do stands in the fold, which survives it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_busy = False

    def look(self) -> None:
        """Something was folded, or the process starts: begin to destroy what it may have left."""
        host = self._process.host
        if host.fold.left and not self._is_busy:
            self._is_busy = True
            self._process.later(host.choices.randrange(*WORK_US), self._work)

    def _work(self) -> None:
        host = self._process.host
        disk, fold = host.disk, host.fold
        self._is_busy = False
        if disk.is_full or disk.is_stalled or not self._process.replica.status().is_whole:
            self._is_busy = True
            self._process.later(RETRY_US, self._work)
            return
        erasure = min(fold.left)
        if any(index <= erasure.index for index in disk.damaged):
            host.found_damage()
            return
        self._process.cluster.checks.erasing(host, erasure)
        self._process.cluster.checks.checked.count("bodies destroyed", disk.erase(erasure))
        fold.left.discard(erasure)
        self.look()
