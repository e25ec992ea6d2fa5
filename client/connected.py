"""`ConnectedMemory`: a memory in a cluster for programs without an event loop, across forks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Self

from .blocking import BlockingMemory, Result, Work
from .connection import AsyncReplicatedMemory
from .loops import LoopThread
from .ports import Clock, Entropy
from .surface import TIMEOUT_S


class ConnectedMemory(BlockingMemory):
    """See `AsyncReplicatedMemory`: the same calls with the same promises, blocking. Threads may share one.

    A process that forks may go on using it on both sides.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        **options: Any,
    ) -> None:
        super().__init__(timeout_s, clock, entropy)
        options |= {"timeout_s": timeout_s, "clock": self._clock, "entropy": self._entropy}
        self._options = options
        self._endpoints = endpoints
        self._made()  # says now what is wrong with the options
        self._loop: LoopThread[AsyncReplicatedMemory] = LoopThread(self._made, _closed)

    @classmethod
    def connect(cls, endpoints: str | Sequence[str], **options: Any) -> Self:
        """A memory whose cluster has answered. Raises `Unavailable` when no node does within `timeout_s`.

        Options: `read_consistency` (local, session, strong, quorum), `principal`, `timeout_s`, `max_staleness_s`,
        `credentials` (gRPC channel credentials, for clusters with TLS), `token` (a bearer token, for reads).
        """
        memory = cls(endpoints, **options)
        memory.status()
        return memory

    def close(self) -> None:
        """Close all connections. A later call opens them anew."""
        self._closings += 1
        self._loop.wind_down()

    def _begin(self, work: Work[Result]) -> Future[Result]:
        return self._loop.submit(work)

    def _made(self) -> AsyncReplicatedMemory:
        return AsyncReplicatedMemory(self._endpoints, **self._options)


async def _closed(memory: AsyncReplicatedMemory) -> None:
    await memory.close()
