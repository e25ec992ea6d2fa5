"""The tail: the end of the log that a replica keeps in memory, and what it knows of where its disk stands.

Everything not yet committed is always in the tail; older entries stay while there is room, to feed followers that are
a little behind. What is older still is read from disk by the node (`ReadLog`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..log.configuration import Configuration
from ..log.entry import GENESIS_HASH, Entry, Position
from ..log.seal import Seal


@dataclass(frozen=True, slots=True)
class Anchor:
    """The entry just before the tail: its place, hash and time. All zero at the beginning of history."""

    index: int = 0
    epoch: int = 0
    hash: bytes = GENESIS_HASH
    time_us: int = 0


class Tail:
    """Entries after `anchor`, their seals, and the configurations that they put in force.

    `durable_index` is the end of the prefix that is on disk here, with exactly this content.
    """

    def __init__(
        self, anchor: Anchor, entries: Sequence[Entry], seals: Sequence[Seal], configurations: Sequence[Configuration]
    ) -> None:
        self.anchor = anchor
        self.entries = list(entries)
        self.seals = {seal.index: seal for seal in seals}
        self.configurations = list(configurations)
        self.durable_index = self.last.index
        self.size_bytes = sum(entry.size_bytes for entry in self.entries)

    @property
    def last(self) -> Position:
        """The end of the log in memory; its last entries may still be on their way to the disk."""
        return Position(self.entries[-1].epoch if self.entries else self.anchor.epoch, self.last_index)

    @property
    def last_index(self) -> int:
        """The index of the last entry, 0 for an empty log."""
        return self.anchor.index + len(self.entries)

    @property
    def last_hash(self) -> bytes:
        """The hash of the last entry."""
        return self.entries[-1].hash if self.entries else self.anchor.hash

    @property
    def last_time_us(self) -> int:
        """The wall time of the last entry; the next one is never earlier."""
        return self.entries[-1].time_us if self.entries else self.anchor.time_us

    @property
    def durable(self) -> Position:
        """The end of what is on disk."""
        return self.position_at(self.durable_index)

    @property
    def configuration(self) -> Configuration | None:
        """The newest configuration, in force from the moment it was appended; None before a cluster is founded."""
        return self.configurations[-1] if self.configurations else None

    def configuration_at(self, index: int) -> Configuration | None:
        """The configuration in force in a log that ended at `index`."""
        return next((known for known in reversed(self.configurations) if known.index <= index), None)

    def holds(self, index: int) -> bool:
        """Whether hash and epoch of `index` are known in memory."""
        return self.anchor.index <= index <= self.last_index

    def entry(self, index: int) -> Entry:
        """The entry of that index; it must lie behind the anchor."""
        return self.entries[index - self.anchor.index - 1]

    def hash_at(self, index: int) -> bytes:
        """The hash at `index`, which must be held."""
        assert self.holds(index), (index, self.anchor.index, self.last_index)
        return self.anchor.hash if index == self.anchor.index else self.entry(index).hash

    def position_at(self, index: int) -> Position:
        """The position of the log if it ended at `index`, which must be held."""
        assert self.holds(index), (index, self.anchor.index, self.last_index)
        return Position(self.anchor.epoch if index == self.anchor.index else self.entry(index).epoch, index)

    def append(self, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Add entries that follow the last one. The caller has checked that they do."""
        for entry in entries:
            self.entries.append(entry)
            self.size_bytes += entry.size_bytes
            if configuration := entry.configuration:
                self.configurations.append(configuration)
        for seal in seals:
            self.seals[seal.index] = seal

    def cut(self, after: int) -> None:
        """Forget everything behind `after`, and with it the configurations that it had put in force."""
        assert after >= self.anchor.index, (after, self.anchor.index)
        for entry in self.entries[after - self.anchor.index :]:
            self.size_bytes -= entry.size_bytes
        del self.entries[after - self.anchor.index :]
        self.seals = {index: seal for index, seal in self.seals.items() if index <= after}
        self.configurations = [known for known in self.configurations if known.index <= after]
        self.durable_index = min(self.durable_index, after)

    def slice(self, first: int, max_bytes: int) -> tuple[tuple[Entry, ...], tuple[Seal, ...]]:
        """Entries from `first` on, about `max_bytes` of them and on to the next seal, with the seals among them."""
        taken: list[Entry] = []
        weight = 0
        for place in range(first - self.anchor.index - 1, len(self.entries)):
            entry = self.entries[place]
            taken.append(entry)
            weight += entry.size_bytes
            if weight >= max_bytes and entry.index in self.seals:
                break
        seals = tuple(self.seals[entry.index] for entry in taken if entry.index in self.seals)
        return tuple(taken), seals

    def trim(self, up_to: int, max_bytes: int) -> None:
        """Let go of the oldest entries, none behind `up_to`, until the rest weighs no more than `max_bytes`."""
        count = 0
        excess = self.size_bytes - max_bytes
        limit = min(up_to, self.durable_index) - self.anchor.index
        while excess > 0 and count < limit:
            excess -= self.entries[count].size_bytes
            count += 1
        if count:
            self._drop_oldest(count)

    def _drop_oldest(self, count: int) -> None:
        last = self.entries[count - 1]
        self.size_bytes -= sum(entry.size_bytes for entry in self.entries[:count])
        del self.entries[:count]
        self.anchor = Anchor(last.index, last.epoch, last.hash, last.time_us)
        self.seals = {index: seal for index, seal in self.seals.items() if index > last.index}
        older = [known for known in self.configurations if known.index <= last.index]
        self.configurations = older[-1:] + [known for known in self.configurations if known.index > last.index]


def chain_fault(entries: Sequence[Entry], prev_index: int, prev_hash: bytes, prev_time_us: int) -> str:
    """What is wrong with `entries` as what follows `(prev_index, prev_hash)`, or ""."""
    for entry in entries:
        if entry.index != prev_index + 1:
            return f"entry {entry.index} does not follow {prev_index}"
        if entry.prev_hash != prev_hash or not entry.is_intact:
            return f"entry {entry.index} breaks the chain"
        if entry.time_us < prev_time_us:
            return f"entry {entry.index} is earlier than the one before"
        if None in entry.bodies and entry.erased_by < entry.index:
            return f"entry {entry.index} lacks a body and names no entry that erased it"
        prev_index, prev_hash, prev_time_us = entry.index, entry.hash, entry.time_us
    return ""
