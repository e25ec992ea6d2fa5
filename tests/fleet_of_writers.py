"""Writers that never stop, and an account of everything that was acknowledged to them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from veridical.client import AsyncReplicatedMemory
from veridical.log.canonical import decode
from veridical.log.entry import Envelope
from veridical.log.store import LogStore
from veridical.memory import MemoryRecord, make_id, make_key
from veridical.memory.errors import OutcomeUnknown, VeridicalError
from veridical.memory.machine import SEEN

TIMEOUT_S = 2.0
GRACE_S = 0.1
SCOPE = "repo:load"
PAGE = 1000


@dataclass
class Account:
    """What the writers know: acknowledged subjects with their command ids, moments, and calls that took too long."""

    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    moments: list[float] = field(default_factory=list[float])
    overdue_s: list[float] = field(default_factory=list[float])

    def first_after(self, moment: float) -> float:
        """Seconds from `moment` to the next acknowledgement."""
        return min(at for at in self.moments if at > moment) - moment

    def longest_gap_s(self, begin: float, end: float) -> float:
        """The longest time without an acknowledgement between two moments."""
        inside = [begin, *sorted(at for at in self.moments if begin < at < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(inside))


class Writers:
    """Several writers in one process; each writes facts of its own, and repeats a call whose outcome is unknown."""

    def __init__(self, endpoints: Sequence[str], count: int = 8) -> None:
        self.account = Account()
        self._endpoints = endpoints
        self._count = count
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self._memory: AsyncReplicatedMemory | None = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Writers:
        self._memory = await AsyncReplicatedMemory.connect(self._endpoints, timeout_s=TIMEOUT_S)
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
            await self._once(memory, f"subject {next(self._numbers)}")

    async def _once(self, memory: AsyncReplicatedMemory, subject: str) -> None:
        """Write one fact until it is acknowledged; the same command id all the while."""
        record = MemoryRecord(subject=subject, predicate="is", text=f"the value of {subject}", scope=SCOPE)
        command_id: str | None = None
        while True:
            begun = time.monotonic()
            try:
                written = await memory.write(record, command_id=command_id)
            except OutcomeUnknown as unknown:
                command_id = unknown.command_id
            except VeridicalError:
                await asyncio.sleep(0.01)
            else:
                self.account.acknowledged[subject] = written.command_id
                self.account.moments.append(time.monotonic())
                self._news.set()
                return
            finally:
                if (taken := time.monotonic() - begun) > TIMEOUT_S + GRACE_S:
                    self.account.overdue_s.append(taken)

    async def acknowledge(self, more: int, timeout_s: float = 20.0) -> None:
        """Wait until so many more facts were acknowledged."""
        goal = len(self.account.moments) + more
        async with asyncio.timeout(timeout_s):
            while len(self.account.moments) < goal:
                self._news.clear()
                await self._news.wait()


async def missing(endpoints: Sequence[str], account: Account, consistency: str) -> list[str]:
    """Subjects that were acknowledged and are not there now, or not as they were written."""
    subjects = list(account.acknowledged)
    ids = [make_id(make_key(subject, "is", SCOPE)) for subject in subjects]
    async with AsyncReplicatedMemory(endpoints, read_consistency=consistency, timeout_s=20) as memory:
        pages = [await memory.get_many(ids[first : first + PAGE]) for first in range(0, len(ids), PAGE)]
    return [
        subject
        for subject, record in zip(subjects, itertools.chain(*pages), strict=True)
        if record is None or record.text != f"the value of {subject}" or record.support_count != 1
    ]


def times_decided(log: Path) -> dict[str, int]:
    """How often each command id was decided, and not merely answered again, in the log of a stopped node."""
    counts: dict[str, int] = {}
    store = LogStore.open(log, read_only=True)
    try:
        for entry, _ in store.history():
            for head, item in zip(Envelope.parse(entry.envelope).commands, decode(entry.events), strict=True):
                if head.kind.startswith("memory.") and item[0] != SEEN:
                    counts[head.id.hex()] = counts.get(head.id.hex(), 0) + 1
    finally:
        store.close()
    return counts
