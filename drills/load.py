"""Writers that never stop, and an account of everything that was acknowledged to them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from ..client import AsyncReplicatedMemory
from ..memory.errors import OutcomeUnknown, VeridicalError
from ..memory.view import MemoryRecord, make_id, make_key

if TYPE_CHECKING:
    import grpc

TIMEOUT_S: Final = 2.0
GRACE_S: Final = 0.1
"""A call ends by its time-out, and so much later at most."""

PAUSE_S: Final = 0.01
PREDICATE: Final = "is"
SCOPE: Final = "repo:load"
PAGE: Final = 1000
READ_TIMEOUT_S: Final = 20.0


@dataclass
class Account:
    """What the writers know: acknowledged subjects with their command ids, moments, and calls that took too long.

    `errors` counts how calls ended that were not acknowledged at once, by the kind of the error.
    """

    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    moments: list[float] = field(default_factory=list[float])
    overdue_s: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])

    def first_after(self, moment: float) -> float:
        """Seconds from `moment` to the next acknowledgement; infinite when there is none."""
        return min((at for at in self.moments if at > moment), default=float("inf")) - moment

    def longest_gap_s(self, begin: float, end: float) -> float:
        """The longest time without an acknowledgement between two moments."""
        inside = [begin, *sorted(at for at in self.moments if begin < at < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(inside))


class Writers:
    """Several writers in one process; each writes facts of its own, and repeats a call whose outcome is unknown.

    `prefix` begins their subjects, so that the facts of several loads can be told apart.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        count: int = 8,
        prefix: str = "subject",
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.account = Account()
        self._endpoints = endpoints
        self._credentials = credentials
        self._count = count
        self._prefix = prefix
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self._memory: AsyncReplicatedMemory | None = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._memory = await AsyncReplicatedMemory.connect(
            self._endpoints, timeout_s=TIMEOUT_S, credentials=self._credentials
        )
        self._tasks = [asyncio.create_task(self._write(self._memory)) for _ in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        if self._memory is not None:
            await self._memory.close()

    async def _write(self, memory: AsyncReplicatedMemory) -> None:
        while True:
            await self._once(memory, f"{self._prefix} {next(self._numbers)}")

    async def _once(self, memory: AsyncReplicatedMemory, subject: str) -> None:
        """Write one fact until it is acknowledged; the same command id all the while."""
        record = MemoryRecord(subject=subject, predicate=PREDICATE, text=value_of(subject), scope=SCOPE)
        command_id: str | None = None
        while True:
            begun = _now()
            try:
                written = await memory.write(record, command_id=command_id)
            except OutcomeUnknown as unknown:
                command_id = unknown.command_id
                self.account.errors[type(unknown).__name__] += 1
            except VeridicalError as error:
                self.account.errors[type(error).__name__] += 1
                await asyncio.sleep(PAUSE_S)
            else:
                self.account.acknowledged[subject] = written.command_id
                self.account.moments.append(_now())
                self._news.set()
                return
            finally:
                if (taken := _now() - begun) > TIMEOUT_S + GRACE_S:
                    self.account.overdue_s.append(taken)

    async def acknowledge(self, more: int, timeout_s: float = 20.0) -> None:
        """Wait until so many more facts were acknowledged. Raises `TimeoutError`."""
        goal = len(self.account.moments) + more
        async with asyncio.timeout(timeout_s):
            while len(self.account.moments) < goal:
                self._news.clear()
                await self._news.wait()


def _now() -> float:
    """Seconds on the clock by which the calls are timed."""
    return asyncio.get_running_loop().time()


def value_of(subject: str) -> str:
    """What a writer says of its subject."""
    return f"the value of {subject}"


async def missing(
    endpoints: Sequence[str], account: Account, consistency: str, credentials: grpc.ChannelCredentials | None = None
) -> list[str]:
    """Subjects that were acknowledged and are not there now, or not as they were written, or twice."""
    subjects = list(account.acknowledged)
    ids = [make_id(make_key(subject, PREDICATE, SCOPE)) for subject in subjects]
    async with AsyncReplicatedMemory(
        endpoints, read_consistency=consistency, timeout_s=READ_TIMEOUT_S, credentials=credentials
    ) as memory:
        pages = [await memory.get_many(ids[first : first + PAGE]) for first in range(0, len(ids), PAGE)]
    return [
        subject
        for subject, record in zip(subjects, itertools.chain(*pages), strict=True)
        if record is None or record.text != value_of(subject) or record.support_count != 1
    ]
