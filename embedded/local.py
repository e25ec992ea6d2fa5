"""`LocalMemory`: a memory in one file, without a server. It is a cluster of one: the same log, the same rules."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from ..client.blocking import BlockingMemory, Result, Work
from ..client.requests import Consistency, mode_of
from ..client.surface import TIMEOUT_S
from ..memory.errors import Invalid
from ..node.inprocess import InProcessNetwork
from .member import Enrolment, Member
from .places import default_store, path_of
from .residence import CLOSE_TIMEOUT_S, Residence

LOCAL: Final = "local"


class LocalMemory(BlockingMemory):
    """A `MemoryView` over the file `path`, its log; projection and keys lie beside it. Threads may share one.

    Without a path it lies where `VERIDICAL_MEMORY_STORE` says, else in the user's own folder; `":memory:"` ends with
    the object. It opens at its first call, and belongs to one process at a time: another one gets `Unavailable`, and
    so does a child that was forked while it was open. Options: `read_consistency`, `principal`, `timeout_s`.
    """

    def __init__(self, path: str | Path | None = None, *, timeout_s: float = TIMEOUT_S, **options: Any) -> None:
        super().__init__(timeout_s, options.get("clock"), options.get("entropy"))
        mode_of(options.get("read_consistency", Consistency.LOCAL))
        self.given_path = path
        self._path = path_of(default_store() if path is None else path)
        self._options = options | {"timeout_s": timeout_s, "clock": self._clock, "entropy": self._entropy}
        self._taken_by = ""
        self._loop: Residence[Member] = Residence(self._made, _closed, CLOSE_TIMEOUT_S)

    @property
    def path(self) -> Path | None:
        """The file of the log; None for a memory without files."""
        return self._path

    def close(self) -> None:
        """Write what waits and let go of the files. A later call opens them anew."""
        self._loop.wind_down()

    def hand_over(self, owner: str) -> None:
        """From now on this store belongs to member `owner` of a cluster. Raises `Invalid` when it is in use."""
        if self._taken_by or self._loop.is_running:
            raise Invalid("memory", f"is already {self._taken_by or 'open'}; give each member a store of its own")
        self._taken_by = f"the store of {owner}"

    def _begin(self, work: Work[Result]) -> Future[Result]:
        if self._taken_by:
            raise Invalid("memory", f"is {self._taken_by}; ask that member")
        return self._loop.submit(work)

    def _made(self) -> Member:
        return Member(Enrolment(LOCAL, LOCAL, self._path), [LOCAL], InProcessNetwork(), **self._options)


async def _closed(member: Member) -> None:
    await member.close()
