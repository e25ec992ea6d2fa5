"""Who may believe what: opinions, reviews, and what forgetting remembers (MEMORY §§ 3 and 5)."""

from __future__ import annotations

import pytest
from memory_world import ALICE, BOB, CAROL, DAY_US, HOUR_US, EnforcedRights, World

from veridical.memory import rules
from veridical.memory.keys import make_key, record_id
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED

UNKNOWN = bytes(16)


@pytest.fixture
def world() -> World:
    """A store without principals: whoever opened it is its operator."""
    return World()


@pytest.fixture
def guarded() -> World:
    """A store with principals: everybody writes, Carol reviews."""
    return World(rights=EnforcedRights((CAROL, "review")))


def test_corroborate_counts_once_per_principal(world: World) -> None:
    """It raises confidence by 0.15 and support by one, once."""
    id = world.write("JWT", author=ALICE).record_id
    assert [world.corroborate(id, author=BOB).code for _ in range(3)] == ["endorsed", "unchanged", "unchanged"]
    record = world.record(id)
    assert (record.confidence_ppm, record.support, len(record.principals)) == (650_000, 2, 2)


def test_the_author_does_not_corroborate_itself(world: World) -> None:
    """Say-so is no evidence, whatever source it cites."""
    id = world.write("JWT", author=ALICE).record_id
    assert world.corroborate(id, author=ALICE).code == "unchanged"
    assert world.corroborate(id, author=ALICE, source="elsewhere").code == "unchanged"
    assert world.record(id).confidence_ppm == 500_000


def test_the_operator_corroborates_once_for_each_source(world: World) -> None:
    """Without principals belief rises once a source, and support only by sources that are new."""
    id = world.write("JWT").record_id
    assert [world.corroborate(id, s).code for s in ("", "", "doc:1", "doc:1")] == ["endorsed", "unchanged"] * 2
    assert (world.record(id).confidence_ppm, world.record(id).support) == (800_000, 2)


def test_recalled_text_corroborates_nothing(world: World) -> None:
    """Our own answers are no second source."""
    id = world.write("JWT").record_id
    assert world.corroborate(id, f"recall:{id.hex()}").code == "unchanged"


def test_corroborating_confirms_a_volatile_record_and_leaves_its_strength(world: World) -> None:
    """Belief and reachability are two things."""
    id = world.write("JWT", volatile=True).record_id
    world.wait(HOUR_US)
    world.corroborate(id, "doc:1")
    record = world.record(id)
    assert record.volatile_until_us is None
    assert record.strength_ppm < 1_000_000
    assert record.strength_at_us == world.now_us


def test_the_operators_contradictions_each_count(world: World) -> None:
    """0.5, 0.25, 0: under 0.2 it is rejected, and its value with it."""
    id = world.write("JWT").record_id
    assert world.contradict(id).code == "contradicted"
    assert (world.record(id).trust, world.record(id).confidence_ppm) == (CANDIDATE, 250_000)
    world.contradict(id)
    assert (world.record(id).trust, world.record(id).confidence_ppm) == (REJECTED, 0)
    assert world.write("JWT", author=BOB).rule == rules.REJECTED_VALUE
    assert world.record(id).reason == "it is not so"


def test_contradict_counts_once_per_principal_and_evidence(guarded: World) -> None:
    """The same principal with the same evidence is heard once."""
    id = guarded.write("JWT", author=ALICE).record_id
    codes = [guarded.contradict(id, evidence, author=BOB).code for evidence in ("log", "log", "trace", "trace")]
    assert codes == ["contradicted", "unchanged", "contradicted", "unchanged"]
    assert guarded.record(id).trust == REJECTED


def test_one_principal_does_not_reject_a_verified_fact(guarded: World) -> None:
    """It takes a second one, or a review; until then the fact stays verified, little believed."""
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.promote(id, author=CAROL)
    for evidence in ("1", "2", "3"):
        guarded.contradict(id, evidence, author=BOB)
    assert (guarded.record(id).trust, guarded.record(id).confidence_ppm) == (VERIFIED, 0)
    guarded.contradict(id, author=b"d" * 32)
    assert guarded.record(id).trust == REJECTED


def test_a_reviewers_contradiction_is_a_review(guarded: World) -> None:
    """Who may demote may also reject by contradiction, once belief is low enough."""
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.promote(id, author=CAROL)
    guarded.contradict(id, "1", author=CAROL)
    assert guarded.record(id).trust == VERIFIED
    guarded.contradict(id, "2", author=CAROL)
    assert guarded.record(id).trust == REJECTED


def test_promote_is_a_review(guarded: World) -> None:
    """It needs the right, says its reason, and moves neither confidence nor strength."""
    id = guarded.write("JWT", author=ALICE, volatile=True).record_id
    for author in (ALICE, BOB, None):
        assert guarded.promote(id, author=author).rule == rules.NOT_GRANTED
    assert guarded.promote(id, author=CAROL).code == "promoted"
    record = guarded.record(id)
    assert (record.trust, record.reason, record.confidence_ppm) == (VERIFIED, "checked", 500_000)
    assert record.volatile_until_us is None
    assert guarded.promote(id, author=CAROL).code == "unchanged"


def test_a_rejection_is_not_promoted_away(world: World) -> None:
    """Promote and corroborate meet a standing rejection and are told so."""
    id = world.write("JWT").record_id
    world.demote(id)
    assert world.promote(id).rule == rules.STANDING_REJECTION
    assert world.corroborate(id, "x").rule == rules.STANDING_REJECTION
    assert world.demote(id, "candidate").rule == rules.STANDING_REJECTION
    assert world.contradict(id).code == "unchanged"
    assert world.record(id).trust == REJECTED


def test_demote_goes_one_step_down(world: World) -> None:
    """Verified, candidate, rejected; the last step bars the value."""
    id = world.write("JWT").record_id
    world.promote(id)
    codes = [world.demote(id).code for _ in range(3)]
    assert codes == ["demoted", "rejected", "unchanged"]
    assert world.write("JWT", author=BOB).rule == rules.REJECTED_VALUE


def test_demote_to_a_state(world: World) -> None:
    """The state can be named; the one that holds already changes nothing."""
    id = world.write("JWT").record_id
    assert world.demote(id, "candidate").code == "unchanged"
    world.promote(id)
    assert world.demote(id, "rejected").code == "rejected"


@pytest.mark.parametrize(
    "verb", ["corroborate", "contradict", "promote", "demote", "annotate", "pin", "unpin", "forget"]
)
def test_an_unknown_record_is_refused_by_name(world: World, verb: str) -> None:
    """Every verb says so alike."""
    outcome = getattr(world, verb)(UNKNOWN)
    assert (outcome.code, outcome.rule, outcome.record_id) == ("refused", rules.UNKNOWN_RECORD, UNKNOWN)


def test_a_verified_record_is_for_its_supporters_and_reviewers(guarded: World) -> None:
    """Others may not flag, annotate, pin or forget it."""
    id = guarded.write("JWT", author=ALICE).record_id
    guarded.promote(id, author=CAROL)
    for author in (BOB, None):
        assert guarded.set_flags(id, author=author, ttl_us=1).rule == rules.NOT_YOURS
        assert guarded.annotate(id, author=author, metadata='{"a":1}').rule == rules.NOT_YOURS
        assert guarded.pin(id, author=author).rule == rules.NOT_YOURS
        assert guarded.forget(id, author=author).rule == rules.NOT_YOURS
    assert guarded.pin(id, author=ALICE).code == "pinned"
    assert guarded.annotate(id, author=CAROL, metadata='{"a":1}').code == "annotated"


def test_annotate_merges_and_null_removes(world: World) -> None:
    """Fields are merged one by one; the former ones are in the history."""
    id = world.write("JWT", metadata='{"a":1,"b":2}').record_id
    world.annotate(id, metadata='{"b":null,"c":[3]}', detail='{"d":"x"}')
    assert (world.record(id).metadata, world.record(id).detail) == ('{"a":1,"c":[3]}', '{"d":"x"}')
    assert world.annotate(id, detail='{"d":"x"}').code == "unchanged"
    assert world.state.history(id)[0].record.metadata == '{"a":1,"b":2}'


def test_annotations_are_bounded(world: World) -> None:
    """Notes that would grow over the limit are refused whole."""
    id = world.write("JWT", metadata='{"a":"' + "x" * 40_000 + '"}').record_id
    assert world.annotate(id, metadata='{"b":"' + "x" * 40_000 + '"}').rule == rules.NOTES_FULL


def test_forget_is_absence_everywhere(world: World) -> None:
    """The row and its contenders are gone; what was held is in the history only."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    world.write("cookies", author=BOB)
    assert world.forget(id).code == "forgotten"
    assert world.state.record(id) is None
    assert world.state.contending(id) == ()
    [*_, last] = world.state.history(id)
    assert (last.ended_by, last.reason) == ("forgotten", "asked to")
    assert world.forget(id).rule == rules.UNKNOWN_RECORD


def test_the_same_source_cannot_bring_it_back(world: World) -> None:
    """Re-feeding is refused for each value and source that was forgotten; an independent source may assert it anew."""
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", source="doc:1")
    world.forget(id)
    assert world.write("JWT", author=ALICE).rule == rules.FORGOTTEN_SOURCE
    assert world.write("jwt\u200b", source="doc:1").rule == rules.FORGOTTEN_SOURCE
    assert world.write("JWT", author=BOB, source="doc:1").rule == rules.FORGOTTEN_SOURCE
    outcome = world.write("JWT", author=BOB, source="doc:2")
    assert (outcome.code, world.record(id).support) == ("asserted", 1)
    assert world.write("JWT", author=ALICE).rule == rules.FORGOTTEN_SOURCE


def test_a_forgotten_source_may_say_something_else(world: World) -> None:
    """Forgetting bars the value, not the author."""
    id = world.write("JWT", author=ALICE).record_id
    world.forget(id)
    assert world.write("cookies", author=ALICE).code == "asserted"


def test_forgetting_covers_every_value_that_was_held(world: World) -> None:
    """Former values and contenders of the key do not come back from their sources either."""
    id = world.write("first", author=ALICE).record_id
    world.write("second", author=ALICE)
    world.promote(id)
    world.write("third", author=BOB)
    world.forget(id)
    assert world.write("first", author=ALICE).rule == rules.FORGOTTEN_SOURCE
    assert world.write("third", author=BOB).rule == rules.FORGOTTEN_SOURCE
    assert world.write("first", author=CAROL).code == "asserted"


def test_what_has_expired_can_still_be_forgotten(world: World) -> None:
    """Expiry hides a record; forgetting makes sure that it stays away."""
    id = world.write("JWT", author=ALICE, ttl_us=HOUR_US).record_id
    world.wait(DAY_US)
    assert world.forget(id).code == "forgotten"
    assert world.write("JWT", author=ALICE).rule == rules.FORGOTTEN_SOURCE


def test_rights_are_asked_for_every_verb(world: World) -> None:
    """Without the right nothing changes, whatever the verb."""

    class NoRights:
        enforced = True

        def holds(self, author: bytes | None, right: str, scope: str) -> bool:
            return False

    id = world.write("JWT").record_id
    world.rights = NoRights()
    before = world.record(id)
    refusals = [
        world.write("cookies"), world.corroborate(id), world.contradict(id), world.promote(id), world.demote(id),
        world.annotate(id), world.set_flags(id, ttl_us=5), world.pin(id), world.unpin(id), world.forget(id),
        world.declare("*", "likes"), world.prune(id, now_us=world.now_us + DAY_US),
    ]  # fmt: skip
    assert [outcome.code for outcome in refusals] == ["refused"] * len(refusals)
    assert world.reinforce(id).count == 0
    assert world.record(id) == before
    assert record_id(make_key("auth", "uses", "repo:app")) == id
