"""Reads SQLite's write-ahead journal to find writes that SQLite itself would drop without a word.

A transaction begins only after the one before was fsynced. So when SQLite's recovery stops before the end of a
transaction, and pages of a *later* one follow in the journal, the first was durable: what stopped the recovery is
damage, not a torn end. This works without the mark, which a power cut may have left behind. The layout is the one of
sqlite.org/walformat.html.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
_RECOVERED_AT = 16
"""Offset in the shared-memory file of the number of valid frames, as the machine writes a 32-bit integer."""


class Frame(NamedTuple):
    """One page in the journal: whether it ends a transaction, and whether it is of the journal's present round."""

    commits: bool
    current: bool


class Journal(NamedTuple):
    """The frames that lie in a journal file, valid or not. `sound` is False when its header was changed."""

    sound: bool
    frames: tuple[Frame, ...]


def read_journal(database: Path) -> Journal:
    """What lies in the journal of the database at that path. An absent or unwritten journal has no frames."""
    path = database.with_name(database.name + "-wal")
    raw = path.read_bytes() if path.exists() else b""
    header = raw[: _HEADER.size]
    if len(header) < _HEADER.size or not any(header):
        return Journal(sound=True, frames=())
    page_bytes, salts = _HEADER.unpack(header)[2], header[16:24]
    if not _is_sound(header) or page_bytes < 512:
        return Journal(sound=False, frames=())
    starts = range(_HEADER.size, len(raw) - _FRAME.size - page_bytes + 1, _FRAME.size + page_bytes)
    return Journal(sound=True, frames=tuple(_frame(raw, start, salts) for start in starts))


def recovered_frames(database: Path) -> int:
    """How many frames SQLite found valid. A connection must have read from the database, and still be open."""
    path = database.with_name(database.name + "-shm")
    with path.open("rb") as stream:
        stream.seek(_RECOVERED_AT)
        return int.from_bytes(stream.read(4), sys.byteorder)


def dropped_frame(journal: Journal, recovered: int) -> int | None:
    """The number (from 1) of the first durable frame that SQLite dropped; None when nothing durable is lost."""
    if not journal.sound:
        return 1
    rest = journal.frames[recovered:]
    ends = [place for place, frame in enumerate(rest) if frame.current and frame.commits]
    if ends and any(frame.current for frame in rest[ends[0] + 1 :]):
        return recovered + 1
    return None


def _is_sound(header: bytes) -> bool:
    magic = int.from_bytes(header[:4], "big")
    if magic not in (_MAGIC_LITTLE, _MAGIC_BIG):
        return False
    words = struct.unpack("<6I" if magic == _MAGIC_LITTLE else ">6I", header[:24])
    first = second = 0
    for low, high in zip(words[::2], words[1::2], strict=True):
        first = (first + low + second) & 0xFFFFFFFF
        second = (second + high + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">2I", header[24:])


def _frame(raw: bytes, start: int, salts: bytes) -> Frame:
    pages_after_commit = _FRAME.unpack_from(raw, start)[1]
    return Frame(commits=pages_after_commit > 0, current=raw[start + 8 : start + 16] == salts)
