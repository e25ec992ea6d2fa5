"""What a memory is: records, and the pure rules by which they change. Also the public door of the product.

The names below come from where they live when they are first asked for, so that the rules import nothing of the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..client import AsyncReplicatedMemory
    from ..client.sharing import graduate, import_belief, lattice_recall
    from ..client.watching import BEGINNING, Change
    from ..embedded import LocalMemory, ReplicatedMemory
    from ..security.principal import Principal
    from ..stores import known_backends, load_backend
    from .changes import Cursor
    from .keys import is_reserved_key, make_id, make_key
    from .lattice import ScopeLattice
    from .reputation import AuthorTrust
    from .reviewing import BarredValue, Contender, KnownPrincipal, ReviewItem
    from .view import HistoryItem, MemoryKind, MemoryRecord, MemoryView, Trust, correction_chain

__all__ = [
    "BEGINNING",
    "AsyncReplicatedMemory",
    "AuthorTrust",
    "BarredValue",
    "Change",
    "Contender",
    "Cursor",
    "HistoryItem",
    "KnownPrincipal",
    "LocalMemory",
    "MemoryKind",
    "MemoryRecord",
    "MemoryView",
    "Principal",
    "ReplicatedMemory",
    "ReviewItem",
    "ScopeLattice",
    "Trust",
    "correction_chain",
    "graduate",
    "import_belief",
    "is_reserved_key",
    "known_backends",
    "lattice_recall",
    "load_backend",
    "make_id",
    "make_key",
]  # fmt: skip

_HOMES = dict.fromkeys(__all__, "veridical.memory.view") | {
    "AsyncReplicatedMemory": "veridical.client",
    "BEGINNING": "veridical.client.watching",
    "Change": "veridical.client.watching",
    "Cursor": "veridical.memory.changes",
    "AuthorTrust": "veridical.memory.reputation",
    "BarredValue": "veridical.memory.reviewing",
    "Contender": "veridical.memory.reviewing",
    "KnownPrincipal": "veridical.memory.reviewing",
    "LocalMemory": "veridical.embedded",
    "Principal": "veridical.security.principal",
    "ReplicatedMemory": "veridical.embedded",
    "ReviewItem": "veridical.memory.reviewing",
    "ScopeLattice": "veridical.memory.lattice",
    "graduate": "veridical.client.sharing",
    "import_belief": "veridical.client.sharing",
    "is_reserved_key": "veridical.memory.keys",
    "known_backends": "veridical.stores",
    "lattice_recall": "veridical.client.sharing",
    "load_backend": "veridical.stores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veridical.memory' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
