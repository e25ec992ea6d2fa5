"""Read barriers: at which index a read may be answered so that its promise holds (PROTOCOL § 7).

A barrier never answers a read itself; it ends in `ReadReady` with a member and a position, or in `ReadFailed` with the
members that did not answer. A read that cannot keep its promise by its deadline fails; it is never quietly weakened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ..lease.quorum import reached, silent
from ..log.configuration import Configuration
from ..log.entry import Position
from .kernel import NEVER, Kernel
from .leadership import Leadership
from .messages import (
    QuorumQuery,
    QuorumState,
    Read,
    ReadFailed,
    ReadIndexQuery,
    ReadIndexReply,
    ReadMode,
    ReadReady,
)


@dataclass(slots=True)
class IndexWait:
    """A read that may be answered here once `index` is applied."""

    token: int
    deadline_us: int
    index: int


@dataclass(slots=True)
class RoundWait:
    """A strong read at the leader: `round` must be confirmed, 0 while the leader is not established yet.

    `asker` and `request` are set when another node asked for the index.
    """

    token: int
    deadline_us: int
    index: int = 0
    round: int = 0
    asker: str = ""
    request: int = 0
    lease: bool = False


@dataclass(slots=True)
class LeaderWait:
    """A strong read at another node, that has asked the leader for an index, or will when it knows one."""

    token: int
    deadline_us: int
    request: int = 0
    asked: str = ""
    asked_at_us: int = 0


@dataclass(slots=True)
class QuorumWait:
    """A quorum read: states of members, then `position`, the highest of R of them, that someone must have applied."""

    token: int
    deadline_us: int
    request: int = 0
    asked_at_us: int = 0
    rinse_until_us: int = 0
    states: dict[str, QuorumState] = field(default_factory=dict[str, QuorumState])
    applied: dict[str, Position] = field(default_factory=dict[str, Position])
    position: Position | None = None


class ReadBarriers:
    """All reads that wait at one node. `leader` gives the member that leads as far as is known here, or ""."""

    def __init__(self, kernel: Kernel, leader: Callable[[], str], leadership: Callable[[], Leadership | None]) -> None:
        self.kernel = kernel
        self.leader = leader
        self.leadership = leadership
        self.at_index: list[IndexWait] = []
        self.at_round: list[RoundWait] = []
        self.at_leader: list[LeaderWait] = []
        self.at_quorum: list[QuorumWait] = []

    # --- arrival ---

    def on_read(self, read: Read) -> None:
        """A read has arrived at this node."""
        match read.mode:
            case ReadMode.LOCAL:
                self._ready(read.token)
            case ReadMode.SESSION:
                self.at_index.append(IndexWait(read.token, read.deadline_us, read.index))
            case ReadMode.QUORUM:
                self._arrive_quorum(QuorumWait(read.token, read.deadline_us))
            case ReadMode.STRONG | ReadMode.LEASE:
                self._arrive_strong(read)
        self.settle()

    def _arrive_strong(self, read: Read) -> None:
        if self.leadership():
            wait = RoundWait(read.token, read.deadline_us, lease=read.mode is ReadMode.LEASE)
            self.at_round.append(wait)
        else:
            self.at_leader.append(LeaderWait(read.token, read.deadline_us))

    # --- at the leader ---

    def on_index_query(self, sender: str, query: ReadIndexQuery) -> None:
        """Another node asks for the index of a strong read."""
        if self.leadership() is None:
            self.kernel.send(sender, ReadIndexReply(query.request, 0, -1))
            return
        deadline_us = self.kernel.now_us + self.kernel.settings.candidacy_us
        self.at_round.append(RoundWait(0, deadline_us, asker=sender, request=query.request))
        self.settle()

    def _settle_rounds(self) -> None:
        leadership = self.leadership()
        if leadership is None:
            self._leave_rounds()
        elif self.at_round and self.may_answer(leadership):
            self._start_rounds(leadership)
            confirmed = leadership.confirmed_round()
            done = [wait for wait in self.at_round if self.is_confirmed(wait, confirmed, leadership)]
            self.at_round = [wait for wait in self.at_round if wait not in done]
            for wait in done:
                self._confirmed(wait, leadership)

    def may_answer(self, leadership: Leadership) -> bool:
        """Not before an entry of the leader's own epoch is committed."""
        return leadership.is_established

    def _start_rounds(self, leadership: Leadership) -> None:
        """Reads that came since the last round share the next one; one round is under way at a time."""
        new = [wait for wait in self.at_round if not wait.round]
        for wait in new:
            wait.index = self.kernel.commit_index
        if not new or all(wait.lease and self.lease_covers(leadership) for wait in new):
            return
        if leadership.confirmed_round() >= leadership.read_round:
            round = self.round_after_arrival(leadership)
            for wait in new:
                wait.round = round

    def round_after_arrival(self, leadership: Leadership) -> int:
        """Leadership must be confirmed by answers to messages that were sent after the read arrived."""
        self.kernel.rule("read-index")
        return leadership.begin_round()

    def is_confirmed(self, wait: RoundWait, confirmed: int, leadership: Leadership) -> bool:
        """Whether R members confirmed this leader after the read arrived, or its lease covers this moment."""
        return 0 < wait.round <= confirmed or (wait.lease and self.lease_covers(leadership))

    def lease_covers(self, leadership: Leadership) -> bool:
        """Lease reads are opt-in; without the option they are read-index reads."""
        return self.kernel.settings.lease_reads and leadership.lease_is_valid()

    def _confirmed(self, wait: RoundWait, leadership: Leadership) -> None:
        if wait.asker:
            self.kernel.send(wait.asker, ReadIndexReply(wait.request, leadership.epoch, wait.index))
        else:
            self.at_index.append(IndexWait(wait.token, wait.deadline_us, wait.index))

    def _leave_rounds(self) -> None:
        """This node leads no more: its own reads ask the next leader, others are told to."""
        for wait in self.at_round:
            if wait.asker:
                self.kernel.send(wait.asker, ReadIndexReply(wait.request, 0, -1))
            else:
                self.at_leader.append(LeaderWait(wait.token, wait.deadline_us))
        self.at_round = []

    # --- at another node ---

    def _settle_leader(self) -> None:
        if leadership := self.leadership():
            waits, self.at_leader = self.at_leader, []
            self.at_round += [RoundWait(wait.token, wait.deadline_us) for wait in waits]
            if waits and leadership:
                self._settle_rounds()
            return
        leader, kernel = self.leader(), self.kernel
        for wait in self.at_leader:
            is_due = kernel.now_us >= wait.asked_at_us + kernel.settings.retry_us
            if leader and (wait.asked != leader or is_due):
                wait.request, wait.asked, wait.asked_at_us = kernel.request(), leader, kernel.now_us
                kernel.send(leader, ReadIndexQuery(wait.request))

    def on_index_reply(self, reply: ReadIndexReply) -> None:
        """The leader gave an index; `index` -1: it does not lead, so ask again when another one is known."""
        for wait in self.at_leader:
            if wait.request == reply.request and reply.index >= 0:
                self.at_leader.remove(wait)
                self.at_index.append(IndexWait(wait.token, wait.deadline_us, reply.index))
                break
        self.settle()

    # --- quorum ---

    def _arrive_quorum(self, wait: QuorumWait) -> None:
        self.at_quorum.append(wait)
        self._ask_quorum(wait)

    def _ask_quorum(self, wait: QuorumWait) -> None:
        """Ask the members for their states; a *rinse* that timed out starts here again."""
        kernel = self.kernel
        kernel.rule("quorum-read")
        wait.request, wait.asked_at_us = kernel.request(), kernel.now_us
        for peer in sorted(self._everyone(wait) - {kernel.me.node}):
            kernel.send(peer, QuorumQuery(wait.request))
        if own := self.own_state(wait.request):
            self._note_state(wait, kernel.me.node, own)

    def _everyone(self, wait: QuorumWait) -> set[str]:
        members = set(self.kernel.peers)
        for state in wait.states.values():
            members |= state.configuration.voters
        return members

    def own_state(self, request: int) -> QuorumState | None:
        """The end of this member's durable log, the configuration in force there, and what is applied.

        A damaged member has none to give.
        """
        tail = self.kernel.tail
        configuration = tail.configuration_at(tail.durable_index)
        if configuration is None or not self.kernel.is_whole:
            return None
        return QuorumState(request, tail.durable, self._applied_position(), configuration)

    def _applied_position(self) -> Position:
        return self.kernel.position_of(self.kernel.applied_index) or Position(0, 0)

    def on_quorum_query(self, sender: str, query: QuorumQuery) -> None:
        """Another node asks; a damaged member does not answer."""
        if own := self.own_state(query.request):
            self.kernel.send(sender, own)

    def on_quorum_state(self, sender: str, state: QuorumState) -> None:
        """A member's state came."""
        for wait in self.at_quorum:
            if wait.request == state.request:
                self._note_state(wait, sender, state)
        self.settle()

    def _note_state(self, wait: QuorumWait, member: str, state: QuorumState) -> None:
        """Count a state towards R; once the position to reach is fixed, only what members have applied matters."""
        wait.applied[member] = max(state.applied, wait.applied.get(member, state.applied))
        if wait.position is not None:
            return
        wait.states[member] = state
        counted = self.counted_configuration(wait.states)
        if counted.voters - {self.kernel.me.node} - set(self.kernel.peers):
            self.kernel.rule("configuration-of-the-highest")
        if self.has_quorum(wait.states, counted):
            wait.position = max(known.position for known in wait.states.values())
            wait.rinse_until_us = self.kernel.now_us + self.kernel.settings.rinse_us

    def counted_configuration(self, states: Mapping[str, QuorumState]) -> Configuration:
        """R is counted in the configuration of the highest log seen, as in an election (*adopted-quorum*).

        Not in the newest by its own version: that may be one which a leader of old appended and nobody else took over.
        """
        return max(states.values(), key=lambda state: state.position).configuration

    def has_quorum(self, states: Collection[str], counted: Configuration) -> bool:
        """Whether R members of that configuration have answered."""
        return reached(states, counted.voters, counted.recovery_quorum)

    def _settle_quorum(self) -> None:
        kernel = self.kernel
        for wait in list(self.at_quorum):
            if wait.position is not None and (member := self.member_that_applied(wait, wait.position)):
                self.at_quorum.remove(wait)
                kernel.emit(ReadReady(wait.token, member, wait.position))
            elif wait.position is not None and kernel.now_us >= wait.rinse_until_us:
                kernel.rule("rinse")
                wait.states, wait.applied, wait.position = {}, {}, None
                self._ask_quorum(wait)
            elif kernel.now_us >= wait.asked_at_us + kernel.settings.heartbeat_us:
                self._ask_quorum(wait)

    def member_that_applied(self, wait: QuorumWait, position: Position) -> str:
        """A member that has applied at least `position`, this node if it has; "" when the *rinse* must go on."""
        kernel = self.kernel
        if kernel.is_whole and self._applied_position() >= position:
            return kernel.me.node
        return next((member for member, applied in sorted(wait.applied.items()) if applied >= position), "")

    # --- ends ---

    @property
    def is_waiting(self) -> bool:
        """Whether any read waits, here or at another node that asked this one."""
        return bool(self.at_index or self.at_round or self.at_leader or self.at_quorum)

    def settle(self) -> None:
        """See which reads can be answered now, and which can no longer."""
        self._settle_leader()
        self._settle_rounds()
        self._settle_quorum()
        self._settle_indexes()
        self._expire()

    def _settle_indexes(self) -> None:
        applied = self.kernel.applied_index
        ready = [wait for wait in self.at_index if wait.index <= applied]
        if ready:
            self.at_index = [wait for wait in self.at_index if wait.index > applied]
        for wait in ready:
            self._ready(wait.token)

    def _ready(self, token: int) -> None:
        self.kernel.emit(ReadReady(token, self.kernel.me.node, self._applied_position()))

    def _expire(self) -> None:
        now_us = self.kernel.now_us
        late = [wait for wait in (*self.at_index, *self.at_round, *self.at_leader, *self.at_quorum)
                if wait.deadline_us <= now_us]  # fmt: skip
        for wait in late:
            if wait.token:
                self.kernel.emit(ReadFailed(wait.token, self._reason(wait), self._silent(wait)))
        if late:
            self.at_index = [wait for wait in self.at_index if wait.deadline_us > now_us]
            self.at_round = [wait for wait in self.at_round if wait.deadline_us > now_us]
            self.at_leader = [wait for wait in self.at_leader if wait.deadline_us > now_us]
            self.at_quorum = [wait for wait in self.at_quorum if wait.deadline_us > now_us]

    def _reason(self, wait: IndexWait | RoundWait | LeaderWait | QuorumWait) -> str:
        match wait:
            case IndexWait():
                return f"index {wait.index} is not applied here yet"
            case RoundWait():
                return "leadership was not confirmed by R members"
            case LeaderWait():
                return "the leader did not answer" if wait.asked else "no leader is known"
            case QuorumWait():
                return "R members did not answer" if wait.position is None else "nobody has applied the position"

    def _silent(self, wait: IndexWait | RoundWait | LeaderWait | QuorumWait) -> tuple[str, ...]:
        configuration = self.kernel.configuration
        if configuration is None:
            return ()
        match wait:
            case RoundWait() if leadership := self.leadership():
                confirmed = leadership.confirmed
                return silent([node for node in confirmed if confirmed[node] >= wait.round], configuration.voters)
            case LeaderWait():
                return (wait.asked,) if wait.asked else silent([self.kernel.me.node], configuration.voters)
            case QuorumWait():
                return silent(wait.states, configuration.voters)
            case _:
                return ()

    @property
    def next_us(self) -> int:
        """When a read that waits wants to be looked at again."""
        if not self.is_waiting:
            return NEVER
        settings = self.kernel.settings
        due = [wait.deadline_us for wait in (*self.at_index, *self.at_round, *self.at_leader, *self.at_quorum)]
        if self.leader():
            due += [wait.asked_at_us + settings.retry_us for wait in self.at_leader]
        due += [wait.asked_at_us + settings.heartbeat_us for wait in self.at_quorum]
        return min(due)
