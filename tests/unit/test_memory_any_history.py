"""Any history of any commands: what it leaves can be folded again, and nothing is believed that was not earned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from any_history import DAY_US, HOUR_US, Life, histories
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from projection_world import Folder

from veridical.log.canonical import decode
from veridical.log.entry import Entry, Envelope
from veridical.memory import commands as c
from veridical.memory import events
from veridical.memory.lifecycle import HALF_LIFE_US, is_expired, strength_ppm
from veridical.memory.machine import evolve_entry
from veridical.memory.record import REJECTED
from veridical.memory.state import MemoryState, Workspace

PATIENT = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


@PATIENT
@given(histories, st.booleans())
def test_nothing_is_believed_that_was_not_earned(history: list[Any], guarded: bool) -> None:
    """No rejected value is recallable, and nothing verified, but by the ways there are; by an account of its own."""
    life = Life(guarded).live(history)
    for record in life.world.memory.records.values():
        assert (record.trust == REJECTED) == ((record.id, record.value_digest) in life.account.rejected)


@PATIENT
@given(histories, st.booleans(), st.lists(st.integers(1, 9), max_size=4))
def test_any_history_folds_again_to_the_same(history: list[Any], guarded: bool, sizes: list[int]) -> None:
    """In memory and in the database, in batches of any size, and without the bodies of what was erased."""
    world = Life(guarded).live(history).world
    assert refolded(world.entries).state_digest() == world.memory.state_digest()
    with Folder() as fold:
        for entries in (world.entries, world.bereft()):
            projection = fold(entries, *sizes)
            assert projection.state.bucket_digests() == world.memory.buckets()
            assert list(projection.findings()) == []


def refolded(entries: Sequence[Entry]) -> MemoryState:
    """A state with these entries folded into it, one at a time."""
    state = MemoryState()
    for entry in entries:
        workspace = Workspace(state)
        envelope = Envelope.parse(entry.envelope)
        author = None if envelope.on_behalf else envelope.author
        heads = [(head.id, head.kind) for head in envelope.commands]
        contents = [None if body is None else body[16:] for body in entry.bodies]
        evolve_entry(workspace, entry.index, entry.epoch, entry.time_us, author, heads, decode(entry.events), contents)
        state.apply(workspace)
    return state


@PATIENT
@given(histories, st.lists(st.sampled_from([0, HOUR_US, DAY_US, 8 * DAY_US, 30 * DAY_US]), max_size=6))
def test_decay_does_not_depend_on_how_often_it_runs(history: list[Any], pauses: list[int]) -> None:
    """Whenever it has run meanwhile: what is left at the end, and how strong it is, is the same as if it ran once."""
    often, once = Life(False).live(history).world, Life(False).live(history).world
    for pause_us in pauses:
        often.pass_time(pause_us)
        decay(often)
    once.pass_time(often.now_us - once.now_us)
    decay(often)
    decay(once)
    moment_us = often.now_us

    def seen(world: Any) -> dict[bytes, tuple[str, int]]:
        records = world.memory.records.values()
        return {one.id: (one.text, strength_ppm(one, moment_us)) for one in records if not is_expired(one, moment_us)}

    assert seen(often) == seen(once)
    assert often.memory.records.keys() == once.memory.records.keys()


def decay(world: Any) -> None:
    """As the verb does: what nothing rests on goes first, and it asks again until nothing more is to go."""
    while True:
        asked = c.PruneBody(world.now_us, HALF_LIFE_US, tuple(world.memory.records)[:1_000])
        [outcome] = world.say((c.PRUNE, asked))
        if not outcome.count:
            return


def test_the_histories_reach_everything_that_can_happen() -> None:
    """Every event occurs in some of them, or the properties above would say less than they seem to."""
    named = {value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}
    missing = named - {events.EXPIRED}

    @settings(PATIENT, max_examples=1_000, database=None, derandomize=True)
    @given(histories, st.booleans())
    def look(history: list[Any], guarded: bool) -> None:
        if not missing:
            return
        for entry in Life(guarded).live(history).world.entries:
            items: list[list[Any]] = decode(entry.events)
            missing.difference_update(event[0] for item in items if isinstance(item[0], bytes) for event in item[1:])

    look()
    assert missing == set()
