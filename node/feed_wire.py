"""The change feed as protobuf and back."""

from __future__ import annotations

from ..memory.changes import WHOLE_ENTRY, Cursor
from ..memory.errors import Invalid
from ..proto.generated import memory_pb2
from . import wire
from .feed import Change, ChangePage, WatchRequest
from .questions import caller_of

ID_BYTES = 16


def watch_request_from_wire(raw: memory_pb2.WatchRequest) -> WatchRequest:
    """What a caller watches for. Raises `Invalid` for a cursor or an id that cannot be."""
    if any(len(id) != ID_BYTES for id in raw.ids):
        raise Invalid("ids", f"an id has {ID_BYTES} bytes")
    return WatchRequest(
        _cursor(raw.after) if raw.HasField("after") else None,
        tuple(raw.scopes) if raw.has_scopes else None,
        frozenset(raw.kinds) or None,
        frozenset(raw.ids) or None,
        caller_of(raw),
    )


def _cursor(raw: memory_pb2.Cursor) -> Cursor:
    if raw.index > wire.NUMBER_LIMIT or raw.place > WHOLE_ENTRY:
        raise Invalid("after", "is beyond any entry")
    return Cursor(raw.history, raw.index, raw.place, raw.part)


def change_page_to_wire(page: ChangePage) -> memory_pb2.WatchReply:
    """A page of changes."""
    return memory_pb2.WatchReply(
        cursor=_cursor_to_wire(page.cursor),
        changes=map(_change_to_wire, page.changes),
        applied_index=page.applied_index,
        age_us=page.age_us,
        now_us=page.now_us,
    )


def _change_to_wire(change: Change) -> memory_pb2.Change:
    return memory_pb2.Change(
        cursor=_cursor_to_wire(change.cursor),
        epoch=change.epoch,
        kinds=change.kinds,
        id=change.id,
        scope=change.scope,
        row=change.row,
        gone=change.gone,
        author=change.author,
        time_us=change.time_us,
        command_id=change.command_id,
    )


def _cursor_to_wire(cursor: Cursor) -> memory_pb2.Cursor:
    return memory_pb2.Cursor(history=cursor.history, index=cursor.index, place=cursor.place, part=cursor.part)
