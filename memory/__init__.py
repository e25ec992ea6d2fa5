"""What a memory is: records, and the pure rules by which they change. Also the public door of the product.

The names below come from where they live when they are first asked for, so that the rules import nothing of the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..client import AsyncReplicatedMemory
    from ..embedded import LocalMemory, ReplicatedMemory
    from .view import HistoryItem, MemoryKind, MemoryRecord, MemoryView, Trust, correction_chain, make_id, make_key

__all__ = [
    "AsyncReplicatedMemory", "HistoryItem", "LocalMemory", "MemoryKind", "MemoryRecord", "MemoryView",
    "ReplicatedMemory", "Trust", "correction_chain", "make_id", "make_key",
]  # fmt: skip

_HOMES = dict.fromkeys(__all__, "veridical.memory.view") | {
    "AsyncReplicatedMemory": "veridical.client",
    "LocalMemory": "veridical.embedded",
    "ReplicatedMemory": "veridical.embedded",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veridical.memory' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
