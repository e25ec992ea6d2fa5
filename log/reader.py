"""Reads a stored log within one moment of it. Whatever is not what was written is `LogDamaged`, with its index."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from .canonical import NotCanonical
from .configuration import Configuration, QuorumError
from .database import read_error
from .entry import Anchor, Entry, Position
from .errors import LogDamaged
from .rows import (
    SELECT_CONFIGURATIONS,
    SELECT_ENTRIES,
    SELECT_ENTRY,
    SELECT_FIRST_INDEX,
    SELECT_IDENTITY,
    SELECT_INDEX_OF_HASH,
    SELECT_NEXT_SEALED,
    SELECT_ROOT_PAGE,
    SELECT_SEALS,
    SELECT_SEEN,
    SELECT_STATE,
    SELECT_WEIGHTS,
    BadRow,
    Row,
    State,
    configuration_index_of,
    entry_of,
    identity_of,
    seal_of,
    seen_of,
    state_of,
)
from .seal import Seal


class HardState(NamedTuple):
    """The promise that must survive a crash: an epoch, and the node and process run it was given to."""

    promised_epoch: int = 0
    node: str | None = None
    run: str | None = None


class Seen(NamedTuple):
    """How far a member was seen: the epoch that it has promised, and how many entries it has acknowledged in it."""

    node: str
    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """What a node needs to go on after a start: its promise, and the end of its log.

    `tail` holds every entry above `commit_index`, and more before it up to the bytes asked for; `anchor` is what it
    follows. `configurations` begins with the one in force at the anchor, if any, then those of the tail, oldest first.
    `keys` names the key of every node that ever was a member: keys of removed members are kept.
    """

    hard_state: HardState
    commit_index: int
    last: Position
    anchor: Anchor
    tail: tuple[Entry, ...]
    seals: tuple[Seal, ...]
    configurations: tuple[Configuration, ...]
    keys: dict[str, bytes]
    seen: tuple[Seen, ...] = ()

    def committed_on(self, node: str) -> int:
        """How much of this node's log is committed for sure: more than it was told of where it is the only voter.

        Whatever such a node holds is held by all that count, and nobody else can be elected and cut it; as long as the
        configuration that says so is committed itself.
        """
        newest = self.configurations[-1] if self.configurations else None
        is_alone = newest is not None and newest.voters == frozenset({node}) and newest.index <= self.commit_index
        return self.last.index if is_alone else min(self.commit_index, self.last.index)


class Reader:
    """Queries over one connection on which a transaction is open. `file` names the database in errors."""

    __slots__ = ("_connection", "_file")

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        self._connection = connection
        self._file = file

    def state(self) -> State:
        """The one row of state."""
        rows = self._connection.execute(SELECT_STATE).fetchall()
        try:
            [row] = rows
            return state_of(row)
        except BadRow as error:
            raise self._damaged_table("state", str(error)) from error
        except ValueError as error:
            raise self._damaged_table("state", f"there are {len(rows)} rows of state, not one") from error

    def identity(self) -> tuple[str, str, str] | None:
        """Cluster id, cluster name and node, once they were set."""
        row = self._connection.execute(SELECT_IDENTITY).fetchone()
        try:
            return None if row is None else identity_of(row)
        except BadRow as error:
            raise self._damaged_table("identity", str(error)) from error

    def seen(self) -> tuple[Seen, ...]:
        """How far this node has seen other members; nothing in a log of a format that did not keep it."""
        if self._connection.execute(SELECT_ROOT_PAGE, ("seen",)).fetchone() is None:
            return ()
        rows = self._connection.execute(SELECT_SEEN).fetchall()
        try:
            [row] = rows
            return tuple(Seen(*each) for each in seen_of(row))
        except BadRow as error:
            raise self._damaged_table("seen", str(error)) from error
        except ValueError as error:
            raise self._damaged_table("seen", f"there are {len(rows)} rows of what was seen, not one") from error

    def entries(self, first: int, last: int) -> Generator[Entry]:
        """Every entry from `first` to `last`, each linked to the one before."""
        expected, before = first, None
        with closing(self._rows(first, last)) as rows:
            for row in rows:
                entry = self._entry(row, expected)
                if before is not None and entry.prev_hash != before:
                    raise self._damaged(expected, "the entry does not follow the one before")
                yield entry
                expected, before = expected + 1, entry.hash
        if expected <= last:
            raise self._damaged(expected, "the entry is missing")

    def entry(self, index: int) -> Entry:
        """The entry at `index`, which must lie in the log."""
        for row in self._single_rows(index, index):
            return self._entry(row, index)
        raise self._damaged(index, "the entry is missing")

    def first_index(self) -> int:
        """The index of the first entry that is held; 1 while there is none."""
        [first] = self._connection.execute(SELECT_FIRST_INDEX).fetchone()
        return 1 if first is None else first

    def seals(self, first: int, last: int) -> list[Seal]:
        """The seals on the entries from `first` to `last`."""
        seals, damages = self.sound_seals(first, last)
        if damages:
            raise damages[0]
        return seals

    def sound_seals(self, first: int, last: int) -> tuple[list[Seal], list[LogDamaged]]:
        """The seals on those entries that can be trusted, and the damage to the others."""
        seals: list[Seal] = []
        damages: list[LogDamaged] = []
        try:
            for row in self._connection.execute(SELECT_SEALS, (first, last)).fetchall():
                try:
                    seals.append(seal_of(row))
                except BadRow as error:
                    damages.append(self._damaged_seal(row, str(error)))
        except sqlite3.Error as error:
            failure = read_error(error, self._file, first)
            if not isinstance(failure, LogDamaged):
                raise failure from error
            damages.append(failure)
        return seals, damages

    def to_next_seal(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Entries from `first` on, until `max_bytes` are full and the last of them is sealed, or `last` is reached."""
        entries: list[Entry] = []
        room, end = max_bytes, None
        with closing(self.entries(first, last)) as source:
            for entry in source:
                entries.append(entry)
                room -= entry.size_bytes
                if room <= 0 and end is None:
                    end = self._next_sealed(entry.index)
                if end is not None and entry.index >= end:
                    break
        return entries

    def restored(self, tail_bytes: int) -> RestoredLog:
        """The state of the node at start, with a tail of about so many bytes."""
        state = self.state()
        first = self._tail_start(state, tail_bytes)
        anchor = Anchor.at(self.entry(first - 1)) if first > 1 else Anchor()
        tail = tuple(self.entries(first, state.last.index))
        if tail and tail[0].prev_hash != anchor.hash:
            raise self._damaged(first, "the entry does not follow the one before")
        if (tail[-1].hash if tail else anchor.hash) != state.last_hash:
            raise self._damaged(state.last.index, "the log does not end with the entry it should")
        before, later = self._configurations_to(anchor.index), self._configurations(tail)
        return RestoredLog(
            hard_state=HardState(state.promised_epoch, state.holder_node, state.holder_run),
            commit_index=state.commit_index,
            last=state.last,
            anchor=anchor,
            tail=tail,
            seals=tuple(self.seals(first, state.last.index)),
            configurations=(*before[-1:], *later),
            keys={member.id: member.public_key for known in (*before, *later) for member in known.members},
            seen=self.seen(),
        )

    def configurations(self) -> list[Configuration]:
        """Every configuration there ever was, oldest first."""
        return self._configurations_to(self.state().last.index)

    def _entry(self, row: Row, expected: int) -> Entry:
        if row[0] != expected:
            raise self._damaged(expected, "the entry is missing")
        try:
            return entry_of(row)
        except BadRow as error:
            raise self._damaged(expected, str(error)) from error

    def _rows(self, first: int, last: int) -> Generator[Row]:
        index = first
        try:
            with closing(self._connection.execute(SELECT_ENTRIES, (first, last))) as cursor:
                for row in cursor:
                    yield row
                    index = row[0] + 1
        except sqlite3.Error:
            # Python reads one row ahead, and so fails one row early: single queries tell which row it is.
            yield from self._single_rows(index, last)

    def _single_rows(self, first: int, last: int) -> Generator[Row]:
        for index in range(first, last + 1):
            try:
                row = self._connection.execute(SELECT_ENTRY, (index,)).fetchone()
            except sqlite3.Error as error:
                raise read_error(error, self._file, index) from error
            if row is not None:
                yield row

    def _tail_start(self, state: State, tail_bytes: int) -> int:
        start, room = state.last.index + 1, tail_bytes
        with closing(self._connection.execute(SELECT_WEIGHTS, (state.last.index,))) as cursor:
            for index, weight in cursor:
                room -= weight
                if room < 0 and index <= state.commit_index:
                    break
                start = index
        return start

    def _configurations_to(self, index: int) -> list[Configuration]:
        """Every configuration that entries up to `index` put in force, oldest first."""
        rows = self._connection.execute(SELECT_CONFIGURATIONS, (index,)).fetchall()
        try:
            entries = [self.entry(configuration_index_of(row)) for row in rows]
        except BadRow as error:
            raise self._damaged_table("configurations", str(error)) from error
        if not all(entry.is_configuration for entry in entries):
            raise self._damaged_table("configurations", "it lists an entry that is none")
        return self._configurations(entries)

    def _configurations(self, entries: Sequence[Entry]) -> list[Configuration]:
        try:
            return [entry.configuration for entry in entries if entry.configuration is not None]
        except (NotCanonical, QuorumError) as error:
            raise self._damaged(None, f"not a configuration: {error}") from error

    def _damaged_seal(self, row: Row, what: str) -> LogDamaged:
        """Damage to a seal, at the entry where it belongs: its hash tells, unless that is what was damaged."""
        found = self._connection.execute(SELECT_INDEX_OF_HASH, (row[2],)).fetchone()
        index = row[0] if found is None else found[0]
        return self._damaged(index, what) if index > 0 else self._damaged_table("seals", what)

    def _next_sealed(self, index: int) -> int | None:
        [sealed] = self._connection.execute(SELECT_NEXT_SEALED, (index,)).fetchone()
        return sealed

    def _damaged_table(self, table: str, what: str) -> LogDamaged:
        """Damage to one of the small tables, which begin on a page of their own."""
        [page] = self._connection.execute(SELECT_ROOT_PAGE, (table,)).fetchone()
        return LogDamaged(self._file, None, what, page)

    def _damaged(self, index: int | None, what: str) -> LogDamaged:
        return LogDamaged(self._file, index, what)
