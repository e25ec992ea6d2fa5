"""The kernel: what every role of a replica shares. Its log in memory, its promises, its disk, its clock of the moment.

Roles (`follower`, `candidacy`, `leadership`, `reads`) read and change this one state; what they want done outside is
collected in `effects`. Nothing here waits: a write is an effect, and its completion an input (PROTOCOL § 11).
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ..lease.acceptor import Acceptor
from ..lease.messages import Holder
from ..log.configuration import Configuration
from ..log.entry import Entry, Position
from ..log.seal import Seal
from .messages import Apply, Effect, Halt, HardState, LogRead, Message, Persist, ReadLog, Send, Sighting
from .settings import Settings
from .sightings import Sightings
from .tail import Anchor, Tail

NEVER = 1 << 62
REQUESTS_OF_A_RUN = 1 << 20


Fields: TypeAlias = tuple[int, bytes, bytes, bytes, tuple[bytes | None, ...]]
"""What `SystemFields` holds; the log's notary has a named form of its own."""


class SystemFields(NamedTuple):
    """An entry that the cluster writes about itself, as the notary signs it; the fields of `Draft` in their order."""

    time_us: int
    envelope: bytes
    signature: bytes
    events: bytes
    bodies: tuple[bytes | None, ...]


class Notary(Protocol):
    """Signs and checks on behalf of this node's key."""

    def seal(self, epoch: int, index: int, hash: bytes) -> Seal:
        """This node's seal over the entry at `index`."""
        ...

    def check(self, seal: Seal, public_key: bytes) -> bool:
        """Whether `public_key` made this seal for this cluster."""
        ...

    def elected(self, epoch: int, time_us: int) -> Fields:
        """The entry that opens an epoch."""
        ...

    def configured(self, configuration: Configuration, time_us: int) -> Fields:
        """The entry that puts a configuration in force."""
        ...


@dataclass(frozen=True, slots=True)
class Restored:
    """What a node found on its disk. `damaged`: something inside is wrong, so it takes no part until that is repaired.

    `configurations` are those of the tail and the newest before it; a node of no history has none, unless it is given a
    founding configuration by `Found`. `configuration_keys` are the public keys of all members there ever were, by id;
    `seen` is how far this node had seen the others.
    """

    hard_state: HardState = field(default_factory=HardState)
    commit_index: int = 0
    applied_index: int = 0
    anchor: Anchor = field(default_factory=Anchor)
    tail: tuple[Entry, ...] = ()
    seals: tuple[Seal, ...] = ()
    configurations: tuple[Configuration, ...] = ()
    configuration_keys: dict[str, bytes] = field(default_factory=dict[str, bytes])
    damaged: bool = False
    seen: tuple[Sighting, ...] = ()


class PendingWrite(NamedTuple):
    """A write under way: the promise it makes durable, where the log ended when it was asked for, and since when."""

    token: int
    promise: HardState
    last_index: int
    last_hash: bytes
    asked_at_us: int
    cuts: bool


class PendingReply(NamedTuple):
    """A reply that may leave only once the write of that token is on disk and the epoch still holds."""

    token: int
    epoch: int
    to: str
    make: Callable[[], Message | None]


def first_request(run: str) -> int:
    """Where a process run begins to count its requests: a late answer to the run before must not pass for a new one."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:5]) * REQUESTS_OF_A_RUN


class Kernel:
    """State that the roles share, and the effects of the step under way."""

    def __init__(
        self,
        me: Holder,
        restored: Restored,
        settings: Settings,
        notary: Notary,
        chance: random.Random,
        now_us: int,
        trace: Callable[[str], None],
    ) -> None:
        self.me = me
        self.settings = settings
        self.notary = notary
        self.chance = chance
        self.rule = trace
        self.tail = Tail(restored.anchor, restored.tail, restored.seals, restored.configurations)
        self.keys = dict(restored.configuration_keys)
        self.damaged = restored.damaged
        self.must_reach = max(restored.commit_index, restored.applied_index)
        self.commit_index = min(self.must_reach, self.tail.last_index)
        self.applied_index = self._apply_asked = restored.applied_index
        ttl_us = self._longest_ttl_us()
        hard = restored.hard_state
        self.acceptor = Acceptor(hard.promised_epoch, hard.holder, ttl_us, settings.margin_us(ttl_us), now_us)
        self.durable_promise = hard
        self.full = False
        self.now_us = now_us
        self.wall_us = 0
        self.effects: list[Effect] = []
        self.writes: deque[PendingWrite] = deque()
        self.replies: list[PendingReply] = []
        self.reads: dict[int, Callable[[LogRead], None]] = {}
        self._token = 0
        self._request = first_request(me.run)
        self._owes_cut = False
        is_blank = hard == HardState() and self.tail.last_index == 0 and not self.must_reach
        self.sightings = Sightings(self, restored.seen, is_blank)

    # --- who is who ---

    @property
    def configuration(self) -> Configuration | None:
        """The configuration in force here."""
        return self.tail.configuration

    @property
    def is_voter(self) -> bool:
        """Whether this node counts in the configuration in force."""
        configuration = self.tail.configuration
        return configuration is not None and self.me.node in configuration.voters

    @property
    def peers(self) -> list[str]:
        """Ids of the other members, learners too, in the order of the configuration."""
        members = self.configuration.members if self.configuration else ()
        return [member.id for member in members if member.id != self.me.node]

    def key_of(self, node: str) -> bytes | None:
        """The public key of a member, also of one that was removed since."""
        for configuration in reversed(self.tail.configurations):
            if member := configuration.member(node):
                return member.public_key
        return self.keys.get(node)

    def _longest_ttl_us(self) -> int:
        return 1000 * max((known.lease_ttl_ms for known in self.tail.configurations), default=0)

    def learn_configuration(self) -> None:
        """Keep keys and lease times in step with the configurations of the log."""
        for configuration in self.tail.configurations:
            self.keys.update((member.id, member.public_key) for member in configuration.members)
        ttl_us = self._longest_ttl_us()
        self.acceptor.adopt_ttl(ttl_us, self.settings.margin_us(ttl_us))

    # --- older history ---

    def read_log(self, first: int, then: Callable[[LogRead], None]) -> None:
        """Have the node read what is no longer in memory, and go on with it if this node still is in the same epoch."""
        token, epoch = self.request(), self.acceptor.promised_epoch
        self.reads[token] = lambda read: then(read) if epoch == self.acceptor.promised_epoch else None
        self.emit(ReadLog(token, first, self.settings.append_bytes))

    def on_log_read(self, read: LogRead) -> None:
        """Older entries came from disk."""
        self.reads.pop(read.token)(read)

    # --- fitness ---

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing here that was once acknowledged (*damage-is-not-truncation*), as far as this disk
        tells, and the other members too (*ask-before-taking-part*).
        """
        known = self.sightings.is_open and not self.sightings.is_lost
        return known and not self.damaged and self.tail.durable_index >= self.must_reach

    def is_stalled(self, now_us: int) -> bool:
        """Whether the oldest write has waited for its disk for too long (*lease-follows-progress*)."""
        return bool(self.writes) and now_us - self.writes[0].asked_at_us > self.settings.stall_us

    # --- effects ---

    def emit(self, effect: Effect) -> None:
        """Ask the node for something."""
        self.effects.append(effect)

    def send(self, to: str, message: Message) -> None:
        """Send a message to a member."""
        self.effects.append(Send(to, message))

    def request(self) -> int:
        """A number that matches a reply to its request."""
        self._request += 1
        return self._request

    def halt(self, reason: str) -> None:
        """An invariant is broken: stop before it does harm."""
        self.emit(Halt(reason))

    # --- disk ---

    @property
    def promise(self) -> HardState:
        """The promise as it binds in memory; nothing that rests on it leaves before it is durable."""
        return HardState(self.acceptor.promised_epoch, self.acceptor.holder)

    def persist(
        self, *, cut_after: int | None = None, entries: Sequence[Entry] = (), seals: Sequence[Seal] = ()
    ) -> int:
        """Write entries, and the promise if it is news, in one transaction; its token."""
        promise = self.promise
        hard_state = None if promise == self._promise_asked else promise
        self._token += 1
        tail = self.tail
        if self._owes_cut and cut_after is None:
            cut_after = tail.last_index - len(entries)
        self._owes_cut = False
        cuts = cut_after is not None
        self.writes.append(PendingWrite(self._token, promise, tail.last_index, tail.last_hash, self.now_us, cuts))
        seen = self.sightings.to_store()
        self.emit(Persist(self._token, hard_state, cut_after, tuple(entries), tuple(seals), self.commit_index, seen))
        return self._token

    @property
    def _promise_asked(self) -> HardState:
        return self.writes[-1].promise if self.writes else self.durable_promise

    def persist_promise(self) -> int:
        """The token of the write after which the promise of this moment is durable; 0 when it is already."""
        if self.promise != self._promise_asked and not self.full:
            return self.persist()
        if self.full and self.promise != self.durable_promise:
            return NEVER
        return next((write.token for write in self.writes if write.promise == self.promise), 0)

    def reply_after(self, token: int, to: str, make: Callable[[], Message | None]) -> None:
        """Send what `make` gives once the write of `token` is on disk, unless a higher epoch was promised meanwhile."""
        reply = PendingReply(token, self.acceptor.promised_epoch, to, make)
        if token < self._oldest_write():
            self._reply(reply)
        elif token != NEVER:
            self.replies.append(reply)

    def _oldest_write(self) -> int:
        return self.writes[0].token if self.writes else self._token + 1

    def _reply(self, reply: PendingReply) -> None:
        if self.is_current(reply.epoch) and (message := reply.make()):
            self.send(reply.to, message)

    def persisted(self, token: int) -> None:
        """The oldest write is on disk."""
        write = self.writes.popleft()
        assert write.token == token, f"writes ended out of order: {token} before {write.token}"
        self.durable_promise = write.promise
        self._advance_durable(write)
        self._release_replies()

    def _advance_durable(self, write: PendingWrite) -> None:
        """The log is durable up to where it ended when this write was asked for, if it still has that content.

        It cannot be there a second time while a write that cuts it is under way: a leader who has it learns that it was
        cut from a reply that waits for its own epoch's promise, and so for that write.
        """
        if self.tail.holds(write.last_index) and self.tail.hash_at(write.last_index) == write.last_hash:
            self.tail.durable_index = max(self.tail.durable_index, write.last_index)

    def _release_replies(self) -> None:
        oldest = self._oldest_write()
        ready = [reply for reply in self.replies if reply.token < oldest]
        self.replies = [reply for reply in self.replies if reply.token >= oldest]
        for reply in ready:
            self._reply(reply)

    def is_current(self, epoch: int) -> bool:
        """*late-completion*: nothing of an epoch below the promise is acknowledged or counted any more."""
        if epoch == self.acceptor.promised_epoch:
            return True
        self.rule("late-completion")
        return False

    def lose_writes(self) -> None:
        """The disk is full: what was asked for and not reported was not done, so forget it here too.

        A cut that was not done leaves the disk with a longer log than this: the next write has to do it.
        """
        self._owes_cut = self._owes_cut or any(write.cuts for write in self.writes)
        self.writes.clear()
        self.replies.clear()
        self.sightings.not_stored()
        self.tail.cut(max(self.tail.durable_index, self.tail.anchor.index))
        self.commit_index = min(self.commit_index, self.tail.last_index)

    # --- commit ---

    def commit(self, index: int) -> None:
        """Everything up to `index` is committed; fold what of it is durable here."""
        if index > self.commit_index:
            self.commit_index = index
        self.fold()

    def fold(self) -> None:
        """Let the node apply what is committed and durable here, and no further."""
        ready = min(self.commit_index, self.tail.durable_index)
        if ready > self._apply_asked:
            self._apply_asked = ready
            self.emit(Apply(ready))

    def position_of(self, index: int) -> Position | None:
        """The position at `index` if it is held in memory."""
        return self.tail.position_at(index) if self.tail.holds(index) else None
