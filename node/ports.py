"""What goes into a node and comes out of it, and the ports through which it reaches other nodes.

A gRPC server and an in-process one are both thin wrappings of these values. Times are microseconds; time-outs are
lengths, not moments, because the clocks of two machines have nothing in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from ..antientropy.digests import Snapshot
from ..log.configuration import Configuration
from ..log.entry import ORIGIN, Entry, Position
from ..log.lineage import Ancestor
from ..log.seal import Seal
from ..log.value import value
from ..memory.machine import Outcome
from ..memory.record import Record
from ..replication.messages import Message, ReadMode
from .access import NOBODY, Caller


class Wait(StrEnum):
    """When a write is answered.

    `COMMIT`: once its write quorum holds it; for callers whose reads wait for the fold by themselves (session, strong,
    quorum). `QUORUM`: once it is folded at the leader too. `ALL`: once, beside that, every voting member holds it.
    """

    COMMIT = "commit"
    QUORUM = "quorum"
    ALL = "all"


@value()
class Submission:
    """A signed envelope with its bodies (16 bytes of salt, then the content), in the order of its commands."""

    envelope: bytes
    signature: bytes
    bodies: tuple[bytes, ...]
    timeout_us: int
    wait: Wait = Wait.QUORUM


@value()
class BareCommand:
    """A command that came without a principal: the node salts the content and signs on its behalf."""

    id: bytes
    kind: str
    content: bytes


@value()
class SubmitResult:
    """One outcome a command, in order, of the entry `(epoch, index)`; committed, and applied at the leader.

    `records` holds, for each command, the record it was about as it stood right after it, or None. A command whose id
    was seen before is answered by its first outcome, so its outcome may name an earlier position than this one.
    Where nothing of the envelope was granted there is no entry: then epoch, index and time are 0.
    """

    outcomes: tuple[Outcome, ...]
    records: tuple[Record | None, ...]
    epoch: int
    index: int
    time_us: int


class Verb(StrEnum):
    """What can be asked of a node's projection."""

    GET = "get"
    GET_MANY = "get_many"
    RECALL = "recall"
    ALL = "all"
    HISTORY = "history"
    PRUNABLE = "prunable"
    SCOPES = "scopes"
    COUNTS = "counts"
    DIGEST = "digest"
    REVIEW_QUEUE = "review_queue"
    PRINCIPALS = "principals"
    LATTICE = "lattice"
    REJECTIONS = "rejections"
    TOKENS = "tokens"


@value()
class ReadRequest:
    """A query and how fresh its answer must be. `args` are the query's own arguments by name, see `queries.py`.

    `min_index` is the session's last seen index; `min_position` is set on reads that another node forwards here, which
    answers from its own state once it has applied that much. `max_staleness_us` bounds the age of a local answer.
    `caller` is who asks; what that may see is up to the state that is read (`access.py`).
    """

    verb: Verb
    args: Mapping[str, Any]
    mode: ReadMode
    timeout_us: int
    min_index: int = 0
    max_staleness_us: int | None = None
    min_position: Position = ORIGIN
    forwarded: bool = False
    caller: Caller = NOBODY


@value()
class ReadReply:
    """An answer, the position `(epoch, index)` it holds at, the one `now_us` it was judged by, and the scopes searched.

    `age_us` bounds how long ago this state was the newest known to be committed; None where that is not known.
    """

    value: Any
    epoch: int
    index: int
    now_us: int
    scopes: tuple[str, ...]
    member: str
    age_us: int | None = None


@value()
class HelloReply:
    """Who a node is, as it says itself when another one asks at an endpoint (PROTOCOL § 10).

    `share` is the node's part of the digest key, 32 bytes; given away only while the node has no history.
    `cluster_id` is empty until the node knows it; `configuration` is the newest one in its log, if any; `holds_key`
    says whether it holds the cluster's digest key, without which it can decide nothing; `ancestors` are the histories
    that its own goes on from.
    """

    node_id: str
    name: str
    cluster: str
    public_key: bytes
    endpoint: str
    has_history: bool
    cluster_id: str = ""
    share: bytes = b""
    configuration: Configuration | None = None
    holds_key: bool = False
    ancestors: tuple[Ancestor, ...] = ()


@value()
class KeyRequest:
    """A member without the digest key asks another for it. `signature` is by its node key over `signed_bytes`."""

    node_id: str
    cluster_id: str
    wall_us: int
    signature: bytes

    def signed_bytes(self) -> bytes:
        """What the asker signs."""
        return b"veridical/keys/1\0" + f"{self.node_id}\0{self.cluster_id}\0{self.wall_us}".encode()


@value()
class MemberProof:
    """That a member asks; `signature` is by its node key over `signed_bytes` of what it asks for."""

    node_id: str
    cluster_id: str
    wall_us: int
    signature: bytes

    def signed_bytes(self, purpose: str) -> bytes:
        """What the asker signs."""
        return b"veridical/member/1\0" + f"{purpose}\0{self.node_id}\0{self.cluster_id}\0{self.wall_us}".encode()


@value()
class CompareRequest:
    """A member asks for the digests of the state at the newest of these indexes that is known to both."""

    proof: MemberProof
    indexes: tuple[int, ...]

    PURPOSE: ClassVar[str] = "compare"


@value()
class RefetchRequest:
    """A member whose entries `first` to `last` are damaged asks for them."""

    proof: MemberProof
    first: int
    last: int

    PURPOSE: ClassVar[str] = "refetch"


@value()
class MemberStatus:
    """A member of the configuration as this node sees it; `match_index` and `applied_index` are for leaders."""

    id: str
    name: str
    endpoint: str
    voting: bool
    match_index: int | None = None
    applied_index: int | None = None
    last_contact_us: int | None = None


@value()
class NodeStatus:
    """A node as it sees itself. `condition` is empty, or says why it does not serve (damaged, joining, ...)."""

    id: str
    name: str
    cluster: str
    cluster_id: str
    endpoint: str
    role: str
    epoch: int
    leader: str | None
    serves: bool
    commit_index: int
    applied_index: int
    last_index: int
    lease_remaining_us: int
    ready: bool
    draining: bool
    condition: str
    log_bytes: int
    disk_free_bytes: int
    loop_lag_us: int
    members: tuple[MemberStatus, ...] = field(default=())


class Transport(Protocol):
    """How a node reaches the others. Members are named by id; `addresses` says where they live.

    All calls end within the time-out they carry, in an answer or in an error of `memory.errors`: `Unavailable` when the
    request surely did not arrive, `OutcomeUnknown` when a write may have.
    """

    def addresses(self, endpoints: Mapping[str, str], names: Mapping[str, str]) -> None:
        """From now on these are the members' endpoints by id (without this node itself)."""
        ...

    def send(self, member: str, message: Message) -> None:
        """Deliver a message at most once, in order; never blocks, may drop. Arrives at `Node.receive`."""
        ...

    async def relay(self, member: str, submission: Submission) -> SubmitResult:
        """`Node.submit(submission, relayed=True)` at that member."""
        ...

    async def read(self, member: str, request: ReadRequest) -> ReadReply:
        """`Node.read(request)` at that member."""
        ...

    async def hello(self, endpoint: str, timeout_us: int) -> HelloReply:
        """`Node.hello()` at that endpoint."""
        ...

    async def keys(self, member: str, request: KeyRequest, timeout_us: int) -> bytes:
        """`Node.keys(request)` at that member: the digest key, sealed to the asker's node key."""
        ...

    async def compare(self, member: str, request: CompareRequest, timeout_us: int) -> Snapshot:
        """`Node.compare(request)` at that member."""
        ...

    async def refetch(self, endpoint: str, request: RefetchRequest, timeout_us: int) -> tuple[list[Entry], list[Seal]]:
        """`Node.refetch(request)` at that endpoint: a node whose log is damaged may not know its members."""
        ...

    async def close(self) -> None:
        """Let go of all connections; nothing is delivered afterwards."""
        ...
