"""The projection as one batch of decisions sees it: one state of the database, and no question asked of it twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ..memory.record import Record
from ..memory.state import PastOutcome, SettingValue, Window, Witness
from ..projection.reader import Reader

_UNASKED: Final = object()


class SnapshotState:
    """`memory.state.State` over a reader. Inside `held` all answers are of one moment, and remembered until its end.

    A statement outside of a transaction makes SQLite look for the newest state first: within one, a question costs half.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._records: dict[bytes, Record | None] = {}
        self._settings: dict[str, SettingValue | None] = {}
        self._window: Window | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold on to the state of this moment."""
        with self._reader.snapshot():
            try:
                yield
            finally:
                self._records.clear()
                self._settings.clear()
                self._window = None

    def close(self) -> None:
        """Give the reader back."""
        self._reader.close()

    def record(self, id: bytes) -> Record | None:
        """See `State.record`."""
        found = self._records.get(id, _UNASKED)
        if found is _UNASKED:
            found = self._records[id] = self._reader.record(id)
        return found  # pyright: ignore[reportReturnType]

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """See `State.contending`."""
        return self._reader.contending(id)

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """See `State.rejected`."""
        return self._reader.rejected(id, value_digest)

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        return self._reader.retracted(id, value_digest, source_digest)

    def witnesses(self, id: bytes) -> Iterable[Witness]:
        """See `State.witnesses`."""
        return self._reader.witnesses(id)

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """See `State.outcome`."""
        return self._reader.outcome(command_id)

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        if name not in self._settings:
            self._settings[name] = self._reader.setting(name)
        return self._settings[name]

    def window(self) -> Window:
        """See `State.window`."""
        if self._window is None:
            self._window = self._reader.window()
        return self._window

    def time_us(self) -> int:
        """See `State.time_us`."""
        return self._reader.time_us()
