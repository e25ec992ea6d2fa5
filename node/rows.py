"""Records as the canonical bytes in which they travel, the same that their digests cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgpack

from ..memory.record import PastVersion, Record, Version

_pack: Final = cast(Callable[[Any], bytes], msgpack.packb)
_unpack: Final = cast(Callable[..., Any], msgpack.unpackb)
_RECORD_FIELDS: Final = len(Record._fields)
_PAST_FIELDS: Final = len(PastVersion._fields)


def row_of(record: Record | None) -> bytes:
    """A record's canonical bytes; empty for none."""
    return b"" if record is None else _pack(record)


def record_of(row: bytes) -> Record | None:
    """The record that a row holds; what a later release appended is left out."""
    return _record(_unpack(row, use_list=False, strict_map_key=False)) if row else None


def past_row_of(past: PastVersion) -> bytes:
    """A past version's canonical bytes."""
    return _pack(past)


def past_of(row: bytes) -> PastVersion:
    """The past version that a row holds."""
    held, until, *rest = _unpack(row, use_list=False, strict_map_key=False)[:_PAST_FIELDS]
    return PastVersion._make((_record(held), Version(*until), *rest))


def _record(fields: tuple[Any, ...]) -> Record:
    *own, version = fields[:_RECORD_FIELDS]
    return Record._make((*own, Version(*version)))
