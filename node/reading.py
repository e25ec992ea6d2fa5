"""Reads at a node: the mode decides the index (the core's barriers), the index decides the answer (the projection).

A read that cannot keep its promise by its deadline fails and says who was silent; it is never quietly weakened.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ..log.entry import ORIGIN, Position
from ..memory.context import READ
from ..memory.errors import Invalid, Refused, Retry, Unavailable, VeridicalError
from ..projection.errors import ProjectionError
from ..projection.projection import Projection
from ..projection.reader import Reader
from ..projection.recall import AskedOf
from ..replication.messages import Read, ReadFailed, ReadMode, ReadReady
from .access import Access
from .driver import Driver
from .metrics import Metrics
from .ports import ReadReply, ReadRequest, Transport, Verb
from .queries import answer
from .system import Clock

SECOND_US = 1_000_000
FORWARD_PAUSE_S = 0.02
OVERLOAD_HINT_S = 0.02
ASKING_SHARE = 0.5
"""So much of a read's time a service may take; what is left is enough to go on by words."""

Result = TypeVar("Result")


class Readers:
    """The reader pool: threads with a read-only connection each, opened when a thread is first used."""

    def __init__(self, projection: Projection, threads: int) -> None:
        self._projection = projection
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")
        self._own = threading.local()
        self._opened: list[Reader] = []
        self._closed = False

    async def run(self, query: Callable[[Reader], Result]) -> Result:
        """Run `query` on one of the threads. Raises `Unavailable` once they are ended."""
        if self._closed:
            raise Unavailable("the node ends")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query)

    def call(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run anything else that would block the loop. Raises `Unavailable` once the threads are ended."""
        if self._closed:
            raise Unavailable("the node ends")
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def stop(self) -> None:
        """End the threads. Blocks; not to be called on the loop."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        for reader in self._opened:
            reader.close()

    def _run(self, query: Callable[[Reader], Result]) -> Result:
        reader: Reader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = self._projection.reader()
            self._opened.append(reader)
        return query(reader)


class Freshness:
    """How old the state folded here may be: when it was last known to hold everything committed at that moment."""

    def __init__(self) -> None:
        self._fresh_us: int | None = None
        self._heard: tuple[int, int] | None = None

    def heard(self, commit_index: int, applied_index: int, now_us: int) -> None:
        """The leader said at `now_us` that `commit_index` is committed."""
        if commit_index <= applied_index:
            self._fresh_us, self._heard = now_us, None
        elif self._heard is None:
            self._heard = (commit_index, now_us)

    def applied(self, index: int) -> None:
        """The fold has come to `index`."""
        if self._heard is not None and self._heard[0] <= index:
            self._fresh_us, self._heard = self._heard[1], None

    def age_us(self, now_us: int) -> int | None:
        """An upper bound, None when nothing was heard from a leader yet."""
        return None if self._fresh_us is None else max(0, now_us - self._fresh_us)


@dataclass(frozen=True, slots=True)
class ReadsPort:
    """What reads ask of the node: who it is, the age of its state (0 while it serves as leader), and a member's name.

    `access` says what callers may see, `awaited` hears that a read waits for the fold, `damaged` that the projection
    cannot be read. `asked`: what a service makes of a question within so many seconds, where one makes vectors here.
    """

    member: str
    age_us: Callable[[], int | None]
    name: Callable[[str], str]
    access: Access
    awaited: Callable[[], None]
    damaged: Callable[[str], None]
    asked: Callable[[str, float], Awaitable[AskedOf]] | None = None


class Reads:
    """All reads under way at a node. `driver` is set before the first one."""

    driver: Driver

    def __init__(
        self, clock: Clock, transport: Transport, readers: Readers, metrics: Metrics, limit: int, port: ReadsPort
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._readers = readers
        self._metrics = metrics
        self._limit = limit
        self._port = port
        self._token = 0
        self._under_way = 0
        self._barriers: dict[int, asyncio.Future[ReadReady]] = {}
        self._positions: list[tuple[Position, asyncio.Future[None]]] = []
        self._applied = ORIGIN
        self._closed = ""

    def close(self, reason: str) -> None:
        """The node ends: no read finds its index any more."""
        self._closed = reason
        for future in [*self._barriers.values(), *(future for _, future in self._positions)]:
            if not future.done():
                future.set_exception(Unavailable(reason))

    @property
    def waits_for_fold(self) -> bool:
        """Whether a read that another node sent here waits for its position."""
        return bool(self._positions)

    async def read(self, request: ReadRequest) -> ReadReply:
        """The answer, or `Unavailable`, `Invalid`, `Refused` (not granted), `Retry` (too many reads wait)."""
        if self._closed:
            raise Unavailable(self._closed)
        if self._under_way >= self._limit:
            raise Retry(f"{self._limit} reads are under way", OVERLOAD_HINT_S)
        self._under_way += 1
        result = "failed"
        try:
            reply = await self._read_in_time(request)
            result = "answered"
            return reply
        except Invalid:
            result = "invalid"
            raise
        except Refused:
            result = "refused"
            raise
        finally:
            self._under_way -= 1
            self._metrics.reads.labels(request.mode.value, result).inc()

    async def caught_up(self, timeout_us: int) -> None:
        """Wait until all that is known here to be committed is folded here. Raises `Unavailable` when it is not."""
        if self._closed:
            raise Unavailable(self._closed)
        kernel = self.driver.replica.kernel
        await self._wait_for(kernel.position_of(kernel.commit_index) or ORIGIN, timeout_us)

    async def _read_in_time(self, request: ReadRequest) -> ReadReply:
        if request.forwarded:
            await self._wait_for(request.min_position, request.timeout_us)
            return await self._answer(request)
        deadline_us = self._clock.elapsed_us() + request.timeout_us
        while not self._closed:
            ready = await self._barrier(request, deadline_us)
            if ready.member == self._port.member:
                return await self._answer(request)
            reply = await self._forwarded(request, ready, deadline_us)
            if reply is not None:
                return reply
            await asyncio.sleep(FORWARD_PAUSE_S)
        raise Unavailable(self._closed)

    # --- the index ---

    async def _barrier(self, request: ReadRequest, deadline_us: int) -> ReadReady:
        self._token += 1
        token, future = self._token, asyncio.get_running_loop().create_future()
        self._barriers[token] = future
        try:
            self.driver.step(Read(token, request.mode, deadline_us, request.min_index))
            return await future
        finally:
            self._barriers.pop(token, None)

    def on_ready(self, ready: ReadReady) -> None:
        """The core has found the index, and who can answer."""
        future = self._barriers.get(ready.token)
        if future is not None and not future.done():
            future.set_result(ready)

    def on_failed(self, failed: ReadFailed) -> None:
        """The promise cannot be kept."""
        future = self._barriers.get(failed.token)
        if future is not None and not future.done():
            silent = tuple(self._port.name(member) for member in failed.silent)
            future.set_exception(Unavailable(failed.reason, silent))

    def on_applied(self, position: Position) -> None:
        """The fold has come this far."""
        self._applied = position
        if not self._positions:
            return
        for wanted, future in self._positions:
            if wanted <= position and not future.done():
                future.set_result(None)
        self._positions = [(wanted, future) for wanted, future in self._positions if not future.done()]

    async def _wait_for(self, position: Position, timeout_us: int) -> None:
        if self._applied >= position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._positions.append((position, future))
        self._port.awaited()
        try:
            async with asyncio.timeout(timeout_us / SECOND_US):
                await future
        except TimeoutError as error:
            raise Unavailable(f"position {tuple(position)} is not applied here yet") from error

    async def _forwarded(self, request: ReadRequest, ready: ReadReady, deadline_us: int) -> ReadReply | None:
        """The answer of a member that has applied the position; None when it cannot be reached any more."""
        remaining_us = deadline_us - self._clock.elapsed_us()
        onward = replace(request, timeout_us=remaining_us, min_position=ready.position, forwarded=True)
        try:
            return await self._transport.read(ready.member, onward)
        except Unavailable as error:
            if self._clock.elapsed_us() >= deadline_us:
                raise Unavailable(error.reason, (self._port.name(ready.member),)) from error
            return None

    # --- the answer ---

    async def _answer(self, request: ReadRequest) -> ReadReply:
        age_us = self._port.age_us()
        self._refuse_stale(request, age_us)
        wall_us = self._clock.wall_us()
        try:
            access = self._port.access
            request = await self._asked(request)
            found = await self._readers.run(lambda reader: answer(reader, request, wall_us, access))
        except VeridicalError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(request.verb.value, str(error)) from error
        except ProjectionError as error:
            self._port.damaged(f"the projection cannot be read: {error}")
            raise Unavailable(f"this node cannot read its projection: {error}") from error
        position = found.position
        return ReadReply(
            found.value, position.epoch, position.index, found.now_us, found.scopes, self._port.member, age_us
        )

    async def _asked(self, request: ReadRequest) -> ReadRequest:
        """The request with what the service makes of its question; nobody who may not read has anything asked."""
        asked, question = self._port.asked, request.args.get("query")
        if asked is None or request.verb is not Verb.RECALL or not isinstance(question, str) or not question.strip():
            return request
        access, caller = self._port.access, request.caller
        await self._readers.run(lambda reader: access.reach(reader, caller, READ))
        asked_of = await asked(question, request.timeout_us / SECOND_US * ASKING_SHARE)
        return replace(request, args={**request.args, "asked_of": asked_of})

    def _refuse_stale(self, request: ReadRequest, age_us: int | None) -> None:
        limit_us = request.max_staleness_us
        if limit_us is None or request.mode not in (ReadMode.LOCAL, ReadMode.SESSION) or request.forwarded:
            return
        if age_us is None or age_us > limit_us:
            known = "unknown" if age_us is None else f"{age_us} µs"
            raise Unavailable(f"the age of this state is {known}, asked for was at most {limit_us} µs")
