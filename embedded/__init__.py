"""Memory in the caller's own process, and the public classes that hide whether a server is there."""

from .antientropy import AntiEntropy
from .local import LocalMemory
from .replicated import ReplicatedMemory

__all__ = ["AntiEntropy", "LocalMemory", "ReplicatedMemory"]
