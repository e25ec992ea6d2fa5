"""The calls of a memory, whatever lies behind it: made into commands and questions, and their answers into records."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from ..memory import commands
from ..memory.errors import Invalid, Refused, TooLarge
from ..memory.fields import json_text
from ..memory.keys import normal_name
from ..memory.lifecycle import HALF_LIFE_US
from ..memory.limits import BATCH_IDS_LIMIT
from ..memory.record import Record
from ..memory.text import comparison_key
from ..memory.view import (
    Done,
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
from ..security.tokens import BearerToken
from . import answers
from .answers import Answer, Records
from .bearer import Asking, token_of
from .envelope import ID_ENTROPY_BYTES, Command, command_id
from .oversight import OversightCalls
from .ports import Clock, Entropy
from .requests import (
    Consistency,
    Moment,
    chunks_of,
    command_of,
    count,
    filters_of,
    given_command_id,
    mode_of,
    moment_us,
    positive,
    record_id,
)
from .sources import SourceCalls
from .system import SystemClock, SystemEntropy
from .tokens import TokenCalls
from .trust import TrustCalls
from .watching import ChangeStream, Place, watch_request

TIMEOUT_S: Final = 5.0
PAGE_RECORDS: Final = 1_000
SECOND_US: Final = 1_000_000
HALF_LIFE_S: Final = HALF_LIFE_US / SECOND_US


class Session:
    """The last position seen, so that no later read of the session falls behind it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.index = 0

    def saw(self, epoch: int, index: int) -> None:
        """An answer stood at this position."""
        if index > self.index:
            self.epoch, self.index = epoch, index


class Route(Protocol):
    """The way to the nodes of one memory. Deadlines are in the running loop's time, and are kept."""

    async def submit(self, commands: Sequence[Command], asking: Asking | None, deadline: float) -> list[Answer]:
        """The answers to 1 to 256 commands that fit one envelope, in order. The refusal of one is an answer.

        Raises what is said of them as a whole, `OutcomeUnknown` or `Unavailable`.
        """
        ...

    async def ask(
        self, request: memory_pb2.ReadRequest, asking: Asking | None, deadline: float
    ) -> memory_pb2.ReadReply:
        """The answer to a question of `asking`, or of nobody; its time-out is set on the way.

        Raises `Unavailable`, naming who was silent, and what a node says.
        """
        ...

    def watch(self, request: memory_pb2.WatchRequest, asking: Asking | None) -> AsyncGenerator[memory_pb2.WatchReply]:
        """See `Watched.watch`."""
        ...


class AsyncMemory(TrustCalls, OversightCalls, SourceCalls, TokenCalls):
    """A `MemoryView` over a route. `route` is asked for at every call, so that it may be opened late.

    Every call ends within its `timeout_s` and a tenth of a second: in its answer, or in an error that says what is
    known. A write that may have happened ends in `OutcomeUnknown` with its command id: the same call with that
    `command_id` tells what became of it, and never does it twice. Commands are signed by `principal`; without one they
    are anonymous, or claims in nobody's name under `token`, a bearer token, which then also says who asks.
    `max_staleness_s` bounds the age of answers to local and session reads.

    `read_consistency` also says when a write over the network is answered: at its commit where reads keep a
    promise, since they wait for what they must see; once the leader has folded it where they are local.
    """

    def __init__(
        self,
        *,
        read_consistency: str = Consistency.LOCAL,
        principal: Principal | None = None,
        token: str | BearerToken | None = None,
        timeout_s: float = TIMEOUT_S,
        max_staleness_s: float | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self._mode = mode_of(read_consistency)
        self._principal = principal
        self._asking: Asking | None = principal or token_of(token)
        self._timeout_s = positive("timeout_s", timeout_s)
        self._max_staleness_us = duration_us("max_staleness_s", max_staleness_s)
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._session = Session()

    @property
    @abstractmethod
    def _route(self) -> Route:
        """The way to the nodes."""

    @abstractmethod
    async def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """What every node that answers says of itself, by where it is. Raises `Unavailable` when none does."""

    @property
    def last_seen(self) -> tuple[int, int]:
        """The newest position `(epoch, index)` that this client has seen: session reads are never older."""
        return (self._session.epoch, self._session.index)

    def saw(self, epoch: int, index: int) -> None:
        """Take over a position that another client has seen, so that session reads here are not older than it."""
        self._session.saw(epoch, index)

    # --- writing ------------------------------------------------------------------------------------------------------
    # `command_id` (hex) repeats a call whose outcome is not known.

    async def write(
        self, record: MemoryRecord, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.write`."""
        return await self._mutation(commands.WRITE, record.write_body(), command_id, timeout_s)

    async def write_many(
        self,
        records: Sequence[MemoryRecord],
        *,
        command_ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """Write in bulk, in order, in as few envelopes as will hold them. A refusal stands at its place.

        `command_ids` (hex, one for each record) make the call one that can be repeated. `OutcomeUnknown` names the
        first command that is not known to have an outcome; those before it have theirs.
        """
        return await self._written([record.write_body() for record in records], command_ids, timeout_s)

    async def _written(
        self, bodies: Sequence[commands.WriteBody], command_ids: Sequence[str] | None, timeout_s: float | None
    ) -> list[MemoryRecord | Refused]:
        contents = [commands.encode_body(commands.WRITE, body) for body in bodies]
        ids = self._new_ids(len(bodies)) if command_ids is None else [given_command_id(given) for given in command_ids]
        if len(ids) != len(bodies):
            raise Invalid("command_ids", f"{len(ids)} ids for {len(bodies)} records")
        made = [command_of(id, commands.WRITE, content) for id, content in zip(ids, contents, strict=True)]
        deadline = self._deadline(timeout_s)
        found: list[Answer] = []
        for chunk in chunks_of(made):
            found += await self._submit(chunk, deadline)
        return [answers.written_or_refused(answer) for answer in found]

    async def corroborate(
        self, id: str, *, source: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.corroborate`."""
        body = commands.CorroborateBody(record_id(id), source)
        return await self._mutation(commands.CORROBORATE, body, command_id, timeout_s)

    async def contradict(
        self,
        id: str,
        *,
        evidence: str = "",
        reason: str = "",
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.contradict`."""
        body = commands.ContradictBody(record_id(id), evidence, reason)
        return await self._mutation(commands.CONTRADICT, body, command_id, timeout_s)

    async def promote(
        self, id: str, *, reason: str = "reviewed", command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.promote`."""
        body = commands.PromoteBody(record_id(id), reason)
        return await self._mutation(commands.PROMOTE, body, command_id, timeout_s)

    async def demote(
        self,
        id: str,
        *,
        reason: str = "reviewed",
        trust: Trust | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.demote`."""
        body = commands.DemoteBody(record_id(id), "" if trust is None else Trust(trust).value, reason)
        return await self._mutation(commands.DEMOTE, body, command_id, timeout_s)

    async def annotate(
        self,
        id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        detail: Mapping[str, Any] | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.annotate`."""
        texts = (json_text("metadata", metadata or {}), json_text("detail", detail or {}))
        body = commands.AnnotateBody(record_id(id), *texts)
        return await self._mutation(commands.ANNOTATE, body, command_id, timeout_s)

    async def set_flags(
        self,
        id: str,
        *,
        volatile: bool | None = None,
        ttl_s: float | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.set_flags`."""
        body = commands.FlagsBody(record_id(id), volatile, duration_us("ttl_s", ttl_s))
        return await self._mutation(commands.SET_FLAGS, body, command_id, timeout_s)

    async def pin(self, id: str, *, command_id: str | None = None, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.pin`."""
        return await self._mutation(commands.PIN, commands.PinBody(record_id(id)), command_id, timeout_s)

    async def unpin(self, id: str, *, command_id: str | None = None, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.unpin`."""
        return await self._mutation(commands.UNPIN, commands.PinBody(record_id(id)), command_id, timeout_s)

    async def forget(
        self, id: str, *, reason: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `MemoryView.forget`."""
        return await self._done(commands.FORGET, commands.ForgetBody(record_id(id), reason), command_id, timeout_s)

    async def decay(
        self, half_life_s: float = HALF_LIFE_S, now: datetime | float | None = None, *, timeout_s: float | None = None
    ) -> int:
        """See `MemoryView.decay`. Which records have faded is asked of the leader; each prune decides it anew.

        A record on which others rest goes after them: so it asks again until nothing more is to go.
        """
        half_life_us = duration_us("half_life_s", half_life_s) or HALF_LIFE_US
        at_us = 0 if now is None else microseconds(now)
        deadline, pruned, more = self._deadline(timeout_s), 0, True
        while more:
            reply = await self._answered(_prunable(at_us, half_life_us), deadline)
            ids = tuple(reply.ids.ids)
            count = await self._pruned(commands.PruneBody(at_us or reply.now_us, half_life_us, ids), deadline)
            pruned += count
            more = count > 0
        return pruned

    async def _pruned(self, body: commands.PruneBody, deadline: float) -> int:
        if not body.ids:
            return 0
        content = commands.encode_body(commands.PRUNE, body)
        (answer,) = await self._submit([command_of(self._new_ids(1)[0], commands.PRUNE, content)], deadline)
        answers.refuse(answer)
        return answer.outcome.count

    # --- reading ------------------------------------------------------------------------------------------------------
    # `consistency` goes before the client's own, for this call.

    async def get(
        self,
        id: str,
        *,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord | None:
        """See `MemoryView.get`."""
        (found,) = await self.get_many(
            [id], as_of=as_of, valid_at=valid_at, consistency=consistency, timeout_s=timeout_s
        )
        return found

    async def get_many(
        self,
        ids: Sequence[str],
        *,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | None]:
        """See `MemoryView.get_many`. At most 1 000 ids."""
        if len(ids) > BATCH_IDS_LIMIT:
            raise TooLarge("ids", len(ids), BATCH_IDS_LIMIT, "ids")
        question = memory_pb2.Get(
            ids=[record_id(id) for id in ids],
            as_of_us=moment_us("as_of", as_of),
            valid_at_us=moment_us("valid_at", valid_at),
        )
        return answers.found(await self._ask(memory_pb2.ReadRequest(get=question), consistency, timeout_s))

    async def recall(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        k: int = 5,
        trust: Trust | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Records:
        """See `MemoryView.recall`."""
        question = memory_pb2.Recall(
            query=query, k=count("k", k), filters=filters_of(scope, kind, trust, as_of, valid_at)
        )
        return answers.recalled(await self._ask(memory_pb2.ReadRequest(recall=question), consistency, timeout_s))

    async def all(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        trust: Trust | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        """See `MemoryView.all`. Streams: each page of 1 000 records comes within `timeout_s`."""
        page: Records | None = None
        while page is None or page.cursor:
            page = await self.page(
                scope=scope,
                kind=kind,
                trust=trust,
                after=page,
                as_of=as_of,
                valid_at=valid_at,
                consistency=consistency,
                timeout_s=timeout_s,
            )
            for record in page:
                yield record

    async def page(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        trust: Trust | None = None,
        after: Records | None = None,
        limit: int = PAGE_RECORDS,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Records:
        """Some of all records, in the order of their ids: the first, or those that follow the page `after`.

        Each page says at which index it holds. None is older than the page before it. `cursor` is empty on the last.
        """
        cursor = b"" if after is None else after.cursor
        question = memory_pb2.All(
            filters=filters_of(scope, kind, trust, as_of, valid_at), after=cursor, limit=count("limit", limit)
        )
        since = None if after is None else after.index
        return answers.page(await self._paged(memory_pb2.ReadRequest(all=question), since, consistency, timeout_s))

    async def members_as_of(
        self,
        predicate: str,
        *,
        value: str | None = None,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord]:
        """Everything that has that predicate at that moment and, with `value`, says that of it: who was admin then?

        In the order of their ids; rejected values never. Values are compared as everywhere, whatever their case and
        width. Reads all records of the scopes.
        """
        wanted = None if value is None else comparison_key(value)
        return [
            record
            async for record in self.all(
                scope=scope, kind=kind, as_of=as_of, valid_at=valid_at, consistency=consistency, timeout_s=timeout_s
            )
            if normal_name(record.predicate) == normal_name(predicate)
            and record.trust != Trust.REJECTED
            and wanted in (None, comparison_key(record.text))
        ]

    async def history(
        self,
        id: str,
        *,
        limit: int = 100,
        before: RecordVersion | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> list[HistoryItem]:
        """See `MemoryView.history`. At most 1 000 items a call."""
        question = memory_pb2.History(
            id=record_id(id),
            limit=count("limit", limit),
            as_of_us=moment_us("as_of", as_of),
            valid_at_us=moment_us("valid_at", valid_at),
        )
        if before is not None:
            version = memory_pb2.Version(epoch=before.epoch, index=before.index, place=before.place)
            question.before.CopyFrom(version)
        return answers.history(await self._ask(memory_pb2.ReadRequest(history=question), consistency, timeout_s))

    async def scopes(self, *, consistency: str | None = None, timeout_s: float | None = None) -> dict[str, int]:
        """Every scope that holds records, with how many it holds, by name."""
        reply = await self._ask(memory_pb2.ReadRequest(scopes=memory_pb2.Scopes()), consistency, timeout_s)
        return {item.scope: item.records for item in reply.scope_counts.scopes}

    def watch(
        self,
        after: Place | None = None,
        *,
        scope: str | Sequence[str] | None = None,
        kinds: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        follow: bool = True,
        timeout_s: float | None = None,
    ) -> ChangeStream:
        """The change feed: every change that is committed, once, in the order of history, for `async for`.

        It begins behind `after`, at the present without it, and at the beginning of history with `BEGINNING`; without
        `follow` it ends at the index at which a read of this memory would be answered when it begins. `kinds` names
        events; what only reading leads to (`reinforced`) comes when it is named. Whatever becomes of single nodes, it
        goes on from where it was.

        Raises `Refused` for scopes that are not granted; `Compacted` when history before `first_index` is not there
        any more; `HistoryChanged` when `after` is of another one; `Unavailable` when no node answers for `timeout_s`.
        """
        request = watch_request(after, scope, kinds, ids)
        patience_s = self._timeout_s if timeout_s is None else positive("timeout_s", timeout_s)
        end = None if follow else self._index_now
        return ChangeStream(self._route, self._asking, request, patience_s, end)

    async def _index_now(self) -> int:
        """The index at which a read is answered now."""
        return (await self._ask(memory_pb2.ReadRequest(get=memory_pb2.Get()), None, None)).index

    # --- how ----------------------------------------------------------------------------------------------------------

    async def _mutation(
        self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None
    ) -> MemoryRecord:
        return answers.written(await self._commanded(kind, body, command_id, timeout_s))

    async def _commanded(
        self,
        kind: str,
        body: commands.Body,
        command_id: str | None,
        timeout_s: float | None,
        principal: Principal | None = None,
    ) -> Answer:
        id = self._new_ids(1)[0] if command_id is None else given_command_id(command_id)
        command = command_of(id, kind, commands.encode_body(kind, body))
        (answer,) = await self._submit([command], self._deadline(timeout_s), principal)
        return answer

    async def _held(self, scopes: Sequence[str], trust: Trust, timeout_s: float | None) -> list[Record]:
        filters, found, after = filters_of(scopes, None, trust), list[Record](), b""
        while True:
            question = memory_pb2.All(filters=filters, after=after, limit=PAGE_RECORDS)
            reply = await self._ask(memory_pb2.ReadRequest(all=question), None, timeout_s)
            found += map(answers.held, reply.page.rows)
            after = reply.page.after
            if not after:
                return found

    async def _submit(
        self, made: Sequence[Command], deadline: float, principal: Principal | None = None
    ) -> list[Answer]:
        """Have commands decided, signed by `principal`, or else by this memory's own."""
        found = await self._route.submit(made, principal or self._asking, deadline)
        self._session.saw(found[-1].epoch, found[-1].index)
        return found

    async def _ask(
        self, request: memory_pb2.ReadRequest, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply:
        return await self._answered(self._request(request, consistency), self._deadline(timeout_s))

    async def _paged(
        self, request: memory_pb2.ReadRequest, since: int | None, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply:
        request = self._request(request, consistency)
        if since is not None:
            request.mode, request.min_index = memory_pb2.READ_MODE_SESSION, since
        return await self._answered(request, self._deadline(timeout_s))

    async def _answered(self, request: memory_pb2.ReadRequest, deadline: float) -> memory_pb2.ReadReply:
        reply = await self._route.ask(request, self._asking, deadline)
        self._session.saw(reply.epoch, reply.index)
        return reply

    def _request(self, request: memory_pb2.ReadRequest, consistency: str | None) -> memory_pb2.ReadRequest:
        request.mode = self._mode if consistency is None else mode_of(consistency)
        if request.mode == memory_pb2.READ_MODE_SESSION:
            request.min_index = self._session.index
        if self._max_staleness_us is not None:
            request.max_staleness_us = self._max_staleness_us
        return request

    def _new_command_id(self) -> str:
        return self._new_ids(1)[0].hex()

    def _new_ids(self, count: int) -> list[bytes]:
        wall_us, bits = self._clock.wall_us(), self._entropy.bytes(ID_ENTROPY_BYTES * count)
        places = range(0, len(bits), ID_ENTROPY_BYTES)
        return [command_id(wall_us, bits[place : place + ID_ENTROPY_BYTES]) for place in places]

    def _deadline(self, timeout_s: float | None) -> float:
        limit_s = self._timeout_s if timeout_s is None else positive("timeout_s", timeout_s)
        return asyncio.get_running_loop().time() + limit_s


def _prunable(at_us: int, half_life_us: int) -> memory_pb2.ReadRequest:
    question = memory_pb2.Prunable(at_us=at_us, half_life_us=half_life_us, limit=BATCH_IDS_LIMIT)
    return memory_pb2.ReadRequest(mode=memory_pb2.READ_MODE_STRONG, prunable=question)
