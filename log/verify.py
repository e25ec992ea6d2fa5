"""Verification: anybody who has the history can check it, and needs to trust nobody but the founders' keys.

Nothing is taken on faith that a signature can prove. The cluster's id is a hash over its founding members' keys; they
sign the configurations that name later members; whoever was a member may have led, so the keys of all are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from ..security.keys import SignatureCheck, verify_many
from .canonical import NotCanonical, decode
from .configuration import Configuration, QuorumError, cluster_id
from .entry import CONFIGURED, ELECTED, Anchor, Entry, Envelope
from .errors import LogDamaged
from .flaws import Flaw, require_content, require_link, require_sealed
from .lineage import Ancestor, Resumption, resumed_id
from .seal import Seal, sealed_bytes

SIGNATURES_PER_GROUP = 512
"""So many signatures are checked at a time: enough for two threads to share, little enough to show progress."""

MayLack = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. `bad_index` is the first entry that does not verify, and `what` says why; None: all do.

    `last` is the last good entry. `unsealed` counts the entries after the last seal, which no leader's signature covers
    yet; `erased` counts missing bodies. When something is bad, the counts are those of what was read by then.
    """

    last: Anchor
    seals: int
    unsealed: int
    erased: int
    configuration: Configuration | None
    bad_index: int | None = None
    what: str = ""
    ancestors: tuple[Ancestor, ...] = ()
    """Histories that end within this one, oldest first."""

    @property
    def is_good(self) -> bool:
        """Whether all of it verified."""
        return self.bad_index is None


def verify(
    history: Iterable[tuple[Entry, Seal | None]],
    cluster: str,
    name: str,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    may_lack: MayLack | None = None,
) -> Verification:
    """Verify a history from its first entry on, each entry given with its seal, if it has one.

    `cluster` and `name` are the cluster's id and name. Signatures are checked in the threads of `executor`, if given.
    `progress` hears the index reached, now and then. `may_lack(index, place)` says which bodies may be missing, because
    an entry erased them; without it, none may. Stops at the first entry that is bad.
    """
    verifier = _Verifier(cluster, name, executor, may_lack)
    try:
        verifier.take_all(history, progress)
    except _Bad as bad:
        return verifier.found(bad.index, bad.what)
    return verifier.found(None, "")


class _Bad(Exception):
    def __init__(self, index: int, what: str) -> None:
        super().__init__(index, what)
        self.index = index
        self.what = what


class _Verifier:
    def __init__(self, cluster: str, name: str, executor: Executor | None, may_lack: MayLack | None) -> None:
        self._cluster = self._history = cluster
        self._name = name
        self._executor = executor
        self._may_lack = may_lack
        self._good = self._read = Anchor()
        self._seals = self._sealed_index = self._erased = 0
        self._configuration: Configuration | None = None
        self._ancestors: list[Ancestor] = []
        self._keys: dict[str, bytes] = {}
        self._leaders: dict[int, str] = {}
        self._checks: list[SignatureCheck] = []
        self._subjects: list[tuple[int, str]] = []

    def take_all(self, history: Iterable[tuple[Entry, Seal | None]], progress: Callable[[int], None] | None) -> None:
        """Verify one entry after another; raises `_Bad` at the first that is bad."""
        try:
            for entry, seal in history:
                self._take(entry, seal)
                if len(self._checks) >= SIGNATURES_PER_GROUP:
                    self._settle()
                    if progress is not None:
                        progress(self._good.index)
        except Flaw as flaw:
            self._settle()
            raise _Bad(self._read.index + 1, str(flaw)) from flaw
        except LogDamaged as damage:
            self._settle()
            raise _Bad(damage.index or self._read.index + 1, str(damage)) from damage
        self._settle()
        if self._history != self._cluster:
            self._good = Anchor()
            raise _Bad(1, f"its founding members are not those of cluster {self._cluster} ({self._name})")

    def found(self, bad_index: int | None, what: str) -> Verification:
        """The findings so far."""
        unsealed = self._read.index - self._sealed_index
        return Verification(
            self._good, self._seals, unsealed, self._erased, self._configuration, bad_index, what,
            tuple(self._ancestors),
        )  # fmt: skip

    def _take(self, entry: Entry, seal: Seal | None) -> None:
        require_link(entry, self._read)
        envelope = require_content(entry)
        self._enter_history(entry, envelope)
        if envelope.cluster != self._history:
            raise Flaw(f"the envelope was signed for cluster {envelope.cluster}")
        self._check_erasures(entry)
        self._check_commands(entry, envelope)
        self._queue(entry.index, "the author's signature", envelope.author, envelope.signed_bytes, entry.signature)
        if seal is not None:
            self._check_seal(entry, seal)
        self._read = Anchor.at(entry)

    def _enter_history(self, entry: Entry, envelope: Envelope) -> None:
        """A history begins with its founding, or where another one ends; its id is a hash over that beginning."""
        try:
            configuration, resumption = entry.configuration, entry.resumption
        except (NotCanonical, QuorumError) as error:
            raise Flaw(f"not a configuration: {error}") from error
        if configuration is None:
            return
        if entry.index == 1:
            self._history = cluster_id(self._name, configuration)
            if envelope.cluster != self._history:
                raise Flaw(f"its founding members are not those of cluster {envelope.cluster} ({self._name})")
        elif resumption is not None:
            self._require_end(entry, resumption)
            self._ancestors.append(Ancestor(self._history, resumption.last))
            self._history = resumed_id(self._name, configuration, resumption)
            self._keys.update((m.id, m.public_key) for m in configuration.members if m.id not in self._keys)

    def _require_end(self, entry: Entry, resumption: Resumption) -> None:
        if (resumption.origin, resumption.last, resumption.hash) != (self._history, self._read.index, self._read.hash):
            raise Flaw(f"it does not go on where history {resumption.origin} ends")
        if entry.epoch <= self._read.epoch:
            raise Flaw("a history that goes on does so in an epoch of its own")

    def _check_erasures(self, entry: Entry) -> None:
        for place, body in enumerate(entry.bodies):
            if body is None:
                if self._may_lack is None or not self._may_lack(entry.index, place):
                    raise Flaw(f"body {place} is missing, and no entry erased it")
                self._erased += 1

    def _check_commands(self, entry: Entry, envelope: Envelope) -> None:
        events = _events(entry, len(envelope.commands))
        match [head.kind for head in envelope.commands]:
            case [kind] if kind == CONFIGURED:
                self._check_configured(entry, envelope.author)
            case _ if entry.index == 1:
                raise Flaw("the history does not begin with its founding configuration")
            case [kind] if kind == ELECTED:
                self._check_elected(entry, events[0], envelope.author)
            case kinds if CONFIGURED in kinds or ELECTED in kinds:
                raise Flaw("an entry of the cluster itself holds other commands too")
            case _ if envelope.on_behalf and envelope.author not in self._keys.values():
                raise Flaw(f"signed on behalf of {envelope.on_behalf!r} by a key that was never a member's")
            case _:
                pass

    def _check_configured(self, entry: Entry, author: bytes) -> None:
        try:
            configuration = entry.configuration
        except (NotCanonical, QuorumError) as error:
            raise Flaw(f"not a configuration: {error}") from error
        assert configuration is not None, "the kind was read from the same envelope"
        if self._configuration is None:
            self._keys = {member.id: member.public_key for member in configuration.members}
        if author not in self._keys.values():
            raise Flaw("a configuration signed by a key that was never a member's")
        for member in configuration.members:
            if self._keys.setdefault(member.id, member.public_key) != member.public_key:
                raise Flaw(f"member {member.id} has another key than before")
        self._configuration = configuration

    def _check_elected(self, entry: Entry, event: Any, author: bytes) -> None:
        match event:
            case [int(epoch), str(node)] if epoch == entry.epoch and self._keys.get(node) == author:
                self._require_leader(epoch, node)
            case _:
                raise Flaw("an election that its winner did not sign, or of another epoch")

    def _check_seal(self, entry: Entry, seal: Seal) -> None:
        require_sealed(entry, seal)
        key = self._keys.get(seal.sealer)
        if key is None:
            raise Flaw(f"sealed by {seal.sealer}, who was never a member")
        self._require_leader(seal.epoch, seal.sealer)
        message = sealed_bytes(self._history, seal.epoch, seal.index, seal.hash)
        self._queue(entry.index, "the seal's signature", key, message, seal.signature)
        self._seals += 1
        self._sealed_index = entry.index

    def _require_leader(self, epoch: int, node: str) -> None:
        if self._leaders.setdefault(epoch, node) != node:
            raise Flaw(f"epoch {epoch} has two leaders, {self._leaders[epoch]} and {node}")

    def _queue(self, index: int, what: str, key: bytes, message: bytes, signature: bytes) -> None:
        self._checks.append(SignatureCheck(key, message, signature))
        self._subjects.append((index, what))

    def _settle(self) -> None:
        """Check the signatures that were queued; everything that was read is good then."""
        results = verify_many(self._checks, self._executor)
        for (index, what), is_good in zip(self._subjects, results, strict=True):
            if not is_good:
                raise _Bad(index, f"{what} does not verify")
        self._checks.clear()
        self._subjects.clear()
        self._good = self._read


def _events(entry: Entry, count: int) -> list[Any]:
    try:
        value: list[Any] = decode(entry.events)
    except NotCanonical as error:
        raise Flaw(f"the events are malformed: {error}") from error
    match value:
        case [*events] if len(events) == count:
            return events
        case _:
            raise Flaw(f"the events are not a list with one item for each of {count} commands")
