"""Exports: a history in one file that can be verified anywhere, without a database and without the cluster.

The file is a sequence of frames. A frame is its length (4 bytes, big-endian), its CRC-32 (4 bytes) and a canonical
array whose first item says what it is; DESIGN.md describes them. The last frame says where the history ends, so that a
file that was cut short does not pass for a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from zlib import crc32

from .canonical import Canonical, NotCanonical, decode, pack
from .entry import Anchor, Entry
from .errors import LogDamaged, LogForeign
from .seal import Seal

EXPORT_FORMAT = "veridical-log"
EXPORT_VERSION = 1
BACKUP_VERSION = 2
FRAME_BYTES_LIMIT = 16 << 20
"""Above the largest entry: 4 MiB of envelope and bodies, with events and lengths to spare."""

_PREFIX_BYTES = 8
_ENTRY_TYPES = (int, int, bytes, int, bytes, bytes, bytes, list, bytes)


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """Whose history it is: id and name of the cluster.

    A backup also says when it was made, and by its name which digest key belongs to it, if its maker knew.
    """

    cluster_id: str
    cluster: str
    created_us: int = 0
    key_name: str = ""


def write_export(stream: BinaryIO, header: ExportHeader, history: Iterable[tuple[Entry, Seal | None]]) -> Anchor:
    """Write a history, from its first entry on, and return where it ends. Making it durable is the caller's."""
    owner: list[Canonical] = [header.cluster_id, header.cluster]
    head: list[Canonical] = [EXPORT_FORMAT, EXPORT_VERSION, *owner]
    if header.created_us:
        head = [EXPORT_FORMAT, BACKUP_VERSION, *owner, header.created_us, header.key_name]
    stream.write(_frame(head))
    end = Anchor()
    for entry, seal in history:
        sealed: Canonical = None if seal is None else [seal.epoch, seal.sealer, seal.signature]
        stream.write(_frame(["entry", _entry_fields(entry), sealed]))
        end = Anchor.at(entry)
    stream.write(_frame(["end", end.index, end.hash]))
    return end


class Export:
    """An export that is being read; `name` names the file in errors. Raises `LogForeign` for any other file."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._end = Anchor()
        self.header = self._read_header()

    def history(self) -> Iterator[tuple[Entry, Seal | None]]:
        """Every entry with its seal. May be iterated once. Raises `LogDamaged` with the index that cannot be read."""
        while True:
            match self._read_frame():
                case ["entry", [*entry_fields], seal_fields]:
                    entry = self._entry(entry_fields)
                    yield entry, self._seal(entry, seal_fields)
                    self._end = Anchor.at(entry)
                case ["end", index, hash] if (index, hash) == (self._end.index, self._end.hash):
                    break
                case _:
                    raise self._damaged("a frame that does not belong there")
        if self._stream.read(1):
            raise self._damaged("the file goes on after its end")

    def _read_header(self) -> ExportHeader:
        try:
            match self._read_frame():
                case [format, version, str(cluster_id), str(cluster), int(created_us), str(key_name)] if (
                    format == EXPORT_FORMAT and version == BACKUP_VERSION
                ):
                    return ExportHeader(cluster_id, cluster, created_us, key_name)
                case [format, version, str(cluster_id), str(cluster)] if format == EXPORT_FORMAT:
                    if version == EXPORT_VERSION:
                        return ExportHeader(cluster_id, cluster)
                    raise LogForeign(f"{self._name}: export version {version}; this software reads {EXPORT_VERSION}")
                case _:
                    raise LogForeign(f"{self._name} is not an export of a log")
        except LogDamaged as error:
            raise LogForeign(f"{self._name} is not an export of a log") from error

    def _read_frame(self) -> Any:
        prefix = self._stream.read(_PREFIX_BYTES)
        if len(prefix) < _PREFIX_BYTES:
            raise self._damaged("the file ends too early")
        length, checksum = int.from_bytes(prefix[:4], "big"), int.from_bytes(prefix[4:], "big")
        if length > FRAME_BYTES_LIMIT:
            raise self._damaged(f"a frame of {length} bytes; the limit is {FRAME_BYTES_LIMIT}")
        payload = self._stream.read(length)
        if len(payload) < length:
            raise self._damaged("the file ends too early")
        if crc32(payload) != checksum:
            raise self._damaged("the frame's checksum does not fit its bytes")
        try:
            return decode(payload)
        except NotCanonical as error:
            raise self._damaged(str(error)) from error

    def _entry(self, fields: list[Any]) -> Entry:
        if len(fields) != len(_ENTRY_TYPES) or not all(map(isinstance, fields, _ENTRY_TYPES)):
            raise self._damaged("not an entry")
        index, epoch, prev_hash, time_us, envelope, signature, events, bodies, hash = fields
        if not all(body is None or isinstance(body, bytes) or type(body) is int for body in bodies):
            raise self._damaged("not the bodies of an entry")
        erased_by = max((body for body in bodies if type(body) is int), default=0)
        kept = tuple(body if isinstance(body, bytes) else None for body in bodies)
        return Entry(index, epoch, prev_hash, time_us, envelope, signature, events, kept, hash, erased_by)

    def _seal(self, entry: Entry, fields: Any) -> Seal | None:
        match fields:
            case None:
                return None
            case [int(epoch), str(sealer), bytes(signature)]:
                return Seal(epoch, entry.index, entry.hash, sealer, signature)
            case _:
                raise self._damaged("not a seal")

    def _damaged(self, what: str) -> LogDamaged:
        return LogDamaged(self._name, self._end.index + 1, what)


def _entry_fields(entry: Entry) -> Canonical:
    head: list[Canonical] = [entry.index, entry.epoch, entry.prev_hash, entry.time_us]
    bodies: list[Canonical] = [entry.erased_by or None if body is None else body for body in entry.bodies]
    return [*head, entry.envelope, entry.signature, entry.events, bodies, entry.hash]


def _frame(value: Canonical) -> bytes:
    payload = pack(value)
    return len(payload).to_bytes(4, "big") + crc32(payload).to_bytes(4, "big") + payload
