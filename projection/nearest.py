"""Which records lie nearest to a question: an exact scan over the vectors of its scopes, under the same hard filters.

All vectors of a scope, with what filters look at, are kept in memory as columns (a *shelf*) and shared by the readers
of a projection. A shelf says which entry it stands at; a reader brings it up to its own snapshot with what was written
since. Products of int8 components add up exactly in float32 for up to `EXACT_WIDTH` components, and the sums of wider
vectors' parts in float64, so that every processor ranks alike.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..embedding.vectors import LARGEST
from . import schema
from .filters import Allowed

EXACT_WIDTH: Final = (1 << 24) // (LARGEST * LARGEST)
COMPONENTS_AT_ONCE: Final = 1 << 18
"""So many components are widened to floats in one go: they stay in the processor's cache, and OpenBLAS does not spread
the product over threads (it does from 460 800 on), which takes 40 times as long where another process has the core."""
COSINE_FLOOR: Final = 0.2
"""Unrelated sentences lie at about 0.1 with a static model; below this nothing is near anything."""
SHELVES_BYTES_LIMIT: Final = 512 << 20
"""So much of vectors is kept in memory; the shelves that were used longest ago go first."""
DECIMALS: Final = 9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Vanished = tuple[int, int]
"""The first and the last place in the table of what vanished."""


class Near(NamedTuple):
    """Row numbers with their cosines and trust."""

    numbers: Ints
    cosines: Floats
    trusts: NDArray[np.int8]

    @staticmethod
    def joined(found: Sequence[Near]) -> Near:
        """The rows of several scopes."""
        return Near(*map(np.concatenate, zip(*found, strict=True))) if found else _NONE

    def best(self, trust: int, count: int) -> list[tuple[int, float]]:
        """The nearest `count` with that trust, and all that are as near as the last of them; in no order."""
        of_trust = self.trusts == trust
        numbers, cosines = self.numbers[of_trust], self.cosines[of_trust]
        if len(cosines) > count:
            near = cosines >= np.partition(cosines, -count)[-count]
            numbers, cosines = numbers[near], cosines[near]
        return list(zip(numbers.tolist(), cosines.tolist(), strict=True))


_NONE: Final = Near(np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.int8))


class Shelf:
    """The vectors of one scope as columns. For one thread at a time."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.index = -1
        self.vanished = 0
        self._size = 0
        self._slots: dict[int, int] = {}
        self._kinds: dict[str, int] = {}
        self._components = np.empty((0, width), np.int8)
        self._lengths = np.empty(0, np.float64)
        self._columns = np.empty((5, 0), np.int64)  # number, kind, expiry, valid from, valid to
        self._trusts = np.empty(0, np.int8)

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, about."""
        return len(self._components) * (self.width + 160)

    def remove(self, numbers: Sequence[int]) -> None:
        """Rows that are not there any more; the last ones take their places."""
        for number in numbers:
            slot = self._slots.pop(number, None)
            if slot is None:
                continue
            self._size -= 1
            last = self._size
            if slot != last:
                self._components[slot] = self._components[last]
                self._lengths[slot] = self._lengths[last]
                self._columns[:, slot] = self._columns[:, last]
                self._trusts[slot] = self._trusts[last]
                self._slots[int(self._columns[0, slot])] = slot

    def put(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows of the table `vector`, new ones or in place of those with the same number."""
        if not rows:
            return
        self._make_room(len(rows))
        slots = np.fromiter(map(self._slot, (row[0] for row in rows)), np.int64, len(rows))
        components = np.frombuffer(b"".join(row[6] for row in rows), np.int8).reshape(len(rows), self.width)
        wide = components.astype(np.int64)
        self._components[slots] = components
        self._lengths[slots] = np.sqrt((wide * wide).sum(axis=1))
        self._trusts[slots] = [row[1] for row in rows]
        kinds = [self._kinds.setdefault(row[2], len(self._kinds)) for row in rows]
        for column, values in enumerate(
            ([row[0] for row in rows], kinds, *([row[place] for row in rows] for place in (3, 4, 5)))
        ):
            self._columns[column, slots] = values

    def near(self, question: NDArray[np.int8], allowed: Allowed) -> Near:
        """All rows that the filters allow and that are nearer than the floor."""
        size = self._size
        length = float(np.sqrt((question.astype(np.int64) ** 2).sum()))
        if not size or not length:
            return _NONE
        cosines = self._products(question) / (self._lengths[:size] * length)
        chosen = np.flatnonzero((cosines >= COSINE_FLOOR) & self._mask(allowed))
        return Near(self._columns[0, chosen], np.round(cosines[chosen], DECIMALS), self._trusts[chosen])

    def _products(self, question: NDArray[np.int8]) -> Floats:
        size, width = self._size, len(question)
        products = np.zeros(size, np.float64)
        asked = question.astype(np.float32)
        rows = max(COMPONENTS_AT_ONCE // min(width, EXACT_WIDTH), 1)
        for left in range(0, width, EXACT_WIDTH):
            right = min(left + EXACT_WIDTH, width)
            for begin in range(0, size, rows):
                end = min(begin + rows, size)
                some = self._components[begin:end, left:right].astype(np.float32)
                products[begin:end] += some @ asked[left:right]
        return products

    def _mask(self, allowed: Allowed) -> NDArray[np.bool_]:
        size = self._size
        _, kinds, expiries, begins, ends = self._columns[:, :size]
        mask = expiries > allowed.now_us
        if allowed.kind is not None:
            mask &= kinds == self._kinds.get(allowed.kind, -1)
        if allowed.but_kind is not None:
            mask &= kinds != self._kinds.get(allowed.but_kind, -1)
        if allowed.trust is not None:
            mask &= self._trusts[:size] == allowed.trust
        if allowed.valid_at_us is not None:
            mask &= (begins <= allowed.valid_at_us) & (ends > allowed.valid_at_us)
        return mask

    def _slot(self, number: int) -> int:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = self._size
            self._size += 1
        return slot

    def _make_room(self, more: int) -> None:
        room, wanted = len(self._components), self._size + more
        if wanted <= room:
            return
        grown = max(wanted, room + room // 2, 64)
        self._components = _grown(self._components, (grown, self.width))
        self._lengths = _grown(self._lengths, (grown,))
        self._trusts = _grown(self._trusts, (grown,))
        columns = np.zeros((5, grown), np.int64)
        columns[:, :room] = self._columns
        self._columns = columns


class Shelves:
    """The shelves of one projection, shared by its readers. `width` is how many components a vector has."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lock = Lock()
        self._shelves: dict[int, Shelf] = {}

    def clear(self) -> None:
        """The file holds other rows now."""
        with self._lock:
            self._shelves.clear()

    def near(
        self, connection: sqlite3.Connection, index: int, scopes: Iterable[int], question: bytes, allowed: Allowed
    ) -> Near:  # fmt: skip
        """The rows of these scopes that are near, in the snapshot of `connection`, which stands at entry `index`."""
        asked = np.frombuffer(question, np.int8)
        vanished: Vanished = connection.execute(schema.GET_VANISHED_PLACES).fetchone()
        with self._lock:
            found = [self._at(connection, index, scope, vanished).near(asked, allowed) for scope in scopes]
        return Near.joined(found)

    def _at(self, connection: sqlite3.Connection, index: int, scope: int, vanished: Vanished) -> Shelf:
        shelf = self._shelves.pop(scope, None) or Shelf(self._width)
        if shelf.index > index:  # another reader is ahead of this one, which looks for itself
            self._shelves[scope] = shelf
            return _brought(Shelf(self._width), connection, index, scope, vanished)
        is_behind = shelf.index < index
        if is_behind:
            shelf = _brought(shelf, connection, index, scope, vanished)
        self._shelves[scope] = shelf
        if is_behind:
            self._forget_some()
        return shelf

    def _forget_some(self) -> None:
        total = sum(shelf.size_bytes for shelf in self._shelves.values())
        for scope in list(self._shelves)[:-1]:
            if total <= SHELVES_BYTES_LIMIT:
                return
            total -= self._shelves.pop(scope).size_bytes


def _brought(
    shelf: Shelf, connection: sqlite3.Connection, index: int, scope: int, vanished: Vanished
) -> Shelf:  # fmt: skip
    """The shelf, which stands before that entry, as of it."""
    first, last = vanished
    if shelf.vanished + 1 < first and shelf.index >= 0:
        shelf = Shelf(shelf.width)
    elif shelf.index >= 0:
        gone = connection.execute(schema.GET_VANISHED_SINCE, (shelf.vanished, scope)).fetchall()
        shelf.remove([number for (number,) in gone])
    shelf.put(connection.execute(schema.GET_VECTORS_SINCE, (scope, shelf.index)).fetchall())
    shelf.index, shelf.vanished = index, last
    return shelf


def _grown(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    grown = np.zeros(shape, array.dtype)
    grown[: len(array)] = array
    return grown
