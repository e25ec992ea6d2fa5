"""Bearer tokens as the memory knows them: whose they are, until when, and whether they are in force (MEMORY § 6).

A token stands for the key that it was issued for, and for nothing else: it is worth what that key is granted, as long
as that key is in force. A rotation or a revocation of the key ends its tokens with it.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from . import rules
from .errors import Refused
from .principals import enrolled
from .record import ORIGIN, Version
from .trust_commands import TOKEN_ID_BYTES

if TYPE_CHECKING:
    from .state import State

TOKENS: Final = "tokens"  # the setting that counts those that were not revoked


class Token(NamedTuple):
    """A token that was issued. `digest` is the SHA-256 of its secret, 32 bytes; its first 16 are the token's id.

    `principal` is the key that it stands for, `label` text (erasable), `expires_us` when it ends, or None. `revoked_us`
    is when it was taken back, or None. Times are those of the log.
    """

    digest: bytes
    principal: bytes
    label: str
    issued_us: int
    expires_us: int | None = None
    revoked_us: int | None = None
    version: Version = ORIGIN

    @property
    def id(self) -> bytes:
        """What it is called by."""
        return token_id(self.digest)


def token_id(digest: bytes) -> bytes:
    """The id of the token with that digest."""
    return digest[:TOKEN_ID_BYTES]


def bearer(state: State, digest: bytes, now_us: int) -> bytes:
    """The key that the holder of the token with that digest stands for at `now_us`.

    The one place that says whose token it is, for every door. Raises `Refused`: `token_unknown`, `token_revoked`,
    `token_expired`, or `token_orphaned` where its key is not in force any more.
    """
    token = state.token(token_id(digest))
    if token is None or not compare_digest(token.digest, digest):
        raise _refusal(rules.TOKEN_UNKNOWN)
    if token.revoked_us is not None:
        raise _refusal(rules.TOKEN_REVOKED)
    if token.expires_us is not None and now_us >= token.expires_us:
        raise _refusal(rules.TOKEN_EXPIRED)
    if enrolled(state, token.principal) is None:
        raise _refusal(rules.TOKEN_ORPHANED)
    return token.principal


def _refusal(rule: str) -> Refused:
    return Refused(rule, rules.REASONS[rule])
