"""`AsyncReplicatedMemory`: a memory that lives in a cluster, for programs that run on an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

import grpc

from ..memory import commands
from ..memory.errors import Bug, Invalid, Refused, TooLarge, Unavailable
from ..memory.lifecycle import HALF_LIFE_US
from ..memory.limits import BATCH_IDS_LIMIT
from ..memory.scope import normal_scope
from ..memory.view import (
    HistoryItem,
    MemoryKind,
    MemoryRecord,
    RecordVersion,
    Trust,
    duration_us,
    microseconds,
)
from ..proto.generated import admin_pb2, memory_pb2
from ..security.principal import Principal
from . import answers
from .answers import Records
from .asker import Asker, Session
from .directory import Directory
from .envelope import (
    COMMAND_BYTES_LIMIT,
    COMMAND_OVERHEAD_BYTES,
    COMMANDS_LIMIT,
    ENVELOPE_BYTES_LIMIT,
    ID_ENTROPY_BYTES,
    Command,
    command_id,
)
from .ports import Clock, Entropy
from .submitter import Answer, Submitter
from .system import SystemClock, SystemEntropy

TIMEOUT_S: Final = 5.0
ID_BYTES: Final = 16
PAGE_RECORDS: Final = 1_000
SECOND_US: Final = 1_000_000


class Consistency(StrEnum):
    """How fresh reads are (PROTOCOL § 7). `eventual` is another word for `local`."""

    LOCAL = "local"
    EVENTUAL = "eventual"
    SESSION = "session"
    STRONG = "strong"
    LEASE = "lease"
    QUORUM = "quorum"


MODES: Final = {
    Consistency.LOCAL: memory_pb2.READ_MODE_LOCAL,
    Consistency.EVENTUAL: memory_pb2.READ_MODE_LOCAL,
    Consistency.SESSION: memory_pb2.READ_MODE_SESSION,
    Consistency.STRONG: memory_pb2.READ_MODE_STRONG,
    Consistency.LEASE: memory_pb2.READ_MODE_LEASE,
    Consistency.QUORUM: memory_pb2.READ_MODE_QUORUM,
}


class AsyncReplicatedMemory:
    """A memory on the nodes at `endpoints` (host:port; one that answers is enough, the others are learned from it).

    Every call ends within its `timeout_s` and a tenth of a second: in its answer, or in an error that says what is
    known. A write that may have happened ends in `OutcomeUnknown` with its command id: the same call with that
    `command_id` tells what became of it, and never does it twice. Commands are signed by `principal`; without one they
    are anonymous. `max_staleness_s` bounds the age of answers to local and session reads.

    Belongs to the event loop that first used it, and to the process that made it.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        read_consistency: str = Consistency.LOCAL,
        principal: Principal | None = None,
        timeout_s: float = TIMEOUT_S,
        max_staleness_s: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self._endpoints = endpoints_of(endpoints)
        self._mode = mode_of(read_consistency)
        self._principal = principal
        self._timeout_s = positive("timeout_s", timeout_s)
        self._max_staleness_us = duration_us("max_staleness_s", max_staleness_s)
        self._credentials = credentials
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._session = Session()
        self._process = os.getpid()
        self._parts: _Parts | None = None

    @classmethod
    async def connect(cls, endpoints: str | Sequence[str], **options: Any) -> Self:
        """A memory whose cluster has answered. Raises `Unavailable` when none did within `timeout_s`."""
        memory = cls(endpoints, **options)
        await memory.status()
        return memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; calls under way end as `Unavailable` or `OutcomeUnknown`."""
        parts, self._parts = self._parts, None
        if parts is not None and os.getpid() == self._process:
            await parts.submitter.close()
            await parts.directory.close()

    @property
    def last_seen(self) -> tuple[int, int]:
        """The newest position `(epoch, index)` that this client has seen: session reads are never older."""
        return (self._session.epoch, self._session.index)

    def saw(self, epoch: int, index: int) -> None:
        """Take over a position that another client has seen, so that session reads here are not older than it."""
        self._session.saw(epoch, index)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(
        self, record: MemoryRecord, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """Say something. See `MemoryView.write`; `command_id` (hex) repeats a call whose outcome is not known."""
        body = record.write_body()
        return await self._mutation(commands.WRITE, body, timeout_s, command_id)

    async def write_many(
        self,
        records: Sequence[MemoryRecord],
        *,
        command_ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """Write in bulk, in order, as few envelopes as will hold them. A refusal stands at its place.

        `command_ids` (hex, one for each record) make the call one that can be repeated. `OutcomeUnknown` names the first
        command that is not known to have an outcome; those before it have theirs.
        """
        bodies = [commands.encode_body(commands.WRITE, record.write_body()) for record in records]
        ids = self._ids(len(bodies)) if command_ids is None else [_given_id(given) for given in command_ids]
        if len(ids) != len(bodies):
            raise Invalid("command_ids", f"{len(ids)} ids for {len(bodies)} records")
        made = [_command(id, commands.WRITE, body) for id, body in zip(ids, bodies, strict=True)]
        deadline = self._deadline(timeout_s)
        found: list[Answer] = []
        for chunk in _chunks(made):
            found += await self._submit(chunk, deadline)
        return [answers.written_or_refused(answer) for answer in found]

    async def corroborate(self, id: str, *, source: str = "", timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.corroborate`."""
        return await self._mutation(commands.CORROBORATE, commands.CorroborateBody(_id(id), source), timeout_s)

    async def contradict(
        self, id: str, *, evidence: str = "", reason: str = "", timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.contradict`."""
        body = commands.ContradictBody(_id(id), evidence, reason)
        return await self._mutation(commands.CONTRADICT, body, timeout_s)

    async def promote(self, id: str, *, reason: str = "reviewed", timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.promote`."""
        return await self._mutation(commands.PROMOTE, commands.PromoteBody(_id(id), reason), timeout_s)

    async def demote(
        self, id: str, *, reason: str = "reviewed", trust: Trust | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.demote`."""
        body = commands.DemoteBody(_id(id), "" if trust is None else trust.value, reason)
        return await self._mutation(commands.DEMOTE, body, timeout_s)

    async def annotate(
        self,
        id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        detail: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.annotate`."""
        texts = (commands.json_text("metadata", metadata or {}), commands.json_text("detail", detail or {}))
        return await self._mutation(commands.ANNOTATE, commands.AnnotateBody(_id(id), *texts), timeout_s)

    async def set_flags(
        self, id: str, *, volatile: bool | None = None, ttl_s: float | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.set_flags`."""
        body = commands.FlagsBody(_id(id), volatile, duration_us("ttl_s", ttl_s))
        return await self._mutation(commands.SET_FLAGS, body, timeout_s)

    async def pin(self, id: str, *, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.pin`."""
        return await self._mutation(commands.PIN, commands.PinBody(_id(id)), timeout_s)

    async def unpin(self, id: str, *, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.unpin`."""
        return await self._mutation(commands.UNPIN, commands.PinBody(_id(id)), timeout_s)

    async def forget(self, id: str, *, reason: str = "", timeout_s: float | None = None) -> None:
        """See `MemoryView.forget`."""
        answer = await self._commanded(commands.FORGET, commands.ForgetBody(_id(id), reason), timeout_s)
        answers.refuse(answer)

    async def decay(
        self,
        half_life_s: float = HALF_LIFE_US / SECOND_US,
        now: datetime | float | None = None,
        *,
        timeout_s: float | None = None,
    ) -> int:
        """See `MemoryView.decay`. Which records have faded is read from the leader, and decided anew by each prune."""
        half_life_us = duration_us("half_life_s", half_life_s) or HALF_LIFE_US
        at_us = 0 if now is None else microseconds(now)
        deadline, pruned = self._deadline(timeout_s), 0
        while True:
            question = memory_pb2.Prunable(at_us=at_us, half_life_us=half_life_us, limit=BATCH_IDS_LIMIT)
            request = memory_pb2.ReadRequest(mode=memory_pb2.READ_MODE_STRONG, prunable=question)
            reply = await self._running.asker.ask(request, deadline)
            ids = tuple(reply.ids.ids)
            if not ids:
                return pruned
            body = commands.PruneBody(max(at_us, reply.now_us) if now is None else at_us, half_life_us, ids)
            count = await self._pruned(body, deadline)
            pruned += count
            if not count or len(ids) < BATCH_IDS_LIMIT:
                return pruned

    async def _pruned(self, body: commands.PruneBody, deadline: float) -> int:
        command = _command(self._ids(1)[0], commands.PRUNE, commands.encode_body(commands.PRUNE, body))
        (answer,) = await self._submit([command], deadline)
        answers.refuse(answer)
        return answer.outcome.count

    # --- reading ------------------------------------------------------------------------------------------------------

    async def get(
        self, id: str, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord | None:
        """See `MemoryView.get`."""
        (found,) = await self.get_many([id], consistency=consistency, timeout_s=timeout_s)
        return found

    async def get_many(
        self, ids: Sequence[str], *, consistency: str | None = None, timeout_s: float | None = None
    ) -> list[MemoryRecord | None]:
        """See `MemoryView.get_many`. At most 1 000 ids."""
        if len(ids) > BATCH_IDS_LIMIT:
            raise TooLarge("ids", len(ids), BATCH_IDS_LIMIT, "ids")
        question = memory_pb2.Get(ids=[_id(id) for id in ids])
        return answers.found(await self._ask(memory_pb2.ReadRequest(get=question), consistency, timeout_s))

    async def recall(
        self,
        query: str,
        *,
        scope: str | None = None,
        kind: MemoryKind | None = None,
        k: int = 5,
        trust: Trust | None = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Records:
        """See `MemoryView.recall`."""
        if k < 1:
            raise Invalid("k", f"{k} is less than 1")
        question = memory_pb2.Recall(query=query, k=k, filters=_filters(scope, kind, trust))
        return answers.recalled(await self._ask(memory_pb2.ReadRequest(recall=question), consistency, timeout_s))

    async def all(
        self,
        *,
        scope: str | None = None,
        kind: MemoryKind | None = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        """See `MemoryView.all`: streams; each page of 1 000 comes within `timeout_s`."""
        async for page in self.pages(scope=scope, kind=kind, consistency=consistency, timeout_s=timeout_s):
            for record in page:
                yield record

    async def pages(
        self,
        *,
        scope: str | None = None,
        kind: MemoryKind | None = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Records]:
        """`all`, a page at a time: each says at which index it holds, and none is older than the one before."""
        question = memory_pb2.All(filters=_filters(scope, kind, None), limit=PAGE_RECORDS)
        request = self._request(memory_pb2.ReadRequest(all=question), consistency)
        limit_s = self._timeout_s if timeout_s is None else positive("timeout_s", timeout_s)
        async for reply in self._running.asker.pages(request, limit_s):
            yield answers.page(reply)

    async def history(
        self,
        id: str,
        *,
        limit: int = 100,
        before: RecordVersion | None = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> list[HistoryItem]:
        """See `MemoryView.history`. At most 1 000 items a call."""
        question = memory_pb2.History(id=_id(id), limit=limit)
        if before is not None:
            version = memory_pb2.Version(epoch=before.epoch, index=before.index, place=before.place)
            question.before.CopyFrom(version)
        return answers.history(await self._ask(memory_pb2.ReadRequest(history=question), consistency, timeout_s))

    async def scopes(self, *, consistency: str | None = None, timeout_s: float | None = None) -> dict[str, int]:
        """Every scope that holds records, with how many it holds, by name."""
        reply = await self._ask(memory_pb2.ReadRequest(scopes=memory_pb2.Scopes()), consistency, timeout_s)
        return {item.scope: item.records for item in reply.scope_counts.scopes}

    async def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """What every node that answers says of itself, by endpoint. Raises `Unavailable` when none does."""
        directory = self._running.directory
        try:
            async with asyncio.timeout_at(self._deadline(timeout_s)):
                while not (statuses := await directory.statuses()):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise Unavailable("no node answers", directory.endpoints()) from None
        return statuses

    # --- how ----------------------------------------------------------------------------------------------------------

    async def _mutation(
        self, kind: str, body: commands.Body, timeout_s: float | None, id: str | None = None
    ) -> MemoryRecord:
        return answers.written(await self._commanded(kind, body, timeout_s, id))

    async def _commanded(
        self, kind: str, body: commands.Body, timeout_s: float | None, id: str | None = None
    ) -> Answer:
        content = commands.encode_body(kind, body)
        command = _command(self._ids(1)[0] if id is None else _given_id(id), kind, content)
        (answer,) = await self._submit([command], self._deadline(timeout_s))
        return answer

    async def _submit(self, chunk: Sequence[Command], deadline: float) -> list[Answer]:
        found = await self._running.submitter.submit(chunk, self._principal, deadline)
        self._session.saw(found[-1].epoch, found[-1].index)
        return found

    async def _ask(
        self, request: memory_pb2.ReadRequest, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply:
        return await self._running.asker.ask(self._request(request, consistency), self._deadline(timeout_s))

    def _request(self, request: memory_pb2.ReadRequest, consistency: str | None) -> memory_pb2.ReadRequest:
        request.mode = self._mode if consistency is None else mode_of(consistency)
        if request.mode == memory_pb2.READ_MODE_SESSION:
            request.min_index = self._session.index
        if self._max_staleness_us is not None:
            request.max_staleness_us = self._max_staleness_us
        return request

    def _ids(self, count: int) -> list[bytes]:
        wall_us, bits = self._clock.wall_us(), self._entropy.bytes(ID_ENTROPY_BYTES * count)
        places = range(0, len(bits), ID_ENTROPY_BYTES)
        return [command_id(wall_us, bits[place : place + ID_ENTROPY_BYTES]) for place in places]

    def _deadline(self, timeout_s: float | None) -> float:
        limit_s = self._timeout_s if timeout_s is None else positive("timeout_s", timeout_s)
        return asyncio.get_running_loop().time() + limit_s

    @property
    def _running(self) -> _Parts:
        if os.getpid() != self._process:
            raise Bug("this client was made before a fork; make another one in the child, or use ReplicatedMemory")
        if self._parts is None:
            self._parts = _Parts(self._endpoints, self._credentials, self._session, self._clock, self._entropy)
        return self._parts


class _Parts:
    """What a client opens on its loop."""

    def __init__(
        self,
        endpoints: Sequence[str],
        credentials: grpc.ChannelCredentials | None,
        session: Session,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.directory = Directory(endpoints, credentials)
        self.submitter = Submitter(self.directory, clock, entropy)
        self.asker = Asker(self.directory, session, entropy.random())


def endpoints_of(endpoints: str | Sequence[str]) -> tuple[str, ...]:
    """A list of endpoints, also given as one string with commas. Raises `Invalid` for none."""
    listed = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    cleaned = tuple(endpoint.strip() for endpoint in listed if endpoint.strip())
    if not cleaned:
        raise Invalid("endpoints", "none given; name at least one node as host:port")
    return cleaned


def mode_of(consistency: str) -> memory_pb2.ReadMode:
    """The wire's word for a consistency. Raises `Invalid` for anything else."""
    try:
        return MODES[Consistency(consistency)]
    except ValueError:
        raise Invalid("consistency", f"{consistency!r} is none of {', '.join(Consistency)}") from None


def positive(field: str, seconds: float) -> float:
    """A time-out. Raises `Invalid` unless it is a positive, finite number of seconds."""
    if not 0 < seconds < float("inf"):
        raise Invalid(field, f"{seconds} is not a positive number of seconds")
    return seconds


def _filters(scope: str | None, kind: MemoryKind | None, trust: Trust | None) -> memory_pb2.Filters:
    return memory_pb2.Filters(
        scopes=() if scope is None else (normal_scope(scope),),
        has_scopes=scope is not None,
        kind=None if kind is None else MemoryKind(kind).value,
        trust=None if trust is None else Trust(trust).value,
    )


def _id(id: str) -> bytes:
    """A record's id. An id that no record can have is wrong in itself."""
    try:
        raw = bytes.fromhex(id)
    except (ValueError, TypeError):
        raw = b""
    if len(raw) != ID_BYTES:
        raise Invalid("id", f"{id!r} is not 32 hex digits")
    return raw


def _given_id(given: str) -> bytes:
    try:
        return _id(given)
    except Invalid as error:
        raise Invalid("command_id", error.reason) from None


def _command(id: bytes, kind: str, content: bytes) -> Command:
    if len(content) + COMMAND_OVERHEAD_BYTES > COMMAND_BYTES_LIMIT:
        raise TooLarge("command", len(content), COMMAND_BYTES_LIMIT - COMMAND_OVERHEAD_BYTES)
    return Command(id, kind, content)


def _chunks(made: Sequence[Command]) -> list[list[Command]]:
    """Consecutive commands, in pieces that one envelope holds."""
    chunks: list[list[Command]] = []
    size = 0
    for command in made:
        weight = len(command.content) + COMMAND_OVERHEAD_BYTES
        if not chunks or len(chunks[-1]) == COMMANDS_LIMIT or size + weight > ENVELOPE_BYTES_LIMIT:
            chunks.append([])
            size = 0
        chunks[-1].append(command)
        size += weight
    return chunks
