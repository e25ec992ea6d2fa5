"""What several scopes, stores and people know together, as functions over any memory that has these calls."""

from __future__ import annotations

from collections.abc import Sequence

from ..memory.errors import Refused
from ..memory.lattice import SIBLINGS_NEEDED, ScopeLattice
from ..memory.view import MemoryKind, MemoryRecord, Trust
from .answers import Records
from .blocking_trust import BlockingTrustCalls


def lattice_recall(
    mem: BlockingTrustCalls,
    query: str,
    *,
    scope: str,
    lattice: ScopeLattice,
    kind: MemoryKind | None = None,
    k: int = 5,
    trust: Trust | None = None,
) -> Records:
    """What is known in a scope and in all that it lies within, best first; of equals the more specific first."""
    return mem.lattice_recall(query, scope=scope, lattice=lattice, kind=kind, k=k, trust=trust)


def graduate(
    mem: BlockingTrustCalls, *, parent: str, children: Sequence[str], min_scopes: int = SIBLINGS_NEEDED
) -> list[MemoryRecord | Refused]:
    """Lift to `parent`, as candidates, what is verified in at least `min_scopes` of the scopes below it."""
    return mem.graduate(parent, children, min_scopes=min_scopes)


def import_belief(
    mem: BlockingTrustCalls, record: MemoryRecord, *, peer: str, scope: str | None = None
) -> MemoryRecord:
    """Take in what another memory believes, as a candidate that must earn its trust here."""
    return mem.import_belief(record, peer, scope=scope)
