"""The stored log: what was written comes back, in order, and only whole."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_world import CONFIGURATION, IDENTITY, MEMBERS, NODE_KEYS, Scribe, altered, short_history, stored

from veridical.log import store as store_module
from veridical.log.configuration import Member, founding
from veridical.log.entry import ORIGIN, Anchor, Position
from veridical.log.errors import EraseIncomplete, LogError, LogForeign, LogInUse, LogOrder
from veridical.log.store import Erasure, HardState, Identity, LogStore, RestoredLog, Write

PLENTY = 1 << 30


@pytest.fixture(params=["file", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    """An empty log, on disk and in memory."""
    opened = LogStore.open(tmp_path / "log.db" if request.param == "file" else ":memory:")
    yield opened
    opened.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a log may be made."""
    return tmp_path / "log.db"


def _bodies(entries: Any) -> list[tuple[bytes | None, ...]]:
    return [entry.bodies for entry in entries]


# --- writing and reading ---


def test_an_empty_log_has_nothing(log: LogStore) -> None:
    assert log.last == ORIGIN
    assert log.commit_index == 0
    assert log.read(1, PLENTY) == ([], [])
    assert log.entry(1) is None
    assert log.seal(1) is None
    assert list(log.history()) == []
    assert log.check() == log.check_file() == []
    restored = log.restored(PLENTY)
    assert restored.anchor == Anchor()
    assert restored.hard_state == HardState()
    assert (restored.tail, restored.seals, restored.configurations, restored.keys) == ((), (), (), {})


def test_what_was_written_comes_back(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    entries, seals = log.read(1, PLENTY)
    assert entries == scribe.entries
    assert _bodies(entries) == _bodies(scribe.entries)
    assert seals == list(scribe.seals.values())
    assert list(log.history()) == scribe.history
    assert [log.entry(index) for index in range(1, 8)] == scribe.entries
    assert log.seal(4) == scribe.seals.get(4)
    assert log.last == scribe.entries[-1].position
    assert log.check() == log.check_file() == []


def test_it_is_still_there_after_the_log_was_closed(path: Path) -> None:
    scribe = short_history()
    log = LogStore.open(path)
    stored(log, scribe)
    log.write(hard_state=(5, "node-3", "run-9"), commit_index=4)
    log.close()
    again = LogStore.open(path)
    assert list(again.history()) == scribe.history
    assert (again.last, again.commit_index) == (Position(2, 7), 4)
    assert again.restored(PLENTY).hard_state == HardState(5, "node-3", "run-9")
    again.close()


def test_a_closed_log_leaves_two_files(path: Path) -> None:
    log = LogStore.open(path)
    stored(log, short_history())
    log.read(1, PLENTY)
    log.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["log.db", "log.db-mark"]


def test_closing_twice_is_allowed_and_using_it_afterwards_is_not(path: Path) -> None:
    log = LogStore.open(path)
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        log.read(1, PLENTY)
    with pytest.raises(ValueError, match="closed"):
        log.write(commit_index=0)


def test_a_write_takes_parts_and_leaves_the_others_as_they_are(log: LogStore) -> None:
    scribe = Scribe()
    scribe.store(log, scribe.found())
    log.write(hard_state=HardState(3, "node-2", "run"))
    log.write(commit_index=2)
    log.write()
    restored = log.restored(PLENTY)
    assert restored.hard_state == HardState(3, "node-2", "run")
    assert (restored.commit_index, restored.last) == (2, Position(1, 2))


def test_many_writes_are_one_transaction(log: LogStore) -> None:
    scribe = Scribe()
    batches = [scribe.found(), scribe.say("one"), scribe.say("two", "three")]
    log.write_many([Write(None, batch, scribe.seals_of(batch), None, batch[-1].index) for batch in batches])
    assert list(log.history()) == scribe.history
    assert log.commit_index == 5


def test_if_one_of_many_writes_does_not_fit_none_is_stored(log: LogStore) -> None:
    scribe = Scribe()
    first, skipped, third = scribe.found(), scribe.say("one"), scribe.say("two")
    assert skipped
    with pytest.raises(LogOrder):
        log.write_many([Write(entries=first), Write(entries=third)])
    assert log.last == ORIGIN
    assert log.read(1, PLENTY) == ([], [])
    log.write(entries=first)
    assert log.last == Position(1, 2)


# --- stretches ---


def test_a_stretch_goes_on_to_the_next_seal(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    assert [entry.index for entry in log.read(1, 1)[0]] == [1, 2]
    assert [entry.index for entry in log.read(2, 1)[0]] == [2]
    entries, seals = log.read(3, 1)
    assert [entry.index for entry in entries] == [3, 4]
    assert [seal.index for seal in seals] == [4]


def test_a_stretch_holds_as_much_as_was_asked_for(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    first_three = sum(entry.size_bytes for entry in scribe.entries[:3])
    assert [entry.index for entry in log.read(1, first_three)[0]] == [1, 2, 3, 4]
    assert [entry.index for entry in log.read(1, first_three - scribe.entries[2].size_bytes)[0]] == [1, 2]


def test_a_stretch_ends_where_it_must(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    entries, seals = log.read(1, PLENTY, last=3)
    assert [entry.index for entry in entries] == [1, 2, 3]
    assert [seal.index for seal in seals] == [2]
    assert log.read(4, PLENTY, last=3) == log.read(8, PLENTY) == log.read(0, PLENTY) == ([], [])


def test_a_log_that_ends_without_a_seal_is_read_to_its_end(log: LogStore) -> None:
    scribe = Scribe()
    scribe.found()
    scribe.append(scribe.command(["not sealed yet"]), sealed=False)
    stored(log, scribe)
    assert [entry.index for entry in log.read(3, 1)[0]] == [3]


def test_history_is_read_in_pages_that_join(log: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "HISTORY_PAGE_BYTES", 1)
    scribe = short_history()
    stored(log, scribe)
    assert list(log.history()) == scribe.history
    assert list(log.history(first=3, last=5)) == scribe.history[2:5]


# --- restoring ---


def test_the_tail_is_as_long_as_asked_for_and_its_anchor_is_what_it_follows(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.write(commit_index=7)
    for first in range(1, 9):
        weight = sum(entry.size_bytes for entry in scribe.entries[first - 1 :])
        # Bodies are weighed as they are stored, with a few bytes of their own.
        restored = log.restored(weight + 40)
        assert [entry.index for entry in restored.tail] == list(range(first, 8))
        assert restored.anchor == (Anchor.at(scribe.entries[first - 2]) if first > 1 else Anchor())
        assert [seal.index for seal in restored.seals] == [index for index in scribe.seals if index >= first]


def test_the_tail_holds_all_that_is_not_committed(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.write(commit_index=3)
    assert [entry.index for entry in log.restored(0).tail] == [4, 5, 6, 7]


def test_configurations_are_the_one_in_force_at_the_anchor_and_those_of_the_tail(log: LogStore) -> None:
    scribe = Scribe()
    scribe.found()
    scribe.say("one")
    smaller = founding(MEMBERS[:2])
    [second] = scribe.append(scribe.notary.configured(smaller, scribe.end.time_us))
    scribe.say("two")
    [third] = scribe.append(scribe.notary.configured(CONFIGURATION, scribe.end.time_us))
    stored(log, scribe)
    log.write(commit_index=5)
    restored = log.restored(0)
    assert [known.index for known in restored.configurations] == [second.index, third.index]
    log.write(commit_index=6)
    assert [known.index for known in log.restored(0).configurations] == [third.index]
    assert [known.index for known in log.restored(PLENTY).configurations] == [1, second.index, third.index]


def test_the_keys_of_removed_members_are_kept(log: LogStore) -> None:
    scribe = Scribe()
    scribe.found()
    scribe.append(scribe.notary.configured(founding(MEMBERS[:2]), scribe.end.time_us))
    stored(log, scribe)
    log.write(commit_index=3)
    restored = log.restored(0)
    assert len(restored.configurations[-1].members) == 2
    assert restored.keys == {id: key.public_key for id, key in NODE_KEYS.items()}


# --- cutting ---


def test_a_cut_drops_what_follows_and_the_new_tail_takes_its_place(log: LogStore) -> None:
    scribe, other = Scribe(), Scribe()
    for each in (scribe, other):
        each.found()
    scribe.say("lost", "lost too")
    stored(log, scribe)
    other.lead("node-2", 2)
    [kept] = other.say("kept")
    log.write(cut_after=2, entries=other.entries[2:], seals=other.seals_of(other.entries[2:]))
    assert list(log.history()) == other.history
    assert log.last == kept.position
    assert log.check() == []


def test_a_cut_takes_the_configurations_along(log: LogStore) -> None:
    scribe = Scribe()
    scribe.found()
    scribe.append(scribe.notary.configured(founding(MEMBERS[:2]), scribe.end.time_us))
    stored(log, scribe)
    log.write(cut_after=2)
    assert [known.index for known in log.restored(PLENTY).configurations] == [1]
    assert log.last == Position(1, 2)


def test_everything_can_be_cut_while_nothing_is_committed(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.write(cut_after=0, hard_state=(9, None, None))
    assert log.last == ORIGIN
    assert log.restored(PLENTY).hard_state.promised_epoch == 9
    stored(log, scribe)
    assert list(log.history()) == scribe.history


def test_cutting_after_the_end_changes_nothing(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.write(cut_after=7)
    log.write(cut_after=100)
    assert list(log.history()) == scribe.history


# --- what does not fit ---


@pytest.mark.parametrize("change", [{"index": 4}, {"index": 2}, {"prev_hash": bytes(32)}, {"epoch": 0}], ids=str)
def test_an_entry_out_of_place_is_refused(log: LogStore, change: dict[str, Any]) -> None:
    scribe = Scribe()
    scribe.store(log, scribe.found())
    [entry] = scribe.say("one")
    with pytest.raises(LogOrder):
        log.write(entries=[altered(entry, **change)])
    assert log.last == Position(1, 2)


@pytest.mark.parametrize(
    "write",
    [
        {"cut_after": 2},
        {"commit_index": 8},
        {"hard_state": (3, None, None)},
        {"seals": [Scribe().notary.seal(1, 8, bytes(32))]},
        {"seals": [Scribe().notary.seal(1, 0, bytes(32))]},
    ],
    ids=lambda write: next(iter(write)),
)
def test_what_would_break_a_promise_is_refused(log: LogStore, write: dict[str, Any]) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.write(commit_index=3, hard_state=(4, "node-1", "run"))
    with pytest.raises(LogOrder):
        log.write(**write)
    assert list(log.history()) == scribe.history


def test_a_seal_of_another_hash_is_refused_with_its_entries(log: LogStore) -> None:
    scribe = Scribe()
    batch = scribe.found()
    with pytest.raises(LogOrder, match="seal at 2"):
        log.write(entries=batch, seals=[scribe.notary.seal(1, 2, bytes(32))])


def test_a_number_beyond_63_bits_is_refused(log: LogStore) -> None:
    with pytest.raises(LogOrder, match="63 bits"):
        log.write(hard_state=(1 << 63, None, None))
    log.write(hard_state=((1 << 63) - 1, None, None))


def test_a_commit_index_never_goes_back(log: LogStore) -> None:
    stored(log, short_history())
    log.write(commit_index=5)
    log.write(commit_index=3)
    assert log.commit_index == 5


def test_a_later_leader_may_seal_an_entry_again(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    again = scribe.notary.seal(9, 7, scribe.end.hash)
    log.write(seals=[again])
    assert log.seal(7) == again


# --- whose log it is ---


def test_a_log_belongs_to_whom_it_was_given(path: Path) -> None:
    log = LogStore.open(path)
    assert log.identity is None
    log.identify(IDENTITY)
    log.identify(IDENTITY)
    log.close()
    log = LogStore.open(path)
    assert log.identity == IDENTITY
    with pytest.raises(LogForeign, match="belongs to"):
        log.identify(Identity("other", "example", "node-1"))
    log.close()


def test_only_one_writer_at_a_time(path: Path) -> None:
    log = LogStore.open(path)
    with pytest.raises(LogInUse):
        LogStore.open(path)
    log.close()
    LogStore.open(path).close()


def test_a_log_can_be_read_beside_its_writer(path: Path) -> None:
    scribe = Scribe()
    log = LogStore.open(path)
    scribe.store(log, scribe.found())
    reading = LogStore.open(path, read_only=True)
    assert reading.identity is None
    log.identify(IDENTITY)
    scribe.store(log, scribe.say("later"), commit_index=3)
    assert list(reading.history()) == scribe.history
    assert (reading.last, reading.commit_index, reading.identity) == (Position(1, 3), 3, IDENTITY)
    assert reading.check() == reading.check_file() == []
    with pytest.raises(LogOrder, match="reading only"):
        reading.write(commit_index=1)
    reading.close()
    log.close()


def test_reading_a_stopped_log_leaves_it_as_it_is(path: Path) -> None:
    log = LogStore.open(path)
    stored(log, short_history())
    log.close()
    before = path.read_bytes(), path.with_name("log.db-mark").read_bytes()
    reading = LogStore.open(path, read_only=True)
    assert reading.check() == []
    reading.close()
    assert (path.read_bytes(), path.with_name("log.db-mark").read_bytes()) == before


def test_a_missing_log_or_directory_is_named(path: Path) -> None:
    with pytest.raises(LogError, match="there is no log"):
        LogStore.open(path, read_only=True)
    with pytest.raises(LogError, match=r"nowhere/log\.db"):
        LogStore.open(path.parent / "nowhere" / "log.db")


def test_other_files_are_left_alone(path: Path) -> None:
    path.write_bytes(b"a text that is much longer than the header of a database, and none at all\n" * 30)
    before = path.read_bytes()
    with pytest.raises(LogForeign):
        LogStore.open(path)
    assert path.read_bytes() == before


def test_other_databases_are_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    connection.close()
    with pytest.raises(LogForeign, match="something else"):
        LogStore.open(path)


def test_a_log_of_a_later_format_is_left_alone(path: Path) -> None:
    """It is not called damaged: whoever believed that would move the data away."""
    with closing(LogStore.open(path)) as log:
        stored(log, short_history())
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE more (something TEXT)")
    connection.execute("PRAGMA user_version=3")
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(LogForeign, match="format 3, this version of the software reads formats up to 2"):
            LogStore.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_log_of_the_first_format_is_read_and_carried_on(path: Path) -> None:
    """It kept nothing of what was seen of other members; a reader leaves it as it is."""
    with closing(LogStore.open(path)) as log:
        stored(log, short_history())
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE seen")
    connection.execute("PRAGMA user_version=1")
    connection.close()
    before = path.read_bytes()
    with closing(LogStore.open(path, read_only=True)) as log:
        assert (log.last.index, log.restored(PLENTY).seen) == (7, ())
    assert path.read_bytes() == before
    with closing(LogStore.open(path)) as log:
        assert log.restored(PLENTY).seen == ()
        log.write(seen=[("node-2", 3, 7), ("node-3", 2, 1 << 40)])
    with closing(LogStore.open(path, read_only=True)) as log:
        assert log.restored(PLENTY).seen == (("node-2", 3, 7), ("node-3", 2, 1 << 40))
        assert log.check_file() == log.check() == []


def test_an_interrupted_making_is_made_again(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    log = LogStore.open(path)
    assert log.last == ORIGIN
    log.close()


# --- erasing ---


def test_erased_bodies_are_gone_and_the_chain_still_holds(log: LogStore) -> None:
    scribe = short_history()
    stored(log, scribe)
    log.erase([Erasure(4, (1,), 6)])
    entry = log.entry(4)
    assert entry is not None
    assert entry == scribe.entries[3]
    assert entry.bodies == (scribe.entries[3].bodies[0], None)
    assert (entry.erased_by, scribe.entries[3].erased_by) == (6, 0)
    assert log.check() == []
    log.erase([Erasure(4, (0, 1), 5)])
    [emptied], _ = log.read(4, 1)
    assert (emptied.bodies, emptied.erased_by) == ((None, None), 6)


@pytest.mark.parametrize("seed", range(4))
def test_no_file_holds_a_body_that_was_erased_or_cut(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = LogStore.open(path)
    scribe = Scribe()
    scribe.store(log, scribe.found())
    kept: dict[int, bytes] = {}
    gone: list[bytes] = []
    for step in range(80):
        action = chance.random()
        if action < 0.6:
            texts = [f"<{step}.{place}>" + "x" * chance.choice([0, 100, 1500, 9000]) for place in range(3)]
            batch = scribe.say(*texts)
            scribe.store(log, batch)
            kept |= {entry.index: text.split("x")[0].encode() for entry, text in zip(batch, texts, strict=True)}
        elif action < 0.7:
            index = chance.randint(max(2, scribe.end.index - 8), scribe.end.index)
            log.write(cut_after=index)
            _forget_after(scribe, index)
            gone += [kept.pop(cut) for cut in list(kept) if cut > index]
        elif kept:
            index = chance.choice(list(kept))
            log.erase([Erasure(index, (0,), index + 1)])
            gone.append(kept.pop(index))
    log.close()
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert [text for text in gone if text in content] == []
    assert [text for text in kept.values() if text not in content] == []


def _forget_after(scribe: Scribe, index: int) -> None:
    del scribe.entries[index:]
    scribe.seals = {sealed: seal for sealed, seal in scribe.seals.items() if sealed <= index}


def test_an_erased_body_is_gone_while_the_log_is_still_open(path: Path) -> None:
    scribe = Scribe()
    log = LogStore.open(path)
    scribe.store(log, scribe.found())
    scribe.store(log, scribe.say("secret"))
    log.erase([Erasure(3, (0,), 4)])
    assert b"secret" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
    log.close()


def test_erasing_waits_for_readers_and_says_when_one_is_in_the_way(path: Path) -> None:
    scribe = short_history()
    log = LogStore.open(path)
    stored(log, scribe)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchone()
    with pytest.raises(EraseIncomplete):
        log.erase([Erasure(4, (0,), 5)])
    reader.close()
    log.erase([Erasure(4, (0,), 5)])
    log.close()


@pytest.mark.parametrize(
    "erasure",
    [
        Erasure(0, (0,), 5),
        Erasure(8, (0,), 9),
        Erasure(4, (2,), 5),
        Erasure(4, (-1,), 5),
        Erasure(4, (1,), 4),
        Erasure(4, (0,), 3),
    ],
)
def test_only_bodies_that_are_there_can_be_erased_by_what_came_later(log: LogStore, erasure: Erasure) -> None:
    stored(log, short_history())
    with pytest.raises(LogOrder):
        log.erase([erasure])


# --- many threads ---


def test_readers_see_whole_batches_while_a_writer_writes(path: Path) -> None:
    log = LogStore.open(path)
    scribe = Scribe()
    scribe.store(log, scribe.found())
    batches = [scribe.say(*(f"{batch}-{place}" for place in range(8))) for batch in range(60)]
    failures: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            last = log.last.index
            entries, seals = log.read(1, PLENTY)
            if len(entries) % 8 != 2 or len(entries) < last or seals[-1].index != entries[-1].index:
                failures.append(f"{len(entries)} entries, {last} before")
            if entries != scribe.entries[: len(entries)]:
                failures.append("other entries")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for batch in batches:
        scribe.store(log, batch)
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert list(log.history()) == scribe.history
    log.close()


def test_readers_in_turn_do_not_let_the_journal_grow_without_bound(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridical.log.database.CHECKPOINT_BYTES", 1 << 16)
    monkeypatch.setattr("veridical.log.database.JOURNAL_BYTES_LIMIT", 1 << 18)
    log = LogStore.open(path)
    scribe = Scribe()
    scribe.store(log, scribe.found())
    done = threading.Event()

    def read(start_s: float) -> None:
        done.wait(start_s)
        while not done.is_set():
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT max(entry_index) FROM entries").fetchone()
            done.wait(0.02)
            reader.close()

    readers = [threading.Thread(target=read, args=(number * 0.002,)) for number in range(10)]
    for reader in readers:
        reader.start()
    largest = 0
    for _ in range(300):
        scribe.store(log, scribe.say("x" * 8000))
        largest = max(largest, path.with_name("log.db-wal").stat().st_size)
    done.set()
    for reader in readers:
        reader.join()
    assert largest < 1 << 20
    log.close()


# --- properties ---

TEXTS = st.lists(st.text(max_size=50), min_size=1, max_size=4)


@given(st.lists(TEXTS, max_size=6), st.data())
def test_whatever_is_written_cut_and_reopened_equals_a_list(batches: list[list[str]], data: st.DataObject) -> None:
    log = LogStore.open(":memory:")
    scribe = Scribe()
    scribe.store(log, scribe.found())
    for texts in batches:
        scribe.store(log, scribe.append(*(scribe.command([text]) for text in texts)))
        if data.draw(st.booleans(), label="cut"):
            index = data.draw(st.integers(2, scribe.end.index), label="after")
            _forget_after(scribe, index)
            log.write(cut_after=index)
    first = data.draw(st.integers(1, scribe.end.index))
    assert list(log.history()) == scribe.history
    assert log.read(first, PLENTY)[0] == scribe.entries[first - 1 :]
    restored = log.restored(data.draw(st.integers(0, 2000)))
    assert list(restored.tail) == scribe.entries[restored.anchor.index :]
    assert log.check() == []
    log.close()


def test_what_is_committed_for_sure() -> None:
    """All that the only voter holds, by a configuration that is committed itself; else what the log was told."""

    def committed(voters: tuple[str, ...], commit_index: int, changed_at: int, node: str = "a") -> int:
        members = [Member(id, id, bytes([place]) * 32, f"{id}:1") for place, id in enumerate(voters)]
        configuration = replace(founding(members), index=changed_at)
        log = RestoredLog(HardState(), commit_index, Position(1, 9), Anchor(), (), (), (configuration,), {})
        return log.committed_on(node)

    assert committed(("a",), 5, changed_at=1) == 9
    assert committed(("a",), 5, changed_at=6) == 5
    assert committed(("a",), 5, changed_at=1, node="b") == 5
    assert committed(("a", "b", "c"), 5, changed_at=1) == 5
    nothing = RestoredLog(HardState(), 5, Position(1, 9), Anchor(), (), (), (), {})
    assert nothing.committed_on("a") == 5
