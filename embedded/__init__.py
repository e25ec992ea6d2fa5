"""Memory in the caller's own process, and the public classes that hide whether a server is there."""

from .local import LocalMemory
from .replicated import ReplicatedMemory

__all__ = ["LocalMemory", "ReplicatedMemory"]
