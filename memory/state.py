"""State as the rules see it: a port to read it, an overlay to change it, and a store in memory.

`decide` reads and `evolve` changes only a `Workspace`. Whoever owns the durable state takes the changes out of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeAlias, Union

from . import digest
from .principals import Principal
from .record import ANY_SOURCE, PastVersion, Record, Version
from .tokens import Token
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


class Embedding(NamedTuple):
    """The vector that `embedder` made of the value with that digest, and where that was recorded."""

    embedder: str
    vector: bytes
    value_digest: bytes
    at: Version


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

    def holds_retraction(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """Whether exactly this retraction is on record, whatever `ANY_SOURCE` says."""
        ...

    def last_past(self, id: bytes) -> PastVersion | None:
        """The newest past version under that id: what the last event replaced or removed."""
        ...

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """The ids, in their order, under which a value that is held or contends rests on that record."""
        ...

    def rested_upon(self, ids: Collection[bytes]) -> set[bytes]:
        """Those of these records on which anything rests (see `derived`)."""
        ...

    def lineage(self, id: bytes) -> set[bytes]:
        """The ids whose text a correction took over into that one's history, or out of it."""
        ...

    def principal(self, key: bytes) -> Principal | None:
        """What is known of the holder of that public key, or None when nothing is."""
        ...

    def token(self, id: bytes) -> Token | None:
        """The token of that id, also one that was revoked, or None."""
        ...

    def receipt_use(self, receipt: bytes) -> bytes | None:
        """The id of the record that the receipt of that digest was spent on, or None while it is unspent."""
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

    `records` maps an id to its new row, or to None when it is gone; `contenders` to all contending rows that are left;
    `rejections` and `retractions` map a row of theirs to whether it stands from now on. `changed_window` and
    `changed_time_us` are None when nothing touched them. The past versions of `erased` ids that the base holds are to
    lose their text. `embeddings` are the newest vectors by record: no state answers for them, an index may keep them.
    When `changed_window` starts later than the base's, outcomes of ids older than its `start_us` are to be dropped.
    """

    __slots__ = (
        "base", "records", "versions", "contenders", "rejections", "retractions", "outcomes", "settings",
        "principals", "tokens", "receipts", "erased", "lineages", "embeddings", "changed_window", "changed_time_us",
    )  # fmt: skip

    def __init__(self, base: State) -> None:
        self.base = base
        self.records: dict[bytes, Record | None] = {}
        self.versions: list[PastVersion] = []
        self.contenders: dict[bytes, tuple[Record, ...]] = {}
        self.rejections: dict[tuple[bytes, bytes], bool] = {}
        self.retractions: dict[tuple[bytes, bytes, bytes], bool] = {}
        self.outcomes: dict[bytes, PastOutcome] = {}
        self.settings: dict[str, SettingValue] = {}
        self.principals: dict[bytes, Principal] = {}
        self.tokens: dict[bytes, Token] = {}
        self.receipts: dict[bytes, bytes] = {}
        self.erased: set[bytes] = set()
        self.lineages: set[tuple[bytes, bytes]] = set()
        self.embeddings: dict[bytes, Embedding] = {}
        self.changed_window: Window | None = None
        self.changed_time_us: int | None = None

    def retire(self, record: Record, at: Version, time_us: int, ended_by: str, reason: str = "") -> None:
        """Keep a row as a past version that ended there."""
        self.versions.append(PastVersion(record, at, time_us, ended_by, reason))

    def erase(self, id: bytes) -> None:
        """Destroy the text of all past versions under that id."""
        self.erased.add(id)
        self.versions = [past.without_content if past.record.id == id else past for past in self.versions]

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
        stands = self.rejections.get((id, value_digest)) if self.rejections else None
        return self.base.rejected(id, value_digest) if stands is None else stands

    def retracted(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.retracted`."""
        if not self.retractions:
            return self.base.retracted(id, value_digest, source_digest)
        return any(self.holds_retraction(id, value_digest, source) for source in (source_digest, ANY_SOURCE))

    def holds_retraction(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.holds_retraction`."""
        stands = self.retractions.get((id, value_digest, source_digest))
        return self.base.holds_retraction(id, value_digest, source_digest) if stands is None else stands

    def last_past(self, id: bytes) -> PastVersion | None:
        """See `State.last_past`."""
        own = (past for past in reversed(self.versions) if past.record.id == id)
        past = next(own, None)
        if past is not None:
            return past
        past = self.base.last_past(id)
        return past.without_content if past is not None and id in self.erased else past

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """See `State.derived`."""
        found = set(self.base.derived(source))
        changed = {id for id, record in self.records.items() if id in found or (record is not None and record.grounds)}
        for id in changed.union(self.contenders):
            (found.add if source in resting_under(self, id) else found.discard)(id)
        return tuple(sorted(found))

    def lineage(self, id: bytes) -> set[bytes]:
        """See `State.lineage`."""
        return self.base.lineage(id) | {other for one, other in self.lineages if one == id}

    def take_over(self, id: bytes, other: bytes) -> None:
        """The text of `other` is in the history of `id` from now on."""
        self.lineages |= {(id, other), (other, id)}

    def rested_upon(self, ids: Collection[bytes]) -> set[bytes]:
        """See `State.rested_upon`."""
        wanted = set(ids)
        changed = {id for id, record in self.records.items() if record is not None and record.grounds}
        found = {source for id in changed.union(self.contenders) for source in wanted & resting_under(self, id)}
        return found | {source for source in self.base.rested_upon(wanted - found) if self.derived(source)}

    def principal(self, key: bytes) -> Principal | None:
        """See `State.principal`."""
        return self.principals.get(key) or self.base.principal(key)

    def token(self, id: bytes) -> Token | None:
        """See `State.token`."""
        return self.tokens.get(id) or self.base.token(id)

    def receipt_use(self, receipt: bytes) -> bytes | None:
        """See `State.receipt_use`."""
        return self.receipts.get(receipt) or self.base.receipt_use(receipt)

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
        self.principals: dict[bytes, Principal] = {}
        self.tokens: dict[bytes, Token] = {}
        self.receipts: dict[bytes, bytes] = {}
        self.dependants: dict[bytes, set[bytes]] = {}
        self.lineages: dict[bytes, set[bytes]] = {}
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
        return any((id, value_digest, source) in self.retractions for source in (source_digest, ANY_SOURCE))

    def holds_retraction(self, id: bytes, value_digest: bytes, source_digest: bytes) -> bool:
        """See `State.holds_retraction`."""
        return (id, value_digest, source_digest) in self.retractions

    def last_past(self, id: bytes) -> PastVersion | None:
        """See `State.last_past`."""
        versions = self.versions.get(id)
        return versions[-1] if versions else None

    def derived(self, source: bytes) -> tuple[bytes, ...]:
        """See `State.derived`."""
        return tuple(sorted(self.dependants.get(source, ())))

    def lineage(self, id: bytes) -> set[bytes]:
        """See `State.lineage`."""
        return set(self.lineages.get(id, ()))

    def rested_upon(self, ids: Collection[bytes]) -> set[bytes]:
        """See `State.rested_upon`."""
        return {id for id in ids if self.derived(id)}

    def principal(self, key: bytes) -> Principal | None:
        """See `State.principal`."""
        return self.principals.get(key)

    def token(self, id: bytes) -> Token | None:
        """See `State.token`."""
        return self.tokens.get(id)

    def receipt_use(self, receipt: bytes) -> bytes | None:
        """See `State.receipt_use`."""
        return self.receipts.get(receipt)

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
        for id in workspace.records.keys() | workspace.contenders.keys():
            before, after = resting_under(self, id), resting_under(workspace, id)
            self._rest(id, before, after)
        for id, record in workspace.records.items():
            self._hold(id, record)
        for id, contenders in workspace.contenders.items():
            self._contend(id, contenders)
        for id in workspace.erased:
            self._erase(id)
        for id, other in workspace.lineages:
            self.lineages.setdefault(id, set()).add(other)
        for past in workspace.versions:
            self.versions.setdefault(past.record.id, []).append(past)
            self._toggle(past.record.id, digest.past_digest(past))
        for rejection, stands in workspace.rejections.items():
            if stands != (rejection in self.rejections):
                self.rejections ^= {rejection}
                self._toggle(rejection[0], digest.rejection_digest(*rejection))
        for retraction, stands in workspace.retractions.items():
            if stands != (retraction in self.retractions):
                self.retractions ^= {retraction}
                self._toggle(retraction[0], digest.retraction_digest(*retraction))
        self._apply_trust(workspace)
        self.outcomes.update(workspace.outcomes)
        self.settings.update(workspace.settings)
        self._time_us = workspace.time_us()
        self._move_window(workspace.window())

    def _apply_trust(self, workspace: Workspace) -> None:
        for key, principal in workspace.principals.items():
            for row in filter(None, (self.principals.get(key), principal)):
                self._toggle(key, digest.principal_digest(row))
            self.principals[key] = principal
        for id, token in workspace.tokens.items():
            for row in filter(None, (self.tokens.get(id), token)):
                self._toggle(id, digest.token_digest(row))
            self.tokens[id] = token
        for receipt, id in workspace.receipts.items():
            if receipt not in self.receipts:
                self._toggle(receipt, digest.receipt_digest(receipt, id))
            self.receipts[receipt] = id

    def buckets(self) -> list[bytes]:
        """The digest of each of the 256 buckets, 32 bytes each."""
        return [value.to_bytes(digest.DIGEST_BYTES, "big") for value in self._buckets]

    def state_digest(self) -> bytes:
        """One digest of everything: two states with the same history have the same, 32 bytes."""
        outcomes = sorted(self.outcomes.items())
        rest = (outcomes, sorted(self.settings.items()), self._window, self._time_us)
        return sha256(b"".join(self.buckets()) + digest.row_bytes(rest)).digest()

    def _erase(self, id: bytes) -> None:
        before = self.versions.get(id, [])
        after = [past.without_content for past in before]
        for past in (*before, *after):
            self._toggle(id, digest.past_digest(past))
        if after:
            self.versions[id] = after

    def _rest(self, id: bytes, before: set[bytes], after: set[bytes]) -> None:
        for source in after - before:
            self.dependants.setdefault(source, set()).add(id)
        for source in before - after:
            self.dependants[source].discard(id)

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


def resting_under(state: State, id: bytes) -> set[bytes]:
    """The records on which the values that are held or contend under that id rest."""
    record = state.record(id)
    rows = state.contending(id) if record is None else (record, *state.contending(id))
    return {source for row in rows for source, _ in row.grounds if source}


def _witnesses(versions: Iterable[PastVersion], id: bytes) -> Iterator[Witness]:
    return (Witness(past.record.value_digest, past.record.sources) for past in versions if past.record.id == id)
