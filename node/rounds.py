"""Rounds of writing at the leader: what waits is decided, proposed, committed, applied and answered.

One round at a time is decided and replicated; the next one fills meanwhile. A caller is answered once its entry is
committed or, as it wishes, once it is also folded here or held by every voter. When leadership ends,
what was proposed ends as *outcome unknown*, what only waited may be sent elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from ..log.value import value
from ..memory.errors import NotLeader, OutcomeUnknown
from ..memory.machine import Context
from ..projection.projection import Projection
from ..replication.messages import Accepted, Declined, Propose
from .admission import Admission, Bounds
from .decider import NOWHERE, Decider, Decision, Denial, Proposal
from .driver import Driver
from .metrics import Metrics
from .ports import SubmitResult, Wait
from .system import Clock

SECOND_US = 1_000_000

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.rounds")


Decisions = list[Decision | Denial]


@dataclass(slots=True, eq=False)
class Waiting:
    """A submission at the leader. `proposed`: it is on its way into the log, whatever becomes of its caller."""

    proposal: Proposal
    wait: Wait
    future: asyncio.Future[SubmitResult]
    commands: int
    size_bytes: int
    proposed: bool = False


@value()
class Answer:
    """A submission that stands in the log at `index`, and what its caller will hear."""

    waiting: Waiting
    index: int
    result: SubmitResult


@dataclass(slots=True, eq=False)
class Desk:
    """Where one epoch is decided, from the moment that all of its log is applied; its decider is made on the thread."""

    context: Context
    after_index: int
    decider: Decider | None = None


@value()
class RoundsPort:
    """What rounds ask of the node.

    The projection to decide on and its thread, what decisions need beside it (None: not yet), whether the fold is too
    far behind, how far voters' logs match, and the end of everything.
    """

    projection: Projection
    on_applier: Callable[[Callable[[], Decisions | None]], Awaitable[Decisions | None]]
    context: Callable[[int], Context | None]
    lags: Callable[[], bool]
    matches: Callable[[], dict[str, int]]
    fatal: Callable[[str], None]


class Rounds:
    """The pipeline from waiting submissions to answers. `driver` is set before anything is led."""

    driver: Driver

    def __init__(self, bounds: Bounds, clock: Clock, metrics: Metrics, port: RoundsPort) -> None:
        self._clock = clock
        self._metrics = metrics
        self._port = port
        self._loop = asyncio.get_running_loop()
        self.admission: Admission[Waiting] = Admission(bounds, clock.elapsed_us())
        self._desk: Desk | None = None
        self._epoch: int | None = None
        self._paused = False
        self._token = 0
        self._deciding: list[Waiting] | None = None
        self._proposing: dict[int, list[Answer]] = {}
        self._round_last: int | None = None
        self._round_began_us = 0
        self._uncommitted: deque[Answer] = deque()
        self._unapplied: deque[Answer] = deque()
        self._unmatched: list[Answer] = []
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def serves(self) -> bool:
        """Whether this node leads and may decide."""
        return self._epoch is not None

    @property
    def epoch(self) -> int | None:
        """The epoch in which this node decides; None while it does not."""
        return self._epoch

    @property
    def waits_for_fold(self) -> bool:
        """Whether a caller waits for what is committed to be folded here."""
        return bool(self._unapplied)

    def submit(self, proposal: Proposal, wait: Wait) -> Waiting:
        """Let a verified envelope wait for its round. Its future ends in a result, `NotLeader` or `OutcomeUnknown`."""
        size = len(proposal.raw) + sum(map(len, proposal.bodies))
        commands = len(proposal.envelope.commands)
        waiting = Waiting(proposal, wait, self._loop.create_future(), commands, size)
        if self._epoch is None:
            waiting.future.set_exception(NotLeader())
        else:
            self.admission.add(waiting, self._clock.elapsed_us())
            self.pump()
        return waiting

    # --- leadership ---

    def lead(self, epoch: int) -> None:
        """From now on this node decides, in `epoch`; everything in its log is applied."""
        self._epoch, self._desk, self._paused = epoch, None, False
        self.pump()

    async def pause(self) -> None:
        """Begin no more rounds, as leadership is to be handed over, and wait until those under way are answered."""
        self._paused = True
        await self._quiet.wait()

    def resume(self) -> None:
        """The handing over failed: go on."""
        self._paused = False
        self.pump()

    def begin_anew(self) -> None:
        """Something else than a round may have been appended: decide on the state that holds it, and go on."""
        self._desk = None
        self.resume()

    def lose(self, reason: str) -> None:
        """Leadership has ended: what was proposed is unknown, what waits was never tried."""
        self._epoch, self._desk, self._round_last = None, None, None
        proposing = [answer for round in self._proposing.values() for answer in round]
        lost = [*self._unapplied, *self._unmatched, *self._uncommitted, *proposing]
        self._uncommitted.clear()
        self._unapplied.clear()
        self._unmatched.clear()
        self._proposing.clear()
        for answer in lost:
            _fail(answer.waiting, OutcomeUnknown(first_id(answer.waiting.proposal), reason))
        for waiting in [*(self._deciding or ()), *self.admission.take_all()]:
            waiting.proposed = False
            _fail(waiting, NotLeader())
        self._note_quiet()

    # --- a round ---

    def pump(self) -> None:
        """Begin the next round if it is due, or see to it that it is begun in time."""
        due_us = self.admission.due_us()
        if due_us is None or self._epoch is None or self._paused or self._deciding is not None:
            return
        if self._round_last is not None or self._proposing or self._port.lags():
            return
        desk = self._desk_of(self._epoch)
        if desk is None:
            return
        now_us = self._clock.elapsed_us()
        if due_us <= now_us:
            self._begin(desk, now_us)
        elif self._timer is None:
            self._timer = self._loop.call_later((due_us - now_us) / SECOND_US, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _desk_of(self, epoch: int) -> Desk | None:
        """The desk, set up on a state that holds the whole log; None while there is no such state, or no digest key."""
        if self._desk is None:
            status = self.driver.replica.status()
            context = self._port.context(epoch)
            if context is not None and status.applied_index == status.last.index:
                self._desk = Desk(context, status.last.index)
        return self._desk

    def _begin(self, desk: Desk, now_us: int) -> None:
        batch = [waiting for waiting in self.admission.take(now_us) if not waiting.future.done()]
        if not batch:
            self.pump()
            return
        for waiting in batch:
            waiting.proposed = True
        self._quiet.clear()
        self._deciding = batch
        self._round_began_us = now_us
        task = self._loop.create_task(self._decide(desk, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, desk: Desk, batch: Sequence[Waiting]) -> None:
        proposals = [waiting.proposal for waiting in batch]
        try:
            decisions = await self._port.on_applier(lambda: self._decided(desk, proposals))
        except Exception as error:  # noqa: BLE001 (rules never raise: whatever this is, it is a bug)
            self._port.fatal(f"a decision failed: {error!r}")
            return
        self._deciding = None
        if desk is self._desk and decisions is not None:
            self._propose(desk, self._granted(batch, decisions))
        else:
            self._desk = None if decisions is None else self._desk
            self._send_elsewhere(batch)

    def _decided(self, desk: Desk, proposals: Sequence[Proposal]) -> Decisions | None:
        """On the applier's thread. None when the fold has begun anew since the desk was set up."""
        projection = self._port.projection
        if desk.decider is None:
            desk.decider = Decider(projection.state, desk.context, desk.after_index)
        if desk.decider.base is not projection.state:
            return None
        if desk.decider.context.runner_key is None:  # it may have come to be since
            desk.decider.context = self._port.context(desk.context.epoch) or desk.context
        applied = projection.applied.index
        return desk.decider.decide(proposals, self._clock.wall_us(), applied, self._clock.elapsed_us())

    def _send_elsewhere(self, batch: Sequence[Waiting]) -> None:
        for waiting in batch:
            waiting.proposed = False
            _fail(waiting, NotLeader())
        self._note_quiet()
        self.pump()

    def _granted(
        self, batch: Sequence[Waiting], decisions: Sequence[Decision | Denial]
    ) -> list[tuple[Waiting, Decision]]:
        """What goes into the log. The others are answered now: theirs is no part of any history."""
        granted: list[tuple[Waiting, Decision]] = []
        for waiting, decision in zip(batch, decisions, strict=True):
            if isinstance(decision, Denial):
                self._deny(waiting, decision)
            else:
                granted.append((waiting, decision))
        return granted

    def _deny(self, waiting: Waiting, denial: Denial) -> None:
        waiting.proposed = False
        if not waiting.proposal.of_node:
            self._note_denial(waiting, denial)
        if not waiting.future.done():
            records = (None,) * len(denial.outcomes)
            waiting.future.set_result(SubmitResult(denial.outcomes, records, *NOWHERE, time_us=0))

    def _note_denial(self, waiting: Waiting, denial: Denial) -> None:
        envelope, rules = waiting.proposal.envelope, sorted({outcome.rule for outcome in denial.outcomes})
        kinds = sorted({head.kind for head in envelope.commands})
        author = envelope.on_behalf or envelope.author.hex()
        _log.warning("not granted", author=author, kinds=kinds, commands=waiting.commands, rules=rules)
        self._metrics.denied_commands.inc(waiting.commands)

    def _propose(self, desk: Desk, granted: Sequence[tuple[Waiting, Decision]]) -> None:
        if not granted:
            self._note_quiet()
            self.pump()
            return
        self._token += 1
        epoch, after_index = desk.context.epoch, desk.after_index
        desk.after_index += len(granted)
        self._proposing[self._token] = [_answer(waiting, decision, epoch) for waiting, decision in granted]
        drafts = tuple(decision.draft for _, decision in granted)
        self._metrics.round_commands.observe(sum(waiting.commands for waiting, _ in granted))
        self.driver.step(Propose(self._token, epoch, after_index, drafts))

    # --- effects ---

    def on_accepted(self, accepted: Accepted) -> None:
        """The round stands in the log."""
        round = self._proposing.pop(accepted.token, None)
        if round is not None:
            self._round_last = accepted.last
            self._uncommitted.extend(round)

    def on_declined(self, declined: Declined) -> None:
        """The round left no trace: it was decided on what is not the end of the log, or must wait for a transfer.

        Its callers are told to try again, at whoever leads; the next round begins on a fresh state.
        """
        round = self._proposing.pop(declined.token, None)
        if round is None:
            return
        self._desk = None
        self._paused = self._paused or declined.reason == "transfer"
        for answer in round:
            answer.waiting.proposed = False
            _fail(answer.waiting, NotLeader())
        self._note_quiet()
        self._loop.call_soon(self.pump)

    def on_committed(self, commit_index: int) -> None:
        """Everything up to `commit_index` is committed; if that ends the round, the next one may begin."""
        while self._uncommitted and self._uncommitted[0].index <= commit_index:
            answer = self._uncommitted.popleft()
            if answer.waiting.wait is Wait.COMMIT:
                self._succeed(answer)
            else:
                self._unapplied.append(answer)
        self._note_quiet()
        if self._round_last is not None and commit_index >= self._round_last:
            now_us = self._clock.elapsed_us()
            self._round_last = None
            self._metrics.append_seconds.observe((now_us - self._round_began_us) / SECOND_US)
            self.admission.round_ended(now_us)
            self.pump()

    def on_applied(self, index: int) -> None:
        """Everything up to `index` is applied here: answer who waited for that."""
        while self._unapplied and self._unapplied[0].index <= index:
            answer = self._unapplied.popleft()
            if answer.waiting.wait is Wait.ALL:
                self._unmatched.append(answer)
            else:
                self._succeed(answer)
        self.on_matched()
        self._note_quiet()
        self.pump()

    def _note_quiet(self) -> None:
        if self._deciding is None and not (self._proposing or self._uncommitted or self._unapplied):
            self._quiet.set()

    def on_matched(self) -> None:
        """Some follower's log has grown: answer who waited for every voter to have it."""
        if not self._unmatched:
            return
        matched = min(self._port.matches().values(), default=0)
        for answer in [answer for answer in self._unmatched if answer.index <= matched]:
            self._unmatched.remove(answer)
            self._succeed(answer)

    def _succeed(self, answer: Answer) -> None:
        repeated = sum(outcome.repeated_command for outcome in answer.result.outcomes)
        if repeated:
            self._metrics.dedup_hits.inc(repeated)
        if not answer.waiting.future.done():
            answer.waiting.future.set_result(answer.result)


def first_id(proposal: Proposal) -> str:
    """The id by which an envelope is asked for again: that of its first command, in hex."""
    return proposal.envelope.commands[0].id.hex()


def _answer(waiting: Waiting, decision: Decision, epoch: int) -> Answer:
    result = SubmitResult(decision.outcomes, decision.records, epoch, decision.index, decision.draft.time_us)
    return Answer(waiting, decision.index, result)


def _fail(waiting: Waiting, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)
