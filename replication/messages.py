"""What can arrive at a replica and what can leave it. The core does no IO (PROTOCOL § 11): inputs in, effects out.

Messages travel between members, inputs come from the node that drives the core, effects go to it.
All values are immutable. Times are microseconds; `now_us` is the node's own elapsed-time clock.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ..lease.messages import Holder, LeaseMessage
from ..log.configuration import Configuration
from ..log.entry import Entry, Position
from ..log.seal import Seal
from ..log.value import value

# --- messages between members -----------------------------------------------------------------------------------------


class Sighting(NamedTuple):
    """The highest epoch that a member was seen to have promised, and how many entries it has acknowledged in it."""

    node: str
    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


@value()
class Append:
    """Leader to follower: entries that follow `(prev_index, prev_hash)`, ending at a seal; empty to test a prefix.

    `round` matches the reply to the request; `stamp_us` is the renewal (leader's clock, echoed).
    """

    epoch: int
    leader: Holder
    round: int
    prev_index: int
    prev_hash: bytes
    entries: tuple[Entry, ...]
    seals: tuple[Seal, ...]
    commit_index: int
    stamp_us: int


@value()
class Appended:
    """Follower to leader: `match` is `min(match, durable)` (*ack-what-matches*). `stamp_us` 0: no renewal.

    `matched` False means the prefix differs; `last_index` and `commit_index` bound the search for where it does.
    `counts` False: entries it once acknowledged are still missing here, so this is progress, not an acknowledgement.
    """

    epoch: int
    round: int
    matched: bool
    match: int
    last_index: int
    commit_index: int
    applied_index: int
    stamp_us: int
    counts: bool = True


@value()
class Heartbeat:
    """Leader to follower, beside any append in flight: renewal, commit index, and the read round to confirm.

    `stamp_us` 0 only brings news of the commit index: it renews nothing and wants no reply. `seen` is what the leader
    has seen of the members, so that more than one remembers it.
    """

    epoch: int
    leader: Holder
    commit_index: int
    stamp_us: int
    read_round: int
    seen: tuple[Sighting, ...] = ()


@value()
class HeartbeatReply:
    """Follower to leader. `stamp_us` 0: this node does not renew (its disk is stuck)."""

    epoch: int
    stamp_us: int
    read_round: int
    applied_index: int


@value()
class Fenced:
    """The sender's epoch is over (*fence*): a higher one was promised here."""

    epoch: int
    promised_epoch: int


@value()
class Fetch:
    """A candidate that adopts a longer log asks for what follows `(prev_index, prev_hash)`; fenced like an append."""

    epoch: int
    candidate: Holder
    request: int
    prev_index: int
    prev_hash: bytes


@value()
class Fetched:
    """Answer to `Fetch` of the same `request`; `matched` False with no entries means: search earlier."""

    epoch: int
    request: int
    matched: bool
    entries: tuple[Entry, ...]
    seals: tuple[Seal, ...]
    last_index: int
    commit_index: int


@value()
class Handover:
    """The leader asks its successor to take over now; it has released the epoch (*transfer-drops-the-lease*)."""

    epoch: int
    leader: Holder


@value()
class ReadIndexQuery:
    """A follower asks the leader for an index that a strong read may be answered at."""

    request: int


@value()
class ReadIndexReply:
    """The commit index confirmed *after* the query arrived; `index` -1: this node does not lead."""

    request: int
    epoch: int
    index: int


@value()
class QuorumQuery:
    """A quorum read asks for a member's durable position, its configuration there, and its applied position."""

    request: int


@value()
class QuorumState:
    """Answer to `QuorumQuery`."""

    request: int
    position: Position
    applied: Position
    configuration: Configuration


@value()
class SeenQuery:
    """A member that has started asks what was seen of it (*ask-before-taking-part*)."""

    request: int


@value()
class SeenReply:
    """Answer to `SeenQuery`: what was seen of all members, and who they are: the asker may have missed changes."""

    request: int
    seen: tuple[Sighting, ...]
    configuration: Configuration


Message = (
    LeaseMessage
    | Append
    | Appended
    | Heartbeat
    | HeartbeatReply
    | Fenced
    | Fetch
    | Fetched
    | Handover
    | ReadIndexQuery
    | ReadIndexReply
    | QuorumQuery
    | QuorumState
    | SeenQuery
    | SeenReply
)

# --- inputs: what the node tells the core -----------------------------------------------------------------------------


class ReadMode(StrEnum):
    """How fresh an answer must be (PROTOCOL § 7)."""

    LOCAL = "local"
    SESSION = "session"
    STRONG = "strong"
    LEASE = "lease"
    QUORUM = "quorum"


@value()
class Tick:
    """Time has passed. The core says by `Replica.deadline_us` when it wants the next one."""


@value()
class Receive:
    """A message came from member `sender`."""

    sender: str
    message: Message


@value()
class Persisted:
    """The write of that token is on disk. Writes end in the order in which they were asked for."""

    token: int


@value()
class DiskFull:
    """There is no room: no write that was asked for and not yet reported as persisted was carried out.

    `full` False, later: there is room again.
    """

    full: bool


@value()
class Draft:
    """An entry to be: everything but its place. `time_us` is wall time; the core never lets it go back."""

    time_us: int
    envelope: bytes
    signature: bytes
    events: bytes
    bodies: tuple[bytes | None, ...]


@value()
class Propose:
    """Append these drafts, decided in `epoch` on top of entry `after_index`; void in any other epoch or place."""

    token: int
    epoch: int
    after_index: int
    drafts: tuple[Draft, ...]


@value()
class Read:
    """A read has arrived; `index` is the last one its session saw. Ends in `ReadReady` or `ReadFailed`."""

    token: int
    mode: ReadMode
    deadline_us: int
    index: int = 0


@value()
class Applied:
    """The projection holds everything up to this index."""

    index: int


@value()
class LogRead:
    """Answer to `ReadLog`: consecutive entries ending at a seal, and the seals among them."""

    token: int
    entries: tuple[Entry, ...]
    seals: tuple[Seal, ...]


@value()
class Transfer:
    """Hand leadership over, to `target` or to the most advanced follower. Ends in `TransferEnded`."""

    target: str | None = None


@value()
class Reconfigure:
    """Put this configuration in force by one entry (PROTOCOL § 10). Ends as a proposal does."""

    token: int
    configuration: Configuration


@value()
class Found:
    """All first members answered that they are empty: this is the founding configuration."""

    configuration: Configuration


@value()
class MayTry:
    """An external lease source allows this node to try for an epoch above `token` until `until_us`; 0 takes it back."""

    token: int
    until_us: int


Input = (
    Tick | Receive | Persisted | DiskFull | Propose | Read | Applied | LogRead | Transfer | Reconfigure | Found | MayTry
)

# --- effects: what the core asks of the node --------------------------------------------------------------------------


class Role(StrEnum):
    """What a node is to its cluster."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEARNER = "learner"


@value()
class HardState:
    """What must survive a crash beside the log."""

    promised_epoch: int = 0
    holder: Holder | None = None


@value()
class Send:
    """Deliver `message` to a member, at most once; it may be lost."""

    to: str
    message: Message


@value()
class Persist:
    """One durable transaction: drop what follows `cut_after`, append entries with bodies and seals, store the rest.

    None leaves a part as it is. Answered by `Persisted(token)`; writes are carried out in order.
    """

    token: int
    hard_state: HardState | None = None
    cut_after: int | None = None
    entries: tuple[Entry, ...] = ()
    seals: tuple[Seal, ...] = ()
    commit_index: int | None = None
    seen: tuple[Sighting, ...] | None = None


@value()
class Apply:
    """Everything up to `commit_index` is committed and durable here: fold it."""

    commit_index: int


@value()
class ReadLog:
    """Read entries from `first` on, up to about `max_bytes` and on to the next seal. Answered by `LogRead`."""

    token: int
    first: int
    max_bytes: int


@value()
class Accepted:
    """The proposal of that token now stands in the log as entries `first` to `last` of `epoch`; not yet committed."""

    token: int
    epoch: int
    first: int
    last: int


@value()
class Declined:
    """The proposal of that token left no trace. `reason`: leader, epoch, transfer, full, configuration."""

    token: int
    reason: str
    leader: str | None


@value()
class ReadReady:
    """Answer the read of that token at `member`, once it has applied `position` (this node: it has)."""

    token: int
    member: str
    position: Position


@value()
class ReadFailed:
    """The read of that token cannot keep its promise. `silent` names the members that did not answer."""

    token: int
    reason: str
    silent: tuple[str, ...]


@value()
class RoleChanged:
    """This node is now `role` in `epoch`, led by `leader` if known. A leader `serves` once its own entry is applied.

    Whenever this says anything but a serving leader of the same epoch, unanswered proposals end as *outcome unknown*.
    """

    role: Role
    epoch: int
    leader: str | None
    serves: bool


@value()
class TransferEnded:
    """The transfer is over: `reason` is empty when another member took over, else says why it did not."""

    reason: str


@value()
class Discarded:
    """Entries `first` to `last`, never acknowledged, were cut from this log: another history was committed."""

    first: int
    last: int


@value()
class Lost:
    """This disk is an older copy of itself: this member takes part no more, and has to come back as a new one."""

    reason: str


@value()
class Halt:
    """An invariant is broken: stop the process, and say this."""

    reason: str


Effect = (
    Send
    | Persist
    | Apply
    | ReadLog
    | Accepted
    | Declined
    | ReadReady
    | ReadFailed
    | RoleChanged
    | TransferEnded
    | Discarded
    | Lost
    | Halt
)
