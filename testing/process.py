"""One run of a simulated node: it drives the real core as a node does, until it crashes, and forgets all but its disk.

The order of things is a real node's: effects are carried out one after the other, a crash or a pause may fall between
any two of them, writes end as inputs, committed entries are folded later than they are committed, and a client is
answered between the two or after both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..lease.messages import Grant, Holder
from ..replication.messages import (
    Accepted,
    Applied,
    Apply,
    Declined,
    Discarded,
    DiskFull,
    Effect,
    Halt,
    Input,
    LogRead,
    Lost,
    Persist,
    Persisted,
    Read,
    ReadFailed,
    ReadLog,
    ReadReady,
    Receive,
    Role,
    RoleChanged,
    Send,
    Tick,
    TransferEnded,
)
from ..replication.replica import Replica
from .checkers import DIGEST_EVERY
from .desk import Desk
from .disk import Watch, Writer
from .eraser import Eraser
from .requests import Answer, Query, Unanswered, Value
from .violations import Violation
from .world import MILLISECOND, Action

if TYPE_CHECKING:
    from .host import Host

APPLY_US = (50, 800)
SLOW_APPLY_US = (20 * MILLISECOND, 200 * MILLISECOND)
READ_LOG_US = (100, 5 * MILLISECOND)
SHORTEST_TICK_US = MILLISECOND
RESTLESS_LIMIT = 20


class Process:
    """A process run on a host. All that it knows is lost with it."""

    def __init__(self, host: Host, run: str) -> None:
        self.host = host
        self.cluster = host.cluster
        self.world = host.cluster.world
        self.holder = Holder(host.id, run)
        self.is_dead = False
        self.promised_epoch = 0
        self.fuse: int | None = None
        self.fuse_pauses_us = 0
        self.log = list(host.disk.entries)
        self.role = RoleChanged(Role.FOLLOWER, 0, None, False)
        self.apply_target = host.fold.applied.index
        self._is_applying = False
        self._armed_us: int | None = None
        self._restless = 0
        self._reads: dict[int, tuple[Query, Answer]] = {}
        self._waiting_reads: list[tuple[Query, Answer, ReadReady, int]] = []
        self._tokens = 0
        self.transfer_refusals: list[str] = []
        self.discarded: list[tuple[int, int]] = []
        self.desk = Desk(self)
        self.eraser = Eraser(self)
        watch = Watch(self._written, self._write_done, self._disk_full, self._disk_stuck, self._torn)
        self.writer = Writer(self.world, host.disk, host.choices, watch)
        self.replica = self._restored_replica()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Persist: self._persist,
            Apply: self._apply,
            ReadLog: self._read_log,
            Accepted: self.desk.accepted,
            Declined: self.desk.declined,
            ReadReady: self._read_ready,
            ReadFailed: self._read_failed,
            RoleChanged: self._role_changed,
            TransferEnded: self._transfer_ended,
            Discarded: self._discarded,
            Lost: self._lost,
            Halt: self._halt,
        }
        self._arm()
        self.eraser.look()

    def _restored_replica(self) -> Replica:
        host = self.host
        return Replica(
            self.holder,
            host.restored(),
            self.cluster.settings,
            host.notary,
            self.world.stream(f"replica/{self.holder.run}"),
            host.clock.elapsed_us(),
            self.cluster.rules.fired,
        )

    @property
    def me(self) -> str:
        """This node's id."""
        return self.host.id

    def token(self) -> int:
        """A number that this run has not used yet."""
        self._tokens += 1
        return self._tokens

    # --- inputs ---

    def whenever_runs(self, action: Action) -> None:
        """Let `action` happen now, or once the process is no longer paused, or never if it dies before."""
        if self.is_dead:
            return
        if self.host.is_paused:
            self.host.backlog.append(lambda: self.whenever_runs(action))
        else:
            action()

    def later(self, delay_us: int, action: Action) -> None:
        """Let `action` happen after a while, as `whenever_runs` says."""
        self.world.after(delay_us, lambda: self.whenever_runs(action))

    def feed(self, arrival: Input) -> None:
        """Hand an input to the core as soon as the process runs, and carry out what it asks for."""
        if self.is_dead or self.host.is_paused:
            self.whenever_runs(lambda: self.feed(arrival))
            return
        clock = self.host.clock
        checks = self.cluster.checks
        checks.before_step(self, arrival)
        self.world.note(f"{self.holder.run} {_summary(arrival)}")
        effects = self.replica.step(arrival, clock.elapsed_us(), clock.wall_us())
        self._carry_out(effects, 0)

    def _carry_out(self, effects: list[Effect], first: int) -> None:
        if self.is_dead:
            return
        for place in range(first, len(effects)):
            if self.fuse is not None and self._fuse_burnt(effects, place):
                return
            effect = effects[place]
            if self.world.narrator is not None:
                self.world.tell(f"{self.holder.run}   -> {effect}")
            self._handlers[type(effect)](effect)
            if self.is_dead:
                return
        self._arm()

    def _fuse_burnt(self, effects: list[Effect], place: int) -> bool:
        assert self.fuse is not None
        self.fuse -= 1
        if self.fuse > 0:
            return False
        self.fuse = None
        if not self.fuse_pauses_us:
            self.cluster.faults_seen.count("crash between effects")
            self.host.crash()
            return True
        self.cluster.faults_seen.count("pause between effects")
        self.host.pause(self.fuse_pauses_us)
        self.host.backlog.append(lambda: self._carry_out(effects, place))
        return True

    def receive(self, sender: str, message: Any) -> None:
        """A message arrived from the network."""
        self.feed(Receive(sender, message))

    # --- time ---

    def _arm(self) -> None:
        due_us = max(self.host.clock.true_us(self.replica.deadline_us), self.world.now_us + SHORTEST_TICK_US)
        if self._armed_us is None or due_us < self._armed_us:
            self._armed_us = due_us
            self.world.at(due_us, lambda: self._ring(due_us))

    def _ring(self, due_us: int) -> None:
        if self.is_dead or due_us != self._armed_us:
            return
        self._armed_us = None
        if self.host.is_paused:
            return  # a process that stands still does not tick; `rearm` when it goes on
        if self.host.clock.elapsed_us() >= self.replica.deadline_us:
            self.feed(Tick())
            self._check_rest()
        else:
            self._arm()

    def _check_rest(self) -> None:
        """A tick leaves nothing due at once; where it does so again and again, a real node would spin."""
        is_late = self.host.clock.elapsed_us() >= self.replica.deadline_us
        self._restless = self._restless + 1 if is_late else 0
        if self._restless > RESTLESS_LIMIT:
            raise Violation("a replica rests between ticks", f"{self.holder.run} wants {self._restless} ticks at once")

    def tick(self) -> None:
        """Let the core look at the clock without being asked to."""
        self.feed(Tick())

    def rearm(self) -> None:
        """The clock changed its pace, or the process its sleep: look at it again."""
        self._armed_us = None
        self._arm()

    # --- disk ---

    def _persist(self, write: Persist) -> None:
        self.cluster.checks.persisting(self, write)
        if write.cut_after is not None:
            del self.log[write.cut_after :]
        self.log.extend(write.entries)
        self.writer.submit(write)

    def _written(self, write: Persist) -> None:
        self.cluster.checks.written(self.host, write)

    def _write_done(self, write: Persist) -> None:
        self.feed(Persisted(write.token))

    def _disk_full(self, full: bool) -> None:
        self.whenever_runs(lambda: self._take_full(full))

    def _take_full(self, full: bool) -> None:
        if full:
            self.log = list(self.host.disk.entries)
        self.feed(DiskFull(full))
        if full:
            self.writer.heard()

    def _disk_stuck(self) -> None:
        self.cluster.faults_seen.count("watchdog ended a process")
        self.host.crash()
        self.host.restart_later()

    def _torn(self) -> None:
        self.host.crash()
        self.host.restart_later()

    def _read_log(self, wanted: ReadLog) -> None:
        delay_us = self.host.choices.randrange(*READ_LOG_US)
        self.later(delay_us, lambda: self._answer_log_read(wanted))

    def _answer_log_read(self, wanted: ReadLog) -> None:
        entries, seals = self.host.disk.read(wanted.first, wanted.max_bytes)
        if any(entry.index in self.host.disk.damaged for entry in entries):
            self.host.found_damage()
        else:
            self.feed(LogRead(wanted.token, entries, seals))

    # --- network ---

    def _send(self, effect: Send) -> None:
        self.cluster.checks.sending(self, effect.message)
        self.cluster.deliver(self.me, effect.to, effect.message)
        if self.host.dies_after_granting and isinstance(effect.message, Grant):
            self.host.dies_after_granting = False
            self.host.crash()

    # --- fold ---

    def _apply(self, effect: Apply) -> None:
        self.cluster.checks.committed(self, effect.commit_index)
        self.apply_target = effect.commit_index
        self.desk.committed(effect.commit_index)
        self._go_on_applying()

    def _go_on_applying(self) -> None:
        if self._is_applying or self.apply_target <= self.host.fold.applied.index:
            return
        self._is_applying = True
        delay_us = self.host.choices.randrange(*(SLOW_APPLY_US if self.host.applies_slowly else APPLY_US))
        self.later(delay_us, self._fold)

    def _fold(self) -> None:
        self._is_applying = False
        host = self.host
        entries = host.disk.entries[host.fold.applied.index : self.apply_target]
        if any(entry.index in host.disk.damaged for entry in entries):
            host.found_damage()
            return
        for entry in entries:
            host.fold.apply([entry])
            if entry.index % DIGEST_EVERY == 0:
                self.cluster.checks.applied(host)
        self.feed(Applied(host.fold.applied.index))
        if not self.is_dead:
            self.eraser.look()
            self.desk.applied(host.fold.applied.index)
            self._answer_waiting_reads()
            self._go_on_applying()

    # --- roles ---

    def _role_changed(self, change: RoleChanged) -> None:
        self.role = change
        self.world.note(f"{self.holder.run} is {change.role} of {change.epoch} serves={change.serves}")
        self.cluster.checks.role_changed(self, change)
        self.desk.role_changed(change)
        if change.role is Role.LEADER and not change.serves:
            self.cluster.leader_begins(self)

    def _transfer_ended(self, effect: TransferEnded) -> None:
        if effect.reason:
            self.transfer_refusals.append(effect.reason)
        self.cluster.faults_seen.count("transfer refused or failed" if effect.reason else "transfer done")

    def _discarded(self, effect: Discarded) -> None:
        self.discarded.append((effect.first, effect.last))
        self.world.note(f"{self.holder.run} discards {effect.first} to {effect.last}")

    def _lost(self, effect: Lost) -> None:
        self.world.note(f"{self.holder.run} is lost: {effect.reason}")
        self.cluster.lost(self.host)

    def _halt(self, effect: Halt) -> None:
        raise Violation("halt", f"{self.holder.run} stopped itself: {effect.reason}")

    # --- reads ---

    def query(self, query: Query, answer: Answer) -> None:
        """A client asks this node."""
        token = self.token()
        self._reads[token] = (query, answer)
        deadline_us = self.host.clock.elapsed_us() + query.timeout_us
        self.feed(Read(token, query.mode, deadline_us, query.min_index))

    def _read_ready(self, ready: ReadReady) -> None:
        query, answer = self._reads.pop(ready.token)
        if ready.member == self.me:
            self.cluster.checks.ready_here(self, ready.position)
            self._answer_here(query, answer)
        else:
            self.cluster.forward_read(self.me, ready, query, answer)

    def _answer_here(self, query: Query, answer: Answer) -> None:
        if self.host.fold.is_whole:
            answer(self._value(query))
        else:
            self.cluster.checks.checked.count("reads behind an erasure")
            answer(Unanswered("behind an erasure"))

    def query_at(self, ready: ReadReady, query: Query, answer: Answer) -> None:
        """Another node found that this one may answer once it has applied enough."""
        give_up_us = self.world.now_us + query.timeout_us
        self._waiting_reads.append((query, answer, ready, give_up_us))
        self._answer_waiting_reads()

    def _answer_waiting_reads(self) -> None:
        applied, still = self.host.fold.applied, list[tuple[Query, Answer, ReadReady, int]]()
        for waiting in self._waiting_reads:
            query, answer, ready, give_up_us = waiting
            if applied >= ready.position and self.host.fold.is_whole:
                answer(self._value(query))
            elif self.world.now_us < give_up_us:
                still.append(waiting)
        self._waiting_reads = still

    def _value(self, query: Query) -> Value:
        fold = self.host.fold
        return Value(fold.text(query.record_id), fold.applied, self.me)

    def _read_failed(self, failed: ReadFailed) -> None:
        _, answer = self._reads.pop(failed.token)
        answer(Unanswered(failed.reason))


def _summary(arrival: Input) -> str:
    """What the trace says of an input: enough to tell two runs apart, cheap to make."""
    if isinstance(arrival, Receive):
        message = arrival.message
        return f"{type(message).__name__} from {arrival.sender} {getattr(message, 'epoch', '')}"
    return f"{type(arrival).__name__} {getattr(arrival, 'token', getattr(arrival, 'index', ''))}"
