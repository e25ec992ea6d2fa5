"""The calls about bearer tokens: issued for a principal, listed, and taken back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Final, NamedTuple

from ..memory import commands, trust_commands
from ..memory.errors import Invalid
from ..memory.record import Version
from ..memory.reviewing import KnownToken
from ..memory.tokens import TOKEN_ID_BYTES, token_id
from ..memory.view import Done, RecordVersion, datetime_of, duration_us
from ..proto.generated import memory_pb2
from ..security.principal import Principal
from ..security.tokens import SECRET_BYTES, BearerToken
from . import answers
from .answers import Answer
from .ports import Clock, Entropy
from .trust import Key, key_of

TOKENS_PAGE: Final = 1_000


class IssuedToken(NamedTuple):
    """A new token. Nobody but its holder has the `secret` from here on: what is kept of it is a digest.

    `principal` is the key (hex) that it stands for, `done` what became of the command.
    """

    token: BearerToken
    principal: str
    label: str
    expires_at: datetime | None
    done: Done

    @property
    def id(self) -> str:
        """What it is listed and revoked by, in hex."""
        return self.token.id.hex()

    @property
    def secret(self) -> str:
        """The token as its holder shows it: `vdt_` and 64 hex digits."""
        return self.token.reveal()


class TokenCalls(ABC):
    """The part of an `AsyncMemory` that concerns bearer tokens. See `TrustCalls` about `command_id`."""

    _clock: Clock
    _entropy: Entropy
    _principal: Principal | None

    @abstractmethod
    async def _commanded(
        self,
        kind: str,
        body: commands.Body,
        command_id: str | None,
        timeout_s: float | None,
        principal: Principal | None = None,
    ) -> Answer: ...

    @abstractmethod
    async def _ask(
        self, request: memory_pb2.ReadRequest, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply: ...

    async def issue_token(
        self,
        key: Key | None = None,
        *,
        label: str = "",
        ttl_s: float | None = None,
        secret: BearerToken | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> IssuedToken:
        """Whoever shows the token that comes back reads as the enrolled principal of that key (None: oneself) may.

        For others it takes the right `admin` in `*`. `ttl_s` seconds from now it ends; without, when it is revoked, or
        its key is revoked or rotated. A call whose outcome is not known is repeated with its `command_id` and `secret`.
        """
        key = self._principal if key is None else key
        if key is None:
            raise Invalid("key", "say for which principal: this memory has none of its own")
        raw = key_of("key", key)
        lasts_us = duration_us("ttl_s", ttl_s)
        expires_us = None if lasts_us is None else self._clock.wall_us() + lasts_us
        token = BearerToken.of(self._entropy.bytes(SECRET_BYTES)) if secret is None else secret
        body = trust_commands.IssueTokenBody(raw, token.digest, label, expires_us)
        done = answers.done(await self._commanded(trust_commands.ISSUE_TOKEN, body, command_id, timeout_s))
        return IssuedToken(token, raw.hex(), label, None if expires_us is None else datetime_of(expires_us), done)

    async def tokens(self, *, consistency: str | None = None, timeout_s: float | None = None) -> list[KnownToken]:
        """All tokens that were ever issued, for a holder of `admin` in `*`; else those of one's own key.

        Without their secrets, which nobody can tell any more.
        """
        found: list[KnownToken] = []
        after = b""
        while True:
            question = memory_pb2.Tokens(after=after, limit=TOKENS_PAGE)
            reply = await self._ask(memory_pb2.ReadRequest(tokens=question), consistency, timeout_s)
            found += (_known(token, reply.now_us) for token in reply.tokens.tokens)
            after = reply.tokens.after
            if not after:
                return found

    async def revoke_token(
        self, id: str, *, reason: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """From now on the token of that id opens nothing, also where it was shown before. Its holder's, or `admin`'s.

        What streams under it ends with its next page.
        """
        body = trust_commands.RevokeTokenBody(_id(id), reason)
        return answers.done(await self._commanded(trust_commands.REVOKE_TOKEN, body, command_id, timeout_s))


def _id(id: str) -> bytes:
    try:
        raw = bytes.fromhex(id)
    except (ValueError, TypeError):
        raw = b""
    if len(raw) != TOKEN_ID_BYTES:
        raise Invalid("id", f"a token's id has {2 * TOKEN_ID_BYTES} hex digits")
    return raw


def _known(raw: memory_pb2.IssuedToken, now_us: int) -> KnownToken:
    expires_us = raw.expires_us if raw.HasField("expires_us") else None
    revoked_us = raw.revoked_us if raw.HasField("revoked_us") else None
    version = Version(raw.version.epoch, raw.version.index, raw.version.place)
    is_over = expires_us is not None and now_us >= expires_us
    return KnownToken(
        id=token_id(raw.digest).hex(),
        principal=raw.principal.hex(),
        label=raw.label,
        standing="revoked" if revoked_us is not None else "expired" if is_over else "issued",
        issued_at=datetime_of(raw.issued_us),
        expires_at=None if expires_us is None else datetime_of(expires_us),
        revoked_at=None if revoked_us is None else datetime_of(revoked_us),
        version=RecordVersion(**version._asdict()),
    )
