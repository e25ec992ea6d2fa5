"""The rows of the log's tables: their layout, and how entries, seals and state become rows and come back.

Every row ends with a CRC-32 over all that is before it, so that any changed byte is found when the row is read, without
hashing anything. A deliberate change is found by `verify`, which trusts nothing but signatures.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, TypeAlias, cast
from zlib import crc32

import msgpack

from .canonical import Canonical, pack
from .entry import GENESIS_HASH, Entry, Position
from .seal import Seal
from .value import value

Row: TypeAlias = tuple[Any, ...]

SCHEMA = {
    "entries": """\
CREATE TABLE entries (
    entry_index INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    prev_hash BLOB NOT NULL,
    hash BLOB NOT NULL,
    envelope BLOB NOT NULL,
    signature BLOB NOT NULL,
    events BLOB NOT NULL,
    bodies BLOB NOT NULL,
    checksum INTEGER NOT NULL
)""",
    "seals": """\
CREATE TABLE seals (
    entry_index INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    hash BLOB NOT NULL,
    sealer TEXT NOT NULL,
    signature BLOB NOT NULL,
    checksum INTEGER NOT NULL
)""",
    "configurations": """\
CREATE TABLE configurations (
    entry_index INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL
)""",
    "state": """\
CREATE TABLE state (
    one INTEGER PRIMARY KEY,
    writes INTEGER NOT NULL,
    commit_index INTEGER NOT NULL,
    last_index INTEGER NOT NULL,
    last_epoch INTEGER NOT NULL,
    last_time_us INTEGER NOT NULL,
    promised_epoch INTEGER NOT NULL,
    last_hash BLOB NOT NULL,
    holder_node TEXT,
    holder_run TEXT,
    checksum INTEGER NOT NULL
)""",
    "identity": """\
CREATE TABLE identity (
    one INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    cluster TEXT NOT NULL,
    node TEXT NOT NULL,
    checksum INTEGER NOT NULL
)""",
    "seen": """\
CREATE TABLE seen (
    one INTEGER PRIMARY KEY,
    members BLOB NOT NULL,
    checksum INTEGER NOT NULL
)""",
}
LATER_TABLES = {2: ("seen",)}
"""The tables that each later format has added."""

_ENTRY = "entry_index, epoch, time_us, prev_hash, hash, envelope, signature, events, bodies, checksum"
_SEAL = "entry_index, epoch, hash, sealer, signature, checksum"
_STATE = """writes, commit_index, last_index, last_epoch, last_time_us, promised_epoch, last_hash,
holder_node, holder_run, checksum"""
_WEIGHT = "256 + length(envelope) + length(events) + length(bodies)"

SELECT_ENTRIES = f"SELECT {_ENTRY} FROM entries WHERE entry_index BETWEEN ? AND ? ORDER BY entry_index"
SELECT_ENTRY = f"SELECT {_ENTRY} FROM entries WHERE entry_index = ?"
SELECT_FIRST_INDEX = "SELECT min(entry_index) FROM entries"
SELECT_WEIGHTS = f"SELECT entry_index, {_WEIGHT} FROM entries WHERE entry_index <= ? ORDER BY entry_index DESC"
SELECT_SEALS = f"SELECT {_SEAL} FROM seals WHERE entry_index BETWEEN ? AND ? ORDER BY entry_index"
SELECT_INDEX_OF_HASH = "SELECT entry_index FROM entries WHERE hash = ?"
SELECT_NEXT_SEALED = "SELECT min(entry_index) FROM seals WHERE entry_index >= ?"
SELECT_CONFIGURATIONS = "SELECT entry_index, checksum FROM configurations WHERE entry_index <= ? ORDER BY entry_index"
SELECT_STATE = f"SELECT {_STATE} FROM state"
SELECT_ROOT_PAGE = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
SELECT_IDENTITY = "SELECT cluster_id, cluster, node, checksum FROM identity"

SELECT_SEEN = "SELECT members, checksum FROM seen"
REPLACE_SEEN = "INSERT OR REPLACE INTO seen (one, members, checksum) VALUES (1, ?, ?)"

INSERT_ENTRY = f"INSERT INTO entries ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REPLACE_ENTRY = INSERT_ENTRY.replace("INSERT", "INSERT OR REPLACE", 1)
REPLACE_SEAL = f"INSERT OR REPLACE INTO seals ({_SEAL}) VALUES (?, ?, ?, ?, ?, ?)"
REPLACE_CONFIGURATION = "INSERT OR REPLACE INTO configurations (entry_index, checksum) VALUES (?, ?)"
REPLACE_STATE = f"INSERT OR REPLACE INTO state (one, {_STATE}) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_IDENTITY = "INSERT INTO identity (one, cluster_id, cluster, node, checksum) VALUES (1, ?, ?, ?, ?)"
DELETE_AFTER = tuple(f"DELETE FROM {table} WHERE entry_index > ?" for table in ("entries", "seals", "configurations"))
DELETE_STRAY_SEALS = "DELETE FROM seals WHERE entry_index < 1 OR entry_index > ?"

_ENTRY_NUMBERS = struct.Struct(">QQqIIII")
_SEAL_NUMBERS = struct.Struct(">QQII")
_MALFORMED = (TypeError, ValueError, AttributeError, OverflowError, struct.error)


class BadRow(ValueError):
    """The row is not one that was written here; its text says what does not fit."""


@value()
class State:
    """The one row that changes with every write.

    `writes` counts the writes that this log has taken. The end of the log stands here as well as in the entries, so
    that entries which are missing at the end are missed.
    """

    writes: int = 0
    commit_index: int = 0
    last: Position = Position(0, 0)
    last_time_us: int = 0
    last_hash: bytes = GENESIS_HASH
    promised_epoch: int = 0
    holder_node: str | None = None
    holder_run: str | None = None


def entry_row(entry: Entry) -> Row:
    """The row of table `entries` that keeps this entry with its bodies."""
    bodies = pack(entry.bodies if not entry.erased_by else _with_erasures(entry))
    checksum = _entry_checksum(
        entry.index,
        entry.epoch,
        entry.time_us,
        entry.prev_hash,
        entry.hash,
        entry.envelope,
        entry.signature,
        entry.events,
        bodies,
    )
    return (
        entry.index,
        entry.epoch,
        entry.time_us,
        entry.prev_hash,
        entry.hash,
        entry.envelope,
        entry.signature,
        entry.events,
        bodies,
        checksum,
    )


def entry_of(row: Row) -> Entry:
    """The entry of a row. Raises `BadRow` when its checksum does not fit."""
    index, epoch, time_us, prev_hash, hash, envelope, signature, events, bodies, checksum = row
    try:
        intact = checksum == _entry_checksum(*row[:-1])
        unpacked = _unpack(bodies) if intact else []
    except _MALFORMED as error:
        raise BadRow("the entry's row is malformed") from error
    if not intact:
        raise BadRow("the entry's checksum does not fit its bytes")
    return Entry(index, epoch, prev_hash, time_us, envelope, signature, events, *_without_erasures(unpacked, hash))


def seal_row(seal: Seal) -> Row:
    """The row of table `seals` that keeps this seal."""
    sealer = seal.sealer.encode()
    checksum = _seal_checksum(seal.index, seal.epoch, seal.hash, sealer, seal.signature)
    return (seal.index, seal.epoch, seal.hash, seal.sealer, seal.signature, checksum)


def seal_of(row: Row) -> Seal:
    """The seal of a row. Raises `BadRow` when its checksum does not fit."""
    index, epoch, hash, sealer, signature, checksum = row
    try:
        intact = checksum == _seal_checksum(index, epoch, hash, sealer.encode(), signature)
    except _MALFORMED as error:
        raise BadRow("the seal's row is malformed") from error
    if not intact:
        raise BadRow("the seal's checksum does not fit its bytes")
    return Seal(epoch, index, hash, sealer, signature)


def configuration_row(index: int) -> Row:
    """The row of table `configurations`: the entry at `index` puts a configuration in force."""
    return (index, _checksum((index,)))


def configuration_index_of(row: Row) -> int:
    """The index in such a row. Raises `BadRow` when its checksum does not fit."""
    _require_checksum(row, "the list of configurations")
    return row[0]


def state_row(state: State) -> Row:
    """The row of table `state`."""
    numbers = (state.writes, state.commit_index, state.last.index, state.last.epoch, state.last_time_us)
    fields = (*numbers, state.promised_epoch, state.last_hash, state.holder_node, state.holder_run)
    return (*fields, _checksum(fields))


def state_of(row: Row) -> State:
    """The state of a row. Raises `BadRow` when its checksum does not fit."""
    _require_checksum(row, "the state")
    writes, commit_index, last_index, last_epoch, last_time_us, promised_epoch, last_hash, node, run, _ = row
    last = Position(last_epoch, last_index)
    return State(writes, commit_index, last, last_time_us, last_hash, promised_epoch, node, run)


def identity_row(texts: tuple[str, str, str]) -> Row:
    """The row of table `identity`."""
    return (*texts, _checksum(texts))


def identity_of(row: Row) -> tuple[str, str, str]:
    """The three texts of such a row. Raises `BadRow` when its checksum does not fit."""
    _require_checksum(row, "the identity")
    cluster_id, cluster, node, _ = row
    return (cluster_id, cluster, node)


def seen_row(seen: Iterable[tuple[str, int, int]]) -> Row:
    """The row of table `seen`: member, epoch and index of each."""
    members = pack([list(each) for each in seen])
    return (members, _checksum((members,)))


def seen_of(row: Row) -> list[tuple[str, int, int]]:
    """What such a row holds. Raises `BadRow` when its checksum does not fit."""
    _require_checksum(row, "the list of what was seen")
    found = cast("list[list[Any]]", msgpack.unpackb(row[0]))  # pyright: ignore[reportUnknownMemberType]
    return [(node, epoch, index) for node, epoch, index in found]


def _with_erasures(entry: Entry) -> list[Canonical]:
    """The bodies, with the number of the entry that erased it in the place of one that is gone."""
    return [entry.erased_by if body is None else body for body in entry.bodies]


def _without_erasures(bodies: list[bytes | int | None], hash: bytes) -> tuple[tuple[bytes | None, ...], bytes, int]:
    """Bodies, the entry's hash, and the last entry that erased any of them."""
    erased_by = 0
    for place, body in enumerate(bodies):
        if type(body) is int:
            bodies[place], erased_by = None, max(erased_by, body)
    return cast("tuple[bytes | None, ...]", tuple(bodies)), hash, erased_by


def _unpack(bodies: bytes) -> list[bytes | int | None]:
    return cast("list[bytes | int | None]", msgpack.unpackb(bodies))  # pyright: ignore[reportUnknownMemberType]


def _entry_checksum(
    index: int,
    epoch: int,
    time_us: int,
    prev_hash: bytes,
    hash: bytes,
    envelope: bytes,
    signature: bytes,
    events: bytes,
    bodies: bytes,
) -> int:
    # The lengths are summed too: a changed length would only move the borders between the fields.
    lengths = (len(envelope), len(signature), len(events), len(bodies))
    numbers = _ENTRY_NUMBERS.pack(index, epoch, time_us, *lengths)
    return crc32(b"".join((numbers, prev_hash, hash, envelope, signature, events, bodies)))


def _seal_checksum(index: int, epoch: int, hash: bytes, sealer: bytes, signature: bytes) -> int:
    numbers = _SEAL_NUMBERS.pack(index, epoch, len(sealer), len(signature))
    return crc32(b"".join((numbers, hash, sealer, signature)))


def _checksum(fields: Row) -> int:
    """The checksum of a small row."""
    return crc32(pack(fields))


def _require_checksum(row: Row, what: str) -> None:
    try:
        intact = row[-1] == _checksum(row[:-1])
    except _MALFORMED as error:
        raise BadRow(f"{what} is malformed") from error
    if not intact:
        raise BadRow(f"the checksum of {what} does not fit its bytes")
