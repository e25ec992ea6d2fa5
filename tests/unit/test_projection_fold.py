"""The projection is what history folds to: at one index, in one transaction, and the same however it came there."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from projection_world import ALICE, BOB, CAROL, SECOND_US, Folder, World, fact_id

from veridical.log.canonical import decode, encode
from veridical.log.entry import ELECTED, ORIGIN, CommandHead, Entry, Envelope, Position, body_hash
from veridical.memory import commands as c
from veridical.memory import events
from veridical.memory import trust_commands as t
from veridical.memory.digest import past_digest, record_digest
from veridical.memory.fields import json_text
from veridical.memory.lifecycle import HALF_LIFE_US
from veridical.memory.record import CANDIDATE, PastVersion, Version
from veridical.projection import rows, schema
from veridical.projection.errors import FoldOrder, ProjectionDamaged, ProjectionFull
from veridical.projection.fold import Fold
from veridical.projection.projection import Projection
from veridical.projection.reader import Reader
from veridical.projection.sqlite import Database
from veridical.security.keys import KeyPair
from veridical.security.principal import Principal
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report

DAY_US = 86_400 * SECOND_US
NEW_BOB = Principal(b"n" * 32)


def eventful() -> World:
    """A history in which every event occurs that the memory rules know."""
    world = World()
    chance = random.Random(7)
    for round in range(60):
        subject, author = f"subject {round % 9}", (ALICE, BOB, CAROL, None)[chance.randrange(4)]
        id = world.write(f"value {chance.randrange(3)}", subject, "is", f"user:{round % 4}", author=author)
        target = id or fact_id(subject, "is", f"user:{round % 4}")
        opinion: tuple[str, c.Body] = (
            (c.CORROBORATE, c.CorroborateBody(target, f"episode {round}")),
            (c.CONTRADICT, c.ContradictBody(target, f"evidence {round}", "wrong")),
            (c.PROMOTE, c.PromoteBody(target, "seen")),
            (c.DEMOTE, c.DemoteBody(target, CANDIDATE, "unsure")),
            (c.ANNOTATE, c.AnnotateBody(target, '{"file":"src/main.py"}')),
            (c.SET_FLAGS, c.FlagsBody(target, ttl_us=DAY_US)),
            (c.PIN, c.PinBody(target)),
            (c.UNPIN, c.PinBody(target)),
            (c.REINFORCE, c.ReinforceBody((target,))),
            (c.SETTING, c.SettingBody(c.MULTI_VALUED, ("*", "likes"))),
            (c.DEMOTE, c.DemoteBody(target, "rejected", "wrong")),
            (c.FORGET, c.ForgetBody(target, "please")),
        )[round % 12]
        world.say(opinion, (c.WRITE, c.WriteBody("fact", "", "", "global", f"a sentence, {round % 5}")), author=BOB)
    contended(world)
    derived(world)
    world.pass_time(2 * DAY_US)
    ids = tuple(world.memory.records)
    world.say((c.PRUNE, c.PruneBody(world.now_us, HALF_LIFE_US, ids)), author=ALICE)
    guarded(world)
    return world


def guarded(world: World) -> None:
    """Principals come and go, and what was not granted is asked for."""
    everything = (("*", ("read", "write", "review", "admin")),)
    world.say((t.ENROLL, t.EnrollBody(ALICE, "Alice", everything)), author=ALICE)
    world.say((t.ENROLL, t.EnrollBody(BOB, "Bob", (("team:*", ("write",)),))), author=ALICE)
    world.say((t.GIVE, t.GrantBody(BOB, "user:bob/**", ("read", "write"))), author=ALICE)
    world.write("his own", "bob", "has", "user:bob", author=BOB)
    world.say((t.TAKE, t.GrantBody(BOB, "team:*", ("write",))), author=ALICE)
    world.write("not his", "bob", "has", "team:x", author=BOB)
    reviewed(world)
    proof = NEW_BOB.sign(t.rotation_message(BOB, NEW_BOB.public_key))
    world.say((t.ROTATE, t.RotateBody(BOB, NEW_BOB.public_key, proof)), author=BOB)
    world.say((t.REVOKE, t.RevokeBody(NEW_BOB.public_key, "gone")), author=ALICE)


def contended(world: World) -> None:
    """Values that contend, and what is refused, on facts of their own."""
    for number in range(3):
        id = world.write("its value", f"disputed {number}", "is", "team:x", author=ALICE)
        world.say((c.PROMOTE, c.PromoteBody(id, "seen")), author=ALICE)
        world.write("another value", f"disputed {number}", "is", "team:x", author=BOB)
        world.write("a third value", f"disputed {number}", "is", "team:x", author=CAROL)
    world.say((c.PIN, c.PinBody(fact_id("disputed 0", "is", "team:x"))), author=ALICE)
    world.say((c.UNPIN, c.PinBody(fact_id("disputed 0", "is", "team:x"))), author=ALICE)
    world.say((c.DEMOTE, c.DemoteBody(fact_id("disputed 1", "is", "team:x"), "", "doubts")), author=ALICE)
    world.write("another value", "disputed 1", "is", "team:x", author=BOB)
    rejected = world.write("wrong", "disputed", "was", "team:x", author=ALICE)
    world.say((c.DEMOTE, c.DemoteBody(rejected, "rejected", "wrong")), author=BOB)
    world.write("wrong", "disputed", "was", "team:x", author=CAROL)


def derived(world: World) -> None:
    """Records that rest on others, of which some are taken away; what still rests on something stays."""
    first, second = (world.write(f"premise {number}", f"premise {number}", "is", "team:y") for number in range(2))
    both = world.write("follows", "conclusion", "is", "team:y", derived_from=(first, second))
    world.write("follows too", "conclusion of a conclusion", "is", "team:y", derived_from=(both,))
    world.say((c.PROMOTE, c.PromoteBody(fact_id("disputed 2", "is", "team:x"), "seen")), author=ALICE)
    world.write("a derived value", "disputed 2", "is", "team:x", derived_from=(first,))
    world.write("another derived value", "disputed 2", "is", "team:x", derived_from=(first, second))
    world.say((c.FORGET, c.ForgetBody(first, "please")), author=ALICE)
    third = world.write("premise 2", "premise 2", "is", "team:y")
    world.write("follows", "conclusion", "is", "team:y", derived_from=(third,))
    world.say((t.REJECT, t.ReviewBody(second, b"", "wrong")), author=ALICE)
    corrected(world)
    episodes = [world.write("turn 0", kind="episode", source="chat", scope="team:y")]
    for number in range(1, 4):
        episodes.append(world.write(f"turn {number}", kind="episode", scope="team:y", follows=episodes[-1]))
    world.write("said", "turns", "are", "team:y", derived_from=tuple(episodes))
    world.say((c.FORGET, c.ForgetBody(episodes[2], "please")), author=ALICE)


def corrected(world: World) -> None:
    """Values take the place of others: of a fact, of a sentence, of two sentences on which something rests."""
    fact = world.write("teal", "Zoe", "prefers", "team:y")
    world.say((c.CORRECT, c.CorrectBody((fact,), "indigo", '{"turn":2}', "she said so")), author=BOB)
    world.say((c.CORRECT, c.CorrectBody((fact,), "Indigo")), author=BOB)
    for source in ("doc:1", "doc:2"):
        taken_back = world.write("sure", "Zoe", "is", "team:y", author=None, source=source)
    for source in ("doc:1", "doc:2"):
        world.say((c.WITHDRAW, c.WithdrawBody(taken_back, source)))
    one, two = (world.write(f"Zoe prefers {colour}", scope="team:y") for colour in ("teal", "green"))
    world.write("colours", "Zoe", "likes", "team:y", derived_from=(one, two))
    [outcome] = world.say((c.CORRECT, c.CorrectBody((one,), "Zoe prefers indigo")), author=BOB)
    world.say((c.CORRECT, c.CorrectBody((outcome.record_id, two), "Zoe prefers indigo and green")), author=BOB)


def attested(world: World) -> None:
    """A grader's receipt is spent."""
    grader = Runner(KeyPair(b"g" * 32), lambda: world.now_us)
    world.say((t.ENROLL, t.EnrollBody(grader.public_key, "Grader", (("*", ("attest",)),))), author=ALICE)
    id = world.write("graded", "graded", "is", "team:x", author=BOB)
    report = signed_report(Report(grader="tests", verdict=Verdict.PASS), grader)
    receipt = attest_fact(Verdict.PASS, [report], subject="graded", predicate="is", text="graded", runner=grader)
    evidence = json_text("evidence", receipt.model_dump(mode="json"))
    world.say((t.ATTEST, t.AttestBody(id, evidence)), author=BOB)


def reviewed(world: World) -> None:
    """What a reviewer decides, and takes back."""
    world.say((t.ENROLL, t.EnrollBody(CAROL, "Carol", (("*", ("read", "write")),))), author=ALICE)
    world.say((t.GIVE, t.GrantBody(BOB, "team:*", ("write",))), author=ALICE)
    id = world.write("its value", "reviewed", "is", "team:x", author=BOB)
    world.write("its value", "reviewed", "is", "team:x", author=CAROL)
    for text in ("another value", "a third value"):
        world.write(text, "reviewed", "is", "team:x", author=ALICE)
    another, third = world.memory.contending(id)
    for kind, value in ((t.APPROVE, another.value_digest), (t.REJECT, third.value_digest), (t.REJECT, b"")):
        world.say((kind, t.ReviewBody(id, value, "looked at")), author=ALICE)
    world.say((t.REVOKE_REJECTION, t.RevokeRejectionBody(id, "", "was right")), author=ALICE)
    world.say((t.EDIT, t.EditBody(id, "the best value", "known better")), author=ALICE)
    world.say((t.UNDO, t.UndoBody(id, world.memory.records[id].version, "not so")), author=ALICE)
    agreed = world.write("agreed", "agreed", "is", "team:x", author=BOB)
    world.write("agreed", "agreed", "is", "team:x", author=CAROL)
    world.say((c.WITHDRAW, c.WithdrawBody(agreed)), author=CAROL)
    attested(world)
    for number in range(2):
        issued = t.IssueTokenBody(BOB, bytes([number]) * 32, f"token {number}", None if number else world.now_us + 1)
        world.say((t.ISSUE_TOKEN, issued), author=ALICE)
    world.say((t.REVOKE_TOKEN, t.RevokeTokenBody(bytes([1]) * 16, "lost")), author=ALICE)
    failure = c.WriteBody("failure", "card", "fails", "team:x", "overflow")
    [written] = world.say((c.WRITE, failure), author=BOB)
    world.say((t.MARK_FIXED, t.FixBody(written.record_id)), author=BOB)
    world.say((c.SETTING, c.SettingBody(c.LATTICE, ("team:x", "global"))), author=ALICE)
    gone = world.write("a slip", "slip", "is", "team:x", author=BOB)
    world.say((t.UNDO, t.UndoBody(gone, world.memory.records[gone].version, "a slip")), author=ALICE)
    kept = world.write("kept", "kept", "is", "team:x", author=BOB)
    world.say((c.FORGET, c.ForgetBody(kept, "please")), author=ALICE)
    version = world.memory.versions[kept][-1].until
    world.say((t.UNDO, t.UndoBody(kept, version, "on second thought")), author=ALICE)
    world.say((c.EMBED, c.EmbedBody(kept, world.memory.records[kept].value_digest, "m", b"\1", 1)), of_node=True)
    secret = world.write("a secret", "secret", "is", "team:x", author=BOB)
    world.write("another secret", "secret", "is", "team:x", author=BOB)
    world.say((t.ERASE, t.EraseBody(secret, "asked to")), author=ALICE)


EVENTFUL = eventful()


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def content(path: Path) -> dict[str, list[Any]]:
    """Every table of a projection, row by row."""
    connection = Database(path).inspector()
    tables = [table.name for table in schema.metadata.sorted_tables]
    found = {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in tables}
    connection.close()
    return found


def test_the_eventful_history_is_one() -> None:
    """It holds every event that there is, or the tests below would prove less than they say."""
    items = [item for entry in EVENTFUL.entries for item in decode(entry.events)]
    codes = {event[0] for item in items if isinstance(item[0], bytes) for event in item[1:]}
    named = {value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}
    assert codes == named - {events.EXPIRED}
    memory = EVENTFUL.memory
    assert all((memory.records, memory.versions, memory.contenders, memory.rejections, memory.retractions))
    assert all((memory.principals, memory.receipts, memory.tokens))


def test_holds_what_the_memory_rules_hold(fold: Folder) -> None:
    """The same history gives the same digests as the reference state in memory, of every bucket and of the whole."""
    reader = fold(EVENTFUL.entries).reader()
    assert reader.buckets()[1] == tuple(EVENTFUL.memory.buckets())
    assert reader.state_digest() == EVENTFUL.memory.state_digest()
    assert reader.applied == Position(1, EVENTFUL.last)
    assert reader.time_us() == EVENTFUL.memory.time_us()


def test_answers_the_rules_as_the_memory_state_does(fold: Folder) -> None:
    """Every question of the `State` port has the same answer."""
    reader, memory = fold(EVENTFUL.entries).reader(), EVENTFUL.memory
    ids = [*memory.records, *memory.versions, *memory.contenders, bytes(16)]
    for id in ids:
        assert reader.record(id) == memory.record(id)
        assert reader.contending(id) == memory.contending(id)
        assert reader.last_past(id) == memory.last_past(id)
        assert sorted(reader.witnesses(id)) == sorted(memory.witnesses(id))
    for row in memory.rejections:
        assert reader.rejected(*row)
        assert not reader.rejected(row[0], bytes(16))
    for id, value, source in memory.retractions:
        assert reader.retracted(id, value, source)
        assert reader.retracted(id, value, b"other source 16b") == memory.retracted(id, value, b"other source 16b")
        assert reader.holds_retraction(id, value, source)
    assert {principal.key: principal for principal in reader.principals()} == memory.principals
    assert all(reader.principal(key) == principal for key, principal in memory.principals.items())
    assert reader.principal(bytes(32)) is None
    assert all(reader.token(id) == token for id, token in memory.tokens.items())
    assert reader.token(bytes(15) + b"?") is None
    assert all(reader.receipt_use(receipt) == id for receipt, id in memory.receipts.items())
    assert reader.receipt_use(bytes(16)) is None
    for command, outcome in memory.outcomes.items():
        assert reader.outcome(command) == outcome
    assert reader.setting(c.MULTI_VALUED) == memory.setting(c.MULTI_VALUED)
    assert reader.setting("never set") is None
    assert reader.window() == memory.window()


@pytest.mark.parametrize("sizes", [(1,) * 200, (3, 50, 1, 7), (40, 40)])
def test_batches_leave_no_trace(fold: Folder, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Entry by entry or all at once: the same rows, but for the numbers that only count how rows were made."""
    fold(EVENTFUL.entries, path=tmp_path / "one.db").close()
    fold(EVENTFUL.entries, *sizes, path=tmp_path / "other.db").close()
    one, other = content(tmp_path / "one.db"), content(tmp_path / "other.db")
    for table in ("past", "contender", "scope", "rejection", "retraction", "command", "setting", "bucket"):
        assert one[table] == other[table], table
    for table in ("record", "content"):
        assert sorted(row[1:] for row in one[table]) == sorted(row[1:] for row in other[table]), table


def test_new_records_are_numbered_as_they_were_made(fold: Folder, tmp_path: Path) -> None:
    """Numbers only grow, also after a record was forgotten and written again: full text is appended, never inserted."""
    world = World()
    first = world.write("one", "a", "is")
    world.write("two", "b", "is")
    world.say((c.FORGET, c.ForgetBody(first)), author=ALICE)
    world.write("three", "a", "is", author=BOB)
    fold(world.entries, 2, path=tmp_path / "projection.db").close()
    numbers = {id: number for number, id, *_ in content(tmp_path / "projection.db")["record"]}
    assert numbers[first] > numbers[fact_id("b", "is")]


def test_entries_folded_before_are_skipped(fold: Folder) -> None:
    """A batch that overlaps what is there changes nothing twice."""
    projection = fold(EVENTFUL.entries[:20])
    projection.apply(EVENTFUL.entries[:20])
    assert projection.applied.index == 20
    projection.apply(EVENTFUL.entries)
    assert projection.reader().state_digest() == EVENTFUL.memory.state_digest()


def test_entries_that_do_not_follow_are_refused(fold: Folder) -> None:
    """Neither a gap nor another history gets in; what was there stays."""
    projection = fold(EVENTFUL.entries[:5])
    with pytest.raises(FoldOrder, match="entry 8 does not follow entry 5"):
        projection.apply(EVENTFUL.entries[7:9])
    other = World()
    for number in range(6):
        other.write(f"another history {number}")
    with pytest.raises(FoldOrder, match="entry 6 does not follow entry 5"):
        projection.apply(other.entries)
    assert projection.applied == Position(1, 5)
    assert projection.applied_hash == EVENTFUL.entries[4].hash


def test_entries_of_the_protocol_let_time_pass(fold: Folder) -> None:
    """An election changes position and time and nothing else."""
    world = World()
    world.write("something")
    last = world.entries[-1]
    body = bytes(16)
    envelope = Envelope("test", ALICE, 0, (CommandHead(bytes(16), ELECTED, body_hash(body)),))
    time_us = last.time_us + SECOND_US
    elected = Entry.chain(last.hash, 2, 2, time_us, envelope.raw, bytes(64), encode([[2, "node"]]), (body,))
    projection = fold(world.entries)
    before = projection.reader().buckets()[1]
    projection.apply([elected])
    assert projection.applied == Position(2, 2)
    assert projection.time_us == time_us
    assert projection.reader().buckets()[1] == before


def test_erased_bodies_fold_to_empty_text(fold: Folder) -> None:
    """*fold-without-bodies*: what was decided stays, the text is gone."""
    world = World()
    id = world.write("a secret", "dana", "is")
    entry = world.entries[0]
    erased = replace(entry, bodies=(None,))
    found = fold([erased]).reader().get(id, world.now_us)[1]
    assert found is not None
    assert found.record.text == ""
    assert found.record.value_digest == world.memory.records[id].value_digest


@pytest.mark.parametrize("third", range(3))
def test_any_record_of_an_eventful_history_can_be_erased(fold: Folder, third: int) -> None:
    """Many at once; history folds to the same without any of their bodies, and none of their texts is left in it."""
    world = eventful()
    ids = sorted(world.memory.records.keys() | world.memory.versions.keys())[third::3]
    for id in ids:
        world.say((t.ERASE, t.EraseBody(id, "asked to")), author=ALICE)
    gone = [id for id in ids if world.memory.record(id) is None]
    assert len(gone) > len(ids) / 2
    for entries in (world.entries, world.bereft()):
        projection = fold(entries, 7)
        assert projection.state.bucket_digests() == world.memory.buckets()
        assert list(projection.findings()) == []
        assert all(past.record.is_erased for id in gone for past in world.memory.versions[id])


def test_resumes_after_a_crash_between_batches(fold: Folder, tmp_path: Path) -> None:
    """A process that dies keeps what its last commit held, and the next one goes on from there."""
    path = tmp_path / "projection.db"
    fold(EVENTFUL.entries[:30], path=path)  # never closed: nobody gets to tidy up
    projection = Projection.open(path)
    assert projection.started_over == ""
    assert projection.applied == Position(1, 30)
    projection.catch_up(EVENTFUL, EVENTFUL.last)
    assert projection.reader().state_digest() == EVENTFUL.memory.state_digest()
    projection.close()


def failing(*_: object) -> None:
    raise MemoryError("in the middle of a batch")


@pytest.mark.parametrize("stage", ["_write_records", "_write_buckets", "_write_standing"])
def test_a_batch_that_fails_leaves_no_trace(
    fold: Folder, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a batch or nothing; afterwards the same projection folds on."""
    path = tmp_path / "projection.db"
    projection = fold(EVENTFUL.entries[:30], path=path)
    before = content(path)
    with monkeypatch.context() as patch:
        patch.setattr(Fold, stage, failing)
        with pytest.raises(MemoryError):
            projection.apply(EVENTFUL.entries)
    assert projection.applied.index == 30
    assert content(path) == before
    projection.apply(EVENTFUL.entries)
    assert projection.reader().state_digest() == EVENTFUL.memory.state_digest()


def test_a_full_disk_leaves_what_was_there(fold: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room: a typed error, the old state, and the same batch folds once there is room."""
    path = tmp_path / "projection.db"
    opened: list[sqlite3.Connection] = []
    make_writer = Database.writer

    def writer(database: Database) -> sqlite3.Connection:
        opened.append(make_writer(database))
        return opened[-1]

    monkeypatch.setattr(Database, "writer", writer)
    projection = fold(EVENTFUL.entries[:30], path=path)
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    opened[0].execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(ProjectionFull):
        projection.apply(EVENTFUL.entries)
    assert projection.applied.index == 30
    opened[0].execute("PRAGMA max_page_count=1000000")
    projection.apply(EVENTFUL.entries)
    assert projection.reader().state_digest() == EVENTFUL.memory.state_digest()


def test_damage_met_while_reading_is_told_as_such(fold: Folder, tmp_path: Path) -> None:
    """The node folds again then; no caller has to know SQLite's words for it."""
    path = tmp_path / "projection.db"
    fold(EVENTFUL.entries, path=path).close()
    garbled_pages(path)
    reader = Reader(Database(path).reader(), str(path))
    with pytest.raises(ProjectionDamaged, match="disk image is malformed"):
        reader.get_many(list(EVENTFUL.memory.records), EVENTFUL.now_us)
    reader.close()


def test_the_writers_own_state_answers_the_rules(fold: Folder) -> None:
    """What it keeps in memory says what the database says, after every batch."""
    projection = fold([])
    for entry in EVENTFUL.entries:
        projection.apply([entry])
    state, memory = projection.state, EVENTFUL.memory
    for id in [*memory.records, *memory.versions, bytes(16)]:
        assert state.record(id) == memory.record(id)
        assert state.contending(id) == memory.contending(id)
    assert all(state.rejected(*row) for row in memory.rejections)
    assert all(state.retracted(*row) for row in memory.retractions)
    for id in [*memory.records, *memory.dependants]:
        assert state.derived(id) == memory.derived(id)
        followers = sorted(row.id for row in memory.records.values() if row.follows == id)
        assert state.episodes_after(id) == tuple(followers)
    assert all(state.principal(key) == principal for key, principal in memory.principals.items())
    assert state.setting(c.MULTI_VALUED) == memory.setting(c.MULTI_VALUED)
    assert (state.window(), state.time_us()) == (memory.window(), memory.time_us())


def tangled(seed: int) -> World:
    """A history in which a few records are made, derived from each other, corrected and taken away again and again."""
    world, chance = World(), random.Random(seed)
    for step in range(120):
        held = sorted(world.memory.records) or [bytes(16)]
        some = tuple(chance.sample(held, min(len(held), chance.randrange(3))))
        author = chance.choice((ALICE, BOB, None))
        match chance.randrange(8):
            case 0 | 1:
                world.write(
                    f"v{chance.randrange(2)}", f"s{chance.randrange(6)}", "is", author=author, derived_from=some
                )
            case 2:
                world.write(f"sentence {chance.randrange(4)}", author=author, derived_from=some)
            case 3:
                world.write(f"turn {chance.randrange(3)}", kind="episode", follows=chance.choice((*some, b"")))
            case 4:
                world.say((c.CORRECT, c.CorrectBody((chance.choice(held),), f"sentence {chance.randrange(4)}")))
            case 5:
                world.say((c.WITHDRAW, c.WithdrawBody(chance.choice(held))), author=author)
            case 6:
                world.say((c.FORGET, c.ForgetBody(chance.choice(held))), author=author)
            case _:
                world.say((t.UNDO, t.UndoBody(*undoable(world, chance), f"step {step}")), author=author)
    return world


def undoable(world: World, chance: random.Random) -> tuple[bytes, tuple[int, int, int]]:
    """A record that was taken away, and the event that did it."""
    gone = sorted(id for id in world.memory.versions if id not in world.memory.records) or [bytes(16)]
    last = world.memory.last_past(id := chance.choice(gone))
    return id, (0, 0, 0) if last is None else last.until


@pytest.mark.parametrize("size", [1, 3, 200])
@pytest.mark.parametrize("seed", range(6))
def test_what_rests_on_what_is_right_whatever_comes_and_goes(fold: Folder, seed: int, size: int) -> None:
    """Records that return to ids that were there before, in batches of any size."""
    world = tangled(seed)
    projection = fold(world.entries, *([size] * (world.last // size)))
    reader = projection.reader()
    assert reader.state_digest() == world.memory.state_digest()
    assert list(projection.findings()) == []
    for id in world.memory.versions.keys() | world.memory.records.keys():
        assert projection.state.derived(id) == reader.derived(id) == world.memory.derived(id)


def test_rebuilt_from_the_log_it_is_byte_equal(fold: Folder, tmp_path: Path) -> None:
    """Thrown away and folded again, it gives the same digest and the same answers, byte for byte."""
    path = tmp_path / "projection.db"
    projection = fold(EVENTFUL.entries, 20, 20, path=path)
    reader = projection.reader()
    before = (reader.state_digest(), reader.page(EVENTFUL.now_us), reader.recall("value sentence", EVENTFUL.now_us))
    reader.close()
    projection.close()
    reached: list[int] = []
    again = Projection.rebuild(path, EVENTFUL, EVENTFUL.last, reached.append)
    reader = again.reader()
    assert before == (
        reader.state_digest(), reader.page(EVENTFUL.now_us), reader.recall("value sentence", EVENTFUL.now_us),
    )  # fmt: skip
    assert reached[-1] == EVENTFUL.last
    reader.close()
    again.close()


def test_catching_up_beyond_the_end_of_history_says_so() -> None:
    """The caller asked for entries that its log does not hold."""
    projection = Projection.open(":memory:")
    with pytest.raises(FoldOrder, match=f"history ends before entry {EVENTFUL.last + 1}"):
        projection.catch_up(EVENTFUL, EVENTFUL.last + 1)
    assert projection.applied.index == EVENTFUL.last


def older_schema(path: Path) -> None:
    connection = Database(path).inspector()
    connection.execute(schema.PUT_STATE, ("schema", rows.pack(schema.SCHEMA_VERSION - 1)))
    connection.close()


def no_tables(path: Path) -> None:
    connection = Database(path).inspector()
    connection.execute("DROP TABLE state")
    connection.close()


def garbled_pages(path: Path) -> None:
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    roots = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name IN ('record', 'record_id', 'content')")
    pages = [page for (page,) in roots]
    connection.close()
    raw = bytearray(path.read_bytes())
    for page in pages:
        raw[(page - 1) * size : page * size] = bytes(size)
    path.write_bytes(raw)


def no_database(path: Path) -> None:
    path.write_bytes(b"this is no database, whatever its name says" * 200)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (older_schema, "of another schema"),
        (no_tables, "damaged"),
        (garbled_pages, "damaged"),
        (no_database, "damaged"),
        (cut_short, "damaged"),
        (empty_file, "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_begun_anew(
    fold: Folder, harm: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    """Older than the schema or damaged: it says so, starts at the origin, and folds to the same state again."""
    path = tmp_path / "projection.db"
    fold(EVENTFUL.entries, path=path).close()
    harm(path)
    projection = Projection.open(path)
    assert projection.started_over.startswith(reason)
    assert projection.applied == ORIGIN
    projection.catch_up(EVENTFUL, EVENTFUL.last)
    assert projection.reader().state_digest() == EVENTFUL.memory.state_digest()
    projection.close()


def test_a_new_file_says_that_it_was_missing(tmp_path: Path) -> None:
    """So that the operator can tell a first start from a loss."""
    projection = Projection.open(tmp_path / "projection.db")
    assert projection.started_over == "missing"
    projection.close()
    again = Projection.open(tmp_path / "projection.db")
    assert again.started_over == ""
    again.close()


def test_forgets_command_ids_with_the_window(fold: Folder) -> None:
    """Ids older than the window's start are dropped, on disk as in memory."""
    world = World()
    world.write("an old command", "a", "is")
    old = next(iter(world.memory.outcomes))
    world.pass_time(8 * DAY_US)
    world.write("a new command", "b", "is")
    reader = fold(world.entries, 1).reader()
    assert old not in world.memory.outcomes
    assert reader.outcome(old) is None
    assert reader.counts().commands == 1
    assert reader.state_digest() == world.memory.state_digest()


def test_many_outcomes_digest_as_in_memory(fold: Folder) -> None:
    """The digest is streamed; the lengths that it writes itself must be those of the encoding."""
    world = World()
    world.write_many([c.WriteBody("fact", f"s{number}", "is", "global", "x") for number in range(20)])
    assert fold(world.entries).reader().state_digest() == world.memory.state_digest()
    world.write_many([c.WriteBody("fact", f"t{number}", "is", "global", "x") for number in range(64)])
    assert fold(world.entries).reader().state_digest() == world.memory.state_digest()


def test_digests_of_rows_are_those_of_the_rules() -> None:
    """The projection digests stored bodies; they must be what the memory room digests."""
    record = next(iter(EVENTFUL.memory.records.values()))
    past = PastVersion(record, Version(1, 2, 3), 4, "superseded", "reason")
    assert rows.stored(record)[0] == record_digest(record)
    assert rows.stored_past(past)[0] == past_digest(past)
    assert rows.record_of(rows.stored(record)[1]) == record
    assert rows.past_of(rows.stored_past(past)[1]) == past
