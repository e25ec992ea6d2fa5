"""The writer's and the applier's bookkeeping, with a log that does as it is told."""

import asyncio
import threading
from collections.abc import Sequence

from veridical.log.entry import Entry, Position
from veridical.log.errors import LogFull, LogWriteFailed
from veridical.log.store import Identity, Write
from veridical.node.storage import Applier, ApplierPort, CommandCount, RecentEntries, Writer, WriterPort
from veridical.node.system import SystemClock
from veridical.replication.messages import Persist

IDENTITY = Identity("c" * 32, "test", "id-1")


def entry(index: int, commands: int = 1, size: int = 0) -> Entry:
    bodies = (bytes(size),) * commands
    return Entry(index, 1, bytes(32), 0, b"envelope", bytes(64), b"", bodies, bytes(32))


class ObedientLog:
    """Takes writes while its gate is open; raises what it is told to."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.groups: list[int] = []
        self.identities: list[Identity] = []

    def identify(self, identity: Identity) -> None:
        self.identities.append(identity)

    def write_many(self, writes: Sequence[Write]) -> None:
        self.gate.wait()
        if self.error is not None:
            raise self.error
        self.groups.append(len(writes))


class Heard:
    """What the loop was told."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.full = asyncio.Event()
        self.fatal: list[str] = []
        self.news = asyncio.Event()

    def on_written(self, tokens: Sequence[int]) -> None:
        self.tokens += tokens
        self.news.set()

    def on_fatal(self, reason: str) -> None:
        self.fatal.append(reason)
        self.news.set()


def writer(log: ObedientLog, heard: Heard) -> Writer:
    port = WriterPort(heard.on_written, heard.full.set, heard.on_fatal)
    return Writer(log, IDENTITY, SystemClock(), port, lambda seconds: None)  # type: ignore[arg-type]


def test_writes_that_wait_share_one_transaction() -> None:
    """Group commit: while one write is under way the others gather, and then go together, in order."""

    async def run() -> None:
        log, heard = ObedientLog(), Heard()
        log.gate.clear()
        under_test = writer(log, heard)
        under_test.put(Persist(1))
        async with asyncio.timeout(5):
            while not under_test.stuck_us(1 << 62):  # noqa: ASYNC110 (the writer's thread has to take it)
                await asyncio.sleep(0)
        for token in range(2, 11):
            under_test.put(Persist(token, entries=(entry(token),)))
        log.gate.set()
        await asyncio.to_thread(under_test.stop, 5)
        await asyncio.sleep(0)
        assert heard.tokens == list(range(1, 11))
        assert log.groups == [1, 9]
        assert log.identities == [IDENTITY]

    asyncio.run(run())


def test_a_failed_write_is_final() -> None:
    """*fsync-is-final*: nothing more is written, nothing is acknowledged."""

    async def run() -> None:
        log, heard = ObedientLog(), Heard()
        log.error = LogWriteFailed("input/output error")
        under_test = writer(log, heard)
        under_test.put(Persist(1))
        async with asyncio.timeout(5):
            await heard.news.wait()
        assert heard.tokens == []
        assert heard.fatal == ["the log cannot be written: input/output error"]
        await asyncio.to_thread(under_test.stop, 5)

    asyncio.run(run())


def test_a_full_disk_forgets_what_was_not_written() -> None:
    """Without room the writer says so and waits; what was asked for meanwhile is forgotten, later writes are taken."""

    async def run() -> None:
        log, heard = ObedientLog(), Heard()
        log.error = LogFull("no space left")
        under_test = writer(log, heard)
        under_test.put(Persist(1))
        async with asyncio.timeout(5):
            await heard.full.wait()
        under_test.put(Persist(2))
        log.error = None
        under_test.reopen()
        under_test.put(Persist(3))
        async with asyncio.timeout(5):
            await heard.news.wait()
        assert heard.tokens == [3]
        assert heard.fatal == []
        await asyncio.to_thread(under_test.stop, 5)

    asyncio.run(run())


def test_a_disk_may_be_declared_full_between_writes() -> None:
    """What was put before the declaration is written, what comes after it is forgotten."""

    async def run() -> None:
        log, heard = ObedientLog(), Heard()
        under_test = writer(log, heard)
        under_test.put(Persist(1))
        under_test.declare_full()
        under_test.put(Persist(2))
        async with asyncio.timeout(5):
            await heard.full.wait()
        assert heard.tokens == [1]
        await asyncio.to_thread(under_test.stop, 5)
        await asyncio.sleep(0)
        assert heard.tokens == [1]

    asyncio.run(run())


class SlowFold:
    """A projection that folds while its gate is open; `done` is what was done on its thread, in order."""

    def __init__(self) -> None:
        self.applied = Position(0, 0)
        self.state = self
        self.gate = threading.Event()
        self.began = threading.Event()
        self.done: list[str] = []

    def bucket_digests(self) -> list[bytes]:
        return []

    def apply(self, entries: Sequence[Entry]) -> None:
        self.began.set()
        self.gate.wait()
        self.done.append(f"fold {entries[-1].index}")


def test_a_decision_goes_before_the_next_transaction() -> None:
    """Callers wait for it; the fold that is under way ends first, and the next one is not forgotten."""

    async def play() -> None:
        fold, recent, all_folded, fatal = SlowFold(), RecentEntries(1 << 20), asyncio.Event(), list[str]()
        recent.extend(None, [entry(1), entry(2)])
        port = ApplierPort(lambda index, _: all_folded.set() if index == 2 else None, fatal.append, fatal.append)
        applier = Applier(fold, None, recent, port, lambda _: None, SystemClock())  # type: ignore[arg-type]
        applier.apply(1)
        await asyncio.to_thread(fold.began.wait, 5)
        applier.apply(2)
        decided = applier.call(lambda: fold.done.append("decide"))
        fold.gate.set()
        async with asyncio.timeout(5):
            await decided
            await all_folded.wait()
        assert fold.done == ["fold 1", "decide", "fold 2"]
        assert await asyncio.to_thread(applier.stop, 5)
        assert applier.call(lambda: None).cancelled()
        assert fatal == []

    asyncio.run(play())


def test_recent_entries_follow_the_log() -> None:
    """Entries are handed to the fold once, in order; what was cut is gone."""
    recent = RecentEntries(1 << 20)
    recent.extend(None, [entry(index) for index in range(1, 6)])
    recent.extend(3, [entry(4)])
    assert [taken.index for taken in recent.take(1, 2)] == [1, 2]
    assert [taken.index for taken in recent.take(3, 10)] == [3, 4]
    assert recent.take(5, 10) == []


def test_what_a_full_disk_has_swallowed_is_not_folded() -> None:
    """An entry that was on its way when the disk was full comes again, and may be another one by then."""
    recent = RecentEntries(1 << 20)
    swallowed, written = entry(2, size=1), entry(2, size=2)
    recent.extend(None, [entry(1)])
    recent.extend(None, [swallowed, entry(3)])
    recent.extend(None, [written])
    assert recent.take(1, 3)[1:] == [written]


def test_recent_entries_are_bounded() -> None:
    """A fold that is far behind reads the log instead."""
    recent = RecentEntries(10_000)
    recent.extend(None, [entry(index, size=3_000) for index in range(1, 5)])
    assert recent.take(1, 4) == []
    recent.extend(None, [entry(5)])
    assert recent.take(1, 5) == []
    assert [taken.index for taken in recent.take(5, 5)] == [5]


def test_commands_are_counted_between_indexes() -> None:
    """How far the fold is behind, in commands; entries of before this run count one each."""
    counts = CommandCount()
    counts.extend(None, [entry(11, 10), entry(12, 20), entry(13, 30)])
    assert counts.between(10, 13) == 60
    assert counts.between(11, 13) == 50
    assert counts.between(13, 13) == 0
    assert counts.between(8, 11) == 12
    counts.extend(11, [entry(12, 1)])
    assert counts.between(10, 12) == 11


def test_a_disk_that_hangs_does_not_keep_the_process() -> None:
    """A write that never returns is noticed by its age, and stopping does not wait for it."""

    async def run() -> None:
        log, heard = ObedientLog(), Heard()
        log.gate.clear()
        under_test = writer(log, heard)
        under_test.put(Persist(1))
        async with asyncio.timeout(5):
            while not under_test.stuck_us(1 << 62):  # noqa: ASYNC110 (the writer's thread has to take it)
                await asyncio.sleep(0)
        assert not await asyncio.to_thread(under_test.stop, 0)
        log.gate.set()

    asyncio.run(run())
