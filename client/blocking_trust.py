"""The calls that concern trust, for programs without an event loop: the same promises, blocking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..memory.errors import Refused
from ..memory.lattice import SIBLINGS_NEEDED, ScopeLattice
from ..memory.view import Done, MemoryKind, MemoryRecord, RecordVersion, Trust
from ..security.principal import Principal
from .answers import Records
from .requests import Moment
from .trust import REVIEWED, Evidence, Grants, Key, SignedWrite

if TYPE_CHECKING:
    from ..verdict import GateReceipt
    from .surface import AsyncMemory

Result = TypeVar("Result")


class BlockingTrustCalls(ABC):
    """The part of a `BlockingMemory` that concerns trust. See `TrustCalls`."""

    @abstractmethod
    def _change(
        self,
        command_id: str | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, str, float], Coroutine[Any, Any, Result]],
    ) -> Result:
        """Run a call that changes something, under that command id or a new one."""

    @abstractmethod
    def _question(
        self, timeout_s: float | None, call: Callable[[AsyncMemory, float], Coroutine[Any, Any, Result]]
    ) -> Result:
        """Run a call that changes nothing."""

    @abstractmethod
    def _written_many(
        self,
        records: Sequence[MemoryRecord],
        command_ids: Sequence[str] | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, list[str], float], Coroutine[Any, Any, list[MemoryRecord | Refused]]],
    ) -> list[MemoryRecord | Refused]:
        """Run a call that writes many records, under those command ids or new ones."""

    # --- who may do what ----------------------------------------------------------------------------------------------

    def enroll(
        self,
        key: Key,
        public_key: str | None = None,
        *,
        name: str = "",
        grants: Grants | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """See `TrustCalls.enroll`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.enroll(
                key, public_key, name=name, grants=grants, command_id=command, timeout_s=left
            ),
        )

    def revoke(self, key: Key, *, reason: str, command_id: str | None = None, timeout_s: float | None = None) -> Done:
        """See `TrustCalls.revoke`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.revoke(key, reason=reason, command_id=command, timeout_s=left),
        )

    def rotate(
        self, key: Key, successor: Principal, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `TrustCalls.rotate`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.rotate(key, successor, command_id=command, timeout_s=left),
        )

    def grant(
        self,
        key: Key,
        pattern: str,
        rights: str | Sequence[str],
        *,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """See `TrustCalls.grant`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.grant(key, pattern, rights, command_id=command, timeout_s=left),
        )

    def ungrant(
        self,
        key: Key,
        pattern: str,
        rights: str | Sequence[str],
        *,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """See `TrustCalls.ungrant`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.ungrant(key, pattern, rights, command_id=command, timeout_s=left),
        )

    # --- what reviewers and graders find ------------------------------------------------------------------------------
    def approve(
        self,
        id: str,
        *,
        value: str = "",
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `TrustCalls.approve`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.approve(
                id, value=value, reason=reason, command_id=command, timeout_s=left
            ),
        )

    def reject(
        self,
        id: str,
        *,
        value: str = "",
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `TrustCalls.reject`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.reject(
                id, value=value, reason=reason, command_id=command, timeout_s=left
            ),
        )

    def edit(
        self,
        id: str,
        text: str,
        *,
        reason: str = REVIEWED,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `TrustCalls.edit`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.edit(id, text, reason=reason, command_id=command, timeout_s=left),
        )

    def revoke_rejection(
        self, id: str, text: str = "", *, reason: str, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `TrustCalls.revoke_rejection`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.revoke_rejection(
                id, text, reason=reason, command_id=command, timeout_s=left
            ),
        )

    def undo(
        self,
        id: str,
        event: RecordVersion,
        *,
        reason: str,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord | None:
        """See `TrustCalls.undo`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.undo(id, event, reason=reason, command_id=command, timeout_s=left),
        )

    def erase(self, id: str, *, reason: str, command_id: str | None = None, timeout_s: float | None = None) -> Done:
        """See `TrustCalls.erase`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.erase(id, reason=reason, command_id=command, timeout_s=left),
        )

    def attest(
        self, id: str, receipt: GateReceipt | Evidence, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> MemoryRecord:
        """See `TrustCalls.attest`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.attest(id, receipt, command_id=command, timeout_s=left),
        )

    def mark_fixed(self, id: str, *, command_id: str | None = None, timeout_s: float | None = None) -> MemoryRecord:
        """See `TrustCalls.mark_fixed`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.mark_fixed(id, command_id=command, timeout_s=left),
        )

    # --- what is shared -----------------------------------------------------------------------------------------------
    def remember_signed(
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
        """See `TrustCalls.remember_signed`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.remember_signed(
                author,
                subject=subject,
                predicate=predicate,
                text=text,
                scope=scope,
                evidence=evidence,
                command_id=command,
                timeout_s=left,
            ),
        )

    def write_vouched(
        self,
        records: Sequence[MemoryRecord],
        speaker: str,
        *,
        command_ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """See `TrustCalls.write_vouched`."""
        return self._written_many(
            records,
            command_ids,
            timeout_s,
            lambda memory, ids, left: memory.write_vouched(records, speaker, command_ids=ids, timeout_s=left),
        )

    def import_belief(
        self,
        record: MemoryRecord,
        peer: str,
        *,
        scope: str | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `TrustCalls.import_belief`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.import_belief(
                record, peer, scope=scope, command_id=command, timeout_s=left
            ),
        )

    def set_scope_parent(
        self, scope: str, parent: str | None, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `TrustCalls.set_scope_parent`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.set_scope_parent(scope, parent, command_id=command, timeout_s=left),
        )

    def set_multi_valued(
        self, pattern: str, predicate: str, *, command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `TrustCalls.set_multi_valued`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.set_multi_valued(
                pattern, predicate, command_id=command, timeout_s=left
            ),
        )

    def graduate(
        self,
        parent: str,
        children: Sequence[str],
        *,
        min_scopes: int = SIBLINGS_NEEDED,
        timeout_s: float | None = None,
    ) -> list[MemoryRecord | Refused]:
        """See `TrustCalls.graduate`."""
        return self._change(
            None,
            timeout_s,
            lambda memory, _, left: memory.graduate(parent, children, min_scopes=min_scopes, timeout_s=left),
        )

    def lattice_recall(
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
        """See `TrustCalls.lattice_recall`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.lattice_recall(
                query,
                scope=scope,
                lattice=lattice,
                kind=kind,
                k=k,
                trust=trust,
                as_of=as_of,
                valid_at=valid_at,
                consistency=consistency,
                timeout_s=left,
            ),
        )
