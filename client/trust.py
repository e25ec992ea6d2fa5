"""The calls about trust: who may do what, what reviewers and graders find, what is taken back, what is shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from ..memory import commands, trust_commands
from ..memory.errors import Invalid, OutcomeUnknown, Refused
from ..memory.fields import json_text
from ..memory.importing import imported_belief
from ..memory.lattice import SIBLINGS_NEEDED, ScopeLattice, graduations
from ..memory.ranking import best_of
from ..memory.record import Record
from ..memory.scope import normal_pattern, normal_scope
from ..memory.view import Done, MemoryKind, MemoryRecord, RecordVersion, Trust
from ..security.principal import Principal
from . import answers
from .answers import Answer, Records
from .requests import Moment, optional_value, record_id

if TYPE_CHECKING:
    from ..verdict import GateReceipt

REVIEWED: Final = "reviewed"
KEY_BYTES: Final = 32
RECALL_LIMIT: Final = 1_000
"""How many hits a node gives at most."""

CONFLICTED: Final = "conflicted"

Key = Principal | str
"""A principal, or its public key in hex (its `key_id`)."""

Grants = Mapping[str, str | Sequence[str]]
"""Rights by scope pattern: `{"team:platform/**": ["read", "write"]}`."""

Evidence = Mapping[str, Any]
"""A gate receipt as its `model_dump()` has it."""


class SignedWrite(TypedDict):
    """What became of a signed write. `author` is the key that signed it, in hex.

    `written`: it is what the memory holds. `conflict`: another principal's verified value stands, and this one waits
    beside it for a reviewer. `reverified`: evidence came with it and verified it; `reason` says all of this in words.
    """

    authenticated: bool
    written: bool
    reverified: bool
    conflict: bool
    author: str
    id: str
    outcome: str
    reason: str


class Attested(NamedTuple):
    """Whether the evidence of a signed write was taken; if not, what stood against it."""

    taken: bool
    reason: str


class TrustCalls(ABC):
    """The part of an `AsyncMemory` that concerns trust. `command_id` (hex) repeats a call whose outcome is not known.

    A call for which the memory's principal has no right raises `Refused` (`not_granted`). While nobody is enrolled,
    whoever opened the memory is its operator and has all rights.
    """

    @abstractmethod
    async def _commanded(
        self,
        kind: str,
        body: commands.Body,
        command_id: str | None,
        timeout_s: float | None,
        principal: Principal | None = None,
    ) -> Answer: ...

    @abstractmethod
    async def _mutation(
        self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None
    ) -> MemoryRecord: ...

    @abstractmethod
    async def _written(
        self, bodies: Sequence[commands.WriteBody], command_ids: Sequence[str] | None, timeout_s: float | None
    ) -> list[MemoryRecord | Refused]: ...

    @abstractmethod
    def _new_command_id(self) -> str: ...

    @abstractmethod
    async def _held(self, scopes: Sequence[str], trust: Trust, timeout_s: float | None) -> list[Record]:
        """All rows in those scopes in that state of trust."""

    @abstractmethod
    async def recall(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = None,
        kind: MemoryKind | None = None,
        k: int = 5,
        trust: Trust | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Records:
        """See `MemoryView.recall`."""

    async def _done(self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None) -> Done:
        return answers.done(await self._commanded(kind, body, command_id, timeout_s))

    # --- who may do what ----------------------------------------------------------------------------------------------

    async def enroll(
        self,
        key: Key,
        public_key: str | None = None,
        *,
        name: str = "",
        grants: Grants | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Know a principal from now on, with these rights. `public_key` (base64) must be that key, when it is given.

        The first one guards the memory for good: it must hold the right `admin` in `*`. Needs that right afterwards.
        """
        raw = key_of("key", key)
        if public_key is not None and public_key_of(public_key) != raw:
            raise Invalid("public_key", "is not that of the key id")
        pairs = tuple((normal_pattern(pattern), rights_of(rights)) for pattern, rights in (grants or {}).items())
        body = trust_commands.EnrollBody(raw, name, pairs)
        return await self._done(trust_commands.ENROLL, body, command_id, timeout_s)

    async def revoke(
        self, key: Key, *, reason: str, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """From now on nothing counts that this key signs, nor the support that it gave."""
        body = trust_commands.RevokeBody(key_of("key", key), reason)
        return await self._done(trust_commands.REVOKE, body, command_id, timeout_s)

    async def rotate(
        self, key: Key, successor: Principal, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """The same principal goes on with the key of `successor`, which signs that it agrees."""
        raw = key_of("key", key)
        proof = successor.sign(trust_commands.rotation_message(raw, successor.public_key))
        body = trust_commands.RotateBody(raw, successor.public_key, proof)
        return await self._done(trust_commands.ROTATE, body, command_id, timeout_s)

    async def grant(
        self,
        key: Key,
        pattern: str,
        rights: str | Sequence[str],
        *,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Give an enrolled principal rights in all scopes of a pattern (`exact`, `a/**`, `kind:*`, `*`)."""
        body = trust_commands.GrantBody(key_of("key", key), normal_pattern(pattern), rights_of(rights))
        return await self._done(trust_commands.GIVE, body, command_id, timeout_s)

    async def ungrant(
        self,
        key: Key,
        pattern: str,
        rights: str | Sequence[str],
        *,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Take rights in all scopes of a pattern. Raises `Refused` (`broader_grant`) where a broader one gives them."""
        body = trust_commands.GrantBody(key_of("key", key), normal_pattern(pattern), rights_of(rights))
        return await self._done(trust_commands.TAKE, body, command_id, timeout_s)

    # --- what reviewers and graders find ------------------------------------------------------------------------------

    async def approve(
        self,
        id: str,
        *,
        value: str = "",
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Verify what is held, or let the contending value with that digest (hex) take its place, as verified."""
        body = trust_commands.ReviewBody(record_id(id), optional_value(value), reason)
        return await self._mutation(trust_commands.APPROVE, body, command_id, timeout_s)

    async def reject(
        self,
        id: str,
        *,
        value: str = "",
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Reject what is held, or the contending value with that digest (hex): for good, in every spelling of it."""
        body = trust_commands.ReviewBody(record_id(id), optional_value(value), reason)
        return await self._mutation(trust_commands.REJECT, body, command_id, timeout_s)

    async def edit(
        self,
        id: str,
        text: str,
        *,
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Put this text in the place of what is held, as verified. Raises `Refused` for one that was rejected."""
        body = trust_commands.EditBody(record_id(id), text, reason)
        return await self._mutation(trust_commands.EDIT, body, command_id, timeout_s)

    async def revoke_rejection(
        self,
        id: str,
        text: str = "",
        *,
        reason: str,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Let a rejected value be asserted again under that id: the one held, or this text."""
        body = trust_commands.RevokeRejectionBody(record_id(id), text, reason)
        return await self._done(trust_commands.REVOKE_REJECTION, body, command_id, timeout_s)

    async def undo(
        self,
        id: str,
        event: RecordVersion,
        *,
        reason: str,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord | None:
        """Take the last event about a record back: its `version`, or the `event` of a `Done`. None: it is gone by that.

        Raises `Refused` (`overtaken`) for an earlier event; undo the later ones first.
        """
        body = trust_commands.UndoBody(record_id(id), (event.epoch, event.index, event.place), reason)
        return answers.written_or_gone(await self._commanded(trust_commands.UNDO, body, command_id, timeout_s))

    async def erase(
        self, id: str, *, reason: str, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """Forget a record, and destroy all that was ever said under its id: in rows, log and index, on every node.

        Takes the right `admin` in its scope. Each node destroys what it has once it has folded this, moments after the
        answer; a node that is down does when it is back. It cannot be undone. What was forgotten before can be erased.
        """
        body = trust_commands.EraseBody(record_id(id), reason)
        return await self._done(trust_commands.ERASE, body, command_id, timeout_s)

    async def attest(
        self,
        id: str,
        receipt: GateReceipt | Evidence,
        *,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Bring a gate's receipt about this very claim: a pass verifies it, a fail rejects it, each receipt once."""
        body = trust_commands.AttestBody(record_id(id), evidence_of(receipt))
        return await self._mutation(trust_commands.ATTEST, body, command_id, timeout_s)

    async def mark_fixed(
        self, id: str, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """Of a failure: it was fixed. Its record is verified and pinned, so that it is known when it comes back."""
        body = trust_commands.FixBody(record_id(id))
        return await self._mutation(trust_commands.MARK_FIXED, body, command_id, timeout_s)

    # --- what is shared -----------------------------------------------------------------------------------------------

    async def remember_signed(
        self,
        author: Principal,
        *,
        subject: str,
        predicate: str,
        text: str,
        scope: str = "global",
        evidence: GateReceipt | Evidence | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> SignedWrite:
        """Write a fact in the name of `author`, who signs it; with `evidence` it is verified, if that is about it.

        A write that a rule stands against raises `Refused`; evidence that is not taken leaves it a candidate, and
        `reason` says why. `evidence` must be about subject, predicate and text to the letter.
        """
        fact = MemoryRecord(subject=subject, predicate=predicate, text=text, scope=scope)
        proof = None if evidence is None else evidence_of(evidence)
        id = self._new_command_id() if command_id is None else command_id
        answer = await self._commanded(commands.WRITE, fact.write_body(), id, timeout_s, author)
        record = answers.written(answer)
        conflict = record.outcome == CONFLICTED
        reason = f"written as {record.trust.value} (authenticated)"
        reverified = False
        if conflict:
            reason = "another principal's verified value stands; this one waits beside it for a review"
        elif proof is not None:
            reverified, reason = await self._attested(record.id, proof, id, timeout_s, author)
        return SignedWrite(
            authenticated=True,
            written=not conflict,
            reverified=reverified,
            conflict=conflict,
            author=author.key_id,
            id=record.id,
            outcome=record.outcome,
            reason=reason,
        )

    async def _attested(
        self, id: str, proof: str, write_id: str, timeout_s: float | None, author: Principal
    ) -> Attested:
        """Bring the evidence of a signed write, under a command id that a repetition of the write finds again."""
        body = trust_commands.AttestBody(record_id(id), proof)
        try:
            answer = await self._commanded(trust_commands.ATTEST, body, following_id(write_id), timeout_s, author)
            answers.refuse(answer)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(write_id, error.reason) from error
        except Refused as refusal:
            return Attested(False, f"written, but the evidence was not taken: {refusal}")
        return Attested(True, "verified by a fact-bound attestation")

    async def write_vouched(
        self,
        records: Sequence[MemoryRecord],
        speaker: str,
        *,
        command_ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """`write_many` in the name of `speaker`, whom the caller has authenticated: a key in hex, or another identity.

        Needs the right `vouch` where the records go. What enough such speakers say is verified.
        """
        if not speaker.strip():
            raise Invalid("speaker", "is empty; name whom you have authenticated")
        bodies = [record.write_body()._replace(vouched=speaker.strip()) for record in records]
        return await self._written(bodies, command_ids, timeout_s)

    async def import_belief(
        self,
        record: MemoryRecord,
        peer: str,
        *,
        scope: str | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Take in what another memory believes, as a candidate that it must earn anew; `ignored` lists what is lost."""
        return await self._mutation(commands.WRITE, imported_belief(record, peer, scope), command_id, timeout_s)

    async def set_scope_parent(
        self, scope: str, parent: str | None, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """From now on `scope` lies within `parent`, or within none. Raises `Refused` (`lattice_cycle`)."""
        place = (normal_scope(scope), "" if parent is None else normal_scope(parent))
        body = commands.SettingBody(commands.LATTICE, place)
        return await self._done(commands.SETTING, body, command_id, timeout_s)

    async def set_multi_valued(
        self, pattern: str, predicate: str, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """From now on this predicate holds values side by side in the scopes of that pattern. A declaration stays."""
        body = commands.SettingBody(commands.MULTI_VALUED, (normal_pattern(pattern), predicate.strip()))
        return await self._done(commands.SETTING, body, command_id, timeout_s)

    async def graduate(
        self,
        parent: str,
        children: Sequence[str],
        *,
        min_scopes: int = SIBLINGS_NEEDED,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """Lift to `parent`, as candidates, what is verified in at least `min_scopes` of the scopes below it."""
        found = await self._held(children, Trust.VERIFIED, timeout_s)
        return await self._written(graduations(found, parent, children, min_scopes), None, timeout_s)

    async def lattice_recall(
        self,
        query: str,
        *,
        scope: str,
        lattice: ScopeLattice,
        kind: MemoryKind | None = None,
        k: int = 5,
        trust: Trust | None = None,
        as_of: Moment = None,
        valid_at: Moment = None,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Records:
        """`recall` in a scope and in all that it lies within; of hits that are equally good the more specific first."""
        scopes = lattice.resolve(scope)
        wanted = min(k * len(scopes), max(k, RECALL_LIMIT))
        hits = await self.recall(
            query,
            scope=scopes,
            kind=kind,
            k=wanted,
            trust=trust,
            as_of=as_of,
            valid_at=valid_at,
            consistency=consistency,
            timeout_s=timeout_s,
        )
        hits.sort(key=lambda hit: (-(hit.score or 0.0), scopes.index(hit.scope)))
        hits[:] = best_of(hits, k, lambda hit: hit.trust == Trust.VERIFIED)
        return hits


# --- arguments ------------------------------------------------------------------------------------------------------


def key_of(field: str, key: Key) -> bytes:
    """The public key that is meant, 32 bytes. Raises `Invalid`."""
    if isinstance(key, Principal):
        return key.public_key
    try:
        raw = bytes.fromhex(key)
    except (ValueError, TypeError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise Invalid(field, f"{key!r} is not a principal, nor a public key in 64 hex digits")
    return raw


def public_key_of(text: str) -> bytes:
    """A public key as `Principal.enroll` writes it. Raises `Invalid`."""
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise Invalid("public_key", f"is not base64: {error}") from error


def rights_of(rights: str | Sequence[str]) -> tuple[str, ...]:
    """Rights by name; a single one may stand alone."""
    return (rights,) if isinstance(rights, str) else tuple(rights)


def evidence_of(receipt: GateReceipt | Evidence) -> str:
    """A gate receipt as JSON. Raises `Invalid` for what JSON cannot hold."""
    fields = receipt if isinstance(receipt, Mapping) else receipt.model_dump(mode="json")
    return json_text("evidence", fields)


def following_id(command_id: str) -> str:
    """The id of a command that follows another one of the same call."""
    raw = record_id(command_id)
    return (raw[:-1] + bytes([raw[-1] ^ 1])).hex()
