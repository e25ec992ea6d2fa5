"""A small world for tests of the memory rules: one state, a clock that is set by hand, and commands by name."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any

from veridical.memory.commands import (
    ANNOTATE,
    CONTRADICT,
    CORRECT,
    CORROBORATE,
    DEMOTE,
    FORGET,
    LATTICE,
    MULTI_VALUED,
    PIN,
    PROMOTE,
    PRUNE,
    REINFORCE,
    SET_FLAGS,
    SETTING,
    UNPIN,
    WITHDRAW,
    WRITE,
    AnnotateBody,
    Body,
    ContradictBody,
    CorrectBody,
    CorroborateBody,
    DemoteBody,
    FlagsBody,
    ForgetBody,
    PinBody,
    PromoteBody,
    PruneBody,
    ReinforceBody,
    SettingBody,
    WithdrawBody,
    WriteBody,
    encode_body,
)
from veridical.memory.context import RIGHTS, Rights
from veridical.memory.fields import json_text
from veridical.memory.lifecycle import HALF_LIFE_US
from veridical.memory.machine import (
    Command,
    Context,
    OperatorRights,
    Outcome,
    decide_envelope,
    evolve_entry,
    outcomes,
)
from veridical.memory.record import Record
from veridical.memory.state import MemoryState, Workspace
from veridical.memory.trust_commands import (
    APPROVE,
    ATTEST,
    EDIT,
    ENROLL,
    GIVE,
    MARK_FIXED,
    REJECT,
    REVOKE,
    REVOKE_REJECTION,
    ROTATE,
    TAKE,
    UNDO,
    AttestBody,
    EditBody,
    EnrollBody,
    FixBody,
    GrantBody,
    ReviewBody,
    RevokeBody,
    RevokeRejectionBody,
    RotateBody,
    UndoBody,
    rotation_message,
)
from veridical.security.keys import verify
from veridical.security.principal import Principal
from veridical.verdict import GateReceipt

START_US = 1_750_000_000_000_000
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

ALICE, BOB, CAROL = b"a" * 32, b"b" * 32, b"c" * 32


class Digests:
    """Keyed digests as the security room makes them."""

    def digest(self, *parts: bytes) -> bytes:
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(b"a key for tests", framed, "sha256")[:16]


class EnforcedRights:
    """Principals are enrolled: everybody may read and write, only those named may do more."""

    enforced = True

    def __init__(self, *granted: tuple[bytes, str]) -> None:
        self._granted = granted

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        return right in ("read", "write") or (author, right) in self._granted


def uuid7(time_us: int, number: int) -> bytes:
    """A command id of that time."""
    return (time_us // 1000).to_bytes(6, "big") + b"\x70\x00\x80" + number.to_bytes(7, "big")


@dataclass
class FoldedEntry:
    """What a replay needs of one entry."""

    index: int
    time_us: int
    author: bytes | None
    heads: list[tuple[bytes, str]]
    items: list[list[Any]]
    bodies: list[bytes | None]


@dataclass
class World:
    """One state under the rules, with a log of what was folded."""

    rights: Rights = field(default_factory=OperatorRights)
    now_us: int = START_US
    epoch: int = 1
    runner_key: bytes | None = None
    state: MemoryState = field(default_factory=MemoryState)
    log: list[FoldedEntry] = field(default_factory=list[FoldedEntry])
    commands: int = 1_000_000  # ids that a test chooses itself are below

    def send(self, kind: str, body: Body, author: bytes | None = None, id: bytes | None = None) -> Outcome:
        """Decide one command, fold it, and return its outcome."""
        self.commands += 1
        command_id = uuid7(self.now_us, self.commands) if id is None else id
        return self.envelope([Command(command_id, kind, encode_body(kind, body), author)])[0]

    def envelope(self, commands: list[Command]) -> list[Outcome]:
        """Decide the commands of one envelope, fold its entry as every node does, and return the outcomes."""
        index = len(self.log) + 1
        context = Context(Digests(), self.rights, self.epoch, verify, self.runner_key)
        items = decide_envelope(Workspace(self.state), commands, self.now_us, context, index)
        heads = [(command.id, command.kind) for command in commands]
        bodies: list[bytes | None] = [command.content for command in commands]
        self.log.append(FoldedEntry(index, self.now_us, commands[0].author, heads, items, bodies))
        fold(self.state, self.log[-1], self.epoch)
        return outcomes(items, self.epoch, index)

    def wait(self, duration_us: int) -> None:
        """Let time pass."""
        self.now_us += duration_us

    def write(
        self,
        text: str,
        subject: str = "auth",
        predicate: str = "uses",
        scope: str = "repo:app",
        author: bytes | None = None,
        kind: str = "fact",
        **fields: Any,
    ) -> Outcome:
        return self.send(WRITE, WriteBody(kind, subject, predicate, scope, text, **fields), author)

    def correct(self, text: str, *ids: bytes, author: bytes | None = None, metadata: str = "{}") -> Outcome:
        return self.send(CORRECT, CorrectBody(ids, text, metadata, "known better"), author)

    def withdraw(self, id: bytes, source: str = "", author: bytes | None = None) -> Outcome:
        return self.send(WITHDRAW, WithdrawBody(id, source, "not sure any more"), author)

    def corroborate(self, id: bytes, source: str = "", author: bytes | None = None) -> Outcome:
        return self.send(CORROBORATE, CorroborateBody(id, source), author)

    def contradict(self, id: bytes, evidence: str = "", author: bytes | None = None) -> Outcome:
        return self.send(CONTRADICT, ContradictBody(id, evidence, "it is not so"), author)

    def promote(self, id: bytes, author: bytes | None = None) -> Outcome:
        return self.send(PROMOTE, PromoteBody(id, "checked"), author)

    def demote(self, id: bytes, trust: str = "", author: bytes | None = None) -> Outcome:
        return self.send(DEMOTE, DemoteBody(id, trust, "found wrong"), author)

    def annotate(self, id: bytes, author: bytes | None = None, **texts: str) -> Outcome:
        return self.send(ANNOTATE, AnnotateBody(id, **texts), author)

    def set_flags(self, id: bytes, author: bytes | None = None, **flags: Any) -> Outcome:
        return self.send(SET_FLAGS, FlagsBody(id, **flags), author)

    def pin(self, id: bytes, author: bytes | None = None) -> Outcome:
        return self.send(PIN, PinBody(id), author)

    def unpin(self, id: bytes, author: bytes | None = None) -> Outcome:
        return self.send(UNPIN, PinBody(id), author)

    def prune(
        self,
        *ids: bytes,
        now_us: int | None = None,
        half_life_us: int = HALF_LIFE_US,
        epoch: int | None = None,
        author: bytes | None = None,
    ) -> Outcome:
        moment = self.now_us if now_us is None else now_us
        return self.send(PRUNE, PruneBody(moment, half_life_us, ids, epoch), author)

    def forget(self, id: bytes, author: bytes | None = None) -> Outcome:
        return self.send(FORGET, ForgetBody(id, "asked to"), author)

    def reinforce(self, *ids: bytes, epoch: int | None = None) -> Outcome:
        return self.send(REINFORCE, ReinforceBody(ids, epoch))

    def declare(self, pattern: str, predicate: str, author: bytes | None = None) -> Outcome:
        return self.send(SETTING, SettingBody(MULTI_VALUED, (pattern, predicate)), author)

    def place(self, child: str, parent: str, author: bytes | None = None) -> Outcome:
        return self.send(SETTING, SettingBody(LATTICE, (child, parent)), author)

    def mark_fixed(self, id: bytes, author: bytes | None = None) -> Outcome:
        return self.send(MARK_FIXED, FixBody(id), author)

    def set(self, name: str, value: int) -> Outcome:
        return self.send(SETTING, SettingBody(name, value))

    def enroll(
        self, key: bytes, *grants: tuple[str, str], author: bytes | None = None, name: str = "somebody"
    ) -> Outcome:
        """Enroll a key; each grant is a pattern and its rights in one string, `"read write"`."""
        body = EnrollBody(key, name, tuple((pattern, tuple(rights.split())) for pattern, rights in grants))
        return self.send(ENROLL, body, author)

    def guard(self, key: bytes) -> None:
        """Enroll the first principal: an administrator who may do everything."""
        assert self.enroll(key, ("*", " ".join(RIGHTS)), author=key).code == "enrolled"

    def revoke(self, key: bytes, author: bytes | None = None) -> Outcome:
        return self.send(REVOKE, RevokeBody(key, "left the team"), author)

    def rotate(self, key: bytes, successor: Principal, author: bytes | None = None) -> Outcome:
        proof = successor.sign(rotation_message(key, successor.public_key))
        return self.send(ROTATE, RotateBody(key, successor.public_key, proof), author)

    def give(self, key: bytes, pattern: str, rights: str, author: bytes | None = None) -> Outcome:
        return self.send(GIVE, GrantBody(key, pattern, tuple(rights.split())), author)

    def take(self, key: bytes, pattern: str, rights: str, author: bytes | None = None) -> Outcome:
        return self.send(TAKE, GrantBody(key, pattern, tuple(rights.split())), author)

    def approve(self, id: bytes, value: bytes = b"", author: bytes | None = None) -> Outcome:
        return self.send(APPROVE, ReviewBody(id, value, "checked"), author)

    def reject(self, id: bytes, value: bytes = b"", author: bytes | None = None) -> Outcome:
        return self.send(REJECT, ReviewBody(id, value, "found wrong"), author)

    def edit(self, id: bytes, text: str, author: bytes | None = None) -> Outcome:
        return self.send(EDIT, EditBody(id, text, "known better"), author)

    def revoke_rejection(self, id: bytes, text: str = "", author: bytes | None = None) -> Outcome:
        return self.send(REVOKE_REJECTION, RevokeRejectionBody(id, text, "was right after all"), author)

    def attest(self, id: bytes, receipt: GateReceipt, author: bytes | None = None) -> Outcome:
        evidence = json_text("evidence", receipt.model_dump(mode="json"))
        return self.send(ATTEST, AttestBody(id, evidence), author)

    def undo(self, id: bytes, event: Outcome, author: bytes | None = None) -> Outcome:
        return self.send(UNDO, UndoBody(id, event.version, "a mistake"), author)

    def record(self, id: bytes) -> Record:
        """The row under that id, which must be there."""
        record = self.state.record(id)
        assert record is not None
        return record


def fold(state: MemoryState, entry: FoldedEntry, epoch: int, with_bodies: bool = True) -> None:
    """Fold one entry into a state, as a replica does."""
    workspace = Workspace(state)
    bodies = entry.bodies if with_bodies else [None] * len(entry.bodies)
    evolve_entry(workspace, entry.index, epoch, entry.time_us, entry.author, entry.heads, entry.items, bodies)
    state.apply(workspace)


def replayed(world: World, with_bodies: bool = True) -> MemoryState:
    """A new state with the whole log of a world folded into it."""
    state = MemoryState()
    for entry in world.log:
        fold(state, entry, world.epoch, with_bodies)
    return state
