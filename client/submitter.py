"""Writing: concurrent calls go out together, in one envelope with one signature; each gets its own part of the result.

A lone call leaves at once. While an envelope is on its way the next one fills, so that the number of messages follows
the round trip and not the number of callers. A call that fails in a way that may pass is sent again under the same
command ids, to whoever leads then; whatever becomes of its envelopes, it ends by its own deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_base

from ..memory.errors import Invalid, NotLeader, OutcomeUnknown, Refused, Retry, Unavailable, VeridicalError
from ..proto.generated import memory_pb2
from ..proto.submissions import StreamBroken, SubmissionStream
from ..security.principal import Principal
from .answers import Answer, answers_of
from .directory import Directory
from .envelope import (
    COMMAND_OVERHEAD_BYTES,
    COMMANDS_LIMIT,
    ENVELOPE_BYTES_LIMIT,
    SALT_BYTES,
    Command,
    signed_envelope,
)  # fmt: skip
from .errors import raised
from .ports import Clock, Entropy

ENVELOPES_IN_FLIGHT_LIMIT: Final = 16
LINGER_S: Final = 0.01
"""The longest that a call waits for company while an envelope is on its way."""

SUSPICION_S: Final = 0.25
"""A node that is silent for so long is asked about, of all the others: has another one taken over?"""

ANSWER_SHARE: Final = 0.95
"""A node gets this much of the time, so that its own error, which knows more, arrives before the time is up."""

LAST_ATTEMPT_S: Final = 0.03
"""With less time than this left, nothing is sent any more: it could only turn what is known into what is not."""

PAUSE_FIRST_S: Final = 0.02
PAUSE_LAST_S: Final = 0.1
SECOND_US: Final = 1_000_000


class Again(Exception):
    """An attempt failed in a way that may pass: `error` says how, `pause_s` is the least time to wait."""

    def __init__(self, error: VeridicalError, pause_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause_s = pause_s


class Flight(NamedTuple):
    """Where the latest envelope of a call is under way."""

    stream: SubmissionStream
    submission: memory_pb2.Submission

    @property
    def is_sent(self) -> bool:
        """Whether it may have arrived."""
        return self.stream.was_sent(self.submission.request)


@dataclass(slots=True, eq=False)
class Call:
    """Commands that go in one envelope, in order, and who waits for them. `deadline` is in the loop's time."""

    commands: tuple[Command, ...]
    principal: Principal | None
    deadline: float
    size_bytes: int
    future: asyncio.Future[list[Answer]]
    alone: bool = False
    delivered: bool = False
    flight: Flight | None = None
    last_error: VeridicalError | None = None

    def expired(self, silent: Sequence[str]) -> VeridicalError:
        """The error of a call whose deadline has passed: what is known is said, and nothing else."""
        if self.delivered or (self.flight is not None and self.flight.is_sent):
            return OutcomeUnknown(self.commands[0].id.hex())
        if isinstance(self.last_error, Unavailable):
            return self.last_error
        return Unavailable(str(self.last_error or "no node took it in time"), silent)


@dataclass(slots=True, eq=False)
class Batch:
    """Calls that share one envelope."""

    principal: Principal | None
    calls: list[Call] = field(default_factory=list[Call])
    count: int = 0
    size_bytes: int = 0

    def takes(self, call: Call) -> bool:
        """Whether the call fits in."""
        if not self.calls:
            return True
        return (
            call.principal is self.principal
            and not call.alone
            and not self.calls[0].alone
            and self.count + len(call.commands) <= COMMANDS_LIMIT
            and self.size_bytes + call.size_bytes <= ENVELOPE_BYTES_LIMIT
        )

    def add(self, call: Call) -> None:
        """Take the call in."""
        self.calls.append(call)
        self.count += len(call.commands)
        self.size_bytes += call.size_bytes

    @property
    def deadline(self) -> float:
        """When nobody waits any more."""
        return max(call.deadline for call in self.calls)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits."""
        return any(not call.future.done() for call in self.calls)


class Submitter:
    """The way to the leader. Belongs to one loop."""

    def __init__(self, directory: Directory, clock: Clock, entropy: Entropy) -> None:
        self._directory = directory
        self._clock = clock
        self._entropy = entropy
        self._jitter = entropy.random()
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Call] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._flush_soon = False
        self._linger: asyncio.TimerHandle | None = None

    async def submit(self, commands: Sequence[Command], principal: Principal | None, deadline: float) -> list[Answer]:
        """The answers to 1 to 256 commands that fit one envelope, in order; ends by `deadline` (loop time).

        Raises what the node says of them as a whole, `OutcomeUnknown` or `Unavailable`. The refusal of a single command
        is an answer.
        """
        size = sum(len(command.content) + COMMAND_OVERHEAD_BYTES for command in commands)
        call = Call(tuple(commands), principal, deadline, size, self._loop.create_future())
        try:
            async with asyncio.timeout_at(deadline):
                return await self._first_attempt(call)
        except TimeoutError:
            raise call.expired(self._directory.silent()) from call.last_error

    async def close(self) -> None:
        """Break off what is under way."""
        if self._linger is not None:
            self._linger.cancel()
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    # --- a call's attempts ---

    async def _first_attempt(self, call: Call) -> list[Answer]:
        try:
            return await self._attempt(call)
        except Again as again:
            return await self._further_attempts(call, again)

    async def _further_attempts(self, call: Call, first: Again) -> list[Answer]:
        """Retried until the deadline, which is the caller's `timeout_at`."""
        await asyncio.sleep(self._note(call, first))
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Again),
            wait=_Pauses(self._jitter),
            before_sleep=lambda state: _note_failure(call, state),
        )
        return await retrying(self._attempt, call)

    def _note(self, call: Call, again: Again) -> float:
        call.last_error = again.error
        return max(again.pause_s, PAUSE_FIRST_S * self._jitter.random())

    async def _attempt(self, call: Call) -> list[Answer]:
        if call.last_error is not None and call.deadline - self._loop.time() < LAST_ATTEMPT_S:
            raise call.expired(self._directory.silent()) from None
        if call.future.done():
            call.future = self._loop.create_future()
        self._waiting.append(call)
        self._schedule()
        return await call.future

    # --- who goes with whom ---

    def _schedule(self) -> None:
        if not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = False
        while self._waiting and (not self._in_flight or (self._is_full() and self._has_room())):
            self._send_next()
        if self._waiting and self._linger is None:
            self._linger = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        if self._waiting and self._has_room():
            self._send_next()
        self._schedule()

    def _has_room(self) -> bool:
        return len(self._in_flight) < ENVELOPES_IN_FLIGHT_LIMIT

    def _is_full(self) -> bool:
        commands = size = 0
        for call in self._waiting:
            commands += len(call.commands)
            size += call.size_bytes
            if commands >= COMMANDS_LIMIT or size >= ENVELOPE_BYTES_LIMIT:
                return True
        return False

    def _send_next(self) -> None:
        batch = Batch(self._waiting[0].principal)
        while self._waiting and batch.takes(self._waiting[0]):
            call = self._waiting.popleft()
            if not call.future.done():
                batch.add(call)
        if batch.calls:
            task = self._loop.create_task(self._send(batch))
            self._in_flight.add(task)
            task.add_done_callback(lambda task: self._sent(batch, task))

    def _sent(self, batch: Batch, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, Exception):
            _fail(batch, failure)
        self._schedule()

    # --- an envelope's way ---

    async def _send(self, batch: Batch) -> None:
        try:
            result = await self._result(batch)
        except VeridicalError as error:
            _fail(batch, _again(error))
        except asyncio.CancelledError:
            _fail(batch, Unavailable("the client was closed"))
            raise
        else:
            self._deliver(batch, result)

    async def _result(self, batch: Batch) -> memory_pb2.SubmitResult:
        endpoint = await self._target(batch)
        stream = self._directory.connection(endpoint).submissions()
        flight = Flight(stream, self._submission(batch))
        calling = self._loop.create_task(stream.call(flight.submission))
        for call in batch.calls:
            call.flight = flight
        try:
            await self._wait_or_doubt(batch, endpoint, flight, calling)
            result = calling.result()
        except StreamBroken as error:
            self._directory.failed(endpoint)
            _mark(batch, error.delivered)
            raise Unavailable(error.reason, (endpoint,)) from error
        finally:
            calling.cancel()
        self._directory.answered(endpoint)
        if result.leader:
            self._directory.redirect(result.leader)
        return result

    async def _target(self, batch: Batch) -> str:
        """The leader's endpoint. While none is known, a node that answers: it waits for one, and knows it first."""
        directory = self._directory
        if directory.leader is None or (batch.principal is not None and not directory.cluster_id):
            await directory.refresh()
        endpoint = directory.leader or directory.answering
        if endpoint is None:
            raise Unavailable("no node answers", directory.silent())
        if batch.principal is not None and not directory.cluster_id:
            raise Unavailable("no node knows yet which cluster this is", directory.silent())
        return endpoint

    def _submission(self, batch: Batch) -> memory_pb2.Submission:
        commands = [command for call in batch.calls for command in call.commands]
        timeout_us = max(1, int((batch.deadline - self._loop.time()) * ANSWER_SHARE * SECOND_US))
        if batch.principal is None:
            return memory_pb2.Submission(
                bodies=[command.content for command in commands],
                commands=[memory_pb2.CommandName(id=command.id, kind=command.kind) for command in commands],
                timeout_us=timeout_us,
            )
        salts = self._entropy.bytes(SALT_BYTES * len(commands))
        envelope = signed_envelope(self._directory.cluster_id, batch.principal, commands, self._clock.wall_us(), salts)
        return memory_pb2.Submission(
            envelope=envelope.raw, signature=envelope.signature, bodies=envelope.bodies, timeout_us=timeout_us
        )

    async def _wait_or_doubt(
        self, batch: Batch, endpoint: str, flight: Flight, calling: asyncio.Task[memory_pb2.SubmitResult]
    ) -> None:
        """Returns when the call is done. Raises `StreamBroken` when its node is not worth waiting for."""
        while True:
            done, _ = await asyncio.wait({calling}, timeout=SUSPICION_S)
            if done:
                return
            sent = flight.is_sent
            _mark(batch, sent)
            if not batch.is_wanted:
                raise StreamBroken("nobody waits any more", sent)
            if not flight.stream.is_connected:
                raise StreamBroken("no connection", sent)
            await self._directory.refresh()
            if self._directory.leader not in (endpoint, None):
                raise StreamBroken("another node leads now", sent)

    def _deliver(self, batch: Batch, result: memory_pb2.SubmitResult) -> None:
        if result.HasField("failure"):
            error = raised(result.failure)
            if isinstance(error, OutcomeUnknown):
                _mark(batch, True)
            if isinstance(error, NotLeader):
                self._follow(error)
            _fail(batch, _again(error))
            return
        place = 0
        for call in batch.calls:
            answers = answers_of(call.commands, result, place)
            place += len(call.commands)
            if not call.future.done():
                call.future.set_result(answers)

    def _follow(self, error: NotLeader) -> None:
        if error.leader:
            self._directory.redirect(error.leader)
        elif self._directory.leader is not None:
            self._directory.failed(self._directory.leader)


class _Pauses(wait_base):
    """Between attempts: doubling, jittered, bounded, and never shorter than the node asked for."""

    def __init__(self, jitter: random.Random) -> None:
        self._jitter = jitter

    def __call__(self, retry_state: RetryCallState) -> float:
        longest = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2 ** min(retry_state.attempt_number, 10))
        pause = longest * (0.5 + 0.5 * self._jitter.random())
        failure = retry_state.outcome.exception() if retry_state.outcome else None
        return max(pause, failure.pause_s) if isinstance(failure, Again) else pause


def _note_failure(call: Call, state: RetryCallState) -> None:
    failure = state.outcome.exception() if state.outcome else None
    if isinstance(failure, Again):
        call.last_error = failure.error


def _again(error: VeridicalError) -> Exception:
    """The error as an attempt's end: definite, or to be tried again."""
    if isinstance(error, Retry):
        return Again(error, error.retry_after_s)
    return Again(error) if isinstance(error, NotLeader | OutcomeUnknown | Unavailable) else error


def _fail(batch: Batch, error: Exception) -> None:
    """End the batch's calls with `error`. What may be one call's own fault is asked again, each call by itself."""
    may_be_one = isinstance(error, Invalid | Refused) and len(batch.calls) > 1
    for call in batch.calls:
        if may_be_one:
            call.alone = True
        if not call.future.done():
            call.future.set_exception(Again(error) if may_be_one and isinstance(error, VeridicalError) else error)


def _mark(batch: Batch, delivered: bool) -> None:
    if delivered:
        for call in batch.calls:
            call.delivered = True
