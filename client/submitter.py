"""Writing: concurrent calls go out together, in one envelope with one signature; each gets its own part of the result.

A lone call leaves at once. While an envelope is on its way the next one fills, so that the number of messages follows
the round trip and not the number of callers. A call that fails in a way that may pass is sent again under the same
command ids, to whoever leads then; whatever becomes of its envelopes, it ends by its own deadline.

Between a call and its answer there are no tasks and no timers of its own: a call is a future, an envelope is a callback
and one timer. Tasks are begun for what is rare: finding a leader, and doubting one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Final, NamedTuple

from ..memory.errors import Invalid, NotLeader, OutcomeUnknown, Refused, Retry, Unavailable, VeridicalError
from ..proto.generated import memory_pb2
from ..proto.submissions import Dispatch, StreamBroken, SubmissionStream
from ..security.principal import Principal
from .answers import Answer, answers_of
from .calls import Batch, Call, WaitingCalls
from .deadlines import Deadlines
from .directory import Directory
from .envelope import COMMAND_OVERHEAD_BYTES, SALT_BYTES, Command, signed_envelope
from .errors import raised
from .ports import Clock, Entropy

ENVELOPES_IN_FLIGHT_LIMIT: Final = 16
LINGER_S: Final = 0.01
"""The longest that a call waits for company while an envelope is on its way."""

RETURN_SHARE: Final = 0.25
RETURN_LIMIT_S: Final = 0.005
"""Callers that have just been answered are waited for, as they come back with their next call: for so much of the time
that their envelope took, and never longer than this. A lone caller expects nobody."""

SUSPICION_S: Final = 0.25
"""A node that is silent for so long is asked about, of all the others: has another one taken over?"""

ANSWER_SHARE: Final = 0.95
"""A node gets this much of the time, so that its own error, which knows more, arrives before the time is up."""

LAST_ATTEMPT_S: Final = 0.03
"""With less time than this left, nothing is sent any more: it could only turn what is known into what is not."""

PAUSE_FIRST_S: Final = 0.02
PAUSE_LAST_S: Final = 0.1
SECOND_US: Final = 1_000_000


class Flight(NamedTuple):
    """An envelope under way: whose it is, to which node, and on which stream."""

    batch: Batch
    endpoint: str
    stream: SubmissionStream
    dispatch: Dispatch

    def give_up(self, reason: str) -> None:
        """Wait for its result no longer."""
        if not self.dispatch.result.done():
            self.stream.forget(self.dispatch)
            self.dispatch.result.set_exception(StreamBroken(reason, self.dispatch.sent))


class Submitter:
    """The way to the leader. Belongs to one loop. `wait` says when writes are to be answered."""

    def __init__(self, directory: Directory, clock: Clock, entropy: Entropy, wait: memory_pb2.Wait.ValueType) -> None:
        self._directory = directory
        self._wait = wait
        self._clock = clock
        self._entropy = entropy
        self._jitter = entropy.random()
        self._loop = asyncio.get_running_loop()
        self._deadlines: Deadlines[Call] = Deadlines(self._loop, self._expire)
        self._waiting = WaitingCalls()
        self._under_way: set[Batch] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush_soon = False
        self._alarm: asyncio.TimerHandle | None = None
        self._expected = 1
        self._expected_until = 0.0
        self._is_closed = False

    async def submit(self, commands: Sequence[Command], principal: Principal | None, deadline: float) -> list[Answer]:
        """The answers to 1 to 256 commands that fit one envelope, in order; ends by `deadline` (loop time).

        Raises what the node says of them as a whole, `OutcomeUnknown` or `Unavailable`. The refusal of a single command
        is an answer.
        """
        size = sum(len(command.content) for command in commands) + COMMAND_OVERHEAD_BYTES * len(commands)
        call = Call(commands, principal, deadline, size, self._loop.create_future())
        if self._is_closed:
            raise call.closed()
        self._deadlines.add(call)
        self._enqueue(call)
        try:
            return await call.future
        finally:
            self._deadlines.discard(call)

    async def close(self) -> None:
        """Break off what is under way."""
        self._is_closed = True
        for call in self._deadlines.take_all():
            call.fail(call.closed())
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _expire(self, call: Call) -> None:
        if not call.future.done():
            call.fail(call.expired(self._directory.silent()))

    # --- who goes with whom ---

    def _enqueue(self, call: Call) -> None:
        self._waiting.add(call, self._loop.time())
        self._schedule()

    def _schedule(self) -> None:
        """Look at who waits, once everybody has come who is about to."""
        if not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = False
        while self._waiting and self._has_room():
            due = self._due()
            if due > self._loop.time():
                self._wake_at(due)
                return
            self._depart()

    def _due(self) -> float:
        """When the next envelope should leave. A full one: now. While another is on its way: after the linger.

        Else as soon as so many wait as were answered last, or those of them who are quick to come back.
        """
        if self._waiting.fill_an_envelope:
            return 0.0
        if self._under_way:
            return self._waiting.since + LINGER_S
        return 0.0 if len(self._waiting) >= self._expected else self._expected_until

    def _expect(self, batch: Batch) -> None:
        """The batch was answered: its callers are about to come back."""
        now = self._loop.time()
        self._expected = len(batch.calls)
        self._expected_until = now + min(RETURN_LIMIT_S, (now - batch.departed_at) * RETURN_SHARE)

    def _wake_at(self, due: float) -> None:
        """Look again then. A timer that is early is left alone: it finds out, and sets the next one."""
        if self._alarm is not None:
            if self._alarm.when() <= due:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(due, self._awake)

    def _awake(self) -> None:
        self._alarm = None
        self._schedule()

    def _has_room(self) -> bool:
        return len(self._under_way) < ENVELOPES_IN_FLIGHT_LIMIT

    def _depart(self) -> None:
        batch = self._waiting.batch()
        if not batch.calls:
            return
        self._under_way.add(batch)
        batch.departed_at = self._loop.time()
        endpoint = self._directory.leader
        if endpoint is None or (batch.principal is not None and not self._directory.cluster_id):
            self._begin(self._depart_later(batch))
        else:
            self._launch(batch, endpoint)

    def _arrived(self, batch: Batch) -> None:
        self._under_way.discard(batch)
        self._schedule()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- an envelope's way ---

    async def _depart_later(self, batch: Batch) -> None:
        """Leave once it is known where to."""
        try:
            endpoint = await self._target(batch)
        except Exception as error:  # noqa: BLE001 - every error ends the calls
            self._failed(batch, error)
            self._arrived(batch)
        else:
            self._launch(batch, endpoint) if batch.is_wanted else self._arrived(batch)

    async def _target(self, batch: Batch) -> str:
        """The leader's endpoint. While none is known, a node that answers: it waits for one, and knows it first."""
        directory = self._directory
        await directory.refresh()
        endpoint = directory.leader or directory.answering
        if endpoint is None:
            raise Unavailable("no node answers", directory.silent())
        if batch.principal is not None and not directory.cluster_id:
            raise Unavailable("no node knows yet which cluster this is", directory.silent())
        return endpoint

    def _launch(self, batch: Batch, endpoint: str) -> None:
        try:
            stream = self._directory.connection(endpoint).submissions()
            dispatch = stream.send(self._submission(batch))
        except Exception as error:  # noqa: BLE001 - every error ends the calls
            self._failed(batch, error)
            self._arrived(batch)
            return
        for call in batch.calls:
            call.dispatch = dispatch
        flight = Flight(batch, endpoint, stream, dispatch)
        suspicion = self._loop.call_later(SUSPICION_S, self._suspect, flight)
        dispatch.result.add_done_callback(partial(self._landed, flight, suspicion))

    def _submission(self, batch: Batch) -> memory_pb2.Submission:
        commands = batch.commands
        timeout_us = max(1, int((batch.deadline - self._loop.time()) * ANSWER_SHARE * SECOND_US))
        if batch.principal is None:
            return memory_pb2.Submission(
                bodies=[command.content for command in commands],
                commands=[memory_pb2.CommandName(id=command.id, kind=command.kind) for command in commands],
                timeout_us=timeout_us,
                wait=self._wait,
            )
        salts = self._entropy.bytes(SALT_BYTES * len(commands))
        envelope = signed_envelope(self._directory.cluster_id, batch.principal, commands, self._clock.wall_us(), salts)
        return memory_pb2.Submission(
            envelope=envelope.raw,
            signature=envelope.signature,
            bodies=envelope.bodies,
            timeout_us=timeout_us,
            wait=self._wait,
        )

    def _landed(
        self, flight: Flight, suspicion: asyncio.TimerHandle, result: asyncio.Future[memory_pb2.SubmitResult]
    ) -> None:
        """The envelope has its result, or will have none."""
        suspicion.cancel()
        try:
            self._deliver(flight.batch, self._result(flight, result))
        except Exception as error:  # noqa: BLE001 - every error ends the calls
            self._failed(flight.batch, error)
        self._arrived(flight.batch)

    def _result(self, flight: Flight, result: asyncio.Future[memory_pb2.SubmitResult]) -> memory_pb2.SubmitResult:
        """What came back. Raises `Unavailable` when nothing did, and what the node says of the envelope as a whole."""
        try:
            landed = result.result()
        except StreamBroken as error:
            self._directory.failed(flight.endpoint)
            if error.delivered:
                flight.batch.mark_delivered()
            raise Unavailable(error.reason, (flight.endpoint,)) from error
        self._directory.answered(flight.endpoint)
        if landed.leader:
            self._directory.redirect(landed.leader)
        if landed.HasField("failure"):
            raise self._said(flight.batch, raised(landed.failure))
        return landed

    def _said(self, batch: Batch, error: VeridicalError) -> VeridicalError:
        """Learn from what a node said."""
        if isinstance(error, OutcomeUnknown):
            batch.mark_delivered()
        if isinstance(error, NotLeader):
            if error.leader:
                self._directory.redirect(error.leader)
            elif self._directory.leader is not None:
                self._directory.failed(self._directory.leader)
        return error

    def _deliver(self, batch: Batch, result: memory_pb2.SubmitResult) -> None:
        answers = answers_of(batch.commands, result)
        place = 0
        for call in batch.calls:
            count = len(call.commands)
            if not call.future.done():
                call.future.set_result(answers[place : place + count])
            place += count
        self._expect(batch)

    # --- doubt ---

    def _suspect(self, flight: Flight) -> None:
        self._begin(self._doubt(flight))

    async def _doubt(self, flight: Flight) -> None:
        """While its node is silent, ask the others about it, and give it up when it is not worth waiting for."""
        while not flight.dispatch.result.done():
            reason = await self._reason_to_give_up(flight)
            if reason:
                flight.give_up(reason)
            else:
                await asyncio.wait({flight.dispatch.result}, timeout=SUSPICION_S)

    async def _reason_to_give_up(self, flight: Flight) -> str:
        if not flight.batch.is_wanted:
            return "nobody waits any more"
        if not flight.stream.is_connected:
            return "no connection"
        await self._directory.refresh()
        return "another node leads now" if self._directory.leader not in (flight.endpoint, None) else ""

    # --- what fails ---

    def _failed(self, batch: Batch, error: Exception) -> None:
        """An attempt failed. What may be one call's own fault is asked again, each call by itself."""
        if isinstance(error, Invalid | Refused) and len(batch.calls) > 1:
            for call in batch.calls:
                call.alone = True
            self._retry(batch, error, 0.0)
        elif isinstance(error, Retry):
            self._retry(batch, error, error.retry_after_s)
        elif isinstance(error, NotLeader | OutcomeUnknown | Unavailable):
            self._retry(batch, error, 0.0)
        else:
            for call in batch.calls:
                call.fail(error)

    def _retry(self, batch: Batch, error: VeridicalError, least_s: float) -> None:
        """Send the calls of a batch again, after a pause, together with whoever waits by then."""
        calls = [call for call in batch.calls if not call.future.done()]
        for call in calls:
            call.last_error, call.dispatch = error, None
            call.failures += 1
        if calls:
            failures = min(call.failures for call in calls)
            self._loop.call_later(max(least_s, self._pause_s(failures)), self._again, calls)

    def _pause_s(self, failures: int) -> float:
        """Between attempts: short at first, then doubling, jittered and bounded."""
        if failures == 1:
            return PAUSE_FIRST_S * self._jitter.random()
        longest = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2 ** min(failures - 1, 10))
        return longest * (0.5 + 0.5 * self._jitter.random())

    def _again(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if call.future.done():
                continue
            if call.deadline - self._loop.time() < LAST_ATTEMPT_S:
                self._expire(call)
            else:
                self._enqueue(call)
