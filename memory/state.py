"""State as the rules see it: a port to read it, an overlay to change it, and a store in memory.

`decide` reads and `evolve` changes only a `Workspace`. Whoever owns the durable state takes the changes out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeAlias, Union

from . import digest
from .record import ANY_SOURCE, PastVersion, Record, Version
from .window import Window, first_id

SettingValue: TypeAlias = Union[int, str, "tuple[SettingValue, ...]"]


class PastOutcome(NamedTuple):
    """The first outcome of a command id: what a retry gets. `content_digest` tells the same from another."""

    content_digest: bytes
    code: str
    rule: str
    record_id: bytes
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    ignored: tuple[str, ...]
    version: Version


class Witness(NamedTuple):
    """A value once held under a key, and the digests of the sources that stated it."""

    value_digest: bytes
    sources: tuple[bytes, ...]


class State(Protocol):
    """What the rules ask of a store. All answers are as of one position of the log."""

    def record(self, id: bytes) -> Record | None:
        """The row held under that id, whatever its trust, expired or not."""
        ...

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """Values that contend with the verified one under that id, oldest first."""
        ...

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """Whether that value was rejected under that id."""
        ...

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """Whether that value of that source was forgotten under that id; a row of `ANY_SOURCE` covers every source."""
        ...

    def witnesses(self, id: bytes) -> Iterable[Witness]:
        """Values and sources of all *past versions* under that id (not of the present row, not of contending ones)."""
        ...

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """The first outcome of that command, while the window remembers it."""
        ...

    def setting(self, name: str) -> SettingValue | None:
        """The value of a replicated setting, or None when it was never set."""
        ...

    def window(self) -> Window:
        """The command window."""
        ...

    def time_us(self) -> int:
        """Log time: the time of the last entry, 0 before the first."""
        ...


class Workspace:
    """An overlay over a state: reads fall through to `base`, changes stay here until their owner takes them out.

    `records` maps an id to its new row, or to None when it is gone; `contenders` to all contending rows that are left.
    `changed_window` and `changed_time_us` are None when nothing touched them. When `changed_window` starts later than
    the base's, outcomes of ids older than its `start_us` are to be dropped.
    """

    __slots__ = (
        "base", "records", "versions", "contenders", "rejections", "retractions", "outcomes", "settings",
        "changed_window", "changed_time_us",
    )  # fmt: skip

    def __init__(self, base: State) -> None:
        self.base = base
        self.records: dict[bytes, Record | None] = {}
        self.versions: list[PastVersion] = []
        self.contenders: dict[bytes, tuple[Record, ...]] = {}
        self.rejections: set[tuple[bytes, bytes]] = set()
        self.retractions: set[tuple[bytes, bytes, bytes]] = set()
        self.outcomes: dict[bytes, PastOutcome] = {}
        self.settings: dict[str, SettingValue] = {}
        self.changed_window: Window | None = None
        self.changed_time_us: int | None = None

    def retire(self, record: Record, at: Version, time_us: int, ended_by: str, reason: str = "") -> None:
        """Keep a row as a past version that ended there."""
        self.versions.append(PastVersion(record, at, time_us, ended_by, reason))

    def record(self, id: bytes) -> Record | None:
        """See `State.record`."""
        if id in self.records:
            return self.records[id]
        return self.base.record(id)

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """See `State.contending`."""
        if id in self.contenders:
            return self.contenders[id]
        return self.base.contending(id)

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """See `State.rejected`."""
        return (id, value_digest) in self.rejections or self.base.rejected(id, value_digest)

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        if self.retractions and _is_retracted(self.retractions, id, value_digest, source_digest):
            return True
        return self.base.retracted(id, value_digest, source_digest)

    def witnesses(self, id: bytes) -> Iterator[Witness]:
        """See `State.witnesses`."""
        yield from self.base.witnesses(id)
        yield from _witnesses(self.versions, id)

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """See `State.outcome`."""
        return self.outcomes.get(command_id) or self.base.outcome(command_id)

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        if name in self.settings:
            return self.settings[name]
        return self.base.setting(name)

    def window(self) -> Window:
        """See `State.window`."""
        return self.base.window() if self.changed_window is None else self.changed_window

    def time_us(self) -> int:
        """See `State.time_us`."""
        return self.base.time_us() if self.changed_time_us is None else self.changed_time_us


class MemoryState:
    """A state in dictionaries: what the simulator folds into, and what other stores are compared with.

    Bucket digests change by what changed, so that comparing two states costs nothing.
    """

    def __init__(self) -> None:
        self.records: dict[bytes, Record] = {}
        self.versions: dict[bytes, list[PastVersion]] = {}
        self.contenders: dict[bytes, tuple[Record, ...]] = {}
        self.rejections: set[tuple[bytes, bytes]] = set()
        self.retractions: set[tuple[bytes, bytes, bytes]] = set()
        self.outcomes: dict[bytes, PastOutcome] = {}
        self.settings: dict[str, SettingValue] = {}
        self._window = Window()
        self._time_us = 0
        self._buckets = [0] * digest.BUCKETS

    def record(self, id: bytes) -> Record | None:
        """See `State.record`."""
        return self.records.get(id)

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """See `State.contending`."""
        return self.contenders.get(id, ())

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """See `State.rejected`."""
        return (id, value_digest) in self.rejections

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        return _is_retracted(self.retractions, id, value_digest, source_digest)

    def witnesses(self, id: bytes) -> Iterator[Witness]:
        """See `State.witnesses`."""
        return _witnesses(self.versions.get(id, ()), id)

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """See `State.outcome`."""
        return self.outcomes.get(command_id)

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        return self.settings.get(name)

    def window(self) -> Window:
        """See `State.window`."""
        return self._window

    def time_us(self) -> int:
        """See `State.time_us`."""
        return self._time_us

    def history(self, id: bytes) -> list[PastVersion]:
        """All past versions under that id, oldest first."""
        return list(self.versions.get(id, ()))

    def apply(self, workspace: Workspace) -> None:
        """Take over what a workspace on this state has changed."""
        for id, record in workspace.records.items():
            self._hold(id, record)
        for id, contenders in workspace.contenders.items():
            self._contend(id, contenders)
        for past in workspace.versions:
            self.versions.setdefault(past.record.id, []).append(past)
            self._toggle(past.record.id, digest.past_digest(past))
        for rejection in workspace.rejections - self.rejections:
            self._toggle(rejection[0], digest.rejection_digest(*rejection))
        for retraction in workspace.retractions - self.retractions:
            self._toggle(retraction[0], digest.retraction_digest(*retraction))
        self.rejections |= workspace.rejections
        self.retractions |= workspace.retractions
        self.outcomes.update(workspace.outcomes)
        self.settings.update(workspace.settings)
        self._time_us = workspace.time_us()
        self._move_window(workspace.window())

    def buckets(self) -> list[bytes]:
        """The digest of each of the 256 buckets, 32 bytes each."""
        return [value.to_bytes(digest.DIGEST_BYTES, "big") for value in self._buckets]

    def state_digest(self) -> bytes:
        """One digest of everything: two states with the same history have the same, 32 bytes."""
        outcomes = sorted(self.outcomes.items())
        rest = (outcomes, sorted(self.settings.items()), self._window, self._time_us)
        return sha256(b"".join(self.buckets()) + digest.row_bytes(rest)).digest()

    def _hold(self, id: bytes, record: Record | None) -> None:
        old = self.records.pop(id, None)
        if old is not None:
            self._toggle(id, digest.record_digest(old))
        if record is not None:
            self.records[id] = record
            self._toggle(id, digest.record_digest(record))

    def _contend(self, id: bytes, contenders: tuple[Record, ...]) -> None:
        for contender in (*self.contenders.pop(id, ()), *contenders):
            self._toggle(id, digest.contender_digest(contender))
        if contenders:
            self.contenders[id] = contenders

    def _toggle(self, id: bytes, row_digest: bytes) -> None:
        self._buckets[digest.bucket(id)] ^= int.from_bytes(row_digest, "big")

    def _move_window(self, window: Window) -> None:
        if window.start_us > self._window.start_us:
            first = first_id(window.start_us)
            self.outcomes = {id: outcome for id, outcome in self.outcomes.items() if id >= first}
        self._window = window


def _is_retracted(rows: set[tuple[bytes, bytes, bytes]], id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
    return (id, value_digest, source_digest) in rows or (id, value_digest, ANY_SOURCE) in rows


def _witnesses(versions: Iterable[PastVersion], id: bytes) -> Iterator[Witness]:
    return (Witness(past.record.value_digest, past.record.sources) for past in versions if past.record.id == id)
