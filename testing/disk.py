"""A fake disk: transactions end late, in order, or never; a crash keeps a prefix of what was under way; bits rot.

`Disk` is what survives a crash. `Writer` belongs to one process run: what it has not finished when the run dies is
lost, but for a prefix that had reached the platter without anybody being told.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..log.configuration import Configuration
from ..log.entry import GENESIS_HASH, Entry, Position
from ..log.seal import Seal
from ..replication.messages import HardState, Persist, Sighting
from .fold import Erasure, parsed
from .world import MILLISECOND, SECOND, World

NORMAL_US = (150, 1_500)
SLOW_US = (20 * MILLISECOND, 250 * MILLISECOND)
WATCHDOG_US = 10 * SECOND
"""A write that has not returned by then ends the process (*lease-follows-progress*)."""


class Disk:
    """The durable state of one node (PROTOCOL § 2). `damaged` holds the indexes of entries whose bytes have rotted.

    When it `tears`, the power fails in the middle of the next transaction: the store rolls that back when it opens.
    """

    def __init__(self) -> None:
        self.hard_state = HardState()
        self.entries: list[Entry] = []
        self.seals: dict[int, Seal] = {}
        self.commit_index = 0
        self.seen: tuple[Sighting, ...] = ()
        self.damaged: set[int] = set()
        self.is_slow = False
        self.is_stalled = False
        self.is_full = False
        self.fills_at_a_cut = False
        self.tears = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever promised or written here."""
        return not self.entries and self.hard_state == HardState()

    @property
    def last_index(self) -> int:
        """The index of the last durable entry."""
        return len(self.entries)

    @property
    def last_position(self) -> Position:
        """The end of the durable log."""
        return self.position_at(len(self.entries))

    def position_at(self, index: int) -> Position:
        """The position of the log if it ended at `index`."""
        return Position(self.entries[index - 1].epoch if index else 0, index)

    def hash_at(self, index: int) -> bytes:
        """The hash of the entry at `index`, or that of the beginning of history."""
        return self.entries[index - 1].hash if index else GENESIS_HASH

    def holds(self, index: int, hash: bytes) -> bool:
        """Whether exactly that entry is durable and readable here."""
        return index <= len(self.entries) and index not in self.damaged and self.hash_at(index) == hash

    @property
    def configuration(self) -> Configuration | None:
        """The newest configuration in the durable log."""
        return next((found for entry in reversed(self.entries) if (found := entry.configuration)), None)

    def copied(self) -> Disk:
        """A copy of all that is durable, as it is at this moment."""
        copy = Disk()
        copy.hard_state, copy.entries, copy.seals = self.hard_state, list(self.entries), dict(self.seals)
        copy.commit_index, copy.seen, copy.damaged = self.commit_index, self.seen, set(self.damaged)
        return copy

    def commit(self, write: Persist) -> None:
        """Carry out one transaction, whole."""
        if write.cut_after is not None:
            self._cut(write.cut_after)
        for entry in write.entries:
            assert entry.index == len(self.entries) + 1, (
                "entries must follow each other",
                entry.index,
                self.last_index,
            )
            assert entry.prev_hash == self.hash_at(entry.index - 1), ("entries must be chained", entry.index)
            self.entries.append(entry)
        for seal in write.seals:
            self.seals[seal.index] = seal
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.commit_index is not None:
            self.commit_index = write.commit_index
        if write.seen is not None:
            self.seen = write.seen

    def read(self, first: int, max_bytes: int) -> tuple[tuple[Entry, ...], tuple[Seal, ...]]:
        """Consecutive entries from `first` on, about `max_bytes` of them, to a seal, with the seals among them."""
        taken: list[Entry] = []
        weight = 0
        for entry in self.entries[first - 1 :]:
            taken.append(entry)
            weight += entry.size_bytes
            if weight >= max_bytes and entry.index in self.seals:
                break
        while taken and taken[-1].index not in self.seals:
            taken.pop()
        return tuple(taken), tuple(self.seals[entry.index] for entry in taken if entry.index in self.seals)

    def erase(self, erasure: Erasure) -> int:
        """Destroy every body that says something of the erased record (PROTOCOL § 8); returns how many there were."""
        destroyed = 0
        for entry in self.entries[: erasure.index]:
            subjects = enumerate(parsed(entry).subjects)
            gone = {place for place, about in subjects if erasure.covers(entry.index, place, about)}
            left = tuple(None if place in gone else body for place, body in enumerate(entry.bodies))
            if left != entry.bodies:
                destroyed += left.count(None) - entry.bodies.count(None)
                self.entries[entry.index - 1] = replace(
                    entry, bodies=left, erased_by=max(erasure.index, entry.erased_by)
                )  # fmt: skip
        return destroyed

    def put_back(self, entry: Entry) -> None:
        """Another member's copy takes the place of a damaged entry, with the bodies that it has there."""
        assert self.hash_at(entry.index) == entry.hash, ("only what stood there is put back", entry.index)
        self.entries[entry.index - 1] = entry
        self.damaged.discard(entry.index)

    def go_back_to(self, index: int, as_written: Sequence[Entry]) -> None:
        """An earlier copy of the log takes the place of this one; promises are kept apart from it.

        That copy still holds the bodies that were erased since: `as_written` are the first committed entries with them.
        """
        self._cut(index)
        self.commit_index = min(self.commit_index, index)
        for entry in as_written[:index]:
            if self.hash_at(entry.index) == entry.hash:
                self.entries[entry.index - 1] = entry

    def _cut(self, after: int) -> None:
        del self.entries[after:]
        self.seals = {index: seal for index, seal in self.seals.items() if index <= after}
        self.damaged = {index for index in self.damaged if index <= after}


@dataclass(frozen=True, slots=True)
class Watch:
    """What a process wants to hear from its disk."""

    written: Callable[[Persist], None]
    done: Callable[[Persist], None]
    full: Callable[[bool], None]
    stuck: Callable[[], None]
    torn: Callable[[], None]


class Writer:
    """The one writer thread of a process run: takes all that waits as one transaction, and the next when that ended.

    When the disk is full it drops what it has not begun, says so, and takes nothing until the process has heard it and
    there is room again.
    """

    def __init__(self, world: World, disk: Disk, choices: random.Random, watch: Watch) -> None:
        self._world = world
        self._disk = disk
        self._random = choices
        self._watch = watch
        self._waiting: deque[Persist] = deque()
        self._under_way: list[Persist] = []
        self._generation = 0
        self._is_closed = False
        self._was_heard = False
        self._is_dead = False

    def submit(self, write: Persist) -> None:
        """Queue a transaction."""
        if self._is_closed:
            return
        self._waiting.append(write)
        self._begin()

    def heard(self) -> None:
        """The process knows that the disk is full."""
        self._was_heard = True
        self.wake()

    def wake(self) -> None:
        """Look again at the disk: it may have room, or move, again."""
        if self._is_dead:
            return
        if self._is_closed and self._was_heard and not self._disk.is_full:
            self._is_closed = False
            self._world.after(0, lambda: self._watch.full(False))
        if self._under_way:
            self._schedule_end()
        else:
            self._begin()

    def die(self) -> Sequence[Persist]:
        """The process is gone. A prefix of what was not finished may still have reached the platter; returns it."""
        self._is_dead = True
        unfinished = [*self._under_way, *self._waiting]
        survivors = unfinished[: self._random.randint(0, len(unfinished))]
        for write in survivors:
            self._disk.commit(write)
        return survivors

    def _begin(self) -> None:
        if self._under_way or not self._waiting or self._is_dead:
            return
        if self._disk.fills_at_a_cut and any(write.cut_after is not None for write in self._waiting):
            self._disk.is_full = True
        if self._disk.is_full:
            self._close()
            return
        self._under_way = list(self._waiting)
        self._waiting.clear()
        self._schedule_end()
        self._world.after(WATCHDOG_US, self._stuck_check(self._under_way))

    def _close(self) -> None:
        self._waiting.clear()
        self._is_closed, self._was_heard = True, False
        self._world.after(0, lambda: self._watch.full(True))

    def _schedule_end(self) -> None:
        self._generation += 1
        generation = self._generation
        latency = self._random.randrange(*(SLOW_US if self._disk.is_slow else NORMAL_US))
        self._world.after(latency, lambda: self._end(generation))

    def _end(self, generation: int) -> None:
        if self._is_dead or generation != self._generation or self._disk.is_stalled:
            return
        written, self._under_way = self._under_way, []
        if self._disk.tears:
            self._disk.tears = False
            self._waiting.clear()
            self._watch.torn()
            return
        for write in written:
            self._disk.commit(write)
            self._watch.written(write)
        for write in written:
            self._watch.done(write)
        self._begin()

    def _stuck_check(self, batch: list[Persist]) -> Callable[[], None]:
        def check() -> None:
            if not self._is_dead and self._under_way is batch:
                self._watch.stuck()

        return check
