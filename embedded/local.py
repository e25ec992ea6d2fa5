"""`LocalMemory`: a memory in one file, without a server. It is a cluster of one: the same log, the same rules."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Self

from ..client.blocking import Result, Work
from ..client.environment import principal
from ..client.surface import TIMEOUT_S
from ..memory.errors import Invalid, Unavailable
from .company import Company, company_of
from .facade import EmbeddedMemory
from .member import Enrolment
from .places import default_store, embedder_name, path_of

LOCAL: Final = "local"


class LocalMemory(EmbeddedMemory):
    """A `MemoryView` over the file `path`, its log; projection and keys lie beside it. Threads may share one.

    Without a path it lies where `VERIDICAL_MEMORY_STORE` says, else in the user's own folder; `":memory:"` ends with
    the object. It opens at its first call, and belongs to one process at a time: another one gets `Unavailable`, and
    so does a child that was forked while it was open. Objects of one process that name the same file share it.
    `embedder` makes the vectors that recall goes by beside words: `lexical` (none), `hash` (surface, not meaning),
    `local` (meaning) or `openai` (meaning, by a service that is sent the texts); by default what `VERIDICAL_EMBEDDER`
    says, else what the file was made with, else `lexical`.
    Options: `read_consistency`, `principal`, `timeout_s`, `max_staleness_s`.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedder: str | None = None,
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> None:
        super().__init__(timeout_s, options)
        self.given_path = path
        self.embedder = embedder_name(embedder)
        self._path = path_of(default_store() if path is None else path)
        self._company: Company | None = None
        self._opening = threading.Lock()
        self._taken_by = ""
        self._lost = False

    @classmethod
    def from_env(cls) -> Self:
        """The memory in `VERIDICAL_MEMORY_STORE`, or where one lies by default; `VERIDICAL_PRINCIPAL_SEED` signs."""
        return cls(principal=principal())

    @property
    def path(self) -> Path | None:
        """The file of the log; None for a memory without files."""
        return self._path

    def close(self) -> None:
        """Write what waits and let go of the files. A later call opens them anew; one without files is gone."""
        with self._opening:
            self._closings += 1
            self._lost = self._path is None
            self._company = None
            self._leave(hand_over=True)

    def hand_over(self, owner: str) -> None:
        """From now on this store belongs to member `owner` of a cluster. Raises `Invalid` when it is in use."""
        with self._opening:
            if self._taken_by or self._company is not None or self._lost:
                raise Invalid("memory", f"is already {self._taken_by or 'in use'}; give each member a store of its own")
            self._taken_by = f"the store of {owner}"

    def _begin(self, work: Work[Result]) -> Future[Result]:
        return self._submitted(self._opened(), LOCAL, work)

    def _opened(self) -> Company:
        with self._opening:
            if self._taken_by:
                raise Invalid("memory", f"is {self._taken_by}; ask that member")
            if self._lost:
                raise Unavailable("this memory was closed, and it had no files")
            if self._company is None:
                company = Company(LOCAL) if self._path is None else company_of(self._path, LOCAL)
                self._join(company, Enrolment(LOCAL, LOCAL, self._path, embedder=self.embedder), shared=True)
                self._company = company
            return self._company
