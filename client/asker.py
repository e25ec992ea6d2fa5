"""Reading: a question goes to the node that can answer it soonest, and to another one when that one cannot."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import grpc
import grpc.aio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_base

from ..memory.errors import NotLeader, Retry, Unavailable, VeridicalError
from ..proto.generated import memory_pb2
from ..security.principal import Principal
from .bearer import Asking, metadata_of
from .directory import Directory
from .errors import error_of
from .submitter import ANSWER_SHARE, PAUSE_FIRST_S, PAUSE_LAST_S
from .tickets import Tickets

PATIENCE_S: Final = 1.0
"""One node is waited for so long, or for half of what is left, before another one is asked."""

FIRST_PATIENCE_S: Final = 0.5
"""The first node asked is waited for no longer than this, where any other could answer as well."""

SECOND_US: Final = 1_000_000
LEADER_MODES: Final = (memory_pb2.READ_MODE_STRONG, memory_pb2.READ_MODE_LEASE)


class Again(Exception):
    """An attempt failed in a way that may pass: `error` says how, `pause_s` is the least time to wait."""

    def __init__(self, error: VeridicalError, pause_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause_s = pause_s


class Asker:
    """The way to answers. Belongs to one loop."""

    def __init__(self, directory: Directory, tickets: Tickets, jitter: random.Random) -> None:
        self._directory = directory
        self._tickets = tickets
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()

    async def ask(
        self, request: memory_pb2.ReadRequest, asking: Asking | None, deadline: float
    ) -> memory_pb2.ReadReply:
        """The answer, by `deadline` (loop time). Raises `Unavailable`, naming who was silent, or what a node says."""
        asked = _Asked(asking)
        try:
            async with asyncio.timeout_at(deadline):
                if isinstance(asking, Principal):
                    request.ticket.CopyFrom(self._tickets.ticket(asking, await self._cluster_id()))
                return await self._first_attempt(request, deadline, asked)
        except TimeoutError:
            silent = asked.endpoints or self._directory.silent()
            raise asked.last_error or Unavailable("no answer in time", tuple(dict.fromkeys(silent))) from None

    async def _cluster_id(self) -> str:
        """What tickets are signed for: known once a node that has found its place has answered."""
        while not self._directory.cluster_id:
            await self._directory.refresh()
            if not self._directory.cluster_id:
                await asyncio.sleep(PAUSE_LAST_S)
        return self._directory.cluster_id

    async def _first_attempt(
        self, request: memory_pb2.ReadRequest, deadline: float, asked: _Asked
    ) -> memory_pb2.ReadReply:
        try:
            return await self._attempt(request, deadline, asked)
        except Again:
            retrying = AsyncRetrying(retry=retry_if_exception_type(Again), wait=_Pauses(self._jitter))
            return await retrying(self._attempt, request, deadline, asked)

    async def _attempt(self, request: memory_pb2.ReadRequest, deadline: float, asked: _Asked) -> memory_pb2.ReadReply:
        endpoint = await self._target(request.mode, asked)
        asked.endpoints.append(endpoint)
        patience_s = self._patience_s(request.mode, asked, deadline - self._loop.time())
        request.timeout_us = max(1, int(patience_s * ANSWER_SHARE * SECOND_US))
        try:
            shown = metadata_of(asked.asking, endpoint, self._directory.is_encrypted)
            read = self._directory.connection(endpoint).memory.Read
            reply = await read(request, timeout=patience_s, metadata=shown)
        except grpc.aio.AioRpcError as error:
            raise self._failed(endpoint, error, asked) from error
        self._directory.answered(endpoint)
        return reply

    def _patience_s(self, mode: memory_pb2.ReadMode.ValueType, asked: _Asked, remaining_s: float) -> float:
        """How long the node that is asked now is waited for: it may stand still, and say nothing at all."""
        if len(asked.endpoints) == 1 and mode not in LEADER_MODES and len(self._directory.endpoints()) > 1:
            return min(remaining_s / 2, FIRST_PATIENCE_S)
        return max(min(remaining_s, PATIENCE_S), remaining_s / 2)

    async def _target(self, mode: memory_pb2.ReadMode.ValueType, asked: _Asked) -> str:
        """Strong reads go to the leader, which spares a step; every other read to whoever answered last."""
        directory = self._directory
        leads = mode in LEADER_MODES
        if leads and directory.leader is None and not asked.endpoints:
            await directory.refresh()
        if leads and directory.leader is not None and directory.leader not in asked.refused:
            return directory.leader
        endpoints = directory.endpoints()
        fresh = [endpoint for endpoint in endpoints if endpoint not in asked.refused]
        if not fresh:
            asked.refused.clear()
        return (fresh or endpoints)[0]

    def _failed(self, endpoint: str, error: grpc.aio.AioRpcError, asked: _Asked) -> Exception:
        """What an attempt's status means: to be tried elsewhere, or final."""
        failure = error_of(error, endpoint)
        asked.refused.add(endpoint)
        if isinstance(failure, Unavailable):
            asked.last_error = failure
            if endpoint in failure.who:
                self._directory.failed(endpoint)
            return Again(failure)
        if isinstance(failure, Retry):
            asked.last_error = failure
            return Again(failure, failure.retry_after_s)
        return Again(failure) if isinstance(failure, NotLeader) else failure


class _Asked:
    """Who asks, who was asked so far, who could not answer, and what the last one said."""

    def __init__(self, asking: Asking | None) -> None:
        self.asking = asking
        self.endpoints: list[str] = []
        self.refused: set[str] = set()
        self.last_error: VeridicalError | None = None


class _Pauses(wait_base):
    """Between attempts: none before the other nodes were asked, then doubling, jittered, bounded."""

    def __init__(self, jitter: random.Random) -> None:
        self._jitter = jitter

    def __call__(self, retry_state: RetryCallState) -> float:
        longest = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2 ** min(retry_state.attempt_number, 10))
        failure = retry_state.outcome.exception() if retry_state.outcome else None
        least = failure.pause_s if isinstance(failure, Again) else 0.0
        return max(least, longest * self._jitter.random())
