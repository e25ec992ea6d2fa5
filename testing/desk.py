"""The desk of a leader: envelopes are decided on the newest state, proposed, and answered.

The deciding is done by the node's own `Decider`. It starts once everything in the log is folded, and is dropped
whenever the core declines what it decided, since it then stands on entries that never were; the envelopes are decided
again. Answers are given at the commit or, as the caller wishes, once the entry is folded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..log.configuration import Configuration
from ..memory.machine import Outcome
from ..node.decider import Decider, Denial, Proposal
from ..replication.messages import Accepted, Declined, Draft, Propose, Reconfigure, Role, RoleChanged
from .fold import context
from .requests import Answer, Elsewhere, Submission, Unanswered, Unknown, Written

if TYPE_CHECKING:
    from .process import Process

BATCH_LIMIT = 32
LINGER_US = 2_000


class Waiting(NamedTuple):
    """A submission and where its answer goes."""

    submission: Submission
    answer: Answer


@dataclass(frozen=True, slots=True)
class Due:
    """An answer that may be given once `index` is committed, by the leader of the epoch it was decided in.

    Unless `at_commit`, it waits until the entry is applied here as well.
    """

    index: int
    outcomes: tuple[Outcome, ...]
    answer: Answer
    at_commit: bool = False


class Desk:
    """Decides while its process leads and serves; at any other time it says who might."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: deque[Waiting] = deque()
        self._due: list[Due] = []
        self._proposed: dict[int, list[tuple[Waiting, Due]]] = {}
        self._reconfigured: dict[int, Answer] = {}
        self._decider: Decider | None = None
        self._is_pumping = False

    @property
    def serves(self) -> bool:
        """Whether commands are decided here now."""
        return self._process.role.serves

    # --- requests ---

    def submit(self, submission: Submission, answer: Answer) -> None:
        """A client, or a node on its behalf, brings an envelope."""
        if not self.serves:
            answer(Elsewhere(self._process.role.leader))
            return
        self._waiting.append(Waiting(submission, answer))
        self._pump_soon(LINGER_US)

    def reconfigure(self, configuration: Configuration, answer: Answer) -> None:
        """An operator wants another configuration."""
        process = self._process
        if process.role.role is not Role.LEADER:
            answer(Elsewhere(process.role.leader))
            return
        token = process.token()
        self._reconfigured[token] = answer
        process.feed(Reconfigure(token, configuration))

    def _pump_soon(self, delay_us: int) -> None:
        if not self._is_pumping:
            self._is_pumping = True
            self._process.later(delay_us, self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        if self._waiting and self.serves:
            self._decide([self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_LIMIT))])
        if self._waiting and self.serves and self._decider is not None:
            self._pump_soon(LINGER_US)

    # --- deciding ---

    def _decide(self, batch: list[Waiting]) -> None:
        process = self._process
        decider = self._decider_on_newest_state()
        if decider is None:
            self._waiting.extendleft(reversed(batch))
            return
        after_index = decider.after_index
        proposals = [_proposal(waiting.submission) for waiting in batch]
        clock, applied = process.host.clock, process.host.fold.applied.index
        decisions = decider.decide(proposals, clock.wall_us(), applied, clock.elapsed_us())
        proposed: list[tuple[Waiting, Due]] = []
        drafts: list[Draft] = []
        for waiting, decision in zip(batch, decisions, strict=True):
            if isinstance(decision, Denial):
                waiting.answer(Unanswered(decision.outcomes[0].rule))
                continue
            due = Due(decision.index, decision.outcomes, waiting.answer, _is_eager(waiting.submission))
            proposed.append((waiting, due))
            drafts.append(decision.draft)
        if drafts:
            token = process.token()
            self._proposed[token] = proposed
            process.feed(Propose(token, decider.epoch, after_index, tuple(drafts)))

    def _decider_on_newest_state(self) -> Decider | None:
        """The decider of this epoch; none while the log holds entries that it would have to know and are not folded."""
        process = self._process
        if self._decider is None and process.host.fold.applied.index >= len(process.log):
            self._decider = Decider(process.host.fold.state, context(process.role.epoch), len(process.log))
        return self._decider

    # --- answers ---

    def accepted(self, effect: Accepted) -> None:
        """The batch stands in the log."""
        if effect.token in self._reconfigured:
            self._due.append(Due(effect.last, (), self._reconfigured.pop(effect.token)))
            return
        dues = [due for _, due in self._proposed.pop(effect.token)]
        assert (effect.first, effect.last) == (dues[0].index, dues[-1].index), "accepted at another place"
        self._due.extend(dues)

    def declined(self, effect: Declined) -> None:
        """The batch left no trace: decide it again if this node still serves, else say who might."""
        if effect.token in self._reconfigured:
            self._reconfigured.pop(effect.token)(Unanswered(effect.reason))
            return
        self._decider = None
        self._waiting.extendleft(waiting for waiting, _ in reversed(self._proposed.pop(effect.token)))
        if self.serves and effect.reason == "epoch":
            self._pump_soon(LINGER_US)
        else:
            self._turn_away(effect.leader)

    def committed(self, index: int) -> None:
        """Everything up to `index` is committed: give the answers that wait for no more than that."""
        self._answer(lambda due: due.index <= index and due.at_commit)

    def _answer(self, is_ready: Callable[[Due], bool]) -> None:
        if not self._due:
            return
        ready = [due for due in self._due if is_ready(due)]
        self._due = [due for due in self._due if not is_ready(due)]
        for due in ready:
            due.answer(Written(due.outcomes, due.index))

    def applied(self, index: int) -> None:
        """Everything up to `index` is committed and applied here: give the answers that waited for it."""
        self._answer(lambda due: due.index <= index)
        if self._waiting and self.serves:
            self._pump_soon(LINGER_US)

    def role_changed(self, change: RoleChanged) -> None:
        """Whatever was under way in an epoch that this node no longer serves ends as unknown."""
        self._decider = None
        if change.serves:
            return
        unknown, self._due = self._due, []
        for due in unknown:
            due.answer(Unknown())
        self._turn_away(change.leader)

    def _turn_away(self, leader: str | None) -> None:
        waiting, self._waiting = self._waiting, deque()
        for turned in waiting:
            turned.answer(Elsewhere(leader))


def _proposal(submission: Submission) -> Proposal:
    envelope, signature, bodies = submission
    return Proposal(envelope, envelope.raw, signature, bodies)


def _is_eager(submission: Submission) -> bool:
    """About half of all envelopes are answered at the commit; a retry as the first time."""
    return bool(submission.command_ids[0][-1] & 1)
