"""What a decision needs beside the state: digests that only this cluster can make, and who may do what."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

READ: Final = "read"
WRITE: Final = "write"
REVIEW: Final = "review"
ATTEST: Final = "attest"
VOUCH: Final = "vouch"
ADMIN: Final = "admin"


class Digester(Protocol):
    """Keyed digests (`security.digests.DigestKey`): 16 bytes that tell nothing without the cluster's key."""

    def digest(self, *parts: bytes) -> bytes:
        """The digest of the parts; the borders between parts count."""
        ...


class Rights(Protocol):
    """What an author may do. `author` is a public key (32 bytes), or None for an anonymous one."""

    @property
    def enforced(self) -> bool:
        """Whether any principal is enrolled. While none is, whoever opened the store is its operator."""
        ...

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Whether that author holds `right` in that scope."""
        ...


class OperatorRights:
    """The rights of a store without principals: its operator holds them all."""

    @property
    def enforced(self) -> bool:
        """No: nobody is enrolled."""
        return False

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Yes, whatever is asked."""
        return True


class Context(NamedTuple):
    """The digest key, the rights, and the epoch of the deciding leader."""

    digests: Digester
    rights: Rights
    epoch: int
