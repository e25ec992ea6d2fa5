"""The calls that concern where memories come from: episodes, which are kept as they were said."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..memory import commands
from ..memory.view import MemoryKind, MemoryRecord, datetime_of, microseconds


class SourceCalls(ABC):
    """The part of an `AsyncMemory` that concerns sources."""

    @abstractmethod
    async def _mutation(
        self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None
    ) -> MemoryRecord: ...

    async def remember_episode(
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
        """Keep what was said as it was said: a turn of a conversation, a part of a document, the result of a tool.

        `source` names where it stands, `occurred` says when it was said, `follows` is the episode before it (or its
        id), in the same scope. The same text of the same source at the same place and time is one episode; otherwise it
        is another one. Facts that are taken from it name its id in `derived_from`, and fall when it is forgotten,
        unless another source states them too. Raises `Refused` (`forgotten_source`) for what was forgotten before.
        """
        record = MemoryRecord(
            kind=MemoryKind.EPISODE,
            text=text,
            scope=scope,
            source=source,
            valid_from=None if occurred is None else datetime_of(microseconds(occurred)),
            follows=follows.id if isinstance(follows, MemoryRecord) else follows or "",
            metadata=dict(metadata or {}),
        )
        return await self._mutation(commands.WRITE, record.write_body(), command_id, timeout_s)
