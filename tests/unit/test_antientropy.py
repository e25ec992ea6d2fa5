"""Plans of anti-entropy: what is compared at which index, what is fetched for a damaged log, how fast a pass goes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from log_world import Scribe
from projection_world import ALICE, World

from veridical.antientropy.digests import LANDMARK_ENTRIES, LANDMARKS_KEPT, Snapshot, Snapshots, Verdicts, differing
from veridical.antientropy.digests import landmark_after as landmark
from veridical.antientropy.erasures import Erasures
from veridical.antientropy.gaps import Gap, beyond_entries, gaps_of, misfit
from veridical.antientropy.pace import CORE_SHARE_LIMIT, ROWS_A_STEP_MIN, SECOND_US, SNAPSHOT_SHARE_LIMIT, Pace
from veridical.log.errors import LogDamaged
from veridical.memory.trust_commands import ERASE, EraseBody
from veridical.projection.projection import Projection

ZERO = bytes(32)


def state(**changed: int) -> list[bytes]:
    """The digests of 256 buckets, all of them zero but for those that are named (b0 to b255)."""
    return [changed.get(f"b{number}", 0).to_bytes(32, "big") for number in range(256)]


def damage(index: int | None) -> LogDamaged:
    """Damage at that entry."""
    return LogDamaged("log.db", index, "rotten")


def test_two_states_differ_where_their_buckets_do() -> None:
    """And nowhere else; states of another size differ everywhere."""
    assert differing(state(b3=1), state(b3=1)) == ()
    assert differing(state(b3=1, b9=7), state(b3=2, b9=7)) == (3,)
    assert len(differing([], state())) == 256


def test_members_under_load_meet_at_landmarks() -> None:
    """Two that stand at different indexes know their digests at the last multiples of the same number."""
    one, other = Snapshots(), Snapshots()
    for snapshots, extra in ((one, 7), (other, 300)):
        for index in (10, LANDMARK_ENTRIES, 2 * LANDMARK_ENTRIES, 2 * LANDMARK_ENTRIES + extra):
            snapshots.note(index, state(b0=index))
    found = other.at(one.indexes)
    assert (found.applied, found.digests[0]) == (2 * LANDMARK_ENTRIES, (2 * LANDMARK_ENTRIES).to_bytes(32, "big"))
    assert one.at((found.applied,)) == found
    assert other.at((10,)) == Snapshot(2 * LANDMARK_ENTRIES + 300, ()), "what lies between is not kept"


def test_a_fold_stops_at_every_landmark() -> None:
    """The next one lies behind where it stands."""
    assert [landmark(index) for index in (0, 1, LANDMARK_ENTRIES - 1)] == [LANDMARK_ENTRIES] * 3
    assert landmark(LANDMARK_ENTRIES) == 2 * LANDMARK_ENTRIES


def test_snapshots_are_bounded_and_can_be_forgotten() -> None:
    """A node keeps the last few landmarks; once its rows were wrong, none."""
    snapshots = Snapshots()
    for number in range(3 * LANDMARKS_KEPT):
        snapshots.note(number * LANDMARK_ENTRIES, state())
    assert len(snapshots.indexes) == LANDMARKS_KEPT
    snapshots.forget()
    assert snapshots.indexes == ()


def test_a_difference_is_judged_once_however_long_it_lasts() -> None:
    """What both fold alike changes their digests and leaves the difference as it is; another one is news."""
    verdicts = Verdicts()
    assert not verdicts.is_known("n2", state(b1=1), state(b1=2))
    verdicts.note("n2", state(b1=1), state(b1=2))
    assert verdicts.is_known("n2", state(b1=1 ^ 8, b7=9), state(b1=2 ^ 8, b7=9))
    assert not verdicts.is_known("n3", state(b1=1), state(b1=2))
    assert not verdicts.is_known("n2", state(b1=1), state(b1=4))
    assert not verdicts.is_known("n2", state(b2=1), state(b2=2))
    verdicts.forget("n2")
    assert not verdicts.is_known("n2", state(b1=1), state(b1=2))


def test_damaged_entries_make_gaps() -> None:
    """Neighbours make one; a seal beyond the end belongs to the last entry; what is no entry's makes none."""
    damages = [damage(index) for index in (7, 3, 4, 4, None, 99)]
    assert gaps_of(damages, 9) == [Gap(3, 4), Gap(7, 7), Gap(9, 9)]
    assert gaps_of(damages, 0) == []
    assert beyond_entries(damages) == [damages[4]]
    assert [str(gap) for gap in gaps_of(damages, 9)][:2] == ["entries 3 to 4", "entry 7"]


def test_what_does_not_fill_a_gap_is_refused() -> None:
    """Other indexes, too few entries, and entries whose bodies are gone."""
    scribe = Scribe()
    scribe.found()
    entries = scribe.say("one", "two")
    gap = Gap(entries[0].index, entries[-1].index)
    known = Erasures()
    assert misfit(gap, entries, known) == ""
    assert str(gap) in misfit(gap, entries[1:] if len(entries) > 1 else [], known)
    bare = [replace(entries[0], bodies=(None,) * len(entries[0].bodies)), *entries[1:]]
    assert f"entry {entries[0].index}" in misfit(gap, bare, known)


def erased_world() -> tuple[World, int]:
    """A secret in entry 1, something else in entry 2, and the index of the entry that erases the secret."""
    world = World()
    id = world.write("the code is xyzzy", "vault", "says")
    world.write("open", "door", "is")
    world.say((ERASE, EraseBody(id, "asked to")), author=ALICE)
    return world, len(world.entries)


def test_a_body_may_be_missing_only_where_a_known_entry_erased_it() -> None:
    """And that entry has to be named; an entry that came before erases nothing that came after."""
    world, by = erased_world()
    secret, other = world.entries[0], world.entries[1]
    gap = Gap(secret.index, secret.index)
    bare = replace(secret, bodies=(None,), erased_by=by)
    knows = Erasures()
    for entry in world.entries:
        knows.note(entry)
    assert by in knows
    assert misfit(gap, [bare], knows) == ""
    assert "no entry known here" in misfit(gap, [bare], Erasures())
    assert "names no entry" in misfit(gap, [replace(bare, erased_by=by - 1)], knows)
    gap = Gap(other.index, other.index)
    assert "no entry known here" in misfit(gap, [replace(other, bodies=(None,), erased_by=by)], knows)
    earlier = Erasures([(secret.index, id) for _, id in _pairs(world)])
    assert "no entry known here" in misfit(Gap(1, 1), [bare], earlier)


def test_what_was_erased_does_not_come_back_with_an_entry() -> None:
    """Only that, and the entry that erased it is named; what came later under the same id stays."""
    world, by = erased_world()
    knows = Erasures(_pairs(world))
    kept = [knows.without_erased(entry) for entry in world.entries]
    assert [(entry.bodies[0] is None, entry.erased_by) for entry in kept[:2]] == [(True, by), (False, 0)]
    assert kept[1:] == world.entries[1:]
    assert all(entry.bodies == kept_entry.bodies for entry, kept_entry in zip(world.entries[1:], kept[1:], strict=True))
    assert Erasures().without_erased(world.entries[0]) is world.entries[0]


def _pairs(world: World) -> list[tuple[int, bytes]]:
    """What a projection knows of all this."""
    with closing(Projection.open(":memory:")) as projection:
        projection.apply(world.entries)
        return projection.reader().erasures_left()


def test_a_pass_keeps_its_rate() -> None:
    """Rows take their time; a step over nothing counts as a few; without a rate there is no rest."""
    pace = Pace(100)
    assert pace.pause_us(50, 1000) == SECOND_US // 2 - 1000
    assert pace.pause_us(0, 0) == ROWS_A_STEP_MIN * SECOND_US // 100
    assert Pace(0).pause_us(50, 1000) == 0


def test_a_slow_machine_is_not_worked_harder_than_a_share_of_a_core() -> None:
    """However high the rate is."""
    took_us = 30_000
    pause_us = Pace(1_000_000).pause_us(10, took_us)
    assert took_us / (took_us + pause_us) <= CORE_SHARE_LIMIT * 1.001
    held_us = Pace(1).pause_in_snapshot_us(took_us)
    assert CORE_SHARE_LIMIT < took_us / (took_us + held_us) <= SNAPSHOT_SHARE_LIMIT * 1.001
    assert Pace(0).pause_in_snapshot_us(took_us) == 0
