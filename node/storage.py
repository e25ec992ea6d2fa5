"""The threads that touch the disk: one writes the log, one folds, a few read. The event loop never does.

Work goes to a thread in batches and comes back to the loop in batches: a hop between threads costs as much as folding
a fact. Callbacks run on the loop. A write or an fsync that fails is final (*fsync-is-final*).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from ..antientropy.digests import Snapshots, landmark_after
from ..log.entry import Entry
from ..log.errors import LogDamaged, LogError, LogFull
from ..log.store import HardState, Identity, LogStore, Write
from ..projection.errors import ProjectionFull
from ..projection.projection import Projection
from ..replication.messages import Persist
from .system import Clock

SECOND_US = 1_000_000
GROUP_BYTES = 8 << 20
FOLD_BYTES = 1 << 20
FOLD_ENTRIES = 256
READ_BYTES = 4 << 20
FULL_PAUSE_S = 0.5
COUNTED_ENTRIES = 1 << 15

Observe = Callable[[float], None]
Result = TypeVar("Result")


class Order(Enum):
    """What the writer is told beside writes: to end, or to stop as if the disk were full."""

    STOP = "stop"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class WriterPort:
    """What the writer tells the loop: writes that are durable, that there is no room, that all is over."""

    written: Callable[[Sequence[int]], None]
    full: Callable[[], None]
    fatal: Callable[[str], None]


class Writer:
    """The writer thread: takes `Persist` effects in order, and stores all that wait in one durable transaction.

    A log without entries is signed with `identity` before it gets its first one.
    """

    def __init__(
        self,
        store: LogStore,
        identity: Identity,
        clock: Clock,
        port: WriterPort,
        observe: Observe,
        simulated_fsync_s: float = 0,
    ) -> None:
        self._store = store
        self._identity = identity
        self._identified = False
        self._clock = clock
        self._port = port
        self._observe = observe
        self._simulated_fsync_s = simulated_fsync_s
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Persist | Order] = SimpleQueue()
        self._order: Order | None = None
        self._open = threading.Event()
        self._open.set()
        self._began_us: int | None = None
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def put(self, persist: Persist) -> None:
        """Write this, after everything before it."""
        self._queue.put(persist)

    def stuck_us(self, now_us: int) -> int:
        """For how long the write under way has not returned; 0 when there is none."""
        began_us = self._began_us
        return 0 if began_us is None else now_us - began_us

    def declare_full(self) -> None:
        """Write what was put until now, then report `full` and take nothing more until `reopen`."""
        self._queue.put(Order.FULL)

    def reopen(self) -> None:
        """After `full`: forget everything that was put and not reported, and take writes again."""
        while not self._queue.empty():
            self._queue.get()
        self._open.set()

    def stop(self, wait_s: float) -> bool:
        """Write what waits, then end the thread; whether it did in time. Blocks; not to be called on the loop."""
        if not self._open.is_set():
            self.reopen()
        self._queue.put(Order.STOP)
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            group = self._next_group()
            try:
                if group:
                    self._store_group(group)
            except LogFull:
                self._order = Order.FULL
            except Exception as error:  # noqa: BLE001 (whatever it was, what the disk holds is now unknown)
                post(self._loop, self._port.fatal, f"the log cannot be written: {error}")
                return
            order, self._order = self._order, None
            if order is Order.STOP:
                return
            if order is Order.FULL:
                self._open.clear()
                post(self._loop, self._port.full)
                self._open.wait()

    def _next_group(self) -> list[Persist]:
        """Everything that waits, up to a limit or to an order, which is left in `_order`."""
        group: list[Persist] = []
        weight = 0
        while not group or (weight < GROUP_BYTES and not self._queue.empty()):
            item = self._queue.get()
            if isinstance(item, Order):
                self._order = item
                break
            group.append(item)
            weight += _weight(item)
        return group

    def _store_group(self, group: Sequence[Persist]) -> None:
        self._began_us = began_us = self._clock.elapsed_us()
        if not self._identified and any(persist.entries for persist in group):
            self._store.identify(self._identity)
            self._identified = True
        self._store.write_many([_write(persist) for persist in group])
        if self._simulated_fsync_s:
            time.sleep(self._simulated_fsync_s)
        self._began_us = None
        self._observe((self._clock.elapsed_us() - began_us) / SECOND_US)
        post(self._loop, self._port.written, [persist.token for persist in group])


class RecentEntries:
    """Entries on their way from the log to the fold, so that they need not be read back. Shared by loop and applier.

    Bounded: when the fold is too far behind, they are dropped, and it reads the log instead.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._size_bytes = 0

    def extend(self, cut_after: int | None, entries: Sequence[Entry]) -> None:
        """Follow a write of the log. Where a full disk has swallowed an earlier one, the same index comes again."""
        with self._lock:
            if entries:
                cut_after = entries[0].index - 1
            if cut_after is not None:
                while self._entries and self._entries[-1].index > cut_after:
                    self._size_bytes -= self._entries.pop().size_bytes
            for entry in entries:
                self._entries.append(entry)
                self._size_bytes += entry.size_bytes
            if self._size_bytes > self._max_bytes:
                self._entries.clear()
                self._size_bytes = 0

    def clear(self) -> None:
        """Forget all; what is wanted is read from the log."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = 0

    def take(self, first: int, last: int) -> list[Entry]:
        """Entries from `first` on, some or all up to `last`, and forget them; none when `first` is not held."""
        with self._lock:
            entries = self._entries
            while entries and entries[0].index < first:
                self._size_bytes -= entries.popleft().size_bytes
            if not entries or entries[0].index != first:
                return []
            taken: list[Entry] = []
            weight = 0
            while entries and entries[0].index <= last and weight < FOLD_BYTES and len(taken) < FOLD_ENTRIES:
                taken.append(entries.popleft())
                weight += taken[-1].size_bytes
            self._size_bytes -= weight
            return taken


class CommandCount:
    """How many commands lie between two indexes of the newest part of the log; older entries count as one each."""

    def __init__(self) -> None:
        self._first = 1
        self._totals: list[int] = [0]

    def extend(self, cut_after: int | None, entries: Sequence[Entry]) -> None:
        """Follow a write of the log. `_totals[k]` counts the commands of entries `_first` to `_first + k - 1`."""
        if cut_after is not None:
            del self._totals[max(1, cut_after - self._first + 2) :]
        if entries and entries[0].index != self._first + len(self._totals) - 1:
            self._first, self._totals = entries[0].index, [0]
        for entry in entries:
            self._totals.append(self._totals[-1] + len(entry.bodies))
        if len(self._totals) > 2 * COUNTED_ENTRIES:
            self._first += len(self._totals) - COUNTED_ENTRIES
            self._totals = self._totals[-COUNTED_ENTRIES:]

    def between(self, after: int, last: int) -> int:
        """Commands of the entries behind `after`, up to `last`."""
        if last <= after:
            return 0
        unknown = max(0, min(last, self._first - 1) - after)
        return unknown + self._total(last) - self._total(after)

    def _total(self, index: int) -> int:
        place = min(max(0, index - self._first + 1), len(self._totals) - 1)
        return self._totals[place]


@dataclass(frozen=True, slots=True)
class ApplierPort:
    """What the applier tells the loop: what is folded (with the last entry's epoch), that the log it reads is damaged,
    and that it cannot go on.
    """

    applied: Callable[[int, int], None]
    damaged: Callable[[str], None]
    fatal: Callable[[str], None]


class _Work(NamedTuple):
    """Something to be done on the applier's thread, and where its result goes."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]


class Applier:
    """The applier thread: folds committed entries into the projection, a transaction at a time.

    It also lends itself to the decider, which reads what the fold has just written: the pages are warm, the records are
    in memory, and on a machine with few processors two threads would only wait for each other. A decision goes before
    the next transaction: callers wait for it, and the fold has time while the round is replicated. Should the fold fall
    behind for good, no round begins (`Limits.apply_lag_commands`).
    """

    def __init__(
        self,
        projection: Projection,
        store: LogStore,
        recent: RecentEntries,
        port: ApplierPort,
        observe: Observe,
        clock: Clock,
    ) -> None:
        self._projection = projection
        self._store = store
        self._recent = recent
        self._port = port
        self._observe = observe
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._works: deque[_Work] = deque()
        self._target = 0
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._applied = projection.applied.index
        self.snapshots = Snapshots()
        self._note_snapshot()
        self._thread = threading.Thread(target=self._run, name="applier", daemon=True)
        self._thread.start()

    def apply(self, commit_index: int) -> None:
        """Fold everything up to `commit_index`, which is durable."""
        self._target = max(self._target, commit_index)
        self._wake.put(None)

    def call(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Do `work` on the thread that folds, after the transaction under way: nothing is folded meanwhile.

        Cancelled when the thread ends first.
        """
        future: asyncio.Future[Result] = self._loop.create_future()
        if self._stopping:
            future.cancel()
        else:
            self._works.append(_Work(work, future))
            self._wake.put(None)
        return future

    def stop(self, wait_s: float) -> bool:
        """End the thread after the transaction under way; whether it did in time. Blocks."""
        self._stopping = True
        self._wake.put(None)
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.get()
                if self._works:
                    self._do(self._works.popleft())
                elif self._applied < self._target:
                    self._fold_once(self._target)
        except LogDamaged as error:
            post(self._loop, self._port.damaged, str(error))
        except Exception as error:  # noqa: BLE001 (a fold that failed once fails always; the next start checks it)
            post(self._loop, self._port.fatal, f"the projection cannot be written: {error}")
        self._cancel_rest()

    def _cancel_rest(self) -> None:
        while self._works:
            post(self._loop, self._works.popleft().future.cancel)

    def _do(self, item: _Work) -> None:
        try:
            result = item.work()
        except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
            post(self._loop, _set_exception, item.future, error)
        else:
            post(self._loop, _set_result, item.future, result)

    def _fold_once(self, target: int) -> None:
        """One transaction towards `target`; if it takes more, they come after what else waits by then."""
        entries = self._entries(self._applied + 1, min(target, landmark_after(self._applied)))
        began_us = self._clock.elapsed_us()
        if self._fold(entries):
            self._observe((self._clock.elapsed_us() - began_us) / SECOND_US)
            self._applied = entries[-1].index
            self._note_snapshot()
            post(self._loop, self._port.applied, entries[-1].index, entries[-1].epoch)
        if self._applied < target:
            self._wake.put(None)

    def begin_anew(self) -> None:
        """On this thread: the projection holds other rows now, as of the same index."""
        self.snapshots.forget()
        self._note_snapshot()

    def _note_snapshot(self) -> None:
        self.snapshots.note(self._applied, self._projection.state.bucket_digests())

    def _fold(self, entries: Sequence[Entry]) -> bool:
        """Whether there was room; where there is none this node stays readable, and tries again in a while."""
        try:
            self._projection.apply(entries)
        except ProjectionFull:
            self._recent.clear()
            time.sleep(FULL_PAUSE_S)
            return False
        return True

    def _entries(self, first: int, last: int) -> Sequence[Entry]:
        recent = self._recent.take(first, last)
        if recent:
            return recent
        entries, _ = self._store.read(first, READ_BYTES, last)
        if not entries or entries[0].index != first:
            raise LogError(f"entry {first} is committed but not in the log")
        return entries[:FOLD_ENTRIES]


def post(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
    """Run `callback` on the loop; nothing happens when the loop is closed already, for then nobody listens."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, *arguments)


def _set_result(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _write(persist: Persist) -> Write:
    hard = persist.hard_state
    stored = None
    if hard is not None:
        holder = hard.holder
        stored = HardState(hard.promised_epoch, holder.node if holder else None, holder.run if holder else None)
    return Write(persist.cut_after, persist.entries, persist.seals, stored, persist.commit_index, persist.seen)


def _weight(persist: Persist) -> int:
    return 64 + sum(entry.size_bytes for entry in persist.entries)
