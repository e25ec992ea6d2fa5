"""The calls about bearer tokens, for programs without an event loop: the same promises, blocking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..memory.reviewing import KnownToken
from ..memory.view import Done
from ..security.tokens import SECRET_BYTES, BearerToken
from .ports import Entropy
from .tokens import IssuedToken
from .trust import Key

if TYPE_CHECKING:
    from .surface import AsyncMemory

Result = TypeVar("Result")


class BlockingTokenCalls(ABC):
    """The part of a `BlockingMemory` that concerns bearer tokens. See `TokenCalls`."""

    _entropy: Entropy

    @abstractmethod
    def _change(
        self,
        command_id: str | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, str, float], Coroutine[Any, Any, Result]],
    ) -> Result: ...

    @abstractmethod
    def _question(
        self, timeout_s: float | None, call: Callable[[AsyncMemory, float], Coroutine[Any, Any, Result]]
    ) -> Result: ...

    def issue_token(
        self,
        key: Key | None = None,
        *,
        label: str = "",
        ttl_s: float | None = None,
        secret: BearerToken | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> IssuedToken:
        """See `TokenCalls.issue_token`."""
        token = BearerToken.of(self._entropy.bytes(SECRET_BYTES)) if secret is None else secret
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.issue_token(
                key, label=label, ttl_s=ttl_s, secret=token, command_id=command, timeout_s=left
            ),
        )

    def tokens(self, *, consistency: str | None = None, timeout_s: float | None = None) -> list[KnownToken]:
        """See `TokenCalls.tokens`."""
        return self._question(timeout_s, lambda memory, left: memory.tokens(consistency=consistency, timeout_s=left))

    def revoke_token(
        self, id: str, *, reason: str = "", command_id: str | None = None, timeout_s: float | None = None
    ) -> Done:
        """See `TokenCalls.revoke_token`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.revoke_token(id, reason=reason, command_id=command, timeout_s=left),
        )
