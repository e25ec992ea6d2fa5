"""The network client: it finds the leader, retries with the same command id, and ends every call in time.

The classes come from where they live when they are first asked for, so that a memory without a network never pays for
gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import Records
    from .blocking import RecordStream
    from .connected import ConnectedMemory
    from .connection import AsyncReplicatedMemory
    from .requests import Consistency

__all__ = ["AsyncReplicatedMemory", "ConnectedMemory", "Consistency", "RecordStream", "Records"]

_HOMES = {
    "AsyncReplicatedMemory": ".connection",
    "ConnectedMemory": ".connected",
    "Consistency": ".requests",
    "RecordStream": ".blocking",
    "Records": ".answers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veridical.client' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
