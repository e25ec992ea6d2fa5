"""The durable log of one node: an SQLite file of its own (WAL, synchronous=FULL), written by one connection.

See DESIGN.md for what it guarantees and why it is built this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .configuration import Configuration
from .entry import Entry, Position
from .errors import LogDamaged
from .seal import Seal


class Identity(NamedTuple):
    """Whose log it is: the history's id (32 hex digits), the cluster's name, the node's id. Set once."""

    cluster_id: str
    cluster: str
    node: str


class Anchor(NamedTuple):
    """What the first entry of a stretch of log follows. Before entry 1: `(0, 0, GENESIS_HASH, 0)`."""

    index: int
    epoch: int
    hash: bytes
    time_us: int


class HardState(NamedTuple):
    """The promise that must survive a crash: epoch, and the node and run it was given to."""

    promised_epoch: int
    node: str | None
    run: str | None


class Write(NamedTuple):
    """One write as `replication.Persist` asks for it: cut what follows `cut_after`, append, store the rest. None: as it is."""

    cut_after: int | None = None
    entries: Sequence[Entry] = ()
    seals: Sequence[Seal] = ()
    hard_state: HardState | tuple[int, str | None, str | None] | None = None
    commit_index: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """What a node needs to go on after a start: its promise, and the end of its log.

    `tail` holds every entry above `commit_index`, and more before it up to the bytes asked for; `anchor` is what it
    follows. `configurations` begins with the one in force at the anchor, if any, then those of the tail, oldest first.
    """

    hard_state: HardState
    commit_index: int
    last: Position
    anchor: Anchor
    tail: tuple[Entry, ...]
    seals: tuple[Seal, ...]
    configurations: tuple[Configuration, ...]


class LogStore:
    """A log on disk. Writes come from one thread at a time; reads may come from any thread, also during a write."""

    @staticmethod
    def open(path: str | Path, *, read_only: bool = False) -> LogStore:
        """Open the log at `path`, creating it unless `read_only`. `":memory:"` gives one that ends with the object.

        Raises `LogDamaged` when the file as a whole cannot be trusted, `LogForeign` when it is something else.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give every file back. Anything after that raises `ValueError`; closing twice is allowed."""

    @property
    def identity(self) -> Identity | None:
        """Whose log it is, or None before `identify`."""
        raise NotImplementedError

    def identify(self, identity: Identity) -> None:
        """Say durably whose log it is. Raises `LogForeign` when it already belongs to somebody else."""

    @property
    def last(self) -> Position:
        """The position of the last entry; `ORIGIN` when there is none."""
        raise NotImplementedError

    @property
    def commit_index(self) -> int:
        """The stored lower bound of what is committed."""
        raise NotImplementedError

    def write(
        self,
        cut_after: int | None = None,
        entries: Sequence[Entry] = (),
        seals: Sequence[Seal] = (),
        hard_state: HardState | tuple[int, str | None, str | None] | None = None,
        commit_index: int | None = None,
    ) -> None:
        """One durable transaction: on return it is on disk. See `write_many`."""

    def write_many(self, writes: Sequence[Write]) -> None:
        """Several writes, in order, in one durable transaction with one fsync.

        Raises `LogFull` (nothing stored, try later), `LogWriteFailed` (end the process), `LogOrder` (a bug).
        """

    def restored(self, tail_bytes: int) -> RestoredLog:
        """The node's state at start. Raises `LogDamaged` when what it would return is not what was written."""
        raise NotImplementedError

    def read(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], list[Seal]]:
        """Consecutive entries from `first` on: at least one, about `max_bytes`, and on to the next seal; and their seals.

        With `last` nothing beyond it, seal or not. Empty when there is no entry at `first`.
        """
        raise NotImplementedError

    def entry(self, index: int) -> Entry | None:
        """The entry at `index`, or None."""
        raise NotImplementedError

    def seal(self, index: int) -> Seal | None:
        """The seal on the entry at `index`, or None."""
        raise NotImplementedError

    def hash(self, index: int) -> bytes | None:
        """The hash of the entry at `index` without reading the rest of it; `GENESIS_HASH` at 0; None past the end."""
        raise NotImplementedError

    def history(self, first: int = 1, last: int | None = None) -> Iterator[tuple[Entry, Seal | None]]:
        """Every entry from `first` on with its seal, read in pages, so that no long transaction is held."""
        raise NotImplementedError

    def erase_bodies(self, index: int, places: Iterable[int]) -> None:
        """Destroy these bodies of the entry at `index`, in the file and in its journal, before returning."""

    def repair(self, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Put refetched entries in the place of damaged ones. Raises `LogOrder` unless they fit the entries around them."""

    def check(self, first: int = 1, last: int | None = None) -> list[LogDamaged]:
        """Every damaged entry and seal of that range (at most `DAMAGES_LIMIT`), in order of index: chain, hashes, bodies."""
        raise NotImplementedError

    def check_file(self) -> list[LogDamaged]:
        """What SQLite's own check finds in the file, by page. Reads the whole file."""
        raise NotImplementedError
