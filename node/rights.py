"""Who may do what while no principal is enrolled: whoever opened the store is its operator and holds all rights."""

from __future__ import annotations


class OperatorRights:
    """`memory.machine.Rights` of a cluster without principals: everybody who gets this far is the operator."""

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Always."""
        del author, right, scope
        return True
