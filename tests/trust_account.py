"""What may be believed (MEMORY § 3), by an account that is kept apart from the rules.

It follows the commands that were accepted: who said what, what was rejected, who may do what, which receipts are good.
It shares no code with the deciders but the digests of values and the matching of scopes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from projection_world import World

from veridical.memory import commands as c
from veridical.memory import trust_commands as t
from veridical.memory.interference import value_digest
from veridical.memory.machine import Outcome
from veridical.memory.record import CANDIDATE, EPISODE, REJECTED, VERIFIED, Record
from veridical.memory.scope import scope_matches
from veridical.security.digests import DigestKey

DIGESTS = DigestKey(bytes(32))  # as the world has it
STATEMENTS = frozenset({c.WRITE, c.CORROBORATE, c.CORRECT})


class Asked(NamedTuple):
    """One command, and what the account has to know of it: `good` says of a receipt that it ought to count."""

    kind: str
    body: c.Body
    author: bytes | None
    good: bool = False


class Account:
    """What may be believed, by an account that is kept apart from the rules."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._guarded = False
        self._identity: dict[bytes, bytes] = {}  # of keys in force
        self._rights: dict[bytes, set[tuple[str, str]]] = defaultdict(set)
        self._voices: dict[tuple[bytes, bytes], set[object]] = defaultdict(set)
        self._before: dict[bytes, dict[tuple[bytes, bytes], set[object]]] = {}  # the last event about a record
        self._versions: dict[bytes, int] = defaultdict(int)
        self._against: dict[tuple[bytes, bytes], set[bytes]] = defaultdict(set)
        self._verified: set[tuple[bytes, bytes]] = set()
        self._spent: set[str] = set()
        self.rejected: set[tuple[bytes, bytes]] = set()

    def take(self, asked: Asked, outcome: Outcome, before: dict[bytes, Record]) -> None:
        """Take a command into account, and check what it did to what is believed."""
        records = self._world.memory.records
        if outcome.code in ("refused", "conflict"):
            assert records == before, f"{outcome} changed something"
            return
        said = {key: set(voices) for key, voices in self._voices.items()}
        self._heard(asked, outcome, before)
        self._remember(asked, said)
        for id, record in records.items():
            self._check(asked, before.get(id), record)
        self._keep_ledger(asked, outcome, before)
        self._check_ledger()
        self._know(asked)

    def may(self, author: bytes | None, right: str, scope: str) -> bool:
        """Whether that right was given to that author there."""
        if not self._guarded:
            return True
        held = self._rights[author] if author in self._identity else set[tuple[str, str]]()
        return any(right == one and scope_matches(pattern, scope) for pattern, one in held)

    # --- who said what

    def _heard(self, asked: Asked, outcome: Outcome, before: dict[bytes, Record]) -> None:
        id, body = outcome.record_id, asked.body
        record = self._world.memory.record(id)
        if isinstance(body, c.WriteBody | c.CorrectBody | c.CorroborateBody) and outcome.code != "unchanged":
            value = self._value(body, record)
            old = before.get(id)
            is_anew = asked.kind == c.WRITE and outcome.code == "asserted"  # also where what was held had expired
            if is_anew or old is None or old.value_digest != value:
                self._voices[id, value].clear()
            speaker = self._speaker(asked, before)
            if speaker is not None:
                self._voices[id, value].add(speaker)
        if isinstance(body, c.WithdrawBody) and body.id in before and asked.author is not None:
            value = before[body.id].value_digest
            self._voices[body.id, value].discard(self._identity.get(asked.author))
        if isinstance(body, c.ContradictBody) and asked.author is not None and body.id in before:
            author = self._identity.get(asked.author, asked.author)
            self._against[body.id, before[body.id].value_digest].add(author)

    def _remember(self, asked: Asked, said: dict[tuple[bytes, bytes], set[object]]) -> None:
        """What is taken back brings those back who said it before the event that is taken back."""
        if isinstance(asked.body, t.UndoBody):
            for key, voices in self._before.get(asked.body.id, {}).items():
                self._voices[key] |= voices
        for id, versions in self._world.memory.versions.items():
            if len(versions) != self._versions[id]:
                self._versions[id] = len(versions)
                self._before[id] = {key: voices for key, voices in said.items() if key[0] == id}

    @staticmethod
    def _value(body: c.WriteBody | c.CorrectBody | c.CorroborateBody, record: Record | None) -> bytes:
        if isinstance(body, c.CorroborateBody):
            return b"" if record is None else record.value_digest
        return value_digest(body.text, DIGESTS)

    def _speaker(self, asked: Asked, before: dict[bytes, Record]) -> object:
        """Who counts for this statement: an enrolled author, or whom one answers for; nobody where it is derived."""
        body = asked.body
        if isinstance(body, c.WriteBody):
            if body.source.startswith("recall:"):
                return None
            named = [before[id] for id in body.derived_from if id in before]
            if body.derived_from and not any(record.kind == EPISODE for record in named):
                return None
            if body.vouched:
                return body.vouched if self.may(asked.author, "vouch", body.scope) else None
        return None if asked.author is None else self._identity.get(asked.author)

    def _in_force(self, id: bytes, value: bytes) -> int:
        enrolled = set(self._identity.values())
        return sum(isinstance(one, str) or one in enrolled for one in self._voices[id, value])

    # --- what became of it

    def _check(self, asked: Asked, old: Record | None, new: Record) -> None:
        same = old is not None and old.value_digest == new.value_digest
        was = old.trust if old is not None and same else CANDIDATE
        if new.trust == VERIFIED:
            if was != VERIFIED:
                assert self._may_verify(asked, new), f"{asked.kind} verified {new}"
            if new.confirmed:
                assert len(new.authenticated) >= 2
            self._verified.add((new.id, new.value_digest))
        else:
            assert not new.confirmed
        if new.trust == REJECTED and was != REJECTED:
            assert self._may_reject(asked, new, was), f"{asked.kind} rejected {new}"

    def _may_verify(self, asked: Asked, record: Record) -> bool:
        """The ways into `verified`, and the taking back of what led out of it."""
        body = asked.body
        match asked.kind:
            case t.APPROVE | t.EDIT | c.PROMOTE | t.UNDO:
                assert isinstance(body, t.ReviewBody | t.EditBody | c.PromoteBody | t.UndoBody)
                earned = asked.kind != t.UNDO or (record.id, record.value_digest) in self._verified
                return body.id == record.id and earned and self.may(asked.author, "review", record.scope)
            case t.ATTEST:
                assert isinstance(body, t.AttestBody)
                fresh = body.evidence not in self._spent
                return body.id == record.id and asked.good and fresh and '"pass"' in body.evidence
            case t.MARK_FIXED:
                return record.kind == "failure" and self.may(asked.author, "write", record.scope)
            case _:
                return asked.kind in STATEMENTS and self._in_force(record.id, record.value_digest) >= 2

    def _may_reject(self, asked: Asked, record: Record, was: str) -> bool:
        body = asked.body
        is_reviewer = self.may(asked.author, "review", record.scope)
        match asked.kind:
            case t.REJECT | c.DEMOTE | t.UNDO:
                return is_reviewer
            case t.ATTEST:
                assert isinstance(body, t.AttestBody)
                return asked.good and '"fail"' in body.evidence
            case c.CONTRADICT:
                alone = len(self._against[record.id, record.value_digest]) < 2
                return was != VERIFIED or is_reviewer or not alone
            case _:
                return False

    def _keep_ledger(self, asked: Asked, outcome: Outcome, before: dict[bytes, Record]) -> None:
        body = asked.body
        if isinstance(body, t.ReviewBody) and outcome.code == "dismissed":
            self.rejected.add((body.id, body.value))
        if isinstance(body, t.RevokeRejectionBody) and outcome.code == "rejection_revoked":
            assert self.may(asked.author, "review", before[body.id].scope if body.id in before else "*")
            value = value_digest(body.text, DIGESTS) if body.text else before[body.id].value_digest
            self.rejected.discard((body.id, value))
        if isinstance(body, t.UndoBody) and body.id in before and before[body.id].trust == REJECTED:
            returned = self._world.memory.record(body.id)
            if returned is not None and returned.value_digest == before[body.id].value_digest:
                self.rejected.discard((body.id, returned.value_digest))
        for record in self._world.memory.records.values():
            if record.trust == REJECTED:
                self.rejected.add((record.id, record.value_digest))

    def _check_ledger(self) -> None:
        """What was rejected is remembered, nothing else is, and no record that can be recalled holds it."""
        memory = self._world.memory
        assert memory.rejections == self.rejected
        for id, value in self.rejected:
            record = memory.record(id)
            assert record is None or record.value_digest != value or record.trust == REJECTED
            assert all(row.value_digest != value for row in memory.contending(id))

    # --- who may do what

    def _know(self, asked: Asked) -> None:
        match asked.body:
            case t.EnrollBody(key, _, grants):
                self._guarded = True
                self._identity[key] = key
                self._rights[key] = {(pattern, right) for pattern, rights in grants for right in rights}
            case t.RevokeBody(key):
                self._identity.pop(key, None)
            case t.RotateBody(key, successor):
                self._identity[successor] = self._identity.pop(key)
                self._rights[successor] = self._rights.pop(key)
            case t.GrantBody(key, pattern, rights) if asked.kind == t.GIVE:
                self._rights[key] |= {(pattern, right) for right in rights}
            case t.GrantBody(key, pattern, rights):
                self._rights[key] = {
                    (held, right)
                    for held, right in self._rights[key]
                    if right not in rights or not scope_matches(pattern, held)
                }
            case t.AttestBody(_, evidence):
                self._spent.add(evidence)
            case _:
                pass
