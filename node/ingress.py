"""How a write comes in: bounded, decided here or passed on to the leader, ended by its deadline in what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ..log.entry import Envelope
from ..memory.errors import NotLeader, OutcomeUnknown, Retry, Unavailable, VeridicalError
from ..replication.messages import Role
from ..security.tokens import BearerToken
from .admission import Gate
from .behalf import signed_by_node
from .decider import UNDER_TOKEN, Proposal
from .engine import Engine
from .identity import DataDirectory
from .keeper import LEASE_STORE
from .metrics import Metrics
from .ports import BareCommand, Submission, SubmitResult, Transport, Wait
from .rates import Rate, Rates
from .settings import SECOND_US, Limits
from .situation import OUTSIDE, REROUTE_PAUSE_S, Situation
from .system import Clock, Entropy
from .verifier import check_size

ANONYMOUS = "anonymous"


class Ingress:
    """Where submissions enter a node. `may_decide` says whether a leader may take writes (see `Keeper`)."""

    def __init__(
        self,
        situation: Situation,
        directory: DataDirectory,
        limits: Limits,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        may_decide: Callable[[], bool],
    ) -> None:
        self._situation = situation
        self._directory = directory
        self._limits = limits
        self._transport = transport
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        self._may_decide = may_decide
        self._rates = Rates(Rate(limits.principal_commands_per_s, limits.principal_bytes_per_s))
        self._gate = Gate(limits.waiting_commands, limits.waiting_bytes)

    @property
    def waiting(self) -> int:
        """How many commands are in hand."""
        return self._gate.commands

    async def emptied(self) -> None:
        """Returns once nothing is in hand."""
        await self._gate.empty.wait()

    async def submit(self, submission: Submission, relayed: bool) -> SubmitResult:
        """See `Node.submit`."""
        check_size(submission, self._limits)
        return await self._in_hand(submission, lambda path: self._routed(submission, path, relayed))

    async def submit_anonymous(
        self, commands: Sequence[BareCommand], timeout_us: int, wait: Wait, token: BearerToken | None
    ) -> SubmitResult:
        """See `Node.submit_anonymous`."""
        deadline_us = self._clock.elapsed_us() + timeout_us
        await self._situation.engine_in_time(timeout_us)
        remaining_us = max(1, deadline_us - self._clock.elapsed_us())
        return await self.submit(self._signed_on_behalf(commands, remaining_us, wait, token), relayed=False)

    def _signed_on_behalf(
        self, commands: Sequence[BareCommand], timeout_us: int, wait: Wait, token: BearerToken | None
    ) -> Submission:
        on_behalf = ANONYMOUS if token is None else f"{UNDER_TOKEN}{token.digest.hex()}"
        return signed_by_node(
            self._directory, on_behalf, commands, self._clock, self._entropy, timeout_us, wait
        )  # fmt: skip

    # --- in and out ---------------------------------------------------------------------------------------------------

    async def _in_hand(self, submission: Submission, work: Callable[[_Path], Awaitable[SubmitResult]]) -> SubmitResult:
        """Count a submission while it is here, and end it by its deadline in an answer or in what is known of it."""
        commands, size = len(submission.bodies), len(submission.envelope) + sum(map(len, submission.bodies))
        self._enter(commands, size)
        path = _Path(self._clock.elapsed_us() + submission.timeout_us)
        try:
            async with asyncio.timeout(submission.timeout_us / SECOND_US):
                return await work(path)
        except TimeoutError as error:
            raise self._late(submission, path) from error
        finally:
            self._gate.leave(commands, size)

    def _enter(self, commands: int, size: int) -> None:
        if self._situation.closed:
            raise Unavailable("draining", self._situation.silent)
        engine = self._situation.engine
        try:
            self._gate.enter(commands, size, engine.rounds.admission.retry_hint_s() if engine else REROUTE_PAUSE_S)
        except Retry:
            self._metrics.admission_stalls.inc()
            raise

    def _late(self, submission: Submission, path: _Path) -> VeridicalError:
        if path.tried:
            silent = f", no answer from {', '.join(path.silent)}" if path.silent else ""
            return OutcomeUnknown(_first_id(submission), f"no answer in time{silent}")
        if path.reason:
            return Unavailable(path.reason, path.silent)
        return Unavailable(self._situation.condition or "no leader is known", self._situation.silent)

    # --- to whoever leads ---------------------------------------------------------------------------------------------

    async def _routed(self, submission: Submission, path: _Path, relayed: bool) -> SubmitResult:
        situation = self._situation
        while True:
            engine, role = situation.engine, situation.role
            if situation.dead or situation.stopped or (engine is None and situation.settled.is_set()):
                raise Unavailable(situation.condition)
            if situation.is_outside:
                raise Unavailable(OUTSIDE)
            try:
                if engine is not None and engine.rounds.serves:
                    return await self._decided_here(engine, submission, path)
                if relayed and role.role is not Role.LEADER:
                    raise NotLeader(situation.leader_endpoint)
                if role.leader is not None and role.leader != situation.members.me:
                    return await self._relayed(role.leader, submission, path)
            except NotLeader:
                if relayed:
                    raise NotLeader(situation.leader_endpoint) from None
                path.tried = False
            await situation.other_leader(role)

    async def _decided_here(self, engine: Engine, submission: Submission, path: _Path) -> SubmitResult:
        if not self._may_decide():
            raise Unavailable("the lease store does not answer", (LEASE_STORE,))
        proposal = await engine.verified(submission)
        self._take(proposal)
        waiting = engine.rounds.submit(proposal, submission.wait)
        try:
            return await waiting.future
        finally:
            path.tried = waiting.proposed
            if waiting.proposed and submission.wait is Wait.ALL:
                path.silent = self._situation.silent

    def _take(self, proposal: Proposal) -> None:
        """Count it against the rate of whoever signed it, which is known by now. Raises `Retry`."""
        if proposal.of_node:
            return
        size = len(proposal.raw) + sum(map(len, proposal.bodies))
        who = proposal.author or proposal.envelope.on_behalf.encode()
        try:
            self._rates.take(who, len(proposal.bodies), size, self._clock.elapsed_us())
        except Retry:
            self._metrics.rate_limited.inc()
            raise

    async def _relayed(self, leader: str, submission: Submission, path: _Path) -> SubmitResult:
        remaining_us = path.deadline_us - self._clock.elapsed_us()
        path.tried = True
        try:
            return await self._transport.relay(leader, replace(submission, timeout_us=max(1, remaining_us)))
        except Unavailable as error:
            path.tried = False
            path.reason, path.silent = error.reason, (self._situation.members.name(leader),)
            raise NotLeader(None) from error


class _Path:
    """How far a submission has come: whether it may be in a log by now, and why it has come no further."""

    __slots__ = ("deadline_us", "reason", "silent", "tried")

    def __init__(self, deadline_us: int) -> None:
        self.deadline_us = deadline_us
        self.tried = False
        self.reason = ""
        self.silent: tuple[str, ...] = ()


def _first_id(submission: Submission) -> str:
    return Envelope.parse(submission.envelope).commands[0].id.hex()
