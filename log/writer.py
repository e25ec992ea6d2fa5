"""Carries out writes on an open transaction: each is checked against the log and gives the state the log is then in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from sqlite3 import Connection
from typing import NamedTuple

from .entry import GENESIS_HASH, ORIGIN, Entry
from .errors import LogDamaged, LogOrder
from .flaws import Flaw, require_content
from .reader import HardState, Reader
from .rows import (
    DELETE_AFTER,
    DELETE_STRAY_SEALS,
    INSERT_ENTRY,
    REPLACE_CONFIGURATION,
    REPLACE_ENTRY,
    REPLACE_SEAL,
    REPLACE_SEEN,
    State,
    configuration_row,
    entry_row,
    seal_row,
    seen_row,
)
from .seal import Seal


class Write(NamedTuple):
    """One write, as `replication.Persist` asks for it: cut what follows `cut_after`, append, store the rest.

    None leaves a part as it is.
    """

    cut_after: int | None = None
    entries: Sequence[Entry] = ()
    seals: Sequence[Seal] = ()
    hard_state: HardState | tuple[int, str | None, str | None] | None = None
    commit_index: int | None = None
    seen: Sequence[tuple[str, int, int]] | None = None


class Erasure(NamedTuple):
    """Bodies to be destroyed: those at `places` of the entry at `index`, since the entry `by` says so."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    places: tuple[int, ...]
    by: int


class Writer:
    """Writes on one connection, within its transaction. `file` names the database in errors."""

    __slots__ = ("_connection", "_file")

    def __init__(self, connection: Connection, file: str) -> None:
        self._connection = connection
        self._file = file

    def carry_out(self, state: State, write: Write) -> State:
        """The state after `write`. Raises `LogOrder` when the write does not fit."""
        if write.cut_after is not None and write.cut_after < state.last.index:
            state = self._cut(state, write.cut_after)
        if write.entries:
            state = self._append(state, write.entries)
        if write.seals:
            self._seal(state, write.entries, write.seals)
        if write.hard_state is not None:
            state = _promised(state, HardState(*write.hard_state))
        if write.commit_index is not None:
            state = _committed(state, write.commit_index)
        if write.seen is not None:
            self._connection.execute(REPLACE_SEEN, seen_row(write.seen))
        return state

    def erase(self, state: State, erasure: Erasure) -> None:
        """Keep the entry without those bodies."""
        index, places, by = erasure
        if not 1 <= index <= state.last.index:
            raise LogOrder(f"there is no entry {index}")
        if by < index:
            raise LogOrder(f"entry {by} cannot have erased anything of entry {index}, which came after it")
        entry = Reader(self._connection, self._file).entry(index)
        gone = frozenset(places)
        if by == index and max(gone) == len(entry.bodies) - 1:
            raise LogOrder(f"no command of entry {index} came after its last one, which is to be erased")
        if not gone <= set(range(len(entry.bodies))):
            raise LogOrder(f"entry {index} has {len(entry.bodies)} bodies, not one at each of {sorted(gone)}")
        kept = tuple(None if place in gone else body for place, body in enumerate(entry.bodies))
        erased = replace(entry, bodies=kept, erased_by=max(by, entry.erased_by))
        self._connection.execute(REPLACE_ENTRY, entry_row(erased))

    def repair(self, state: State, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Put entries in the place of damaged ones, once it is proven that they are what stood there.

        The hash chain proves it backwards: from the entry that follows, or from the state for the last one.
        """
        last = entries[-1].index
        if not 1 <= entries[0].index <= last <= state.last.index:
            raise LogOrder(f"entries {entries[0].index} to {last} are not all in this log")
        expected = state.last_hash if last == state.last.index else self._follower(last).prev_hash
        for entry in reversed(entries):
            if entry.hash != expected:
                raise LogOrder(f"entry {entry.index} is not the one that stood there")
            _require_whole(entry)
            expected = entry.prev_hash
        self._connection.executemany(REPLACE_ENTRY, map(entry_row, entries))
        self._connection.execute(DELETE_STRAY_SEALS, (state.last.index,))
        self._seal(state, entries, seals)

    def _follower(self, index: int) -> Entry:
        try:
            return Reader(self._connection, self._file).entry(index + 1)
        except LogDamaged as damage:
            raise LogOrder(f"entry {index + 1} is damaged too: repair up to the next whole entry") from damage

    def _cut(self, state: State, index: int) -> State:
        if index < state.commit_index:
            raise LogOrder(f"cut after {index}, below the commit index {state.commit_index}")
        for statement in DELETE_AFTER:
            self._connection.execute(statement, (index,))
        if index == 0:
            return replace(state, last=ORIGIN, last_hash=GENESIS_HASH, last_time_us=0)
        entry = Reader(self._connection, self._file).entry(index)
        return replace(state, last=entry.position, last_hash=entry.hash, last_time_us=entry.time_us)

    def _append(self, state: State, entries: Sequence[Entry]) -> State:
        last, before = state.last, state.last_hash
        for entry in entries:
            if entry.index != last.index + 1 or entry.prev_hash != before or entry.epoch < last.epoch:
                raise LogOrder(f"entry {entry.position} does not follow {last} with hash {before.hex()}")
            last, before = entry.position, entry.hash
        self._connection.executemany(INSERT_ENTRY, map(entry_row, entries))
        configurations = [configuration_row(entry.index) for entry in entries if entry.is_configuration]
        if configurations:
            self._connection.executemany(REPLACE_CONFIGURATION, configurations)
        return replace(state, last=last, last_hash=before, last_time_us=entries[-1].time_us)

    def _seal(self, state: State, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        first = entries[0].index if entries else state.last.index + 1
        for seal in seals:
            place = seal.index - first
            is_new = 0 <= place < len(entries)
            if not 1 <= seal.index <= state.last.index or (is_new and entries[place].hash != seal.hash):
                raise LogOrder(f"the seal at {seal.index} is on no entry of this log")
        self._connection.executemany(REPLACE_SEAL, map(seal_row, seals))


def _promised(state: State, promise: HardState) -> State:
    if promise.promised_epoch < state.promised_epoch:
        raise LogOrder(f"promise of epoch {promise.promised_epoch} after one of epoch {state.promised_epoch}")
    return replace(state, promised_epoch=promise.promised_epoch, holder_node=promise.node, holder_run=promise.run)


def _committed(state: State, index: int) -> State:
    if index > state.last.index:
        raise LogOrder(f"commit index {index} lies beyond the end of the log at {state.last.index}")
    return replace(state, commit_index=max(state.commit_index, index))


def _require_whole(entry: Entry) -> None:
    try:
        require_content(entry)
    except Flaw as flaw:
        raise LogOrder(f"entry {entry.index}: {flaw}") from flaw
