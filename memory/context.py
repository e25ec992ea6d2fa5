"""What a decision needs beside the state: digests that only this cluster can make, and who may do what."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

READ: Final = "read"
WRITE: Final = "write"
REVIEW: Final = "review"
ATTEST: Final = "attest"
VOUCH: Final = "vouch"
ADMIN: Final = "admin"
RIGHTS: Final = (READ, WRITE, REVIEW, ATTEST, VOUCH, ADMIN)


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


class Signatures(Protocol):
    """Checks Ed25519 signatures (`security.keys.verify`)."""

    def __call__(self, public_key: bytes, message: bytes, signature: bytes, /) -> bool:
        """Whether that key (32 bytes) signed that message. Malformed keys and signatures are false, no error."""
        ...


def no_signatures(public_key: bytes, message: bytes, signature: bytes, /) -> bool:
    """For a store that cannot check signatures: none is good, so that no receipt counts."""
    del public_key, message, signature
    return False


class Context(NamedTuple):
    """The digest key, the rights while nobody is enrolled, and the epoch of the deciding leader.

    `signatures` checks receipts and proofs of keys; `runner_key` is the store's own runner (32 bytes), whose receipts
    count while nobody is enrolled.
    """

    digests: Digester
    rights: Rights
    epoch: int
    signatures: Signatures = no_signatures
    runner_key: bytes | None = None
