"""The way to a node of this process: the client's own questions and answers, without a network between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from ..client.answers import Answer, answers_of
from ..client.bearer import Asking
from ..client.envelope import SALT_BYTES, Command, signed_envelope
from ..memory.errors import OutcomeUnknown, Retry, Unavailable, VeridicalError
from ..node import calls, feed_wire, questions
from ..node.access import NOBODY, Caller
from ..node.ports import BareCommand, ReadReply, Submission, SubmitResult
from ..node.runtime import Node
from ..node.system import Clock, Entropy
from ..proto.generated import memory_pb2
from ..security.principal import Principal
from ..security.tokens import BearerToken

SECOND_US: Final = 1_000_000
RETRY_PAUSE_S: Final = 0.02


class NodeRoute:
    """A `client.surface.Route` to one node. `gate` is passed before each write; it may raise `Unavailable`."""

    def __init__(self, node: Node, gate: Callable[[], Awaitable[None]], clock: Clock, entropy: Entropy) -> None:
        self._node = node
        self._gate = gate
        self._clock = clock
        self._entropy = entropy
        self._loop = asyncio.get_running_loop()

    async def submit(self, commands: Sequence[Command], asking: Asking | None, deadline: float) -> list[Answer]:
        """See `Route`. What ended unknown is asked again, under the same ids, while there is time."""
        await self._pass_gate(deadline)
        unknown: OutcomeUnknown | None = None
        while True:
            try:
                result = await self._submitted(commands, asking, self._left_us(deadline))
                return answers_of(commands, calls.submit_result_to_wire(0, result, ""))
            except OutcomeUnknown as error:
                unknown = error
                await self._pause(RETRY_PAUSE_S, deadline, unknown)
            except Retry as error:
                await self._pause(error.retry_after_s, deadline, unknown or Unavailable(error.reason))
            except Unavailable as error:
                raise unknown or error from error

    async def ask(
        self, request: memory_pb2.ReadRequest, asking: Asking | None, deadline: float
    ) -> memory_pb2.ReadReply:
        """See `Route`. In its own process a principal is believed: it needs no ticket. A token is looked up."""
        caller = _caller(asking)
        while True:
            request.timeout_us = self._left_us(deadline)
            asked = replace(questions.read_request_from_wire(request), caller=caller)
            try:
                reply: ReadReply = await self._node.read(asked)
                return questions.read_reply_to_wire(asked.verb, reply)
            except Retry as error:
                await self._pause(error.retry_after_s, deadline, Unavailable(error.reason))

    async def watch(
        self, request: memory_pb2.WatchRequest, asking: Asking | None
    ) -> AsyncGenerator[memory_pb2.WatchReply]:
        """See `Watched`."""
        asked = replace(feed_wire.watch_request_from_wire(request), caller=_caller(asking))
        async with aclosing(self._node.watch(asked)) as pages:
            async for page in pages:
                yield feed_wire.change_page_to_wire(page)

    async def _pass_gate(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._gate()
        except TimeoutError:
            raise Unavailable("the lease store did not answer in time") from None

    async def _submitted(self, commands: Sequence[Command], asking: Asking | None, timeout_us: int) -> SubmitResult:
        if not isinstance(asking, Principal):
            bare = [BareCommand(command.id, command.kind, command.content) for command in commands]
            return await self._node.submit_anonymous(bare, timeout_us, token=asking)
        salts = self._entropy.bytes(SALT_BYTES * len(commands))
        cluster_id = await self._cluster_id(timeout_us)
        signed = signed_envelope(cluster_id, asking, commands, self._clock.wall_us(), salts)
        return await self._node.submit(Submission(signed.raw, signed.signature, tuple(signed.bodies), timeout_us))

    async def _cluster_id(self, timeout_us: int) -> str:
        """What commands are signed for: known once the node has found its place."""
        deadline = self._loop.time() + timeout_us / SECOND_US
        while not (cluster_id := self._node.status().cluster_id):
            await self._pause(RETRY_PAUSE_S, deadline, Unavailable("the cluster is not founded yet"))
        return cluster_id

    async def _pause(self, pause_s: float, deadline: float, late: VeridicalError) -> None:
        """Wait before another attempt. Raises `late` when there is no time for one."""
        if self._loop.time() + pause_s >= deadline:
            raise late
        await asyncio.sleep(pause_s)

    def _left_us(self, deadline: float) -> int:
        return max(1, int((deadline - self._loop.time()) * SECOND_US))


def _caller(asking: Asking | None) -> Caller:
    if isinstance(asking, BearerToken):
        return Caller(token=asking)
    return NOBODY if asking is None else Caller(asking.public_key)
