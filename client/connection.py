"""`AsyncReplicatedMemory`: a memory that lives in a cluster, for programs that run on an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Self

import grpc

from ..memory.errors import Bug, Unavailable
from ..proto.generated import admin_pb2, memory_pb2
from ..security.principal import Principal
from .answers import Answer
from .asker import Asker
from .bearer import Asking
from .directory import Directory
from .envelope import Command
from .listener import Listener
from .ports import Clock, Entropy
from .requests import endpoints_of
from .submitter import Submitter
from .surface import AsyncMemory
from .tickets import Tickets

STATUS_PAUSE_S: Final = 0.05


class AsyncReplicatedMemory(AsyncMemory):
    """A memory on the nodes at `endpoints` (host:port; one that answers is enough, the others are learned from it).

    Its calls, their promises and the other options are those of `AsyncMemory`. `credentials` are gRPC channel
    credentials, for clusters with TLS. Belongs to the event loop that first used it, and to the process that made it.
    """

    def __init__(
        self, endpoints: str | Sequence[str], *, credentials: grpc.ChannelCredentials | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._endpoints = endpoints_of(endpoints)
        self._credentials = credentials
        self._process = os.getpid()
        self._parts: _Parts | None = None

    @classmethod
    async def connect(cls, endpoints: str | Sequence[str], **options: Any) -> Self:
        """A memory whose cluster has answered. Raises `Unavailable` when no node does within `timeout_s`."""
        memory = cls(endpoints, **options)
        await memory.status()
        return memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; calls under way end as `Unavailable` or `OutcomeUnknown`."""
        parts, self._parts = self._parts, None
        if parts is not None and os.getpid() == self._process:
            await parts.close()

    async def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """What every node that answers says of itself, by endpoint. Raises `Unavailable` when none does."""
        directory = self._route.directory
        try:
            async with asyncio.timeout_at(self._deadline(timeout_s)):
                while True:
                    statuses = await directory.statuses()
                    if statuses:
                        return statuses
                    await asyncio.sleep(STATUS_PAUSE_S)
        except TimeoutError:
            raise Unavailable("no node answers", directory.endpoints()) from None

    @property
    def _wait(self) -> memory_pb2.Wait.ValueType:
        """Reads that keep a promise wait for the fold by themselves; for local ones the write has to."""
        return memory_pb2.WAIT_QUORUM if self._mode == memory_pb2.READ_MODE_LOCAL else memory_pb2.WAIT_COMMIT

    @property
    def _route(self) -> _Parts:
        if os.getpid() != self._process:
            raise Bug("this client was made before a fork; make another one in the child, or use ReplicatedMemory")
        if self._parts is None:
            self._parts = _Parts(
                self._endpoints, self._credentials, self._asking, self._clock, self._entropy, self._wait
            )
        return self._parts


class _Parts:
    """What a client opens on its loop: the `Route` over the network."""

    def __init__(
        self,
        endpoints: Sequence[str],
        credentials: grpc.ChannelCredentials | None,
        asking: Asking | None,
        clock: Clock,
        entropy: Entropy,
        wait: memory_pb2.Wait.ValueType,
    ) -> None:
        self.directory = Directory(endpoints, credentials, asking)
        self._submitter = Submitter(self.directory, clock, entropy, wait)
        tickets = Tickets(clock)
        self._asker = Asker(self.directory, tickets, entropy.random())
        self._listener = Listener(self.directory, tickets)

    async def submit(self, commands: Sequence[Command], asking: Asking | None, deadline: float) -> list[Answer]:
        """See `Route`."""
        return await self._submitter.submit(commands, asking if isinstance(asking, Principal) else None, deadline)

    async def ask(
        self, request: memory_pb2.ReadRequest, asking: Asking | None, deadline: float
    ) -> memory_pb2.ReadReply:
        """See `Route`."""
        return await self._asker.ask(request, asking, deadline)

    def watch(self, request: memory_pb2.WatchRequest, asking: Asking | None) -> AsyncGenerator[memory_pb2.WatchReply]:
        """See `Watched`."""
        return self._listener.watch(request, asking)

    async def close(self) -> None:
        """Break off what is under way, and close all connections."""
        await self._submitter.close()
        await self.directory.close()
