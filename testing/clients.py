"""Simulated clients: they write and read, retry with the same command id, and remember what they were told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..log.entry import SALT_BYTES, CommandHead, Envelope, body_hash
from ..log.identifier import uuid7
from ..memory import commands
from ..memory.rules import ID_TOO_FAR_AHEAD, ID_TOO_OLD
from ..replication.messages import ReadMode
from .clocks import WALL_START_US
from .linearizability import FOREVER, Operation
from .notary import public_key, signature
from .profiles import Profile
from .requests import Elsewhere, Query, Reply, Submission, Value, Written
from .workload import REGISTERS, Command, Workload, register_id, register_write
from .world import MILLISECOND, SECOND

if TYPE_CHECKING:
    from .cluster import Cluster

THINK_US = (20 * MILLISECOND, 120 * MILLISECOND)
ANSWER_TIMEOUT_US = 600 * MILLISECOND
GIVE_UP_US = 4 * SECOND
READ_TIMEOUT_US = 400 * MILLISECOND
READ_PATIENCE_US = 500 * MILLISECOND
WRITE_CHANGES_REGISTER = frozenset({"asserted", "superseded"})


def signed(cluster: Cluster, author: str, batch: Sequence[Command], choices: random.Random) -> Submission:
    """An envelope of these commands, with ids made now, signed by `author`."""
    wall_us, key = WALL_START_US + cluster.world.now_us, public_key(author)
    bodies = tuple(choices.randbytes(SALT_BYTES) + commands.encode_body(kind, body) for kind, body in batch)
    heads = tuple(
        CommandHead(uuid7(wall_us, choices.randbytes(8)), kind, body_hash(salted))
        for (kind, _), salted in zip(batch, bodies, strict=True)
    )
    envelope = Envelope(cluster.name, key, wall_us, heads)
    return Submission(envelope, signature(key, envelope.signed_bytes), bodies)


@dataclass(slots=True)
class Write:
    """An envelope under way. `register` is -1 when it writes none; `value` is what it writes there."""

    submission: Submission
    register: int
    value: str
    began_us: int
    ended_us: int = FOREVER
    attempt: int = 0
    given_up: bool = False
    reply: Written | None = None


@dataclass(slots=True)
class Records:
    """What all clients together did to the registers, for the search for a linear order."""

    workload: Workload = field(default_factory=Workload)
    writes: list[Write] = field(default_factory=list[Write])
    reads: dict[int, list[Operation]] = field(default_factory=dict[int, list[Operation]])

    def history(self, register: int, happened: frozenset[bytes]) -> list[Operation]:
        """Operations on one register. Writes that were never answered count if they are among those that happened."""
        writes = (write for write in self.writes if write.register == register and self._counts(write, happened))
        written = [Operation(True, write.value, write.began_us, write.ended_us) for write in writes]
        return [*self.reads.get(register, ()), *written]

    def _counts(self, write: Write, happened: frozenset[bytes]) -> bool:
        if write.reply is None:
            return write.submission.command_ids[0] in happened
        return write.reply.outcomes[0].code in WRITE_CHANGES_REGISTER


class Client:
    """One agent: one thing at a time, as fast as it thinks."""

    def __init__(self, cluster: Cluster, name: str, records: Records, profile: Profile, reading: float) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._choices = cluster.world.stream(f"client/{name}")
        self._name = name
        self._records = records
        self._profile = profile
        self._reading_share = reading
        self._favourite = cluster.first_members[0]
        self._session_index = 0
        self._written = 0
        self._reading = 0
        self._stopped = False
        self._think()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    def _think(self) -> None:
        self._world.after(self._choices.randrange(*THINK_US), self._act)

    def _act(self) -> None:
        if self._stopped:
            return
        if self._choices.random() < self._reading_share:
            self._read()
        else:
            self._write()

    def _someone(self) -> str:
        return self._choices.choice(list(self._cluster.hosts))

    # --- writing ---

    def _write(self) -> None:
        register = self._choices.randrange(REGISTERS) if self._choices.random() < 0.7 else -1
        value, batch = "", list[Command]()
        self._written += 1
        if register >= 0:
            value = f"{self._name} says {self._written}"
            batch.append(register_write(register, value))
        while not batch or self._choices.random() < 0.2:
            batch.append(self._records.workload.command(self._name, self._written, self._choices))
        write = Write(signed(self._cluster, self._name, batch, self._choices), register, value, self._world.now_us)
        self._records.writes.append(write)
        self._cluster.checks.checked.count("commands sent", len(batch))
        self._send(write)

    def _send(self, write: Write) -> None:
        if write.reply is not None:
            return  # an earlier attempt was answered meanwhile
        write.attempt += 1
        attempt = write.attempt
        if attempt > 1:
            self._cluster.checks.checked.count("retries with the same id")
        self._cluster.submit(
            self._name, self._favourite, write.submission, lambda reply: self._heard(write, attempt, reply)
        )
        self._world.after(ANSWER_TIMEOUT_US, lambda: self._late(write, attempt))

    def _heard(self, write: Write, attempt: int, reply: Reply) -> None:
        if isinstance(reply, Written):
            self._acknowledged(write, reply)
        elif attempt == write.attempt and write.reply is None:
            leader = reply.leader if isinstance(reply, Elsewhere) else None
            self._try_again(write, leader)

    def _late(self, write: Write, attempt: int) -> None:
        if attempt == write.attempt and write.reply is None:
            self._try_again(write, None)

    def _try_again(self, write: Write, leader: str | None) -> None:
        write.attempt += 1
        self._favourite = leader or self._someone()
        if self._stopped or self._world.now_us - write.began_us > GIVE_UP_US:
            self._cluster.checks.checked.count("writes of unknown outcome")
            write.given_up = True
            self._think()
            return
        self._world.after(self._choices.randrange(5, 60) * MILLISECOND, lambda: self._send(write))

    def _acknowledged(self, write: Write, reply: Written) -> None:
        checks = self._cluster.checks
        if not any(outcome.rule in (ID_TOO_FAR_AHEAD, ID_TOO_OLD) for outcome in reply.outcomes):
            checks.answers.written(write.submission, reply)
        if write.reply is not None:
            return
        write.reply, write.ended_us = reply, self._world.now_us
        self._records.workload.heard(reply.outcomes)
        self._session_index = max(self._session_index, reply.index)
        checks.checked.count("commands acknowledged", len(reply.outcomes))
        if not write.given_up:
            self._think()

    # --- reading ---

    def _read(self) -> None:
        register, mode = self._choices.randrange(REGISTERS), self._choices.choice(self._profile.modes)
        query = Query(mode, register_id(register), READ_TIMEOUT_US, self._session_index)
        node = self._favourite if self._choices.random() < self._profile.loyalty else self._someone()
        self._reading += 1
        number, began_us, known = self._reading, self._world.now_us, self._cluster.checks.history.length

        def heard(reply: Reply) -> None:
            if isinstance(reply, Value):
                self._cluster.checks.answers.read(query, reply, known)
            if number == self._reading:
                self._reading += 1
                self._read_ended(register, query, began_us, reply)

        self._cluster.query(self._name, node, query, heard)
        self._world.after(READ_PATIENCE_US, lambda: self._read_late(number))

    def _read_late(self, number: int) -> None:
        if number == self._reading:
            self._reading += 1
            self._favourite = self._someone()
            self._cluster.checks.checked.count("reads unanswered")
            self._think()

    def _read_ended(self, register: int, query: Query, began_us: int, reply: Reply) -> None:
        checked = self._cluster.checks.checked
        if isinstance(reply, Value):
            checked.count(f"{query.mode} reads")
            self._remember(register, query, began_us, reply)
        else:
            self._favourite = self._someone()
            checked.count("reads refused")
        self._think()

    def _remember(self, register: int, query: Query, began_us: int, value: Value) -> None:
        if query.mode in (ReadMode.LOCAL, ReadMode.SESSION):
            if query.mode is ReadMode.SESSION:
                self._session_index = max(self._session_index, value.position.index)
            return
        operation = Operation(False, value.text, began_us, self._world.now_us)
        self._records.reads.setdefault(register, []).append(operation)
