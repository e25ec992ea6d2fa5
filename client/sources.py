"""The calls that concern where memories come from, and what takes their place: episodes, and corrections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..memory import commands
from ..memory.fields import json_text
from ..memory.view import Done, MemoryKind, MemoryRecord, datetime_of, microseconds
from .requests import record_id


class SourceCalls(ABC):
    """The part of an `AsyncMemory` that concerns sources and corrections."""

    @abstractmethod
    async def _mutation(
        self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None
    ) -> MemoryRecord: ...

    @abstractmethod
    async def _done(self, kind: str, body: commands.Body, command_id: str | None, timeout_s: float | None) -> Done: ...

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

    async def correct(
        self,
        id: str | Sequence[str],
        text: str,
        *,
        reason: str = "",
        metadata: Mapping[str, Any] | None = None,
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> MemoryRecord:
        """Put this text in the place of what is held, or of several sentences; returns the record that holds it.

        The old value is recalled no more, and stands in its `corrections` and in the history of both. A sentence gets
        another id by that, and the sources that had stated the old one do not bring it back. A verified value that
        others support stays: the new one contends with it (`conflicted`), a sentence raises `Refused` (`not_yours`).
        """
        ids = (id,) if isinstance(id, str) else tuple(id)
        body = commands.CorrectBody(tuple(map(record_id, ids)), text, json_text("metadata", metadata or {}), reason)
        return await self._mutation(commands.CORRECT, body, command_id, timeout_s)

    async def withdraw(
        self,
        id: str,
        *,
        source: str = "",
        reason: str = "",
        command_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Take back having said so: whoever else states it still does, and else it is gone with what rests on it.

        `source` names an anonymous author's, as in the write. Raises `Refused` (`not_stated`) where it has not said so.
        """
        body = commands.WithdrawBody(record_id(id), source, reason)
        return await self._done(commands.WITHDRAW, body, command_id, timeout_s)
