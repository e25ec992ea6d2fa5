"""Three replicas whose messages and writes are delivered by hand, and the text in which golden transcripts tell it."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Callable

from veridical.lease.messages import Grant, Holder, Prepare, Probe, ProbeReply, Refusal, Release
from veridical.log.canonical import encode
from veridical.log.configuration import Configuration, Member, founding
from veridical.log.entry import CONFIGURED, ELECTED, CommandHead, Envelope
from veridical.log.seal import Seal
from veridical.replication.kernel import Restored, SystemFields
from veridical.replication.messages import (
    Accepted,
    Append,
    Appended,
    Applied,
    Apply,
    Declined,
    Discarded,
    Draft,
    Effect,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Handover,
    Heartbeat,
    HeartbeatReply,
    Input,
    Message,
    Persist,
    Persisted,
    Propose,
    QuorumState,
    Read,
    ReadFailed,
    ReadIndexReply,
    ReadMode,
    ReadReady,
    Receive,
    RoleChanged,
    Send,
    Tick,
    Transfer,
    TransferEnded,
)
from veridical.replication.replica import Replica, Settings

WALL_US = 10**15
MEMBERS = ("a", "b", "c")


class PaperNotary:
    """Seals that only this test can make and check."""

    def __init__(self, node: str) -> None:
        self.node = node

    def seal(self, epoch: int, index: int, hash: bytes) -> Seal:
        """See `Notary.seal`."""
        return Seal(epoch, index, hash, self.node, _mark(self.node, epoch, index, hash))

    def check(self, seal: Seal, public_key: bytes) -> bool:
        """See `Notary.check`."""
        return seal.signature == _mark(public_key.decode(), seal.epoch, seal.index, seal.hash)

    def elected(self, epoch: int, time_us: int) -> SystemFields:
        """See `Notary.elected`."""
        return _fields(ELECTED, time_us, encode([[epoch, self.node]]))

    def configured(self, configuration: Configuration, time_us: int) -> SystemFields:
        """See `Notary.configured`."""
        return _fields(CONFIGURED, time_us, encode([configuration.canonical()]))


def _mark(node: str, epoch: int, index: int, hash: bytes) -> bytes:
    return hashlib.sha256(f"{node}/{epoch}/{index}/".encode() + hash).digest()


def _fields(kind: str, time_us: int, events: bytes) -> SystemFields:
    envelope = Envelope("paper", bytes(32), time_us, (CommandHead(bytes(16), kind, bytes(32)),))
    return SystemFields(time_us, envelope.raw, bytes(64), events, (b"",))


def _draft(word: str) -> Draft:
    return Draft(*_fields(f"say.{word}", WALL_US, encode([[word]])))


class TranscriptWorld:
    """Runs the commands of a transcript; `run` returns what happened, a line an effect.

    Messages wait until `deliver`; writes are reported as done by `sync`, in order. Nothing else moves by itself.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.replicas: dict[str, Replica] = {}
        self.messages: deque[tuple[str, str, Message]] = deque()
        self.writes: dict[str, deque[int]] = {id: deque() for id in MEMBERS}
        self.lines: list[str] = []
        self.down: set[str] = set()
        self.token = 0

    def run(self, command: str) -> str:
        """Carry out one line of a transcript."""
        self.lines = []
        verb, *words = command.split()
        verbs: dict[str, Callable[..., None]] = {
            "found": self.found, "wait": self.wait, "tick": self.tick, "deliver": self.deliver, "sync": self.sync,
            "settle": self.settle, "propose": self.propose, "read": self.read, "crash": self.crash, "cut": self.cut,
            "mend": self.mend, "transfer": self.transfer,
        }  # fmt: skip
        verbs[verb](*words)
        return "\n".join(self.lines) or "nothing"

    def found(self) -> None:
        """Three empty nodes agree to be a cluster."""
        members = [Member(id, id, id.encode(), f"{id}:1") for id in MEMBERS]
        for place, id in enumerate(MEMBERS):
            chance = random.Random(place)
            self.replicas[id] = Replica(Holder(id, "1"), Restored(), Settings(), PaperNotary(id), chance, 0)
            self.step(id, Found(founding(members)))

    def wait(self, milliseconds: str) -> None:
        """Let time pass; nobody notices before a tick or a message."""
        self.now_us += int(milliseconds) * 1000

    def tick(self, id: str) -> None:
        """Tell one replica that time has passed."""
        self.step(id, Tick())

    def deliver(self, *kinds: str) -> None:
        """Deliver the messages that wait now (of these kinds, if any are given), but not those they cause."""
        waiting, self.messages = self.messages, deque()
        for sender, to, message in waiting:
            if kinds and type(message).__name__ not in kinds:
                self.messages.append((sender, to, message))
            elif to in self.down or sender in self.down:
                self.lines.append(f"{sender} -> {to} lost {type(message).__name__}")
            else:
                self.step(to, Receive(sender, message))

    def sync(self, *ids: str) -> None:
        """Report the writes of these replicas (all, by default) as done."""
        for id in ids or MEMBERS:
            while self.writes[id]:
                self.step(id, Persisted(self.writes[id].popleft()))

    def settle(self) -> None:
        """Deliver and sync until nothing moves; only what is not a message or a write is told."""
        told: list[str] = []
        while self.messages or any(self.writes.values()):
            self.deliver()
            self.sync()
            told += [line for line in self.lines if " -> " not in line and " writes " not in line]
            self.lines = []
        self.lines = told

    def propose(self, id: str, word: str) -> None:
        """Propose one entry at a replica, decided on top of what it has."""
        self.token += 1
        replica = self.replicas[id]
        self.step(id, Propose(self.token, replica.status().epoch, replica.last.index, (_draft(word),)))

    def read(self, id: str, mode: str) -> None:
        """A read of this mode arrives, to be answered within half a second."""
        self.token += 1
        self.step(id, Read(self.token, ReadMode(mode), self.now_us + 500_000))

    def crash(self, id: str) -> None:
        """A replica is gone with whatever it had not written; nothing reaches it any more."""
        self.writes[id].clear()
        self.down.add(id)

    def cut(self, id: str) -> None:
        """Nothing gets to or from a replica, which goes on by itself."""
        self.down.add(id)

    def mend(self, id: str) -> None:
        """The network of a replica works again."""
        self.down.discard(id)

    def transfer(self, id: str, target: str | None = None) -> None:
        """The leader is asked to hand over, to anybody if nobody is named."""
        self.step(id, Transfer(target))

    def step(self, id: str, input: Input) -> None:
        """One step of one replica; its effects become waiting messages, waiting writes and lines."""
        for effect in self.replicas[id].step(input, self.now_us, WALL_US + self.now_us):
            self._carry_out(id, effect)

    def _carry_out(self, id: str, effect: Effect) -> None:
        self.lines.append(f"{id} {_effect(effect)}")
        match effect:
            case Send():
                self.messages.append((id, effect.to, effect.message))
            case Persist():
                self.writes[id].append(effect.token)
            case Apply():
                self.step(id, Applied(effect.commit_index))
            case _:
                pass


def _effect(effect: Effect) -> str:
    match effect:
        case Send():
            return f"-> {effect.to} {_message(effect.message)}"
        case Persist():
            return _write(effect)
        case Apply():
            return f"applies up to {effect.commit_index}"
        case Accepted():
            return f"accepts {effect.first}..{effect.last} in epoch {effect.epoch}"
        case Declined():
            return f"declines: {effect.reason}, leader {effect.leader}"
        case ReadReady():
            return f"answers at {effect.member} {effect.position.epoch}/{effect.position.index}"
        case ReadFailed():
            return f"fails the read: {effect.reason}; silent {','.join(effect.silent)}"
        case RoleChanged():
            return f"is {effect.role} of epoch {effect.epoch}{', serves' if effect.serves else ''}"
        case TransferEnded():
            return f"ends the transfer: {effect.reason or 'done'}"
        case Discarded():
            return f"discards {effect.first}..{effect.last}"
        case _:
            return str(effect)


def _write(write: Persist) -> str:
    parts = [f"promise {write.hard_state.promised_epoch}"] if write.hard_state else []
    if write.cut_after is not None:
        parts.append(f"cut after {write.cut_after}")
    if write.entries:
        parts.append(f"entries {write.entries[0].index}..{write.entries[-1].index}")
    return f"writes {', '.join(parts) or 'nothing new'}"


def _message(message: Message) -> str:
    match message:
        case Probe() | ProbeReply():
            return f"{type(message).__name__}{_verdict(message)}"
        case Prepare() | Grant() | Refusal() | Release() | Handover() | Heartbeat() | HeartbeatReply():
            return f"{type(message).__name__} {message.epoch}{_verdict(message)}"
        case Append():
            return f"Append {message.epoch} after {message.prev_index}: {len(message.entries)} entries"
        case Appended():
            return f"Appended {message.epoch} {'match' if message.matched else 'differs'} {message.match}"
        case Fetch():
            return f"Fetch {message.epoch} after {message.prev_index}"
        case Fetched():
            return f"Fetched {message.epoch} {'match' if message.matched else 'differs'} {len(message.entries)} entries"
        case Fenced():
            return f"Fenced {message.epoch} by {message.promised_epoch}"
        case ReadIndexReply():
            return f"ReadIndexReply {message.index}"
        case QuorumState():
            return f"QuorumState {message.position.index}, applied {message.applied.index}"
        case _:
            return type(message).__name__


def _verdict(message: Message) -> str:
    match message:
        case ProbeReply():
            return " yes" if message.would_grant else " no"
        case Grant():
            return f" at {message.position.epoch}/{message.position.index}"
        case Refusal():
            return f" {message.reason}"
        case _:
            return ""
