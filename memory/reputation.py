"""Author reputation: how much of what somebody claimed was found true here, counted where it is found (MEMORY § 3)."""

from __future__ import annotations

from typing import Final, NamedTuple

from .principals import identity_of
from .record import PPM, REJECTED, VERIFIED, Record, Version
from .state import State, Workspace

PRINCIPALS_NEEDED: Final = 2
PRINCIPALS_NEEDED_BY_THE_DISTRUSTED: Final = 3


class AuthorTrust(NamedTuple):
    """The reputation of one author, known by key: claims of theirs that were verified and rejected here."""

    author: str
    kept: int
    lost: int
    rate_ppm: int
    principals_needed: int

    @property
    def rate(self) -> float:
        """How much of what they claim holds, smoothed: a half before anything is known."""
        return self.rate_ppm / PPM

    @staticmethod
    def of(state: State, key: bytes) -> AuthorTrust:
        """What is known of whoever holds or held that key (32 bytes); neutral before anything is."""
        row = identity_of(state, key)
        return AuthorTrust(key.hex(), row.kept, row.lost, row.reputation_ppm, principals_needed_of(state, key))


def principals_needed_of(state: State, author: bytes) -> int:
    """How many distinct principals verify what this author wrote: one more where it often was wrong. Empty: anybody."""
    if author and identity_of(state, author).is_distrusted:
        return PRINCIPALS_NEEDED_BY_THE_DISTRUSTED
    return PRINCIPALS_NEEDED


def judged(workspace: Workspace, record: Record, trust: str, at: Version) -> Record:
    """The record in another state of trust, and its author's reputation counted anew. Verified, it is not doubted.

    Whoever judges it does so for reasons of their own: it rests no longer on principals that have confirmed it.
    """
    kept = (trust == VERIFIED) - (record.trust == VERIFIED)
    lost = (trust == REJECTED) - (record.trust == REJECTED)
    if record.author and (kept or lost):
        author = identity_of(workspace, bytes.fromhex(record.author))
        workspace.principals[author.key] = author._replace(
            kept=max(0, author.kept + kept), lost=max(0, author.lost + lost), version=at
        )
    return record._replace(trust=trust, doubted=record.doubted and trust != VERIFIED, confirmed=False)
