"""State as the rules see it: a port to read it, an overlay to change it, and a store in memory.

`decide` reads and `evolve` changes only a `Workspace`. Whoever owns the durable state takes the changes out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias, Union

from .record import ANY_SOURCE, PastVersion, Record, Version

SettingValue: TypeAlias = Union[int, str, "tuple[SettingValue, ...]"]


class PastOutcome(NamedTuple):
    """The first outcome of a command id: what a retry is answered with. `content_digest` tells the same from another."""

    content_digest: bytes
    code: str
    rule: str
    record_id: bytes
    count: int
    ignored: tuple[str, ...]
    version: Version


class Window(NamedTuple):
    """The command window: ids of before `start_us` are forgotten and never executed again.

    `segments` are `(closed_at_us, ids)` in order of arrival, the last one open; they bound the window in count.
    """

    start_us: int = 0
    segments: tuple[tuple[int, int], ...] = ()


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
        """Whether that value of that source was forgotten under that id. A row of `ANY_SOURCE` stands for every source."""
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


def _is_retracted(rows: set[tuple[bytes, bytes, bytes]], id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
    return (id, value_digest, source_digest) in rows or (id, value_digest, ANY_SOURCE) in rows


def _witnesses(versions: Iterable[PastVersion], id: bytes) -> Iterator[Witness]:
    return (Witness(past.record.value_digest, past.record.sources) for past in versions if past.record.id == id)
