"""The vectors of an index that a service makes (MEMORY § 7): asked for once, by whoever leads, and replicated.

A record waits in the projection's queue, which every node has, until a command brings its vector. The leader takes a
few, asks the service on a thread of its own, and says what it got in commands of the node. Whoever leads next goes on
with what still waits. A service that is silent is asked again and again, ever more seldom; nobody else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from ..embedding.embedder import Embedder, EmbedderUnavailable
from ..embedding.vectors import says_nothing
from ..memory.commands import EmbedBody
from ..memory.errors import VeridicalError
from ..memory.rules import WITH_OTHERS
from ..projection.reader import Reader
from ..projection.served import Unembedded
from .daemons import Daemons
from .metrics import Metrics
from .ports import SubmitResult

TEXTS_AT_ONCE: Final = 64
CHARACTERS_AT_ONCE: Final = 256_000
"""So much is asked for in one go, and stands in one envelope; a longer text comes alone."""
SERVICE_TIMEOUT_S: Final = 20.0
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.vectors")


@dataclass(frozen=True, slots=True)
class VectoringPort:
    """What it asks of the node: a query on a reader's thread, the epoch in which this node decides (None: it does not),
    whether records may wait (and a way to say that none does), and to have commands decided and folded.
    """

    read: Callable[[Callable[[Reader], tuple[list[Unembedded], int]]], Awaitable[tuple[list[Unembedded], int]]]
    epoch: Callable[[], int | None]
    is_awaited: Callable[[], bool]
    note_awaited: Callable[[bool], None]
    submit: Callable[[Sequence[EmbedBody]], Awaitable[SubmitResult]]


class Vectoring:
    """Belongs to the node's loop. `service` is asked on other threads."""

    def __init__(self, service: Embedder, metrics: Metrics, port: VectoringPort) -> None:
        self._service = service
        self._metrics = metrics
        self._port = port
        self._threads = Daemons("vectors")
        self._work: asyncio.Task[None] | None = None
        self._stopped = False
        self._after = 0
        self._size = TEXTS_AT_ONCE
        self._failures = 0

    def look(self) -> None:
        """Something was folded, or this node leads now: begin if there is anything to do."""
        if self._work is None and not self._stopped and self._port.epoch() is not None and self._port.is_awaited():
            self._work = asyncio.get_running_loop().create_task(self._embed_all())
            self._work.add_done_callback(self._ended)

    def stop(self) -> None:
        """Take nothing up any more. A question that is under way is given up."""
        self._stopped = True
        if self._work is not None:
            self._work.cancel()

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if work.cancelled():
            return
        if (error := work.exception()) is not None:
            _log.error("vectors cannot be made", reason=str(error))
        else:
            self.look()

    async def _embed_all(self) -> None:
        """Until nobody waits, or another node leads."""
        self._after, self._size = 0, TEXTS_AT_ONCE
        while (epoch := self._port.epoch()) is not None:
            self._port.note_awaited(False)
            waiting = await self._waiting()
            if not waiting and not self._after:
                return
            self._port.note_awaited(True)
            if waiting:
                await self._embed(waiting, epoch)
            else:  # all that is left was refused: perhaps it is taken later
                self._after = 0
                await asyncio.sleep(LONGEST_PAUSE_S)

    async def _waiting(self) -> list[Unembedded]:
        """The next that wait, as many as are asked for in one go."""
        after, size = self._after, self._size
        found, count = await self._port.read(
            lambda reader: (reader.unembedded(after, size), reader.waiting().unembedded)
        )
        self._metrics.unembedded.set(count)
        taken, characters = 0, 0
        for one in found:
            characters += len(one.text)
            if taken and characters > CHARACTERS_AT_ONCE:
                break
            taken += 1
        return found[:taken]

    async def _embed(self, waiting: Sequence[Unembedded], epoch: int) -> None:
        try:
            vectors = await self._threads.run(lambda: self._service.embed([one.text for one in waiting]))
        except EmbedderUnavailable as error:
            await self._failed(waiting, error)
            return
        name = self._service.name
        bodies = [
            EmbedBody(one.id, one.value_digest, name, b"" if says_nothing(vector) else vector, epoch)
            for one, vector in zip(waiting, vectors, strict=True)
        ]
        try:
            await self._say(bodies)
        except VeridicalError as error:  # another leader, or too much to do: whoever leads then goes on
            _log.info("vectors wait", reason=str(error))
            await asyncio.sleep(FIRST_PAUSE_S)
            return
        if self._failures:
            _log.info("the service makes vectors again", service=name)
        self._failures, self._size = 0, min(2 * self._size, TEXTS_AT_ONCE)

    async def _say(self, bodies: Sequence[EmbedBody]) -> None:
        """What came too late for its record is left out; it is asked for again, if it still waits."""
        while bodies:
            outcomes = (await self._port.submit(bodies)).outcomes
            bodies = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome.rule == WITH_OTHERS]

    async def _failed(self, waiting: Sequence[Unembedded], error: EmbedderUnavailable) -> None:
        """Where something is wrong with what was asked, each text is asked for alone; what is refused comes last."""
        self._metrics.embed_failures.inc()
        _log.warning("the service makes no vectors", records=len(waiting), reason=str(error))
        if not error.may_retry and len(waiting) > 1:
            self._size = 1
            return
        if not error.may_retry:
            self._after = waiting[0].number
        pause_s = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._failures = min(self._failures + 1, 16)
        await asyncio.sleep(pause_s)
