"""A history taken over by a single new node: out of a backup, or out of the one data directory that is left.

The node gets an id and keys of its own, and the history another id: members of the old cluster that may still run
somewhere have nothing to say to it, and consumers of its changes notice that they must begin anew. What was done
stands in the log, as the entry in which the new history begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..log.configuration import Configuration, Member
from ..log.entry import Anchor, Entry
from ..log.lineage import Ancestor, Resumption, resumed_id
from ..log.notary import Notary
from ..log.seal import Seal
from ..log.store import HardState, Identity, LogStore
from ..memory.errors import Invalid
from .identity import DataDirectory
from .system import Clock, Entropy

STAGED: Final = ".incomplete"
"""What a directory is called until all of it is there."""

BATCH_BYTES: Final = 4 << 20
Item = tuple[Entry, Seal | None]


@dataclass(frozen=True, slots=True)
class Origin:
    """A verified history: its id, its cluster's name, its end, and its ancestors, oldest first."""

    cluster_id: str
    cluster: str
    end: Anchor
    ancestors: tuple[Ancestor, ...] = ()


@dataclass(frozen=True, slots=True)
class Heir:
    """The single node that goes on: its name and endpoint, and the digest key of the history."""

    name: str
    endpoint: str
    digest_secret: bytes


@dataclass(frozen=True, slots=True)
class Resumed:
    """What came of it: the new history's id, the entry in which it begins, and the node's id."""

    cluster_id: str
    index: int
    node_id: str


def sealed(history: Iterable[Item]) -> Iterator[Item]:
    """The history up to its last seal: what follows, no leader's signature covers."""
    waiting: list[Item] = []
    for item in history:
        waiting.append(item)
        if item[1] is not None:
            yield from waiting
            waiting.clear()


def require_vacant(target: Path) -> None:
    """Raises `Invalid` unless `target` is missing or an empty directory, and nothing half made lies beside it."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Invalid("data", f"{target} is not empty; name a new directory")
    staged = staging(target)
    if staged.exists():
        raise Invalid("data", f"{staged} was left by an attempt that did not end; remove it first")


def staging(target: Path) -> Path:
    """Where a directory is made before it is put in its place."""
    return target.with_name(target.name + STAGED)


def resumed(
    target: Path,
    origin: Origin,
    history: Iterable[Item],
    heir: Heir,
    said: tuple[str, str],
    clock: Clock,
    entropy: Entropy,
    progress: Callable[[int], None],
) -> Resumed:
    """Make the data directory `target` of a single node that goes on from the end of a verified history.

    `history` gives the entries that `origin` describes; `said` is manner and note of the `Resumption`. The directory
    appears under its name only when all of it is durable.
    """
    require_vacant(target)
    staged = staging(target)
    directory = DataDirectory.open(staged, heir.name, origin.cluster, entropy)
    try:
        done = _filled(directory, origin, history, heir, said, clock, progress)
    finally:
        directory.close()
    if target.exists():
        target.rmdir()
    staged.rename(target)
    _sync(target.parent)
    return done


def _filled(
    directory: DataDirectory,
    origin: Origin,
    history: Iterable[Item],
    heir: Heir,
    said: tuple[str, str],
    clock: Clock,
    progress: Callable[[int], None],
) -> Resumed:
    node_id, end = directory.identity.node_id, origin.end
    configuration = Configuration((Member(node_id, heir.name, directory.key.public_key, heir.endpoint),), 1, 1)
    resumption = Resumption(origin.cluster_id, end.index, end.hash, *said)
    cluster_id = resumed_id(origin.cluster, configuration, resumption)
    directory.join_cluster(cluster_id, (*origin.ancestors, Ancestor(origin.cluster_id, end.index)))
    directory.store_digest_secret(heir.digest_secret)
    store = LogStore.open(directory.log_path)
    try:
        store.identify(Identity(cluster_id, origin.cluster, node_id))
        _copy(store, history, progress)
        if store.last.index != end.index:
            raise Invalid("history", f"it ended at entry {store.last.index} this time, and at {end.index} before")
        notary = Notary(cluster_id, node_id, directory.key)
        draft = notary.resumed(configuration, resumption, max(clock.wall_us(), end.time_us))
        epoch = end.epoch + 1
        entry = Entry.chain(end.hash, end.index + 1, epoch, *draft)
        seal = notary.seal(epoch, entry.index, entry.hash)
        promise = HardState(epoch, node_id, said[0])
        store.write(entries=[entry], seals=[seal], hard_state=promise, commit_index=entry.index)
    finally:
        store.close()
    return Resumed(cluster_id, entry.index, node_id)


def _copy(store: LogStore, history: Iterable[Item], progress: Callable[[int], None]) -> None:
    """Entry by entry, in large writes. Raises `LogOrder` when they do not chain."""
    entries: list[Entry] = []
    seals: list[Seal] = []
    room = BATCH_BYTES
    for entry, seal in history:
        entries.append(entry)
        room -= entry.size_bytes
        if seal is not None:
            seals.append(seal)
        if room <= 0:
            store.write(entries=entries, seals=seals, commit_index=entry.index)
            progress(entry.index)
            entries, seals, room = [], [], BATCH_BYTES
    if entries:
        store.write(entries=entries, seals=seals, commit_index=entries[-1].index)


def set_aside(path: Path) -> Path:
    """Give a data directory another name, under which nothing starts it; returns that."""
    aside = path.with_name(path.name + ".before-recovery")
    if aside.exists():
        raise Invalid("data", f"{aside} exists: an earlier recovery set it aside; move it away first")
    path.rename(aside)
    _sync(path.parent)
    return aside


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
