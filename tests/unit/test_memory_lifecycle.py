"""Time's part: decay, expiry, volatility, pruning, reinforcement, and what ranks first (MEMORY §§ 4 and 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_world import ALICE, BOB, DAY_US, HOUR_US, START_US, EnforcedRights, World

from veridical.memory import rules
from veridical.memory.lifecycle import (
    HALF_LIFE_US,
    faded_ppm,
    half_life_us,
    is_expired,
    is_prunable,
    is_stale,
    strength_ppm,
)
from veridical.memory.ranking import is_recallable, normalised, order, rank
from veridical.memory.record import CANDIDATE, PPM, REJECTED, VERIFIED, Record


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def record(world: World) -> Record:
    return world.record(world.write("JWT").record_id)


def test_strength_halves_in_seven_days(record: Record) -> None:
    """A fresh one-off fades by half a week."""
    assert faded_ppm(record, START_US + 7 * DAY_US) == 500_000
    assert faded_ppm(record, START_US + 14 * DAY_US) == 250_000
    assert faded_ppm(record, START_US - DAY_US) == PPM


def test_the_half_life_stretches_up_to_six_times(record: Record) -> None:
    """Support and confidence slow forgetting down, within a bound."""
    assert half_life_us(record) == HALF_LIFE_US
    assert half_life_us(record._replace(support=3)) == 2 * HALF_LIFE_US
    assert half_life_us(record._replace(confidence_ppm=PPM)) == 2 * HALF_LIFE_US
    assert half_life_us(record._replace(confidence_ppm=100_000)) == HALF_LIFE_US
    assert half_life_us(record._replace(support=64, confidence_ppm=PPM)) == 6 * HALF_LIFE_US


def test_verified_and_pinned_records_do_not_fade_in_ranking(record: Record) -> None:
    """Truth does not wear off, and a pin holds."""
    later_us = START_US + 70 * DAY_US
    assert strength_ppm(record._replace(trust=VERIFIED), later_us) == PPM
    assert strength_ppm(record._replace(pinned=True, strength_ppm=700_000), later_us) == 700_000
    assert strength_ppm(record, later_us) < 2_000


def test_decay_does_not_depend_on_how_often_it_runs() -> None:
    """Once at day seven, or daily for seven days: the same records, the same strengths."""
    once, daily = World(), World()
    for world in (once, daily):
        id = world.write("JWT").record_id
    for _ in range(7):
        daily.wait(DAY_US)
        assert daily.prune(id).count == 0
    once.wait(7 * DAY_US)
    once.prune(id)
    once.prune(id)
    assert once.record(id).strength_ppm == daily.record(id).strength_ppm == PPM
    assert strength_ppm(once.record(id), once.now_us) == strength_ppm(daily.record(id), daily.now_us) == 500_000


def test_only_what_is_faded_doubted_alone_and_unverified_is_pruned(record: Record) -> None:
    """Each of the four conditions alone keeps it."""
    weak = record._replace(confidence_ppm=390_000, strength_ppm=149_999)
    assert is_prunable(weak, START_US)
    assert not is_prunable(weak._replace(strength_ppm=150_000), START_US)
    assert not is_prunable(weak._replace(confidence_ppm=400_000), START_US)
    assert not is_prunable(weak._replace(support=2), START_US)
    assert not is_prunable(weak._replace(trust=VERIFIED), START_US)
    assert not is_prunable(weak._replace(pinned=True), START_US)


def test_prune_removes_what_the_rule_allows_and_counts_it(world: World) -> None:
    """The event names those that went; the others stay."""
    weak = world.write("weak").record_id
    kept = world.write("kept", "other").record_id
    world.contradict(weak)
    world.wait(30 * DAY_US)
    assert world.prune(weak, kept, bytes(16), weak).count == 1
    assert world.state.record(weak) is None
    assert world.state.record(kept) is not None
    assert world.state.history(weak)[-1].ended_by == "pruned"
    assert world.write("weak").code == "asserted"


def test_a_future_now_needs_the_admin_right() -> None:
    """Nobody prunes by claiming that it is next year, or by a half-life of a second."""
    world = World(rights=EnforcedRights((ALICE, "admin")))
    id = world.write("weak", author=BOB).record_id
    world.contradict(id, author=BOB)
    next_year_us = world.now_us + 365 * DAY_US
    assert world.prune(id, now_us=next_year_us, author=BOB).rule == rules.FUTURE_TIME
    assert world.prune(id, half_life_us=1, author=BOB).rule == rules.NOT_GRANTED
    assert world.prune(id, now_us=world.now_us + 1, author=BOB).count == 0
    assert world.prune(id, now_us=next_year_us, author=ALICE).count == 1


@pytest.mark.parametrize("verb", ["prune", "reinforce"])
def test_a_leaders_own_commands_die_with_its_epoch(world: World, verb: str) -> None:
    """Decided for one epoch, they apply as nothing in any other."""
    id = world.write("weak").record_id
    assert getattr(world, verb)(id, epoch=world.epoch + 1).rule == rules.PAST_EPOCH
    assert getattr(world, verb)(id, epoch=world.epoch).code in ("pruned", "reinforced")


def test_an_expired_record_is_gone_before_it_is_pruned(world: World) -> None:
    """Its key is free for anything, and the verbs do not find it."""
    id = world.write("JWT", ttl_us=HOUR_US).record_id
    world.promote(id)
    world.wait(HOUR_US)
    assert is_expired(world.record(id), world.now_us)
    assert world.corroborate(id).rule == rules.UNKNOWN_RECORD
    assert world.write("cookies").code == "asserted"
    record = world.record(id)
    assert (record.trust, record.corrections_count, record.created_at_us) == (CANDIDATE, 0, world.now_us)
    assert world.state.history(id)[-1].ended_by == "expired"


def test_a_time_to_live_counts_from_the_write(world: World) -> None:
    """And saying it again never shortens a life: none beats some, the longer beats the shorter."""
    id = world.write("JWT", ttl_us=HOUR_US).record_id
    assert world.record(id).expires_at_us == world.now_us + HOUR_US
    world.write("JWT", ttl_us=HOUR_US // 2)
    assert world.record(id).expires_at_us == world.now_us + HOUR_US
    world.write("JWT", ttl_us=DAY_US)
    assert world.record(id).expires_at_us == world.now_us + DAY_US
    world.write("JWT")
    assert world.record(id).expires_at_us is None
    world.write("JWT", ttl_us=HOUR_US)
    assert world.record(id).expires_at_us is None


def test_a_volatile_record_lives_a_day_unless_confirmed(world: World) -> None:
    """Its author's repetition does not confirm it; another source does."""
    id = world.write("on feature/x", author=ALICE, volatile=True).record_id
    world.write("on feature/x", author=ALICE)
    assert is_expired(world.record(id), world.now_us + DAY_US)
    world.write("on feature/x", author=BOB)
    assert not is_expired(world.record(id), world.now_us + 400 * DAY_US)


def test_flags_are_set_and_lifted(world: World) -> None:
    """A flag of None is left alone; what is so already changes nothing."""
    id = world.write("JWT").record_id
    world.set_flags(id, volatile=True)
    world.set_flags(id, ttl_us=HOUR_US)
    record = world.record(id)
    assert (record.expires_at_us, record.volatile_until_us) == (world.now_us + HOUR_US, world.now_us + DAY_US)
    assert record.expiry_us == world.now_us + HOUR_US
    world.set_flags(id, volatile=False, ttl_us=0)
    assert world.record(id).expiry_us is None
    assert world.set_flags(id, volatile=False, ttl_us=0).code == "unchanged"
    assert world.set_flags(id).code == "unchanged"


def test_a_pin_stops_decay_where_it_stands(world: World) -> None:
    """Unpinned, it fades on from there."""
    id = world.write("JWT").record_id
    world.wait(7 * DAY_US)
    world.pin(id)
    assert world.pin(id).code == "unchanged"
    world.wait(70 * DAY_US)
    assert world.prune(id).count == 0
    assert strength_ppm(world.record(id), world.now_us) == 500_000
    world.unpin(id)
    assert strength_ppm(world.record(id), world.now_us + 7 * DAY_US) == 250_000


def test_reinforcement_moves_strength_and_nothing_else(world: World) -> None:
    """A batch adds 0.3 to each record up to 1, skips what is not held, and leaves no version behind."""
    first, second = world.write("JWT").record_id, world.write("x", "other").record_id
    world.wait(7 * DAY_US)
    before = world.record(first)
    assert world.reinforce(first, second, bytes(16), first).count == 2
    after = world.record(first)
    assert after.strength_ppm == 800_000
    unchanged = before._replace(strength_ppm=800_000, strength_at_us=world.now_us, version=after.version)
    assert after == unchanged
    world.reinforce(first)
    assert world.record(first).strength_ppm == PPM
    assert world.state.history(first) == []


def test_stale_after_thirty_days(record: Record) -> None:
    """A flag, not an end."""
    assert not is_stale(record, START_US + 30 * DAY_US)
    assert is_stale(record, START_US + 30 * DAY_US + 1)


def test_the_rank_formula(record: Record) -> None:
    """0.5 relevance, 0.2 strength, 0.3 confidence, 0.35 for verified."""
    assert rank(record, 1.0, START_US) == pytest.approx(0.5 + 0.2 + 0.15)
    assert rank(record._replace(trust=VERIFIED), 0.0, START_US + 700 * DAY_US) == pytest.approx(0.2 + 0.15 + 0.35)
    assert rank(record, 0.0, START_US + 7 * DAY_US) == pytest.approx(0.1 + 0.15)


def test_ties_break_by_id() -> None:
    """The order of a list does not depend on the order in which it was found."""
    hits = [(0.5, b"b"), (0.7, b"c"), (0.5, b"a")]
    assert sorted(hits, key=lambda hit: order(*hit)) == [(0.7, b"c"), (0.5, b"a"), (0.5, b"b")]


def test_rejected_records_are_never_recalled(record: Record) -> None:
    """Only candidates and verified facts are."""
    assert is_recallable(record)
    assert is_recallable(record._replace(trust=VERIFIED))
    assert not is_recallable(record._replace(trust=REJECTED))


def test_nearly_equal_scores_are_not_pulled_apart() -> None:
    """Of two records that fit about equally well one may be verified: a hundredth of a score must not outweigh it."""
    assert normalised([10.0, 9.9]) == pytest.approx([1.0, 0.98])
    assert normalised([10.0, 1.0]) == [1.0, 0.0]
    assert normalised([0.0, 0.0]) == [1.0, 1.0]


@given(st.lists(st.floats(-1e6, 1e6)))
def test_normalised_scores_lie_between_zero_and_one(scores: list[float]) -> None:
    """The best becomes 1; none leaves the range."""
    spread = normalised(scores)
    assert all(0.0 <= score <= 1.0 for score in spread)
    assert not scores or spread[scores.index(max(scores))] == 1.0
