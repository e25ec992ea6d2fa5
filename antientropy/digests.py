"""States compared by their bucket digests: only at one index, and only what can differ travels.

Members under load are never at one index at one moment. But their folds all stop for a moment at every multiple of
`LANDMARK_ENTRIES`, and each keeps the digests of the last few such stops, beside those of where it stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final, NamedTuple

LANDMARK_ENTRIES: Final = 1024
LANDMARKS_KEPT: Final = 8
_NOTHING: Final = b""


class Snapshot(NamedTuple):
    """The digests of all buckets as of one index. Where a member asks, `embedder` says who makes the node's vectors,
    and `runner_key` whose receipts count there, empty for nobody's.
    """

    applied: int
    digests: tuple[bytes, ...]
    embedder: str = ""
    runner_key: bytes = b""


class Snapshots:
    """The snapshots that a node can be asked for: where it stands, and its last landmarks. Safe over threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._newest = Snapshot(0, ())
        self._landmarks: deque[Snapshot] = deque(maxlen=LANDMARKS_KEPT)

    def note(self, applied: int, digests: Iterable[bytes]) -> None:
        """The fold has come to `applied`."""
        snapshot = Snapshot(applied, tuple(digests))
        with self._lock:
            self._newest = snapshot
            if applied % LANDMARK_ENTRIES == 0:
                self._landmarks.append(snapshot)

    def forget(self) -> None:
        """What was noted was of rows that were wrong."""
        with self._lock:
            self._newest = Snapshot(0, ())
            self._landmarks.clear()

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes of which there is a snapshot, newest first."""
        with self._lock:
            return tuple(dict.fromkeys(snapshot.applied for snapshot in self._newest_first() if snapshot.digests))

    def at(self, wanted: Sequence[int]) -> Snapshot:
        """The newest snapshot at one of these indexes; where there is none, where the fold stands, without digests."""
        with self._lock:
            asked = frozenset(wanted)
            found = (snapshot for snapshot in self._newest_first() if snapshot.digests and snapshot.applied in asked)
            return next(found, Snapshot(self._newest.applied, ()))

    def _newest_first(self) -> list[Snapshot]:
        return [self._newest, *reversed(self._landmarks)]


def landmark_after(index: int) -> int:
    """Where a fold that stands at `index` stops next, so that all members have a snapshot at the same places."""
    return (index // LANDMARK_ENTRIES + 1) * LANDMARK_ENTRIES


def differing(mine: Sequence[bytes], theirs: Sequence[bytes]) -> tuple[int, ...]:
    """The buckets in which two states at one index are not the same."""
    if len(mine) != len(theirs):
        return tuple(range(max(len(mine), len(theirs))))
    return tuple(number for number, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other)


class Verdicts:
    """Differences that were judged already: as long as the same one lasts, nobody folds history again because of it.

    Digests of a bucket are XORs, so that what two members fold alike leaves the XOR of their digests as it is.
    """

    def __init__(self) -> None:
        self._judged: dict[str, dict[int, bytes]] = {}

    def is_known(self, peer: str, mine: Sequence[bytes], theirs: Sequence[bytes]) -> bool:
        """Whether just this difference to `peer` was judged before."""
        return self._judged.get(peer) == _difference(mine, theirs)

    def note(self, peer: str, mine: Sequence[bytes], theirs: Sequence[bytes]) -> None:
        """It was: this node's own rows are what its log says."""
        self._judged[peer] = _difference(mine, theirs)

    def forget(self, peer: str) -> None:
        """There is no difference to `peer` any more."""
        self._judged.pop(peer, None)


def _difference(mine: Sequence[bytes], theirs: Sequence[bytes]) -> dict[int, bytes]:
    return {number: _xor(mine, theirs, number) for number in differing(mine, theirs)}


def _xor(mine: Sequence[bytes], theirs: Sequence[bytes], number: int) -> bytes:
    one, other = (digests[number] if number < len(digests) else _NOTHING for digests in (mine, theirs))
    size = max(len(one), len(other))
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(size, "big")
