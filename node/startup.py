"""Opening a node's files: the log is checked before anything rests on it, the projection is folded again if need be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from ..embedding.choice import index_embedder, service_of
from ..lease.messages import Holder
from ..log.errors import LogDamaged
from ..log.store import LogStore, RestoredLog
from ..projection.errors import OtherEmbedder
from ..projection.projection import Projection
from ..replication.kernel import Restored
from ..replication.messages import HardState, Sighting
from ..replication.tail import Anchor
from .identity import DataDirectory, StartRefused

DAMAGES_SHOWN = 3

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.startup")


@dataclass(frozen=True, slots=True)
class Opened:
    """The files of a node, open, and what its log says."""

    store: LogStore
    projection: Projection
    log: RestoredLog

    @property
    def restored(self) -> Restored:
        """The same, as the replication core wants it."""
        hard, log, anchor = self.log.hard_state, self.log, self.log.anchor
        holder = None if hard.node is None or hard.run is None else Holder(hard.node, hard.run)
        return Restored(
            HardState(hard.promised_epoch, holder), log.commit_index, self.projection.applied.index,
            Anchor(anchor.index, anchor.epoch, anchor.hash, anchor.time_us), log.tail, log.seals, log.configurations,
            dict(log.keys), seen=tuple(Sighting(*known) for known in log.seen),
        )  # fmt: skip


class Unreadable(Exception):
    """The log as a whole cannot be trusted: the node neither serves nor votes. The message names file and place."""


class Damaged(Unreadable):
    """Single entries of the log are damaged, which other members may have: the node neither serves nor votes until they
    are fetched. `store` is left open for that.
    """

    def __init__(self, store: LogStore, damages: Sequence[LogDamaged]) -> None:
        super().__init__(told(damages))
        self.store = store
        self.damages = damages


def open_files(directory: DataDirectory, tail_bytes: int, embedder: str, says: Callable[[str], None]) -> Opened:
    """Open, check and restore. Blocks; `says` hears what is being done. Raises `Unreadable`.

    `embedder` names who makes the vectors; empty: whoever has made those that are there. `StartRefused` when it cannot.
    """
    says("checking the log")
    try:
        store = LogStore.open(directory.log_path)
        try:
            log = _checked(store, tail_bytes)
            return Opened(store, _projection(directory, store, log, embedder, says), log)
        except Damaged:
            raise
        except BaseException:
            store.close()
            raise
    except LogDamaged as error:
        raise Unreadable(str(error)) from error


def _checked(store: LogStore, tail_bytes: int) -> RestoredLog:
    """Every byte of the log is looked at before anything rests on it."""
    if damages := store.check_file():
        raise Unreadable(told(damages))
    if damages := store.check():
        raise Damaged(store, damages)
    return store.restored(tail_bytes)


def told(damages: Sequence[LogDamaged]) -> str:
    """The first few damages, and how many more there are."""
    rest = f"; and {len(damages) - DAMAGES_SHOWN} more" if len(damages) > DAMAGES_SHOWN else ""
    return "; ".join(str(damage) for damage in damages[:DAMAGES_SHOWN]) + rest


def close_files(opened: Opened) -> None:
    """Give the files back. Blocks."""
    opened.projection.close()
    opened.store.close()


def _projection(
    directory: DataDirectory, store: LogStore, log: RestoredLog, embedder: str, says: Callable[[str], None]
) -> Projection:
    """The projection of this log, folded as far as the log is known to be committed."""
    says("checking the projection")
    try:
        made = index_embedder(embedder, Projection.maker(directory.projection_path).name)
        if made is not None and not made.is_own:
            service_of(made.name, _no_pause, 1, 1)  # what is missing to ask it is said now
        projection = Projection.open(directory.projection_path, made)
    except (ValueError, OtherEmbedder) as error:
        raise StartRefused(str(error)) from error
    if made is not None and not made.is_semantic:
        _log.warning("the embedder matches surface, not meaning", embedder=made.name)
    reason = projection.started_over or _of_another_history(projection, store)
    if reason and log.last.index:
        _log.warning("the projection is folded again", reason=reason)
        if not projection.started_over:
            projection.close()
            projection = Projection.rebuild(directory.projection_path, store, 0, embedder=made)
    if projection.applied.index > log.last.index:  # an earlier copy of the log has bodies that were erased since
        projection.reopen_erasures()
    committed = log.committed_on(directory.identity.node_id)
    if projection.applied.index < committed:
        projection.catch_up(store, committed, lambda index: says(f"folding the log: {index} of {committed}"))
    return projection


def _no_pause(_: float) -> None:
    """One attempt needs none."""


def _of_another_history(projection: Projection, store: LogStore) -> str:
    """Why this projection cannot be a fold of this log; empty when it can. One that is ahead of the log may be."""
    entry = store.entry(projection.applied.index)
    return "" if entry is None or entry.hash == projection.applied_hash else "it folds another history"
