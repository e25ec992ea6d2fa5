"""The replica: one member's state machine of election, append, commit, reads and membership (PROTOCOL § 11).

It does no IO. `step` takes one input and the time, changes the state, and returns the effects that the node has to
carry out, in order. The same object runs under gRPC and SQLite in the node, and under a fake network and fake disks in
the simulator. Two rules keep it honest: nothing that rests on a write leaves before `Persisted` for it has come, and
nothing of an epoch below the promise is acknowledged or counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..lease.messages import Grant, Holder, Prepare, Probe, ProbeReply, Refusal, Release
from ..log.configuration import Configuration
from ..log.entry import Position
from .candidacy import Candidacy
from .follower import Follower
from .kernel import Kernel, Notary, Restored
from .leadership import Leadership
from .messages import (
    Append,
    Appended,
    Applied,
    Declined,
    DiskFull,
    Effect,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Handover,
    Heartbeat,
    HeartbeatReply,
    Input,
    LogRead,
    MayTry,
    Message,
    Persisted,
    Propose,
    QuorumQuery,
    QuorumState,
    Read,
    ReadIndexQuery,
    ReadIndexReply,
    Receive,
    Reconfigure,
    Role,
    RoleChanged,
    SeenQuery,
    SeenReply,
    Tick,
    Transfer,
    TransferEnded,
)
from .reads import ReadBarriers
from .settings import Settings

__all__ = ["Replica", "Restored", "Settings", "Status"]

FOREVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Status:
    """What a replica knows of itself and, while it leads, of its followers. Times are relative to the call."""

    role: Role
    epoch: int
    leader: str | None
    serves: bool
    promised_epoch: int
    commit_index: int
    applied_index: int
    last: Position
    durable_index: int
    lease_remaining_us: int
    matches: dict[str, int]
    follower_applied: dict[str, int]
    configuration: Configuration | None
    is_whole: bool
    is_full: bool


def _untraced(rule: str) -> None:
    """Named rules fire unheard, unless a simulator listens."""


class Replica:
    """One member. `me` is this process run; `chance` gives election jitter; `trace` hears which named rules fire."""

    def __init__(
        self,
        me: Holder,
        restored: Restored,
        settings: Settings,
        notary: Notary,
        chance: random.Random,
        now_us: int,
        trace: Callable[[str], None] = _untraced,
    ) -> None:
        self.kernel = Kernel(me, restored, settings, notary, chance, now_us, trace)
        self.follower = Follower(self.kernel)
        self.candidacy: Candidacy | None = None
        self.leadership: Leadership | None = None
        self.reads = ReadBarriers(self.kernel, self._leader_to_ask, lambda: self.leadership)
        self.may_try = MayTry(0, 0)
        self.seen_epoch = self.kernel.acceptor.promised_epoch
        self.election_at_us = self._next_election_us()
        self._said = RoleChanged(Role.FOLLOWER, 0, None, False)

    # --- the one door ---

    def step(self, input: Input, now_us: int, wall_us: int) -> list[Effect]:
        """Take one input at `now_us` (this node's elapsed clock) and `wall_us` (wall clock, data only)."""
        kernel = self.kernel
        kernel.now_us, kernel.wall_us = now_us, wall_us
        kernel.effects = []
        self._take(input)
        self._settle()
        return kernel.effects

    @property
    def deadline_us(self) -> int:
        """When the next `Tick` is wanted at the latest."""
        kernel = self.kernel
        due_us = min(self.reads.next_us, kernel.sightings.next_us)
        if not kernel.writes and not kernel.full:
            due_us = min(due_us, kernel.sightings.store_at_us)
        if self.leadership:
            due_us = min(due_us, self.leadership.next_us)
        elif self.candidacy:
            due_us = min(due_us, self.candidacy.next_us)
        elif self._may_lead():
            due_us = min(due_us, max(self.election_at_us, kernel.acceptor.free_at_us()))
        if kernel.writes and not kernel.is_stalled(kernel.now_us):
            due_us = min(due_us, kernel.writes[0].asked_at_us + kernel.settings.stall_us + 1)
        return due_us

    @property
    def last(self) -> Position:
        """The end of the log in memory."""
        return self.kernel.tail.last

    def status(self) -> Status:
        """A snapshot for people and metrics."""
        kernel, leadership = self.kernel, self.leadership
        said, tail = self._said, kernel.tail
        return Status(
            said.role, said.epoch, said.leader, said.serves, kernel.acceptor.promised_epoch, kernel.commit_index,
            kernel.applied_index, tail.last, tail.durable_index, self._lease_remaining_us(),
            leadership.matches() if leadership else {},
            self.follower_applied(),
            kernel.configuration, kernel.is_whole, kernel.full,
        )  # fmt: skip

    def follower_applied(self) -> dict[str, int]:
        """How far each follower has folded, as it last said; nothing while this node does not lead."""
        progress = self.leadership.progress if self.leadership else {}
        return {peer: known.applied_index for peer, known in progress.items()}

    def _lease_remaining_us(self) -> int:
        if self.leadership is None:
            return 0
        configuration = self.leadership.configuration
        until_us = self.leadership.tenure.valid_until_us(configuration.voters, configuration.recovery_quorum)
        return max(0, until_us - self.kernel.now_us)

    # --- inputs ---

    def _take(self, input: Input) -> None:
        match input:
            case Receive():
                self._receive(input.sender, input.message)
            case Persisted():
                self._persisted(input.token)
            case Propose() | Reconfigure():
                self._propose(input)
            case Applied():
                self.kernel.applied_index = max(self.kernel.applied_index, input.index)
            case Read():
                self.reads.on_read(input)
            case LogRead():
                self.kernel.on_log_read(input)
            case Tick():
                self._tick()
            case Transfer() | DiskFull() | Found() | MayTry():
                self._take_order(input)

    def _take_order(self, order: Transfer | DiskFull | Found | MayTry) -> None:
        match order:
            case Transfer():
                self._transfer(order)
            case DiskFull():
                self._disk_full(order.full)
            case Found():
                self._found(order.configuration)
            case MayTry():
                self.may_try = order

    def _propose(self, proposal: Propose | Reconfigure) -> None:
        if self.leadership is None:
            self.kernel.emit(Declined(proposal.token, "leader", self._leader_to_ask() or None))
        elif isinstance(proposal, Propose):
            self.leadership.propose(proposal)
        else:
            self.leadership.reconfigure(proposal)

    def _receive(self, sender: str, message: Message) -> None:
        if self.kernel.damaged or self.kernel.sightings.is_lost:
            self._receive_damaged(sender, message)
            return
        match message:
            case Append() | Heartbeat() | Fetch():
                self._receive_from_above(sender, message)
            case Appended() | HeartbeatReply() | Fetched() | Fenced():
                self._receive_from_below(sender, message)
            case Handover():
                self._handover(message)
            case ReadIndexQuery() | ReadIndexReply() | QuorumQuery() | QuorumState():
                self._receive_read(sender, message)
            case SeenQuery():
                self.kernel.sightings.on_query(sender, message)
            case SeenReply():
                self.kernel.sightings.on_reply(sender, message)
            case _:
                self._receive_lease(sender, message)

    def _receive_from_below(self, sender: str, message: Appended | HeartbeatReply | Fetched | Fenced) -> None:
        match message:
            case Appended() if self.leadership:
                self.leadership.on_appended(sender, message)
                self.leadership.hand_over_when_ready()
            case HeartbeatReply() if self.leadership:
                self.leadership.on_heartbeat_reply(sender, message)
            case Fetched() if self.candidacy:
                self.candidacy.on_fetched(sender, message)
            case Fenced():
                self._fenced(message)
            case _:
                self.kernel.rule("late-reply")

    def _receive_read(self, sender: str, message: ReadIndexQuery | ReadIndexReply | QuorumQuery | QuorumState) -> None:
        match message:
            case ReadIndexQuery():
                self.reads.on_index_query(sender, message)
            case ReadIndexReply():
                self.reads.on_index_reply(message)
            case QuorumQuery():
                self.reads.on_quorum_query(sender, message)
            case QuorumState():
                self.reads.on_quorum_state(sender, message)

    def _receive_damaged(self, sender: str, message: Message) -> None:
        """*damage-is-not-truncation*: until it is repaired, a damaged node neither grants, acknowledges nor answers."""
        self.kernel.rule("damage-is-not-truncation")
        if isinstance(message, Prepare):
            refusal = Refusal(message.request, message.epoch, self.kernel.acceptor.promised_epoch, "damaged")
            self.kernel.send(sender, refusal)

    def _persisted(self, token: int) -> None:
        epoch = self.kernel.writes[0].promise.promised_epoch
        self.kernel.persisted(token)
        self.kernel.fold()
        if self.leadership and self.counts_itself():
            self.leadership.own_durable(epoch)
        if self.candidacy:
            self.candidacy.advance()

    def counts_itself(self) -> bool:
        """A node that still misses what it once acknowledged does not count."""
        return self.kernel.is_whole

    def _disk_full(self, full: bool) -> None:
        kernel = self.kernel
        kernel.rule("disk-full")
        if full and not kernel.full:
            if self.leadership:
                self.leadership.resign("disk full")
            kernel.lose_writes()
            self.follower.match_index = min(self.follower.match_index, kernel.tail.last_index)
        kernel.full = full

    def _found(self, configuration: Configuration) -> None:
        """*founding*: only a log without a single entry takes a configuration from outside."""
        if self.kernel.tail.last_index == 0 and not self.kernel.tail.configurations:
            if configuration.index:
                self.kernel.sightings.begin_again()
            self.kernel.tail.configurations.append(configuration)
            self.kernel.learn_configuration()
            self.election_at_us = self._next_election_us()

    # --- messages from leaders and candidates ---

    def _receive_from_above(self, sender: str, message: Append | Heartbeat | Fetch) -> None:
        holder = message.candidate if isinstance(message, Fetch) else message.leader
        if not self.follower.admits(sender, message.epoch, holder):
            return
        self._yield_to(message.epoch, holder)
        match message:
            case Append():
                self.follower.on_append(sender, message)
            case Heartbeat():
                self.follower.on_heartbeat(sender, message)
            case Fetch():
                self.follower.on_fetch(sender, message)

    def _yield_to(self, epoch: int, holder: Holder) -> None:
        """Somebody else holds an epoch at least as high as ours: whatever this node was about, it is over."""
        if holder == self.kernel.me:
            return
        if self.leadership and epoch >= self.leadership.epoch:
            assert epoch > self.leadership.epoch, f"two leaders of epoch {epoch}: {holder} and this node"
            self._step_down("a higher epoch leads")
        if self.candidacy and epoch >= self.candidacy.epoch:
            self.candidacy.ended = "another leads"
        if self.follower.leader != holder or self.follower.match_epoch != epoch:
            self.follower.follow(epoch, holder)
        self.election_at_us = self._next_election_us()

    def _fenced(self, fenced: Fenced) -> None:
        self.seen_epoch = max(self.seen_epoch, fenced.promised_epoch)
        if self.leadership and fenced.epoch == self.leadership.epoch < fenced.promised_epoch:
            self._step_down("fenced")
        elif self.candidacy and self.candidacy.phase == "prepare" and fenced.epoch == self.candidacy.epoch:
            self.candidacy.give_up("epoch")

    # --- the lease ---

    def _receive_lease(self, sender: str, message: Probe | Prepare | Release | ProbeReply | Grant | Refusal) -> None:
        match message:
            case Probe():
                self._on_probe(sender, message)
            case Prepare():
                self._on_prepare(sender, message)
            case Release():
                if self.kernel.acceptor.release(message.epoch, message.holder):
                    self._hurry_election()
            case ProbeReply() if self.candidacy:
                self.candidacy.on_probe_reply(sender, message)
            case Grant() if self.candidacy:
                self.kernel.sightings.see(sender, message.epoch)
                self._check_granted(sender, message)
                self.candidacy.on_grant(sender, message)
            case Refusal():
                self.seen_epoch = max(self.seen_epoch, message.promised_epoch)
                if self.candidacy:
                    self.candidacy.on_refusal(message)
            case ProbeReply() | Grant():
                self.kernel.rule("late-reply")

    def _check_granted(self, sender: str, grant: Grant) -> None:
        if self.candidacy and grant.epoch == self.candidacy.epoch:
            self.candidacy.walls_us[sender] = grant.wall_time_us

    def _obstacle(self, candidate: Holder, configuration: Configuration) -> str:
        """Why this member would grant `candidate` nothing now, or ""."""
        kernel = self.kernel
        if not kernel.is_whole or kernel.full:
            return "damaged"
        mine = kernel.configuration
        if mine is None or (mine.index == 0 and configuration.index == 0 and mine != configuration):
            return "founding"
        return kernel.acceptor.obstacle(candidate, configuration, mine, kernel.now_us)

    def _on_probe(self, sender: str, probe: Probe) -> None:
        kernel = self.kernel
        would_grant = not self._obstacle(probe.candidate, probe.configuration)
        reply = ProbeReply(
            probe.request, would_grant, kernel.acceptor.promised_epoch, kernel.tail.durable, kernel.wall_us
        )
        kernel.send(sender, reply)

    def _on_prepare(self, sender: str, prepare: Prepare) -> None:
        """*promise-before-grant*: bind in memory at once, fsync, take the position after that, then grant."""
        kernel, acceptor = self.kernel, self.kernel.acceptor
        if prepare.released_epoch and acceptor.holder:
            self._take_release(prepare.released_epoch)
        reason = self._obstacle(prepare.candidate, prepare.configuration)
        if not reason and not acceptor.may_promise(prepare.epoch, prepare.candidate):
            reason = "epoch"
        if reason:
            kernel.rule(f"refused-{reason}")
            refusal = Refusal(prepare.request, prepare.epoch, acceptor.promised_epoch, reason)
            kernel.send(sender, refusal)
            return
        kernel.rule("promise-before-grant")
        acceptor.bind(prepare.epoch, prepare.candidate, kernel.now_us)
        self._yield_to_candidate(prepare)
        kernel.reply_after(self.grant_token(), sender, lambda: self._grant(prepare))

    def _take_release(self, epoch: int) -> None:
        acceptor = self.kernel.acceptor
        if acceptor.holder and acceptor.promised_epoch == epoch:
            acceptor.release(epoch, acceptor.holder)

    def _yield_to_candidate(self, prepare: Prepare) -> None:
        self.follower.leader = None
        if self.leadership and prepare.epoch > self.leadership.epoch:
            self._step_down("a higher epoch was granted")
        if self.candidacy and prepare.epoch > self.candidacy.epoch:
            self.candidacy.ended = "another tries"
        self.election_at_us = self._next_election_us()

    def grant_token(self) -> int:
        """The write that makes the promise durable."""
        return self.kernel.persist_promise()

    def _grant(self, prepare: Prepare) -> Grant | None:
        kernel = self.kernel
        if kernel.configuration is None:
            return None
        position, commit = kernel.tail.durable, kernel.commit_index
        return Grant(prepare.request, prepare.epoch, position, commit, kernel.configuration, kernel.wall_us)

    # --- elections ---

    def _may_lead(self) -> bool:
        kernel = self.kernel
        return kernel.is_voter and kernel.is_whole and not kernel.full and not kernel.is_stalled(kernel.now_us)

    def _is_allowed(self) -> bool:
        """An external lease source decides who may try; without one everybody may."""
        return not self.kernel.settings.external_lease or self.kernel.now_us < self.may_try.until_us

    def _next_election_us(self) -> int:
        """After the grant that is held here has run out, and a little chance, so that two seldom try at once."""
        kernel = self.kernel
        jitter_us = kernel.chance.randrange(kernel.settings.election_jitter_us + 1)
        return max(kernel.now_us, kernel.acceptor.free_at_us()) + jitter_us

    def _hurry_election(self) -> None:
        """The epoch was released: no need to wait for it to run out."""
        self.election_at_us = min(self.election_at_us, self._next_election_us())

    def _tick(self) -> None:
        kernel = self.kernel
        if kernel.now_us >= kernel.sightings.store_at_us and not kernel.writes and not kernel.full:
            kernel.persist()
        if self.leadership:
            self.leadership.on_tick()
        elif self.candidacy:
            self.candidacy.on_tick()
        elif self.kernel.now_us >= self.election_at_us and self._may_lead():
            self._try()

    def _try(self) -> None:
        self.election_at_us = self._next_election_us()
        if self.kernel.now_us >= self.kernel.acceptor.free_at_us() and self._is_allowed():
            self.follower.leader = None
            self.candidacy = self._new_candidacy()
            self.begin_candidacy(self.candidacy)

    def begin_candidacy(self, candidacy: Candidacy) -> None:
        """Ask before binding anyone."""
        candidacy.begin()

    def _new_candidacy(self) -> Candidacy:
        above = max(self.seen_epoch, self.may_try.token)
        return Candidacy(self.kernel, self.follower, above, self._lead)

    def _handover(self, handover: Handover) -> None:
        """The leader has released its epoch in favour of this node."""
        if not self.kernel.acceptor.release(handover.epoch, handover.leader) or not self._may_lead():
            return
        self.kernel.rule("handover")
        self.follower.leader = None
        self.candidacy = self._new_candidacy()
        self.candidacy.prepare(released_epoch=handover.epoch)

    def _lead(self, epoch: int, granted_at_us: dict[str, int]) -> None:
        self.kernel.commit(self.kernel.commit_index)
        self.leadership = Leadership(self.kernel, epoch, granted_at_us)
        self.leadership.open()

    def _transfer(self, transfer: Transfer) -> None:
        if self.leadership:
            self.leadership.transfer(transfer.target)
        else:
            self.kernel.emit(TransferEnded("this node does not lead"))

    def _step_down(self, reason: str) -> None:
        leadership = self.leadership
        assert leadership is not None
        leadership.ended = leadership.ended or reason
        self.leadership = None
        if leadership.transfer_to:
            self.kernel.emit(TransferEnded("" if reason.startswith("a higher epoch") or reason == "fenced" else reason))
        self.election_at_us = self._next_election_us()

    # --- after every input ---

    def _settle(self) -> None:
        kernel = self.kernel
        if not kernel.sightings.is_open:
            kernel.sightings.advance()
        if self.leadership:
            if kernel.is_stalled(kernel.now_us):
                self.leadership.on_tick()
            if self.leadership.ended:
                self._step_down(self.leadership.ended)
        if self.candidacy:
            self._settle_candidacy(self.candidacy)
        kernel.fold()
        if self.reads.is_waiting:
            self.reads.settle()
        self._say_role()
        kernel.tail.trim(kernel.applied_index, kernel.settings.tail_bytes)

    def _settle_candidacy(self, candidacy: Candidacy) -> None:
        if candidacy.phase == "prepare" and candidacy.epoch < self.kernel.acceptor.promised_epoch:
            candidacy.ended = candidacy.ended or "epoch"
        if candidacy.ended:
            self.seen_epoch = max(self.seen_epoch, candidacy.above_epoch)
            self.candidacy = None
            self.election_at_us = self._next_election_us()

    def _leader_to_ask(self) -> str:
        leader = self.follower.leader
        return leader.node if leader and leader.node != self.kernel.me.node else ""

    def _role(self) -> RoleChanged:
        kernel, leadership = self.kernel, self.leadership
        epoch = kernel.acceptor.promised_epoch
        if leadership:
            return RoleChanged(Role.LEADER, leadership.epoch, kernel.me.node, leadership.serves)
        if self.candidacy:
            return RoleChanged(Role.CANDIDATE, epoch, None, False)
        role = Role.FOLLOWER if kernel.is_voter or kernel.configuration is None else Role.LEARNER
        return RoleChanged(role, epoch, self._leader_to_ask() or None, False)

    def _say_role(self) -> None:
        role = self._role()
        if role != self._said:
            self._said = role
            self.kernel.emit(role)
