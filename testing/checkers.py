"""The invariants of PROTOCOL § 11, each a small checker that looks at one kind of event as it happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..lease.messages import Grant, Holder
from ..log.entry import GENESIS_HASH, Entry, Position
from ..memory.events import WITHDRAWN
from ..memory.record import REJECTED
from ..replication.messages import (
    Append,
    Appended,
    Fetch,
    Heartbeat,
    HeartbeatReply,
    Input,
    Persist,
    ReadMode,
    Receive,
    Role,
    RoleChanged,
)
from .fold import Erasure, parsed
from .history import History
from .notary import public_key
from .report import Tally
from .requests import Query, Submission, Value, Written
from .violations import Violation

if TYPE_CHECKING:
    from .cluster import Cluster
    from .host import Host
    from .process import Process

DIGEST_EVERY = 16
FORGED = b"forged"
"""What somebody on the wire puts in the place of a signature."""
OF_LEADERS = (Append, Heartbeat, Fetch)
LINEARIZABLE = frozenset({ReadMode.STRONG, ReadMode.LEASE, ReadMode.QUORUM})


class OneLeaderAnEpoch:
    """At most one process run ever leads an epoch."""

    def __init__(self) -> None:
        self.leaders: dict[int, Holder] = {}
        self._candidates: dict[int, set[str]] = {}

    def stands(self, process: Process, epoch: int) -> None:
        """`process` asks for `epoch`, or whether a later one than that would be granted."""
        self._candidates.setdefault(epoch, set()).add(process.me)

    def was_split_after(self, epoch: int) -> bool:
        """Whether two nodes have asked for one epoch later than that, and may have had each other's vote missing."""
        return any(len(nodes) > 1 for asked, nodes in self._candidates.items() if asked > epoch)

    def leads(self, process: Process, epoch: int) -> None:
        """`process` says that it leads `epoch`."""
        first = self.leaders.setdefault(epoch, process.holder)
        if first != process.holder:
            raise Violation("one leader an epoch", f"epoch {epoch} is led by {first.run} and by {process.holder.run}")


class LeadersHoldTheCommitted:
    """What was committed in a lower epoch stands in the log of every later leader."""

    def __init__(self, history: History) -> None:
        self._history = history

    def leads(self, process: Process, epoch: int) -> None:
        """A leader begins: everything committed so far in lower epochs must be there."""
        history = self._history
        for index in range(history.length, 0, -1):
            if history.committed_in[index - 1] < epoch:
                self._holds(process, epoch, index)
                return

    def committed(self, leaders: list[Process], epoch: int) -> None:
        """Something was committed in `epoch`: leaders of higher ones must have it already."""
        for process in leaders:
            if process.role.epoch > epoch:
                self._holds(process, process.role.epoch, self._history.length)

    def _holds(self, process: Process, epoch: int, index: int) -> None:
        committed = self._history.entries[index - 1]
        if index > len(process.log) or process.log[index - 1].hash != committed.hash:
            raise Violation(
                "a later leader holds what was committed",
                f"{process.holder.run} leads {epoch} without ({committed.epoch}, {index}),"
                f" its log ends at {len(process.log)}",
            )


class NothingLeavesBeforeItIsDurable:
    """Grants, acknowledgements and confirmations rest on what is on disk, and acknowledge what the leader has."""

    def __init__(self, leaders: dict[int, Holder]) -> None:
        self._leaders = leaders

    def sending(self, process: Process, message: Any) -> None:
        """`process` sends a message to a member."""
        if isinstance(message, Appended):
            self._promised(process, message.epoch, "acknowledges")
            self._acknowledges(process, message)
        elif isinstance(message, HeartbeatReply):
            self._promised(process, message.epoch, "confirms")
        elif isinstance(message, Grant):
            self._promised(process, message.epoch, "grants")
            if message.position > process.host.disk.last_position:
                raise Violation("promise-before-grant", f"{process.holder.run} grants with a position not on its disk")

    def _promised(self, process: Process, epoch: int, verb: str) -> None:
        durable = process.host.disk.hard_state.promised_epoch
        if durable < epoch:
            raise Violation("promise-before-grant", f"{process.holder.run} {verb} {epoch}, its disk promised {durable}")

    def _acknowledges(self, process: Process, message: Appended) -> None:
        disk, match = process.host.disk, message.match
        if match > disk.last_index:
            raise Violation(
                "ack-what-matches", f"{process.holder.run} acknowledges {match}, its disk ends at {disk.last_index}"
            )
        leader = self._leader(process, message.epoch)
        if leader and match and (match > len(leader.log) or leader.log[match - 1].hash != disk.hash_at(match)):
            raise Violation(
                "ack-what-matches",
                f"{process.holder.run} acknowledges {match}, which differs from {leader.holder.run}'s",
            )

    def _leader(self, process: Process, epoch: int) -> Process | None:
        holder = self._leaders.get(epoch)
        host = process.cluster.hosts.get(holder.node) if holder else None
        leader = host.process if host else None
        if leader is None or leader.holder != holder:
            return None
        return leader if leader.role.role is Role.LEADER and leader.role.epoch == epoch else None


class FencedChangesNothing:
    """No message of an epoch below the promise changes a log, and no cut ever takes a committed entry."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._fenced: dict[str, int] = {}

    def before_step(self, process: Process, arrival: Input) -> None:
        """Note whether the message that arrives is of a fenced epoch."""
        if self._fenced:
            self._fenced.pop(process.holder.run, None)
        message = arrival.message if type(arrival) is Receive else None
        if isinstance(message, OF_LEADERS) and message.epoch < process.promised_epoch:
            self._fenced[process.holder.run] = message.epoch

    def persisting(self, process: Process, write: Persist) -> None:
        """The process asks for a write."""
        fenced = self._fenced.get(process.holder.run)
        if fenced is not None and (write.entries or write.cut_after is not None):
            raise Violation(
                "fence", f"{process.holder.run} writes for {fenced} after it promised {process.promised_epoch}"
            )
        end = len(process.log) if write.cut_after is None else write.cut_after
        self._cuts(process, end)
        last = process.log[end - 1].hash if end else GENESIS_HASH
        for entry in write.entries:
            if entry.prev_hash != last:
                raise Violation(
                    "equal hash means equal prefix", f"{process.holder.run} writes {entry.index} off the chain"
                )
            last = entry.hash

    def _cuts(self, process: Process, after: int) -> None:
        history = self._history
        for entry in process.log[after : history.length]:
            if history.entries[entry.index - 1].hash == entry.hash:
                raise Violation(
                    "committed entries never vanish",
                    f"{process.holder.run} cuts ({entry.epoch}, {entry.index}), which is committed",
                )


class EqualDigests:
    """Nodes that have applied the same index hold the same state."""

    def __init__(self) -> None:
        self._digests: dict[int, bytes] = {}
        self.compared = 0

    def applied(self, name: str, position: Position, digest: bytes) -> None:
        """`name` has this digest after `position`."""
        first = self._digests.setdefault(position.index, digest)
        self.compared += 1
        if first != digest:
            raise Violation("equal applied index means equal digest", f"{name} differs from others at {position}")


class Answers:
    """What a client hears is what the one history says: each command once, committed when it is answered."""

    def __init__(self, history: History) -> None:
        self._history = history

    def written(self, submission: Submission, reply: Written) -> None:
        """A client's envelope was answered."""
        history = self._history
        if reply.index > history.length:
            raise Violation("acknowledged means committed", f"{reply.index} is answered, {history.length} is committed")
        for id, outcome in zip(submission.command_ids, reply.outcomes, strict=True):
            execution = history.executions.get(id)
            if execution is None:
                raise Violation("acknowledged commands are in the log", f"{id.hex()} was answered and never executed")
            if execution.index > reply.index or not _is_first_outcome(outcome, execution.outcome):
                raise Violation(
                    "exactly once",
                    f"{id.hex()} came to {execution.outcome}, but was answered {outcome} at {reply.index}",
                )

    def read(self, query: Query, value: Value, known: int) -> None:
        """A read was answered; `known` entries were known to be committed when it began."""
        history, index = self._history, value.position.index
        if index > history.length or history.position_at(index) != value.position:
            raise Violation("reads see a committed prefix", f"{value.member} answers at {value.position}")
        expected = history.text_at(query.record_id, index)
        if value.text != expected:
            raise Violation(
                "a read shows the state at its index", f"{value.member} has {value.text} at {index}, not {expected}"
            )
        if query.mode in LINEARIZABLE and index < known:
            raise Violation(
                "strong and quorum reads are linearizable",
                f"a {query.mode} read is answered by {value.member} at {index}, {known} was committed when it began",
            )
        if query.mode is ReadMode.SESSION and index < query.min_index:
            raise Violation("sessions are monotonic", f"{value.member} answers at {index} after {query.min_index}")


def _is_first_outcome(outcome: Any, first: Any) -> bool:
    return (outcome.code, outcome.rule, outcome.record_id, outcome.version) == (
        first.code, first.rule, first.record_id, first.version,
    )  # fmt: skip


class Checks:
    """All checkers together, told of everything that happens."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.history = History()
        self.checked = Tally()
        self.elections = OneLeaderAnEpoch()
        self.completeness = LeadersHoldTheCommitted(self.history)
        self.durability = NothingLeavesBeforeItIsDurable(self.elections.leaders)
        self.fences = FencedChangesNothing(self.history)
        self.digests = EqualDigests()
        self.answers = Answers(self.history)

    def started(self, process: Process) -> None:
        """A process run begins."""
        self.checked.count("process runs")
        process.promised_epoch = process.host.disk.hard_state.promised_epoch

    def before_step(self, process: Process, arrival: Input) -> None:
        """An input is about to be taken."""
        self.fences.before_step(process, arrival)

    def persisting(self, process: Process, write: Persist) -> None:
        """A write is asked for."""
        self.fences.persisting(process, write)
        if write.hard_state is not None:
            process.promised_epoch = max(process.promised_epoch, write.hard_state.promised_epoch)

    def written(self, host: Host, write: Persist) -> None:
        """A write is on disk."""
        for entry in write.entries:
            if entry.signature == FORGED:
                raise Violation("nothing forged is written", f"{host.id} has a forged entry at {entry.index}")
            self.history.holds(host.id, entry)

    def sending(self, process: Process, message: Any) -> None:
        """A message leaves for a member."""
        self.durability.sending(process, message)

    def role_changed(self, process: Process, change: RoleChanged) -> None:
        """A process takes another role."""
        if change.role is Role.CANDIDATE:
            self.elections.stands(process, change.epoch)
        if change.role is Role.LEADER:
            self.elections.leads(process, change.epoch)
            self.completeness.leads(process, change.epoch)
            self.checked.count("leaders that serve", change.serves)

    def committed(self, process: Process, commit_index: int) -> None:
        """A process takes everything up to `commit_index` for committed."""
        epoch = process.promised_epoch
        fresh = self.history.commit(process, commit_index, epoch)
        if fresh:
            self._count_what_moves_many(self.history.entries[-fresh:])
            self.checked.count("entries committed", fresh)
            leaders = [other for other in self._cluster.processes if other.role.role is Role.LEADER]
            self.completeness.committed(leaders, epoch)

    def _count_what_moves_many(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.checked.count("records erased", len(parsed(entry).erases))
            for item in parsed(entry).items:
                if type(item[0]) is bytes:
                    fallen = sum(len(event[3]) for event in item[1:] if event[0] == WITHDRAWN)
                    self.checked.count("values fallen with their source", fallen)

    def applied(self, host: Host) -> None:
        """A node's fold stands at an index that is to be compared."""
        if host.fold.is_whole:
            self.digests.applied(host.id, host.fold.applied, host.fold.digest())
        else:
            self.checked.count("states without their texts")

    def erasing(self, host: Host, erasure: Erasure) -> None:
        """A node is about to destroy bodies."""
        if not self.history.erases(erasure):
            raise Violation("only what is committed destroys", f"{host.id} erases by {erasure.index}, uncommitted")

    def erased(self, host: Host) -> None:
        """At rest a log holds no body of what was erased before it, on whatever way it came here, and all others."""
        erasures = self.history.fold.erasures
        for entry, written in zip(host.disk.entries, self.history.entries, strict=False):  # a tail may be uncommitted
            for place, about in enumerate(parsed(written).subjects):
                is_gone = any(erasure.id in about and (entry.index, place) < erasure[:2] for erasure in erasures)
                self.checked.count("bodies looked for", is_gone)
                if entry.bodies[place] != (None if is_gone else written.bodies[place]):
                    what = f"{'still holds' if is_gone else 'has lost'} body {place} of {entry.index}"
                    raise Violation("what was erased is destroyed, and nothing else", f"{host.id} {what}")

    def grounded(self) -> None:
        """No value is held that was only derived, and from nothing that is left."""
        state = self.history.fold.state
        held = {id for id, record in state.records.items() if record.trust != REJECTED}
        for id in held:
            record = state.records[id]
            resting = record.derived_from
            self.checked.count("derived values held", bool(resting))
            if resting and set(record.sources) <= set(resting) and held.isdisjoint(resting):
                raise Violation("what rested on it goes with it", f"{id.hex()} is held, and nothing that it rests on")

    def sealed(self, process: Process) -> None:
        """At rest every seal on a disk is its sealer's word about the entry there, and the last entry is sealed."""
        disk, notary = process.host.disk, process.host.notary
        for index, seal in disk.seals.items():
            if seal.hash != disk.hash_at(index) or not notary.check(seal, public_key(seal.sealer)):
                raise Violation("seals tell the truth", f"{process.holder.run} has a seal of another entry at {index}")
        if disk.last_index not in disk.seals:
            raise Violation("seals tell the truth", f"{process.holder.run} ends at {disk.last_index} without a seal")

    def ready_here(self, process: Process, position: Position) -> None:
        """The core lets this node answer a read from its own state."""
        if process.host.fold.applied < position:
            raise Violation("read barrier", f"{process.holder.run} may answer at {position} before it has applied it")
