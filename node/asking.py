"""What a service makes of questions, before they are looked up: in little time, or not at all.

Recall never waits long for a service, and never fails with it: without a vector it goes by words, and says so. Nothing
here happens on a reader's thread, nor while a snapshot is held.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import sha256
from typing import Final

import structlog

from ..embedding.embedder import Embedder, EmbedderUnavailable
from ..projection.recall import AskedOf
from ..projection.terms import QUERY_CHARACTERS_LIMIT
from .daemons import Daemons
from .system import Clock

TIMEOUT_S: Final = 2.0
AT_ONCE: Final = 16
"""So many questions are asked at one time; the others are answered by words."""
KEPT: Final = 4_096
"""So many vectors of questions are remembered: what is asked again gets the same answer, at once."""
FIRST_PAUSE_US: Final = 1_000_000
LONGEST_PAUSE_US: Final = 30_000_000
BY_WORDS: Final = "searched by words only: the service that makes vectors"
"""What the service itself said is for the operator's log."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.vectors")


class Asking:
    """Belongs to the node's loop. `service` ends each call within `TIMEOUT_S`."""

    def __init__(self, service: Embedder, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._threads = Daemons("questions")
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._under_way = 0
        self._failures = 0
        self._silent_until_us = 0

    async def asked(self, question: str, timeout_s: float) -> AskedOf:
        """The vector of a question, or why there is none; within `timeout_s`."""
        question = question[:QUERY_CHARACTERS_LIMIT]
        key = sha256(question.encode(errors="surrogatepass")).digest()
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return AskedOf(known)
        if self._clock.elapsed_us() < self._silent_until_us:
            return AskedOf(None, f"{BY_WORDS} does not answer")
        if self._under_way >= AT_ONCE:
            return AskedOf(None, f"{BY_WORDS} has {AT_ONCE} questions already")
        return await self._asked(question, key, min(timeout_s, TIMEOUT_S))

    async def _asked(self, question: str, key: bytes, timeout_s: float) -> AskedOf:
        self._under_way += 1
        future = self._threads.run(lambda: self._service.embed([question]))
        future.add_done_callback(lambda done: self._answered(key, done))
        try:
            async with asyncio.timeout(timeout_s):
                (vector,) = await asyncio.shield(future)
        except TimeoutError:
            return AskedOf(None, f"{BY_WORDS} has not answered in time")
        except EmbedderUnavailable:
            return AskedOf(None, f"{BY_WORDS} does not answer")
        return AskedOf(vector)

    def _answered(self, key: bytes, done: asyncio.Future[list[bytes]]) -> None:
        """Also when nobody waits for it any more."""
        self._under_way -= 1
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            _log.warning("the service makes no vectors of questions", reason=str(error))
            pause_us = min(FIRST_PAUSE_US << self._failures, LONGEST_PAUSE_US)
            self._failures = min(self._failures + 1, 16)
            self._silent_until_us = self._clock.elapsed_us() + pause_us
            return
        self._failures = 0
        (self._kept[key],) = done.result()
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
