"""What erasing does to a memory: nothing of the text is left in any state, and history folds to the same without it."""

from __future__ import annotations

import pytest
from projection_world import ALICE, BOB, Folder, World, fact_id

from veridical.memory import commands as c
from veridical.memory import events, rules
from veridical.memory import trust_commands as t
from veridical.memory.changes import Effect, effects_of, erased_by, subjects_of
from veridical.memory.digest import row_bytes
from veridical.memory.machine import Outcome
from veridical.memory.state import MemoryState

SECRET = "the code is 7291"
RIGHTS = ("read", "write", "review", "attest", "vouch", "admin")


def erase(world: World, id: bytes, author: bytes | None = None) -> Outcome:
    """Erase what was said under that id."""
    [outcome] = world.say((t.ERASE, t.EraseBody(id, "asked to")), author=author)
    return outcome


def told(world: World) -> bytes:
    """A record of whose text much was said: corrected, contended, annotated, contradicted, repeated, refused."""
    id = world.write(SECRET, "vault", "is", "team:x", author=ALICE, metadata='{"pin":"7291"}', source="7291.txt")
    world.say((c.PROMOTE, c.PromoteBody(id, "7291 was seen")), author=ALICE)
    world.write("the code is 7291 or so", "vault", "is", "team:x", author=BOB)
    world.write("the code was 7291", "vault", "is", "team:x", author=ALICE)
    world.say((c.ANNOTATE, c.AnnotateBody(id, '{"again":"7291"}')), author=ALICE)
    world.say((c.REINFORCE, c.ReinforceBody((id,))))
    world.write("the code was 7291", "vault", "is", "team:x", author=ALICE)
    world.say((t.EDIT, t.EditBody(id, "it is 7291 now", "7291")), author=ALICE)
    return id


def everything(memory: MemoryState) -> bytes:
    """All rows of a state."""
    rows = (list(memory.records.values()), list(memory.versions.values()), list(memory.contenders.values()))
    return row_bytes(rows)


def test_nothing_is_left_of_the_text() -> None:
    """In rows that are held, that were held, or that wait; before, it was in all of them."""
    world = World()
    id = told(world)
    bystander = world.write("something else", "door", "is", "team:x")
    assert everything(world.memory).count(b"7291") > 10
    assert erase(world, id).code == "erased"
    assert b"7291" not in everything(world.memory)
    assert world.memory.record(id) is None
    assert world.memory.contending(id) == ()
    assert world.memory.records[bystander].text == "something else"
    last = world.memory.last_past(id)
    assert last is not None and (last.ended_by, last.reason, last.record.is_erased) == ("erased", "asked to", True)


def test_what_was_forgotten_before_can_be_erased() -> None:
    """And what was erased, again: bodies may have come since that were refused."""
    world = World()
    id = told(world)
    world.say((c.FORGET, c.ForgetBody(id, "7291 please")))
    assert b"7291" in everything(world.memory)
    for _ in range(2):
        assert erase(world, id).code == "erased"
        assert b"7291" not in everything(world.memory)


def test_an_erased_value_does_not_come_back() -> None:
    """Not from who said it, nor by undoing anything; an independent source may say it anew."""
    world = World()
    id = told(world)
    erase(world, id)
    erased = world.memory.versions[id][-1].until
    assert world.write("the code was 7291", "vault", "is", "team:x", author=ALICE) == id
    assert world.memory.record(id) is None
    for event in (erased, world.memory.versions[id][0].until):
        [outcome] = world.say((t.UNDO, t.UndoBody(id, event, "please")), author=ALICE)
        assert outcome.code == "refused"
    [outcome] = world.say((t.UNDO, t.UndoBody(id, erased, "please")), author=ALICE)
    assert outcome.rule == rules.CONTENT_ERASED
    world.write("the code is 1111", "vault", "is", "team:x", author=BOB)
    assert world.memory.records[id].text == "the code is 1111"


def test_what_rested_on_it_alone_falls() -> None:
    """As with forgetting: it is forgotten too, not erased."""
    world = World()
    id = told(world)
    alone = world.write("so it is short", "length", "is", "team:x", derived_from=(id,))
    erase(world, id)
    assert world.memory.record(alone) is None
    last = world.memory.last_past(alone)
    assert last is not None and (last.ended_by, last.record.text) == ("forgotten", "so it is short")


@pytest.mark.parametrize("asked", [0, 1])
def test_what_a_correction_joined_is_erased_together(asked: int) -> None:
    """A sentence and what took its place share their text, whichever of them is named."""
    world = World()
    old = world.write("the code is 7291", scope="team:x", author=ALICE)
    [outcome] = world.say((c.CORRECT, c.CorrectBody((old,), "the code is 7291 indeed", reason="7291")), author=ALICE)
    new = outcome.record_id
    assert new != old and world.memory.record(old) is None
    assert erase(world, (old, new)[asked]).code == "erased"
    assert b"7291" not in everything(world.memory)
    assert (world.memory.record(old), world.memory.record(new)) == (None, None)
    history = world.bereft()
    assert b"7291" not in b"".join(filter(None, (body for entry in history for body in entry.bodies)))
    with Folder() as folder:
        for entries in (world.entries, history):
            assert folder(entries, 1).state.bucket_digests() == world.memory.buckets()


def test_erasing_takes_the_right_admin_there() -> None:
    """Who may write may forget; who administers may erase. An id that was never held tells nothing to others."""
    world = World()
    world.say((t.ENROLL, t.EnrollBody(ALICE, "Alice", (("*", RIGHTS),))), author=ALICE)
    world.say((t.ENROLL, t.EnrollBody(BOB, "Bob", (("team:x", ("read", "write", "review")),))), author=ALICE)
    id = world.write(SECRET, "vault", "is", "team:x", author=BOB)
    unknown = fact_id("nothing", "is", "team:x")
    for target in (id, unknown):
        assert erase(world, target, BOB).rule == rules.NOT_GRANTED
    assert world.memory.records[id].text == SECRET
    assert erase(world, unknown, ALICE).rule == rules.UNKNOWN_RECORD
    assert erase(world, id, ALICE).code == "erased"


def test_history_folds_to_the_same_without_the_bodies() -> None:
    """*fold-without-bodies*: in memory and in a projection, whatever the batches; and it did hold the text."""
    world = World()
    id = told(world)
    world.write("something else", "door", "is", "team:x")
    world.say((c.FORGET, c.ForgetBody(id, "7291 please")))
    erase(world, id)
    world.write("the code was 7291", "vault", "is", "team:x", author=ALICE)
    world.write("the code is 1111", "vault", "is", "team:x", author=BOB)
    erase(world, id)
    history = world.bereft()
    assert b"7291" in b"".join(filter(None, (body for entry in world.entries for body in entry.bodies)))
    assert b"7291" not in b"".join(filter(None, (body for entry in history for body in entry.bodies)))
    with Folder() as folder:
        for entries in (world.entries, history):
            for sizes in ((), (1,) * len(entries), (3, 5)):
                projection = folder(entries, *sizes)
                assert projection.state.bucket_digests() == world.memory.buckets()
                assert list(projection.findings()) == []


def test_an_erasure_is_a_change_and_names_its_subject() -> None:
    """The record is gone; what fell with it is named as well, and its own bodies stay."""
    one, other = b"1" * 16, b"2" * 16
    item = [b"d" * 16, [events.ERASED, one, b"s" * 16], [events.WITHDRAWN, one, "erased", [other], [], []]]
    assert effects_of(item) == [Effect(one, ("erased", "withdrawn"), gone=True), Effect(other, ("withdrawn",), True)]
    assert subjects_of(item) == {one}
    assert erased_by(item) == [one]
    assert subjects_of(["seen", "asserted", "", one, 1, [], []]) == subjects_of(["denied", "rule", one]) == {one}
    assert subjects_of(["conflict"]) == subjects_of(["window", "x", 5]) == subjects_of(["denied", "rule", b""]) == set()
    assert subjects_of([b"d" * 16, [events.REFUSED, one, "rule"]]) == {one}
    assert subjects_of([b"d" * 16, [events.PRUNED, one, other]]) == set()
