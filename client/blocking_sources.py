"""The calls that concern where memories come from, for programs without an event loop: the same promises, blocking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ..memory.view import Done, MemoryRecord

if TYPE_CHECKING:
    from .surface import AsyncMemory

Result = TypeVar("Result")


class BlockingSourceCalls(ABC):
    """The part of a `BlockingMemory` that concerns sources and corrections. See `SourceCalls`."""

    @abstractmethod
    def _change(
        self,
        command_id: str | None,
        timeout_s: float | None,
        call: Callable[[AsyncMemory, str, float], Coroutine[Any, Any, Result]],
    ) -> Result:
        """Run a call that changes something, under that command id or a new one."""

    def remember_episode(
        self,
        text: str,
        *,
        scope: str,
        source: str = "",
        occurred: datetime | float | None = None,
        follows: MemoryRecord | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `SourceCalls.remember_episode`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.remember_episode(
                text,
                scope=scope,
                source=source,
                occurred=occurred,
                follows=follows,
                metadata=metadata,
                command_id=command,
                timeout_s=left,
            ),
        )

    def correct(
        self,
        id: str | Sequence[str],
        text: str,
        *,
        reason: str = "",
        metadata: Mapping[str, Any] | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """See `SourceCalls.correct`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.correct(
                id, text, reason=reason, metadata=metadata, command_id=command, timeout_s=left
            ),
        )

    def withdraw(
        self,
        id: str,
        *,
        source: str = "",
        reason: str = "",
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """See `SourceCalls.withdraw`."""
        return self._change(
            command_id,
            timeout_s,
            lambda memory, command, left: memory.withdraw(
                id, source=source, reason=reason, command_id=command, timeout_s=left
            ),
        )
