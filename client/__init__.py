"""The network client: it finds the leader, retries with the same command id, and ends every call in time."""

from .blocking import ConnectedMemory, RecordStream
from .connection import AsyncReplicatedMemory
from .requests import Consistency

__all__ = ["AsyncReplicatedMemory", "ConnectedMemory", "Consistency", "RecordStream", "Records"]

from .answers import Records
