"""The state of the projection as the memory rules read it (`memory.state.State`), over one SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from ..memory.record import ANY_SOURCE, Record
from ..memory.state import PastOutcome, SettingValue, Witness, Workspace
from ..memory.window import Window
from . import schema
from .errors import translation
from .rows import (
    NOWHERE,
    Held,
    Standing,
    contenders_of,
    outcome_of,
    record_of,
    setting_of,
    standing_of,
    witness_of,
)  # fmt: skip

HOT_RECORDS_LIMIT = 4_096
FETCHED_ONE_BY_ONE = 8
"""So few records are fetched when they are asked for: one statement for many costs as much as this many."""
STANDING = "standing"


class StoredState:
    """What is in the database at the moment of each question; within one transaction, all as of one position."""

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        self._connection = connection
        self._file = file

    def standing(self) -> Standing:
        """Where the fold stands."""
        row = self._row(schema.GET_STATE, STANDING)
        return standing_of(row[0]) if row else NOWHERE

    def held(self, id: bytes) -> Held | None:
        """The present row of that id as it is stored."""
        row = self._row(schema.GET_HELD, id)
        return Held(row[0], row[1], record_of(row[2])) if row else None

    def record(self, id: bytes) -> Record | None:
        """See `State.record`."""
        held = self.held(id)
        return held.record if held else None

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """See `State.contending`."""
        row = self._row(schema.GET_CONTENDERS, id)
        return contenders_of(row[0]) if row else ()

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """See `State.rejected`."""
        return self._row(schema.GET_REJECTION, id, value_digest) is not None

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        return self._row(schema.GET_RETRACTION, id, value_digest, ANY_SOURCE, source_digest) is not None

    def holds_retraction(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """Whether exactly this retraction is on record, whatever `ANY_SOURCE` says."""
        return self._row(schema.GET_RETRACTION, id, value_digest, source_digest, source_digest) is not None

    def witnesses(self, id: bytes) -> Iterator[Witness]:
        """See `State.witnesses`."""
        for (body,) in self._connection.execute(schema.GET_WITNESSES, (id,)).fetchall():
            yield witness_of(body)

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """See `State.outcome`."""
        row = self._row(schema.GET_COMMAND, command_id)
        return outcome_of(row[0]) if row else None

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        row = self._row(schema.GET_SETTING, name)
        return setting_of(row[0]) if row else None

    def window(self) -> Window:
        """See `State.window`."""
        return self.standing().window

    def time_us(self) -> int:
        """See `State.time_us`."""
        return self.standing().time_us

    def _row(self, statement: str, *parameters: object) -> tuple[Any, ...] | None:
        try:
            return self._connection.execute(statement, parameters).fetchone()
        except sqlite3.DatabaseError as error:
            raise translation(self._file, error) from error


class HotState(StoredState):
    """The writer's state. As nobody else changes the database, what was lately asked for is kept in memory.

    Within a batch every record is asked for twice, by the rules and by the fold; a new one is not there both times.
    """

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        super().__init__(connection, file)
        self._held: dict[bytes, Held | None] = {}
        self._any_rejection = self._row("SELECT 1 FROM rejection LIMIT 1") is not None
        self._any_retraction = self._row("SELECT 1 FROM retraction LIMIT 1") is not None
        self._contended = {id for (id,) in connection.execute(schema.GET_CONTENDED)}
        self._settings: dict[str, SettingValue | None] = {}
        self._standing = super().standing()

    def standing(self) -> Standing:
        """Where the last committed batch stands."""
        return self._standing

    def held(self, id: bytes) -> Held | None:
        """See `StoredState.held`."""
        if id in self._held:
            held = self._held[id] = self._held.pop(id)
            return held
        held = self._held[id] = super().held(id)
        return held

    def expect(self, ids: Collection[bytes]) -> None:
        """These records will be asked for: fetch those that are not in memory, many with one statement."""
        wanted = [id for id in ids if id not in self._held]
        if len(wanted) <= FETCHED_ONE_BY_ONE:
            return
        for place in range(0, len(wanted), schema.HELD_AT_ONCE):
            some = wanted[place : place + schema.HELD_AT_ONCE]
            self._held.update(dict.fromkeys(some))
            padded = some + some[:1] * (schema.HELD_AT_ONCE - len(some))
            for id, number, digest, body in self._connection.execute(schema.GET_HELD_MANY, padded):
                self._held[id] = Held(number, digest, record_of(body))

    def contending(self, id: bytes) -> tuple[Record, ...]:
        """See `State.contending`."""
        return super().contending(id) if id in self._contended else ()

    def rejected(self, id: bytes, value_digest: bytes) -> bool:
        """See `State.rejected`."""
        return self._any_rejection and super().rejected(id, value_digest)

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        return self._any_retraction and super().retracted(id, value_digest, source_digest)

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        if name not in self._settings:
            self._settings[name] = super().setting(name)
        return self._settings[name]

    def advance(self, standing: Standing, present: Mapping[bytes, Held | None], workspace: Workspace) -> None:
        """The batch that leads there is committed: `present` are the rows that it changed, None for those now gone."""
        self._standing = standing
        self._any_rejection |= bool(workspace.rejections)
        self._any_retraction |= bool(workspace.retractions)
        for id, contenders in workspace.contenders.items():
            (self._contended.add if contenders else self._contended.discard)(id)
        if workspace.settings:
            self._settings.clear()
        self._held.update(present)
        for id in list(islice(self._held, max(0, len(self._held) - HOT_RECORDS_LIMIT))):
            del self._held[id]
