"""The engine of a node that has found its place: the replica, and everything that carries out its effects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from ..embedding.choice import service_of
from ..lease.messages import Holder, Prepare
from ..log.configuration import Configuration
from ..log.entry import Entry, Position
from ..log.errors import LogDamaged
from ..log.identifier import ENTROPY_BYTES, uuid7
from ..log.notary import Notary
from ..log.seal import Seal
from ..log.store import Identity
from ..memory.commands import EMBED, EmbedBody, encode_body
from ..memory.context import Context, OperatorRights
from ..replication import messages as m
from ..replication.messages import Message, Role, RoleChanged
from ..replication.replica import Replica
from ..security.digests import DigestKey
from ..security.keys import verify
from .access import Access, Caller
from .admission import Bounds
from .asking import TIMEOUT_S as QUESTION_TIMEOUT_S
from .asking import Asking
from .behalf import signed_by_node
from .chronicle import Chronicle
from .decider import FOR_THE_CLUSTER, Proposal
from .driver import Driver, Handlers
from .erasing import Eraser
from .feed import Feed, FeedPort
from .folding import FoldPort, FoldSchedule
from .identity import DataDirectory
from .members import Members
from .membership import Membership, MembershipPort
from .metrics import Metrics
from .ports import BareCommand, Submission, SubmitResult, Transport, Wait
from .proofs import Proofs
from .reading import Freshness, Readers, Reads, ReadsPort
from .rounds import Rounds, RoundsPort
from .runner import RunnerKey
from .settings import MILLISECOND_US, SECOND_US, Settings
from .startup import Opened
from .storage import Applier, ApplierPort, CommandCount, RecentEntries, Result, Writer, WriterPort
from .system import Clock, Entropy
from .upkeep import Upkeep, UpkeepPort
from .vectoring import SERVICE_TIMEOUT_S, Vectoring, VectoringPort
from .verifier import Border, Verifier

RUN_ID_BYTES = 8
CATCH_UP_US = 5 * SECOND_US
CHAIN_RULES = frozenset({"chain-check", "seal-check"})
FROM_LEADERS = (Prepare, m.Append, m.Heartbeat, m.Fetch, m.Handover, m.Fenced)
"""What only members say, and what can end a leader's time."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.engine")


@dataclass(frozen=True, slots=True)
class EnginePort:
    """Who hears what the node as a whole must know: `damaged` that its log is, `lost` that its disk is an older copy,
    `step_aside` that others should lead.
    """

    role: Callable[[RoleChanged], None]
    transfer_ended: Callable[[str], None]
    damaged: Callable[[str], None]
    lost: Callable[[str], None]
    step_aside: Callable[[], None]
    fatal: Callable[[str], None]


class Engine:
    """One run of one replica. `begin` starts it; `stop` ends its threads and leaves the files open."""

    def __init__(
        self,
        opened: Opened,
        settings: Settings,
        directory: DataDirectory,
        members: Members,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        chronicle: Chronicle,
        port: EnginePort,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._members = members
        self._transport = transport
        self._clock = clock
        self._metrics = metrics
        self._port = port
        identity = directory.identity
        self._me = identity.node_id
        self._freshness = Freshness()
        self._recent = RecentEntries(settings.limits.tail_bytes)
        self._counts = CommandCount()
        self._border = Border(identity.cluster_id, settings.limits)
        self._room = True
        self._writes_under_way = 0
        self._runner_key = RunnerKey(settings.runner_key)
        self._leader: str | None = None
        self.replica = self._replica(opened, entropy)
        self._readers = Readers(opened.projection, settings.limits.reader_threads)
        self._verifier = Verifier(settings.limits.verifier_threads, metrics.signature_failures.inc)
        self.rounds = Rounds(self._bounds(), clock, metrics, self._rounds_port(opened))
        self._access = Access(identity.cluster_id, clock)
        self._entropy = entropy
        self._vectoring, asking = self._served(opened)
        reads_port = ReadsPort(
            self._me, self.age_us, members.name, self._access, self._look_at_fold, self._on_bad_rows,
            asking and asking.asked,
        )  # fmt: skip
        self.reads = Reads(clock, transport, self._readers, metrics, settings.limits.waiting_reads, reads_port)
        self._store = opened.store
        feed_port = FeedPort(identity.cluster_id, self.age_us, clock.wall_us, self._digests)
        self.feed = Feed(opened.store, self._readers, self._access, metrics, feed_port)
        self._writer = self._new_writer(opened, Identity(identity.cluster_id, identity.cluster, self._me))
        self._applier = Applier(
            opened.projection, opened.store, self._recent, ApplierPort(self._on_folded, port.damaged, port.fatal),
            metrics.apply_seconds.observe, clock,
        )  # fmt: skip
        self._eraser = Eraser(opened.store, opened.projection, self._readers, self._on_applier, metrics, port.damaged)
        self._projection = opened.projection
        self._schedule = FoldSchedule(self._fold_port())
        self.driver = Driver(self.replica, clock, self._handlers(), port.fatal, self._schedule.look)
        self.rounds.driver = self.reads.driver = self.driver
        self.membership = Membership(self.driver, self.rounds, self._membership_port())
        self.upkeep = Upkeep(
            opened.projection, opened.store, self._applier, members, transport, Proofs(directory, members, clock),
            chronicle, settings.upkeep, clock, UpkeepPort(port.damaged, port.step_aside, port.fatal),
            self._runner_key,
        )  # fmt: skip

    # --- assembly ---

    def _replica(self, opened: Opened, entropy: Entropy) -> Replica:
        identity = self._directory.identity
        me = Holder(self._me, entropy.bytes(RUN_ID_BYTES).hex())
        notary = Notary(identity.cluster_id, self._me, self._directory.key, identity.ancestors)
        settings, now_us = self._settings.core, self._clock.elapsed_us()
        return Replica(me, opened.restored, settings, notary, entropy.random(), now_us, self._on_rule)

    def _bounds(self) -> Bounds:
        limits, timings = self._settings.limits, self._settings.timings
        linger_min_us = int(timings.linger_min_ms * MILLISECOND_US)
        return Bounds(
            limits.batch_commands, limits.batch_bytes, linger_min_us, int(timings.linger_max_ms * MILLISECOND_US)
        )

    def _rounds_port(self, opened: Opened) -> RoundsPort:
        return RoundsPort(
            opened.projection, self._on_applier, self._context, self._lags, self._voter_matches,
            self._port.fatal,
        )  # fmt: skip

    def _fold_port(self) -> FoldPort:
        return FoldPort(
            self._applier.apply, self._is_fold_awaited, lambda: self._writes_under_way > 0 and not self.rounds.serves,
            lambda index: self._counts.between(self.replica.kernel.applied_index, index),
        )  # fmt: skip

    def _membership_port(self) -> MembershipPort:
        identity = self._directory.identity
        return MembershipPort(
            lambda: self.replica.kernel.configuration, self._members.endpoint, self._transport.hello,
            identity.cluster, identity.cluster_id,
        )  # fmt: skip

    def _served(self, opened: Opened) -> tuple[Vectoring | None, Asking | None]:
        """Who asks the service, where one makes the vectors of this index: for records, and for questions."""
        projection = opened.projection
        if not projection.is_served:
            return None, None
        name = projection.made_by.name
        port = VectoringPort(
            self._readers.run, lambda: self.rounds.epoch, lambda: projection.vectors_awaited, projection.note_awaited,
            self._submit_vectors,
        )  # fmt: skip
        for_records = service_of(name, time.sleep, SERVICE_TIMEOUT_S, attempts=1)
        for_questions = service_of(name, time.sleep, QUESTION_TIMEOUT_S, attempts=1)
        return Vectoring(for_records, self._metrics, port), Asking(for_questions, self._clock)

    async def _submit_vectors(self, bodies: Sequence[EmbedBody]) -> SubmitResult:
        """Decided here or not at all; returns once it is folded here."""
        wall_us = self._clock.wall_us()
        commands = [
            BareCommand(uuid7(wall_us, self._entropy.bytes(ENTROPY_BYTES)), EMBED, encode_body(EMBED, body))
            for body in bodies
        ]
        submission = signed_by_node(
            self._directory, FOR_THE_CLUSTER, commands, self._clock, self._entropy, CATCH_UP_US, Wait.QUORUM
        )  # fmt: skip
        return await self.rounds.submit(await self.verified(submission), Wait.QUORUM).future

    def _look_at_vectors(self) -> None:
        if self._vectoring is not None:
            self._vectoring.look()

    def _on_applier(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        return self._applier.call(work)

    def _new_writer(self, opened: Opened, identity: Identity) -> Writer:
        port = WriterPort(self._on_written, self._on_full, self._port.fatal)
        simulated_s = self._settings.timings.simulated_fsync_ms / 1000
        return Writer(opened.store, identity, self._clock, port, self._metrics.fsync_seconds.observe, simulated_s)

    def _handlers(self) -> Handlers:
        return {
            m.Send: self._on_send,
            m.Persist: self._on_persist,
            m.Apply: self._on_apply,
            m.ReadLog: self._on_read_log,
            m.Accepted: self._on_accepted,
            m.Declined: self._on_declined,
            m.ReadReady: self.reads.on_ready,
            m.ReadFailed: self.reads.on_failed,
            m.RoleChanged: self._on_role,
            m.TransferEnded: self._on_transfer_ended,
            m.Discarded: self._on_discarded,
            m.Lost: lambda lost: self._port.lost(lost.reason),
            m.Halt: self._on_halt,
        }

    # --- life ---

    def begin(self) -> None:
        """Let the replica take its first look around."""
        self._adopt_configuration()
        applied = self.replica.kernel.position_of(self.replica.kernel.applied_index)
        self.reads.on_applied(applied or Position(0, 0))
        self.feed.on_applied(self.replica.kernel.applied_index)
        self._eraser.look()
        self.driver.step(m.Tick())
        self.upkeep.start()

    def found(self, configuration: Configuration) -> None:
        """All first members are empty and agreed on this configuration."""
        self.driver.step(m.Found(configuration))
        self._adopt_configuration()

    def lose(self, reason: str) -> None:
        """Take no more inputs, and tell all callers what is known."""
        self.driver.stop()
        self.upkeep.halt()
        self.rounds.lose(reason)
        self.membership.lose()
        self.reads.close(reason)
        self.feed.close()
        self._eraser.stop()
        if self._vectoring is not None:
            self._vectoring.stop()

    def stop(self, wait_s: float) -> bool:
        """End all threads, the writer after all that waits is written; whether the files are free now. Blocks.

        A thread whose disk does not answer is left behind: it dies with the process, and keeps its file until then.
        """
        self._verifier.stop()
        self.upkeep.stop()
        ended = self._writer.stop(wait_s) and self._applier.stop(wait_s)
        if ended:
            self._readers.stop()
        return ended

    # --- inputs ---

    def receive(self, sender: str, message: Message) -> None:
        """A message of a member."""
        if isinstance(message, FROM_LEADERS) and self._is_stranger(sender):
            _log.warning("a stranger speaks like a leader", sender=sender, message=type(message).__name__)
            return
        now_us = self._clock.elapsed_us()
        self._members.heard(sender, now_us)
        self.driver.step(m.Receive(sender, message))
        match message:
            case m.Append() | m.Heartbeat() if message.epoch == self.replica.kernel.acceptor.promised_epoch:
                self._freshness.heard(message.commit_index, self.replica.kernel.applied_index, now_us)
            case m.Appended() | m.HeartbeatReply():
                self.rounds.on_matched()
                self.rounds.pump()
            case _:
                pass

    def _is_stranger(self, sender: str) -> bool:
        """Whether it is nobody known here, while a leader is. Without one, any sender may be a member that was added
        by entries that this node still lacks.
        """
        leader = self._leader
        return leader is not None and sender != leader and self._members.member(sender) is None

    async def transfer(self, target: str | None) -> None:
        """Answer what is under way, and hand leadership over; ends in `EnginePort.transfer_ended`."""
        await self.rounds.pause()
        self.driver.step(m.Transfer(target))

    def may_try(self, token: int, until_us: int) -> None:
        """What an external lease source says; see `Node.may_try`."""
        self.driver.step(m.MayTry(token, until_us))

    async def export(self, first: int, max_bytes: int, last: int | None) -> tuple[list[Entry], list[Seal]]:
        """Consecutive entries of the log from `first` on, and their seals; see `LogStore.read`."""
        return await self._readers.call(lambda: self._store.read(first, max_bytes, last))

    async def require_everywhere(self, caller: Caller, right: str) -> None:
        """See `Node.require_everywhere`."""
        await self.reads.caught_up(CATCH_UP_US)
        await self._readers.run(lambda reader: self._access.require_everywhere(reader, caller, right))

    async def verified(self, submission: Submission) -> Proposal:
        """The submission as it may be decided; raises what `verifier.verified` raises."""
        return await self._verifier.verify(submission, self._border)

    def stuck_us(self) -> int:
        """For how long the write under way has not returned."""
        return self._writer.stuck_us(self._clock.elapsed_us())

    def on_room(self, room: bool) -> None:
        """Whether there is room on the disk, looked at from time to time."""
        if room == self._room:
            return
        self._room = room
        if room:
            _log.info("there is room on the disk again")
            self.driver.step(m.DiskFull(False))
        else:
            self._writer.declare_full()

    # --- effects ---

    def _on_send(self, send: m.Send) -> None:
        self._transport.send(send.to, send.message)

    def _on_persist(self, persist: m.Persist) -> None:
        self._writes_under_way += 1
        self._writer.put(persist)
        if persist.entries or persist.cut_after is not None:
            self._recent.extend(persist.cut_after, persist.entries)
            self._counts.extend(persist.cut_after, persist.entries)
            self._adopt_configuration()

    def _adopt_configuration(self) -> None:
        if self._members.adopt(self.replica.kernel.configuration):
            self._border = Border(self._border.cluster_id, self._border.limits, self._members.keys)

    def _on_written(self, tokens: Sequence[int]) -> None:
        self._writes_under_way -= len(tokens)
        for token in tokens:
            self.driver.step(m.Persisted(token))
        self._schedule.look()

    def _on_full(self) -> None:
        _log.warning("the disk is full: this node steps down and stays readable")
        self._room = False
        self._writer.reopen()
        self._writes_under_way = 0
        self.driver.step(m.DiskFull(True))
        self._schedule.look()

    def _on_accepted(self, accepted: m.Accepted) -> None:
        self.rounds.on_accepted(accepted)
        self.membership.on_accepted(accepted)

    def _on_declined(self, declined: m.Declined) -> None:
        self.rounds.on_declined(declined)
        self.membership.on_declined(declined)

    def _on_apply(self, apply: m.Apply) -> None:
        self.rounds.on_committed(apply.commit_index)
        self.membership.on_committed(apply.commit_index)
        self._schedule.committed(apply.commit_index)

    def _on_bad_rows(self, reason: str) -> None:
        """A read met rows that are not what was written."""
        self.upkeep.mend(reason)

    def _look_at_fold(self) -> None:
        self._schedule.look()

    def _is_fold_awaited(self) -> bool:
        """Whether callers, reads or the beginning of an epoch wait for what is committed to be folded."""
        leadership = self.replica.leadership
        is_opening = leadership is not None and not leadership.serves
        return is_opening or self.rounds.waits_for_fold or self.replica.reads.is_waiting or self.reads.waits_for_fold

    def _on_folded(self, index: int, epoch: int) -> None:
        self.driver.step(m.Applied(index))
        self._freshness.applied(index)
        self.reads.on_applied(Position(epoch, index))
        self.feed.on_applied(index)
        self.rounds.on_applied(index)
        self._eraser.look()
        self._look_at_vectors()

    def _on_read_log(self, read: m.ReadLog) -> None:
        future = self._readers.call(lambda: self._store.read(read.first, read.max_bytes))
        future.add_done_callback(lambda done: self._on_log_read(read.token, done))

    def _on_log_read(self, token: int, done: asyncio.Future[tuple[list[Entry], list[Seal]]]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            tell = self._port.damaged if isinstance(error, LogDamaged) else self._port.fatal
            tell(f"the log cannot be read: {error}")
            return
        entries, seals = done.result()
        self.driver.step(m.LogRead(token, tuple(entries), tuple(seals)))

    def _on_role(self, role: RoleChanged) -> None:
        self._leader = role.leader
        if role.role is Role.LEADER and role.serves:
            self.rounds.lead(role.epoch)
            self._look_at_vectors()
        elif self.rounds.serves:
            self.rounds.lose("leadership ended before it was committed")
            self.membership.on_committed(self.replica.kernel.commit_index)
            self.membership.lose()
        self._port.role(role)

    def _on_transfer_ended(self, ended: m.TransferEnded) -> None:
        if ended.reason:
            self.rounds.resume()
        self._port.transfer_ended(ended.reason)

    def _on_discarded(self, discarded: m.Discarded) -> None:
        count = discarded.last - discarded.first + 1
        self._metrics.discarded_entries.inc(count)
        _log.warning("entries never acknowledged were cut", first=discarded.first, last=discarded.last)

    def _on_halt(self, halt: m.Halt) -> None:
        self._port.fatal(f"a broken invariant: {halt.reason}")

    def _on_rule(self, rule: str) -> None:
        if rule in CHAIN_RULES:
            self._metrics.chain_mismatches.inc()

    # --- what others ask ---

    def _context(self, epoch: int) -> Context | None:
        """What decisions of that epoch need; None while the digest key is still on its way."""
        secret = self._directory.digest_secret
        if secret is None:
            return None
        return Context(DigestKey(secret), OperatorRights(), epoch, verify, self._runner_key())

    @property
    def lacks_texts(self) -> bool:
        """Whether texts are missing here that only an entry which is not folded yet takes away."""
        return self._projection.whole_after > self.replica.kernel.applied_index

    def age_us(self) -> int | None:
        """How old the state folded here may be; None when that is not known."""
        return 0 if self.rounds.serves else self._freshness.age_us(self._clock.elapsed_us())

    def _digests(self) -> DigestKey | None:
        secret = self._directory.digest_secret
        return None if secret is None else DigestKey(secret)

    def _voter_matches(self) -> dict[str, int]:
        status = self.replica.status()
        voters = status.configuration.voters if status.configuration else frozenset[str]()
        return {voter: status.matches.get(voter, 0) for voter in voters}

    def _lags(self) -> bool:
        """Whether the fold is too far behind, here or on so many live voters that fewer than W keep up."""
        kernel, limit = self.replica.kernel, self._settings.limits.apply_lag_commands
        if kernel.configuration is None:
            return False
        commit, applied = kernel.commit_index, kernel.applied_index
        if self._counts.between(applied, commit) > limit:
            return True
        live = self._members.live(self._clock.elapsed_us(), kernel.acceptor.ttl_us)
        followers = self.replica.follower_applied()
        lags = [
            self._counts.between(followers.get(voter, applied), commit) for voter in kernel.configuration.voters & live
        ]
        return sum(lag <= limit for lag in lags) < min(len(lags), kernel.configuration.write_quorum)
