"""The state of the projection as the memory rules read it (`memory.state.State`), over one SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from ..memory.digest import BUCKETS, DIGEST_BYTES
from ..memory.principals import Principal
from ..memory.record import ANY_SOURCE, EPISODE, PastVersion, Record
from ..memory.state import PastOutcome, SettingValue, Witness, Workspace
from ..memory.tokens import Token
from ..memory.window import Window
from . import schema
from .errors import translation
from .rows import (
    NOWHERE,
    Held,
    Standing,
    contenders_of,
    outcome_of,
    past_of,
    principal_of,
    record_of,
    setting_of,
    standing_of,
    token_of,
    witness_of,
)  # fmt: skip
from .sieve import Sieve

HOT_RECORDS_LIMIT = 1_024
HOT_PRINCIPALS_LIMIT = 4_096
RECORD_SIEVE_BYTES: Final = 4 << 20
COMMAND_SIEVE_BYTES: Final = 1 << 20
COMMANDS_SIEVED_LIMIT: Final = 2_000_000
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

    def last_past(self, id: bytes) -> PastVersion | None:
        """See `State.last_past`."""
        row = self._row(schema.GET_LAST_PAST, id)
        return past_of(row[0]) if row else None

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """See `State.derived`."""
        return tuple(id for (id,) in self._connection.execute(schema.GET_DERIVED, (source,)).fetchall())

    def lineage(self, id: bytes) -> set[bytes]:
        """See `State.lineage`."""
        return {other for (other,) in self._connection.execute(schema.GET_LINEAGE, (id,)).fetchall()}

    def rested_upon(self, ids: Collection[bytes]) -> set[bytes]:
        """See `State.rested_upon`."""
        return {id for id in ids if self.derived(id)}

    def episodes_of(self, record: Record) -> tuple[Record, ...]:
        """The episodes that a record was taken from, in the order in which it names them."""
        sources = map(self.record, record.derived_from)
        return tuple(source for source in sources if source is not None and source.kind == EPISODE)

    def episode_before(self, episode: Record) -> Record | None:
        """The episode that this one follows, while it is held."""
        return self.record(episode.follows) if episode.follows else None

    def episodes_after(self, id: bytes) -> tuple[bytes, ...]:
        """The ids, in their order, of the episodes that follow that one: more than one where a conversation forks."""
        return tuple(next for (next,) in self._connection.execute(schema.GET_FOLLOWING, (id,)).fetchall())

    def principal(self, key: bytes) -> Principal | None:
        """See `State.principal`."""
        row = self._row(schema.GET_PRINCIPAL, key)
        return principal_of(row[0]) if row else None

    def principals(self) -> Iterator[Principal]:
        """Everybody who is known, by key: also strangers who only signed something."""
        for (body,) in self._connection.execute(schema.GET_PRINCIPALS):
            yield principal_of(body)

    def token(self, id: bytes) -> Token | None:
        """See `State.token`."""
        row = self._row(schema.GET_TOKEN, id)
        return token_of(row[0]) if row else None

    def receipt_use(self, receipt: bytes) -> bytes | None:
        """See `State.receipt_use`."""
        row = self._row(schema.GET_RECEIPT, receipt)
        return row[0] if row else None

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

    def bucket_digests(self) -> list[bytes]:
        """The digest of each of the 256 buckets, 32 bytes each."""
        stored = dict(self._connection.execute(schema.GET_BUCKETS).fetchall())
        rows = (stored.get(row, b"") for row in range(BUCKETS // schema.BUCKETS_IN_A_ROW))
        all_digests = b"".join(row.ljust(schema.BUCKETS_IN_A_ROW * DIGEST_BYTES, b"\0") for row in rows)
        return [all_digests[place : place + DIGEST_BYTES] for place in range(0, len(all_digests), DIGEST_BYTES)]

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

    A record that changes is asked for twice, by the rules and by the fold. Of ids that are new, as most are, a sieve
    knows without a lookup. The one for commands is not filled from the database: it knows only ids after
    `_unsure_until`, which time gives them soon, and is begun anew before it holds too many to tell anything.
    """

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        super().__init__(connection, file)
        self._held: dict[bytes, Held] = {}
        self._records = Sieve(RECORD_SIEVE_BYTES)
        self._records.put(id for (id,) in connection.execute(schema.GET_RECORD_IDS))
        self._begin_command_sieve()
        self._buckets = super().bucket_digests()
        self._any_rejection = self._row("SELECT 1 FROM rejection LIMIT 1") is not None
        self._any_retraction = self._row("SELECT 1 FROM retraction LIMIT 1") is not None
        self._any_derivation = self._row("SELECT 1 FROM derivation LIMIT 1") is not None
        self._contended = {id for (id,) in connection.execute(schema.GET_CONTENDED)}
        self._settings: dict[str, SettingValue | None] = {}
        self._principals: dict[bytes, Principal | None] = {}
        self._standing = super().standing()

    def standing(self) -> Standing:
        """Where the last committed batch stands."""
        return self._standing

    def bucket_digests(self) -> list[bytes]:
        """See `StoredState.bucket_digests`."""
        return self._buckets

    def held(self, id: bytes) -> Held | None:
        """See `StoredState.held`."""
        held = self._held.get(id)
        if held is None and self._records.may_hold(id):
            held = super().held(id)
            if held is not None:
                self._held[id] = held
        return held

    def outcome(self, command_id: bytes) -> PastOutcome | None:
        """See `State.outcome`."""
        if command_id > self._unsure_until and not self._commands.may_hold(command_id):
            return None
        return super().outcome(command_id)

    def expect(self, ids: Collection[bytes]) -> None:
        """These records will be asked for: fetch those that are not in memory, many with one statement."""
        wanted = [id for id in ids if id not in self._held and self._records.may_hold(id)]
        if len(wanted) <= FETCHED_ONE_BY_ONE:
            return
        for place in range(0, len(wanted), schema.HELD_AT_ONCE):
            some = wanted[place : place + schema.HELD_AT_ONCE]
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

    def holds_retraction(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.holds_retraction`."""
        return self._any_retraction and super().holds_retraction(id, value_digest, source_digest)

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """See `State.derived`."""
        return super().derived(source) if self._any_derivation else ()

    def principal(self, key: bytes) -> Principal | None:
        """See `State.principal`."""
        if key not in self._principals:
            if len(self._principals) >= HOT_PRINCIPALS_LIMIT:
                self._principals.clear()
            self._principals[key] = super().principal(key)
        return self._principals[key]

    def setting(self, name: str) -> SettingValue | None:
        """See `State.setting`."""
        if name not in self._settings:
            self._settings[name] = super().setting(name)
        return self._settings[name]

    def advance(
        self,
        standing: Standing,
        buckets: list[bytes],
        present: Mapping[bytes, Held],
        gone: Collection[bytes],
        grounded: bool,
        workspace: Workspace,
    ) -> None:
        """The batch that leads there is committed: `present` are the rows that it wrote, `gone` those it took away.

        `grounded` says whether any of them came to rest on another.
        """
        self._standing = standing
        self._buckets = buckets
        self._records.put(present)
        self._put_commands(workspace.outcomes)
        self._any_rejection |= bool(workspace.rejections)
        self._any_retraction |= bool(workspace.retractions)
        self._any_derivation |= grounded
        for id, contenders in workspace.contenders.items():
            (self._contended.add if contenders else self._contended.discard)(id)
        self._principals.update(workspace.principals)
        if workspace.settings:
            self._settings.clear()
        for id in gone:
            self._held.pop(id, None)
        self._held.update(present)
        for id in list(islice(self._held, max(0, len(self._held) - HOT_RECORDS_LIMIT))):
            del self._held[id]

    def _begin_command_sieve(self) -> None:
        self._commands = Sieve(COMMAND_SIEVE_BYTES)
        self._commands_sieved = 0
        row = self._row(schema.GET_LAST_COMMAND)
        self._unsure_until = row[0] if row else b""

    def _put_commands(self, ids: Collection[bytes]) -> None:
        self._commands_sieved += len(ids)
        if self._commands_sieved > COMMANDS_SIEVED_LIMIT:
            self._begin_command_sieve()
        self._commands.put(ids)
