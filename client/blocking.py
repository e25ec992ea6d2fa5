"""The same memory for programs without an event loop, from any number of threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from ..memory.errors import OutcomeUnknown, Refused, Unavailable, VeridicalError
from ..memory.view import Done, HistoryItem, MemoryKind, MemoryRecord, RecordVersion, Trust
from ..proto.generated import admin_pb2
from .answers import Records
from .blocking_oversight import BlockingOversightCalls
from .blocking_sources import BlockingSourceCalls
from .blocking_tokens import BlockingTokenCalls
from .blocking_trust import BlockingTrustCalls
from .blocking_watch import BlockingChanges
from .envelope import ID_ENTROPY_BYTES
from .envelope import command_id as new_command_id
from .loops import Interrupted
from .ports import Clock, Entropy
from .requests import Moment, positive
from .surface import HALF_LIFE_S, AsyncMemory
from .system import SystemClock, SystemEntropy
from .watching import ChangeStream, Place

SECOND_US: Final = 1_000_000
BACKSTOP_S: Final = 0.05
"""How much later than its deadline a call is given up whose loop does not get to run."""

Result = TypeVar("Result")
Call = Callable[[AsyncMemory, float], Coroutine[Any, Any, Result]]
Work = Callable[[AsyncMemory], Coroutine[Any, Any, Result]]


class RecordStream(Iterator[MemoryRecord]):
    """All records, a page at a time. `epoch`, `index`, `now` and `scopes` are those of the page that is read now."""

    def __init__(self, ask: Callable[[Records | None], Records]) -> None:
        self._ask = ask
        self._turn(ask(None))

    def __next__(self) -> MemoryRecord:
        for record in self._records:
            return record
        if not self._page.cursor:
            raise StopIteration
        self._turn(self._ask(self._page))
        return next(self)

    def _turn(self, page: Records) -> None:
        self._page = page
        self._records = iter(page)
        self.epoch, self.index, self.now = page.epoch, page.index, page.now
        self.scopes, self.unknown_scopes = page.scopes, page.unknown_scopes


class BlockingMemory(BlockingTrustCalls, BlockingOversightCalls, BlockingSourceCalls, BlockingTokenCalls):
    """The calls of an `AsyncMemory` with the same promises, blocking. Threads may share one."""

    def __init__(self, timeout_s: float, clock: Clock | None, entropy: Entropy | None) -> None:
        self._timeout_s = positive("timeout_s", timeout_s)
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._seen = (0, 0)
        self._closings = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of everything that was opened."""

    @abstractmethod
    def _begin(self, work: Work[Result]) -> Future[Result]:
        """Begin `work` on the loop where the memory lives. Ends in `Interrupted` when that loop ends first."""

    @property
    def last_seen(self) -> tuple[int, int]:
        """See `AsyncMemory.last_seen`."""
        return self._seen

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(
        self, record: MemoryRecord, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.write`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.write(record, command_id=command, timeout_s=left),
        )

    def write_many(
        self,
        records: Sequence[MemoryRecord],
        *,
        command_ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """See `AsyncMemory.write_many`."""
        return self._written_many(
            records,
            command_ids,
            timeout_s,
            lambda memory, ids, left: memory.write_many(records, command_ids=ids, timeout_s=left),
        )

    def corroborate(
        self, id: str, *, source: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.corroborate`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.corroborate(id, source=source, command_id=command, timeout_s=left),
        )

    def contradict(
        self,
        id: str,
        *,
        evidence: str = "",
        reason: str = "",
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.contradict`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.contradict(
                id, evidence=evidence, reason=reason, command_id=command, timeout_s=left
            ),
        )

    def promote(
        self, id: str, *, reason: str = "reviewed", command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `MemoryView.promote`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.promote(id, reason=reason, command_id=command, timeout_s=left),
        )

    def demote(
        self,
        id: str,
        *,
        reason: str = "reviewed",
        trust: Trust | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.demote`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.demote(
                id, reason=reason, trust=trust, command_id=command, timeout_s=left
            ),
        )

    def annotate(
        self,
        id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        detail: Mapping[str, Any] | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.annotate`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.annotate(
                id, metadata=metadata, detail=detail, command_id=command, timeout_s=left
            ),
        )

    def set_flags(
        self,
        id: str,
        *,
        volatile: bool | None = None,
        ttl_s: float | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `MemoryView.set_flags`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.set_flags(
                id, volatile=volatile, ttl_s=ttl_s, command_id=command, timeout_s=left
            ),
        )

    def pin(self, id: str, *, command_id: str | None = None, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.pin`."""
        return self._change(
            command_id, timeout_s, lambda memory, command, left: memory.pin(id, command_id=command, timeout_s=left)
        )

    def unpin(self, id: str, *, command_id: str | None = None, timeout_s: float | None = None) -> MemoryRecord:
        """See `MemoryView.unpin`."""
        return self._change(
            command_id, timeout_s, lambda memory, command, left: memory.unpin(id, command_id=command, timeout_s=left)
        )

    def forget(
        self, id: str, *, reason: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `MemoryView.forget`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.forget(id, reason=reason, command_id=command, timeout_s=left),
        )

    def decay(
        self, half_life_s: float = HALF_LIFE_S, now: datetime | float | None = None, *, timeout_s: float | None = None
    ) -> int:
        """See `MemoryView.decay`."""
        return self._command("", timeout_s, lambda memory, left: memory.decay(half_life_s, now, timeout_s=left))

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(
        self,
        id: str,
        *,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord | None:
        """See `MemoryView.get`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.get(
                id, as_of=as_of, valid_at=valid_at, consistency=consistency, timeout_s=left
            ),
        )

    def get_many(
        self,
        ids: Sequence[str],
        *,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | None]:
        """See `MemoryView.get_many`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.get_many(
                ids, as_of=as_of, valid_at=valid_at, consistency=consistency, timeout_s=left
            ),
        )

    def recall(
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
        return self._question(
            timeout_s,
            lambda memory, left: memory.recall(
                query,
                scope=scope,
                kind=kind,
                k=k,
                trust=trust,
                as_of=as_of,
                valid_at=valid_at,
                consistency=consistency,
                timeout_s=left,
            ),
        )

    def all(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        trust: Trust | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> RecordStream:
        """See `MemoryView.all`. The first page is asked for at once, the others as they are needed."""

        def ask(after: Records | None) -> Records:
            return self._question(
                timeout_s,
                lambda memory, left: memory.page(
                    scope=scope,
                    kind=kind,
                    trust=trust,
                    after=after,
                    as_of=as_of,
                    valid_at=valid_at,
                    consistency=consistency,
                    timeout_s=left,
                ),
            )

        return RecordStream(ask)

    def members_as_of(
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
        """See `AsyncMemory.members_as_of`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.members_as_of(
                predicate,
                value=value,
                scope=scope,
                kind=kind,
                as_of=as_of,
                valid_at=valid_at,
                consistency=consistency,
                timeout_s=left,
            ),
        )

    def history(
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
        """See `MemoryView.history`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.history(
                id,
                limit=limit,
                before=before,
                as_of=as_of,
                valid_at=valid_at,
                consistency=consistency,
                timeout_s=left,
            ),
        )

    def scopes(self, *, consistency: str | None = None, timeout_s: float | None = None) -> dict[str, int]:
        """See `AsyncMemory.scopes`."""
        return self._question(timeout_s, lambda memory, left: memory.scopes(consistency=consistency, timeout_s=left))

    def status(self, *, timeout_s: float | None = None) -> dict[str, admin_pb2.StatusReply]:
        """See `AsyncMemory.status`."""
        return self._question(timeout_s, lambda memory, left: memory.status(timeout_s=left))

    def watch(
        self,
        after: Place | None = None,
        *,
        scope: str | Sequence[str] | None = None,
        kinds: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        follow: bool = True,
        timeout_s: float | None = None,
    ) -> BlockingChanges:
        """See `AsyncMemory.watch`. It has begun when this returns: what is written afterwards will be told."""
        kinds = kinds if kinds is None else [*kinds]
        ids = ids if ids is None else [*ids]

        def opened(memory: AsyncMemory, place: Place | None) -> ChangeStream:
            return memory.watch(place, scope=scope, kinds=kinds, ids=ids, follow=follow, timeout_s=timeout_s)

        return BlockingChanges(self._begin, lambda: self._closings, opened, after)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _question(self, timeout_s: float | None, call: Call[Result]) -> Result:
        return self._answered(timeout_s, call, lambda: Unavailable("no answer in time"))

    def _change(
        self,
        command_id: str | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, str, float], Coroutine[Any, Any, Result]],
    ) -> Result:
        id = self._new_id() if command_id is None else command_id
        return self._command(id, timeout_s, lambda memory, left: call(memory, id, left))

    def _written_many(
        self,
        records: Sequence[MemoryRecord],
        command_ids: Sequence[str] | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, list[str], float], Coroutine[Any, Any, list[MemoryRecord | Refused]]],
    ) -> list[MemoryRecord | Refused]:
        ids = [self._new_id() for _ in records] if command_ids is None else list(command_ids)
        if not records:
            return []
        first = ids[0] if ids else ""
        return self._command(first, timeout_s, lambda memory, left: call(memory, ids, left))

    def _command(self, id: str, timeout_s: float | None, call: Call[Result]) -> Result:
        return self._answered(timeout_s, call, lambda: OutcomeUnknown(id))

    def _answered(self, timeout_s: float | None, call: Call[Result], late: Callable[[], VeridicalError]) -> Result:
        """Run a call on the loop; where a fork interrupts it, again with what is left of its time."""
        limit_s = self._timeout_s if timeout_s is None else positive("timeout_s", timeout_s)
        deadline_us = self._clock.elapsed_us() + int(limit_s * SECOND_US)
        interrupted = False
        while (left_s := (deadline_us - self._clock.elapsed_us()) / SECOND_US) > 0:
            try:
                return self._attempted(call, left_s)
            except Interrupted:
                interrupted = True
            except Unavailable:
                if interrupted:
                    break  # what was under way before the interruption may have arrived
                raise
            except TimeoutError:
                break
        raise late()

    def _attempted(self, call: Call[Result], left_s: float) -> Result:
        future = self._begin(lambda memory: self._tracked(memory, call, left_s))
        try:
            return future.result(left_s + BACKSTOP_S)
        except TimeoutError:
            future.cancel()
            raise

    async def _tracked(self, memory: AsyncMemory, call: Call[Result], left_s: float) -> Result:
        """What one loop has seen, the next one goes on from."""
        memory.saw(*self._seen)
        try:
            return await call(memory, left_s)
        finally:
            self._seen = max(self._seen, memory.last_seen)

    def _new_id(self) -> str:
        return new_command_id(self._clock.wall_us(), self._entropy.bytes(ID_ENTROPY_BYTES)).hex()
