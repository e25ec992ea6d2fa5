"""Damage: whatever happens to the files of a stopped node is found and named, and nothing is shortened to heal it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from log_world import IDENTITY, Scribe, altered, rehashed, short_history, stored

from veridical.log.canonical import encode
from veridical.log.entry import Entry
from veridical.log.errors import LogDamaged, LogOrder
from veridical.log.rows import REPLACE_ENTRY, REPLACE_SEAL, SCHEMA, entry_row, seal_row
from veridical.log.seal import Seal
from veridical.log.store import LogStore
from veridical.log.verify import verify

PLENTY = 1 << 30
FILES = ("log.db", "log.db-wal", "log.db-mark")


class Stopped(NamedTuple):
    """A small log whose node was stopped: its directory, the file's bytes, and its history."""

    path: Path
    raw: bytes
    scribe: Scribe


class Running(NamedTuple):
    """The files of a node that was killed: before and after its last write, and what it had written."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    scribe: Scribe

    def copy_to(self, directory: Path, *, mark: bytes | None = None, journal: bytes | None = None) -> Path:
        """Lay the files out as they were after the last write, with another mark or journal."""
        for name, raw in self.after.items():
            (directory / name).write_bytes(raw)
        (directory / "log.db-shm").unlink(missing_ok=True)
        if mark is not None:
            (directory / "log.db-mark").write_bytes(mark)
        if journal is not None:
            (directory / "log.db-wal").write_bytes(journal)
        return directory / "log.db"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """Three entries, two seals, an identity; closed in order."""
    path = tmp_path_factory.mktemp("stopped") / "log.db"
    scribe = Scribe()
    scribe.found()
    scribe.say("a fact")
    log = LogStore.open(path)
    log.identify(IDENTITY)
    stored(log, scribe)
    log.write(commit_index=3, hard_state=(1, "node-1", "run-1"))
    log.close()
    return Stopped(path, path.read_bytes(), scribe)


@pytest.fixture
def files(stopped: Stopped, tmp_path: Path) -> Path:
    """A copy of the stopped log, to be damaged."""
    shutil.copytree(stopped.path.parent, tmp_path / "copy")
    return tmp_path / "copy" / "log.db"


def _found(path: Path) -> list[LogDamaged]:
    """All damage that opening, checking and restoring tell of."""
    try:
        log = LogStore.open(path, read_only=True)
    except LogDamaged as damage:
        return [damage]
    try:
        found = log.check() + log.check_file()
        if not found:
            log.restored(PLENTY)
            _ = log.identity
    except LogDamaged as damage:
        return [damage]
    finally:
        log.close()
    return found


def _flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ (1 << place % 8)]) + raw[place + 1 :]


def _as_stored(checksum: int) -> bytes:
    """The bytes of an unsigned 32-bit number in SQLite's file."""
    return next(checksum.to_bytes(size, "big") for size in (1, 2, 3, 4, 6) if checksum < 1 << (8 * size - 1))


def _write_at(path: Path, place: int, byte: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(byte)


def _each_flip(path: Path, raw: bytes, places: range) -> Iterator[tuple[int, list[LogDamaged]]]:
    for place in places:
        _write_at(path, place, _flipped(raw, place)[place : place + 1])
        yield place, _found(path)
        _write_at(path, place, raw[place : place + 1])


def _range_of(raw: bytes, content: bytes) -> range:
    assert raw.count(content) == 1, "the content stands in one place of the file"
    start = raw.index(content)
    return range(start, start + len(content))


# --- a flipped byte ---


@pytest.mark.parametrize("index", [1, 2, 3])
def test_a_flipped_byte_of_an_entry_or_body_is_found_and_its_index_named(
    stopped: Stopped, files: Path, index: int
) -> None:
    row = entry_row(stopped.scribe.entries[index - 1])
    prev_hash, hash, envelope, signature, events, bodies = row[3:9]
    content = prev_hash + hash + envelope + signature + events + bodies + _as_stored(row[9])
    for place, found in _each_flip(files, stopped.raw, _range_of(stopped.raw, content)):
        assert [damage.index for damage in found[:1]] == [index], f"byte {place}: {found}"


@pytest.mark.parametrize("index", [2, 3])
def test_a_flipped_byte_of_a_seal_is_found_and_its_index_named(stopped: Stopped, files: Path, index: int) -> None:
    row = seal_row(stopped.scribe.seals[index])
    content = row[2] + row[3].encode() + row[4] + _as_stored(row[5])
    for place, found in _each_flip(files, stopped.raw, _range_of(stopped.raw, content)):
        assert [damage.index for damage in found[:1]] == [index], f"byte {place}: {found}"


def test_a_flipped_byte_in_what_sqlite_keeps_before_an_entry_is_found(stopped: Stopped, files: Path) -> None:
    for entry in stopped.scribe.entries:
        start = stopped.raw.index(entry.prev_hash + entry.hash)
        # Two lengths, the row's number, a type for each column, and the numbers: 23 bytes or more before the hashes.
        for place, found in _each_flip(files, stopped.raw, range(start - 23, start)):
            if found:
                assert found[0].index == entry.index or found[0].page, f"byte {place}"
            else:
                _assert_whole_but(files, stopped, place)


def test_a_flipped_byte_anywhere_is_found_or_changes_nothing(stopped: Stopped, files: Path) -> None:
    unharmed = 0
    for place, found in _each_flip(files, stopped.raw, range(0, len(stopped.raw), 101)):
        if found:
            assert found[0].file.startswith("log.db"), f"byte {place}"
            assert found[0].index or found[0].page, f"byte {place}: {found[0]}"
        else:
            _assert_whole_but(files, stopped, place)
            unharmed += 1
    assert unharmed, "there is unused room in the file"


def _assert_whole_but(path: Path, stopped: Stopped, place: int) -> None:
    """Everything reads as before although that byte is another: it is one that nobody reads."""
    _write_at(path, place, _flipped(stopped.raw, place)[place : place + 1])
    _assert_whole(path, stopped.scribe)
    _write_at(path, place, stopped.raw[place : place + 1])


def _assert_whole(path: Path, scribe: Scribe) -> None:
    log = LogStore.open(path, read_only=True)
    assert list(log.history()) == scribe.history
    assert log.identity == IDENTITY
    restored = log.restored(PLENTY)
    assert (restored.commit_index, restored.hard_state) == (3, (1, "node-1", "run-1"))
    assert verify(log.history(), IDENTITY.cluster_id, IDENTITY.cluster).is_good
    log.close()


def test_a_flipped_byte_of_the_mark_is_found(files: Path) -> None:
    mark = files.with_name("log.db-mark")
    raw = mark.read_bytes()
    for place in range(len(raw)):
        mark.write_bytes(_flipped(raw, place))
        assert [damage.file for damage in _found(files)] == ["log.db-mark"], f"byte {place}"


def test_reads_refuse_a_damaged_entry_and_serve_the_others(stopped: Stopped, files: Path) -> None:
    place = stopped.raw.index(stopped.scribe.entries[1].envelope)
    files.write_bytes(_flipped(stopped.raw, place))
    log = LogStore.open(files)
    reads: list[Callable[[], object]] = [
        lambda: log.entry(2),
        lambda: log.read(1, PLENTY),
        lambda: log.restored(PLENTY),
        lambda: list(log.history()),
    ]
    for read in reads:
        with pytest.raises(LogDamaged) as caught:
            read()
        assert (caught.value.file, caught.value.index) == ("log.db", 2)
    assert log.entry(1) == stopped.scribe.entries[0]
    assert log.entry(3) == stopped.scribe.entries[2]
    assert log.read(3, PLENTY)[0] == stopped.scribe.entries[2:]
    assert log.last.index == 3
    log.close()


# --- hand edits ---


def _edit(path: Path, statement: str, parameters: tuple[object, ...] = ()) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, parameters)
    connection.close()


def _damage_indexes(path: Path) -> list[int | None]:
    return [damage.index for damage in _found(path)]


def test_a_removed_entry_is_missed(files: Path) -> None:
    _edit(files, "DELETE FROM entries WHERE entry_index = 2")
    assert _damage_indexes(files) == [2]


def test_removed_entries_at_the_end_are_missed(files: Path) -> None:
    _edit(files, "DELETE FROM entries WHERE entry_index >= 2")
    assert _damage_indexes(files) == [2, 3]


def test_an_entry_with_a_fitting_checksum_is_still_found_by_its_hash(stopped: Stopped, files: Path) -> None:
    forged = altered(stopped.scribe.entries[1], events=encode([[1, "node-3"]]))
    _edit(files, REPLACE_ENTRY, entry_row(forged))
    assert _damage_indexes(files) == [2]


def test_an_entry_with_a_fitting_hash_is_still_found_by_its_place(stopped: Stopped, files: Path) -> None:
    forged = rehashed(stopped.scribe.entries[1], events=encode([[1, "node-3"]]))
    _edit(files, REPLACE_ENTRY, entry_row(forged))
    assert _damage_indexes(files) == [2, 3]


@pytest.mark.parametrize("bodies", [(b"salt of 16 bytes" + b"a lie",), (), (None, None)])
def test_another_body_is_found_by_its_hash(stopped: Stopped, files: Path, bodies: tuple[bytes | None, ...]) -> None:
    _edit(files, REPLACE_ENTRY, entry_row(altered(stopped.scribe.entries[2], bodies=bodies)))
    assert _damage_indexes(files) == [3]


def test_a_time_that_goes_back_is_found(stopped: Stopped, files: Path) -> None:
    forged = rehashed(stopped.scribe.entries[2], time_us=1)
    _edit(files, REPLACE_ENTRY, entry_row(forged))
    assert _damage_indexes(files) == [3]


@pytest.mark.parametrize(
    "seal", [Seal(1, 2, bytes(32), "node-1", bytes(64)), Seal(0, 9, bytes(32), "node-1", bytes(64))], ids=str
)
def test_a_seal_on_nothing_is_found(files: Path, seal: Seal) -> None:
    _edit(files, REPLACE_SEAL, seal_row(seal))
    assert _damage_indexes(files) == [seal.index]


def test_a_changed_table_is_found(files: Path) -> None:
    _edit(files, "ALTER TABLE seals ADD COLUMN extra TEXT")
    [damage] = _found(files)
    assert (damage.file, damage.page) == ("log.db", 1)
    assert "tables" in damage.what


@pytest.mark.parametrize("table", sorted(SCHEMA))
def test_a_removed_table_is_found(files: Path, table: str) -> None:
    _edit(files, f"DROP TABLE {table}")
    assert _found(files)


@pytest.mark.parametrize("statement", ["DELETE FROM state", "UPDATE state SET promised_epoch = 0"])
def test_a_state_that_was_tampered_with_keeps_the_log_from_opening(files: Path, statement: str) -> None:
    _edit(files, statement)
    with pytest.raises(LogDamaged, match="state"):
        LogStore.open(files)


# --- a shorter file ---


def test_a_file_that_was_cut_is_found(stopped: Stopped, files: Path) -> None:
    for length in range(0, len(stopped.raw), 1021):
        files.write_bytes(stopped.raw[:length])
        assert _found(files), f"cut at {length}"


def test_a_file_whose_end_is_zero_or_garbage_is_found_or_holds_all(stopped: Stopped, files: Path) -> None:
    size = len(stopped.raw)
    for start in range(0, size, 1021):
        for filler in (bytes(size - start), b"\xa5\x3c" * ((size - start + 1) // 2)):
            files.write_bytes((stopped.raw[:start] + filler)[:size])
            if not _found(files):
                _assert_whole(files, stopped.scribe)


def test_an_emptied_log_is_not_taken_for_a_new_one(files: Path) -> None:
    files.write_bytes(b"")
    with pytest.raises(LogDamaged, match="missing or empty after 3 acknowledged writes"):
        LogStore.open(files)
    files.unlink()
    with pytest.raises(LogDamaged, match="missing or empty"):
        LogStore.open(files)


def test_a_journal_without_its_log_is_not_taken_for_a_new_one(running: Running, tmp_path: Path) -> None:
    running.copy_to(tmp_path)
    (tmp_path / "log.db").write_bytes(b"")
    (tmp_path / "log.db-mark").unlink()
    with pytest.raises(LogDamaged, match="missing or empty"):
        LogStore.open(tmp_path / "log.db")


# --- the journal of a node that was killed ---


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Running:
    """Five writes in the journal; the last one holds entry 6."""
    path = tmp_path_factory.mktemp("running") / "log.db"
    scribe = Scribe()
    scribe.found()
    for text in ("one", "two", "three"):
        scribe.say(text)
    log = LogStore.open(path)
    stored(log, scribe)
    before = {name: path.with_name(name).read_bytes() for name in FILES}
    scribe.store(log, scribe.say("four"))
    after = {name: path.with_name(name).read_bytes() for name in FILES}
    log.close()
    return Running(before, after, scribe)


def _entries(path: Path) -> list[Entry] | None:
    """All entries of a log that opens and is whole; None when opening it told of damage in it or its journal."""
    try:
        log = LogStore.open(path)
    except LogDamaged:
        return None
    assert log.check() == log.check_file() == []
    entries = list(log.restored(PLENTY).tail)
    log.close()
    return entries


def test_a_killed_node_finds_all_it_wrote(running: Running, tmp_path: Path) -> None:
    assert _entries(running.copy_to(tmp_path)) == running.scribe.entries


def test_a_write_torn_by_a_power_cut_is_dropped_whole_and_nothing_else_is(running: Running, tmp_path: Path) -> None:
    journal, start = running.after["log.db-wal"], len(running.before["log.db-wal"])
    assert journal.startswith(running.before["log.db-wal"])
    for cut in range(start, len(journal), 1021):
        lost = len(journal) - cut
        for end in (b"", bytes(lost), b"\x5a" * lost, _flipped(journal, cut)[cut:]):
            path = running.copy_to(tmp_path, mark=running.before["log.db-mark"], journal=journal[:cut] + end)
            assert _entries(path) in (running.scribe.entries[:5], running.scribe.entries), f"cut at {cut}"


def test_after_a_torn_write_the_log_goes_on(running: Running, tmp_path: Path) -> None:
    journal = running.after["log.db-wal"][:-100]
    path = running.copy_to(tmp_path, mark=running.before["log.db-mark"], journal=journal)
    log = LogStore.open(path)
    assert log.last.index == 5
    running.scribe.store(log, running.scribe.entries[5:])
    log.close()
    assert _entries(path) == running.scribe.entries


def test_an_acknowledged_write_that_rotted_in_the_journal_is_damage(running: Running, tmp_path: Path) -> None:
    journal = running.after["log.db-wal"]
    for place in [*range(32), *range(32, len(journal), 331)]:
        path = running.copy_to(tmp_path, journal=_flipped(journal, place))
        found = _entries(path)
        assert found in (running.scribe.entries, None), f"byte {place}"
        if found is None:
            with pytest.raises(LogDamaged):
                LogStore.open(path)  # finding it did not hide it


def test_without_the_mark_only_the_last_write_can_be_mistaken_for_a_torn_one(running: Running, tmp_path: Path) -> None:
    journal, start = running.after["log.db-wal"], len(running.before["log.db-wal"])
    for place in [*range(32), *range(32, len(journal), 331)]:
        path = running.copy_to(tmp_path, journal=_flipped(journal, place))
        path.with_name("log.db-mark").unlink()
        whole, without_last = running.scribe.entries, running.scribe.entries[:5]
        allowed = (whole, without_last, None) if place >= start else (whole, None)
        assert _entries(path) in allowed, f"byte {place}"


def test_a_reader_finds_the_same(running: Running, tmp_path: Path) -> None:
    path = running.copy_to(tmp_path, journal=running.after["log.db-wal"][:-100])
    [damage] = _found(path)
    assert (damage.file, damage.index) == ("log.db-wal", 6)
    assert "1 acknowledged writes are missing" in damage.what


# --- repair ---


def test_a_damaged_entry_is_repaired_from_a_peer(stopped: Stopped, files: Path) -> None:
    raw = stopped.raw
    for content in (stopped.scribe.entries[0].envelope, stopped.scribe.entries[2].events):
        raw = _flipped(raw, raw.index(content))
    files.write_bytes(raw)
    log = LogStore.open(files)
    assert [damage.index for damage in log.check()] == [1, 3]
    for damage in log.check():
        assert damage.index is not None
        log.repair([stopped.scribe.entries[damage.index - 1]], [])
    assert log.check() == []
    assert list(log.history()) == stopped.scribe.history
    log.close()


def test_a_damaged_seal_is_repaired_from_a_peer(stopped: Stopped, files: Path) -> None:
    seal = stopped.scribe.seals[3]
    files.write_bytes(_flipped(stopped.raw, stopped.raw.index(seal.signature)))
    log = LogStore.open(files)
    log.repair(stopped.scribe.entries[2:], [seal])
    assert log.check() == []
    log.close()


def test_neighbours_are_repaired_together(stopped: Stopped, files: Path) -> None:
    raw = stopped.raw
    for entry in stopped.scribe.entries[:2]:
        raw = _flipped(raw, raw.index(entry.signature))
    files.write_bytes(raw)
    log = LogStore.open(files)
    with pytest.raises(LogOrder, match="up to the next whole entry"):
        log.repair(stopped.scribe.entries[:1], [])
    log.repair(stopped.scribe.entries[:2], [])
    assert log.check() == []
    log.close()


def test_only_what_stood_there_is_taken_for_a_repair(stopped: Stopped, files: Path) -> None:
    log = LogStore.open(files)
    entry = stopped.scribe.entries[1]
    for forged in (
        rehashed(entry, time_us=entry.time_us + 1),
        altered(entry, time_us=entry.time_us + 1),
        altered(entry, bodies=(b"salt of 16 bytes" + b"a lie",)),
        altered(entry, index=9),
        altered(entry, index=0),
    ):
        with pytest.raises(LogOrder):
            log.repair([forged], [])
    log.repair([], [])
    assert list(log.history()) == stopped.scribe.history
    log.close()


# --- a check ---


def test_a_check_of_a_range_tells_of_that_range_only(files: Path, stopped: Stopped) -> None:
    raw = stopped.raw
    for entry in stopped.scribe.entries:
        raw = _flipped(raw, raw.index(entry.signature))
    files.write_bytes(raw)
    log = LogStore.open(files)
    assert [damage.index for damage in log.check()] == [1, 2, 3]
    assert [damage.index for damage in log.check(2, 2)] == [2]
    assert [damage.index for damage in log.check(3)] == [3]
    assert log.check(4) == []
    log.close()


def test_a_check_runs_over_many_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridical.log.check.STRETCH_ENTRIES", 2)
    path = tmp_path / "log.db"
    scribe = short_history()
    log = LogStore.open(path)
    stored(log, scribe)
    assert log.check() == []
    log.close()
    _edit(path, REPLACE_ENTRY, entry_row(altered(scribe.entries[4], time_us=1)))
    _edit(path, "DELETE FROM entries WHERE entry_index = 3")
    log = LogStore.open(path)
    assert [damage.index for damage in log.check()] == [3, 5]
    log.close()


def test_damage_says_where_it_is() -> None:
    assert str(LogDamaged("log.db", 7, "is broken", page=3)) == "log.db, page 3, entry 7: is broken"
    assert str(LogDamaged("log.db", None, "is broken")) == "log.db: is broken"


def test_a_checksum_covers_where_one_field_ends_and_the_next_begins(stopped: Stopped) -> None:
    entry = stopped.scribe.entries[0]
    moved = altered(entry, envelope=entry.envelope + entry.signature[:1], signature=entry.signature[1:])
    assert entry_row(moved)[-1] != entry_row(entry)[-1]
