"""What rests on what: which sources a statement may name, and what falls with them (MEMORY § 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, DAY_US, HOUR_US, START_US, FoldedEntry, World, fold, replayed, uuid7

from veridical.memory import limits, rules
from veridical.memory.commands import FORGET, WRITE, ForgetBody, WriteBody, encode_body
from veridical.memory.derivation import stands
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.machine import Command, Outcome, evolve_entry
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED, Record
from veridical.memory.state import MemoryState, Workspace, resting_under


@pytest.fixture
def world() -> World:
    """A store in which nobody is enrolled."""
    return World()


@pytest.fixture
def guarded() -> World:
    """Carol administers and reviews; Alice writes everywhere, Bob in `repo:*` only."""
    world = World()
    world.guard(CAROL)
    world.enroll(ALICE, ("*", "read write"), author=CAROL)
    world.enroll(BOB, ("repo:*", "read write"), author=CAROL)
    return world


def fact(world: World, name: str, *sources: bytes, text: str = "so", **fields: Any) -> bytes:
    """State or derive something; returns its id."""
    outcome = world.write(text, name, "is", derived_from=sources, **fields)
    assert outcome.code not in ("refused", "conflicted"), outcome
    return outcome.record_id


# --- deriving -------------------------------------------------------------------------------------------------------


def test_what_is_derived_is_a_candidate_that_nobody_supports(world: World) -> None:
    """It names its sources, and has no other."""
    premise = fact(world, "premise")
    derived = world.record(fact(world, "conclusion", premise, author=ALICE))
    assert (derived.trust, derived.support, derived.confidence_ppm) == (CANDIDATE, 0, 500_000)
    assert (derived.derived_from, derived.sources, derived.principals) == ((premise,), (premise,), ())
    assert derived.author == ALICE.hex()


def test_a_derivation_supports_nothing(world: World) -> None:
    """However often a value is derived, from whatever: neither its support nor its confidence rises."""
    sources = [fact(world, f"premise {number}") for number in range(4)]
    for value in (fact(world, "stated", author=ALICE), fact(world, "conclusion", sources[0])):
        before = world.record(value)
        for source in sources:
            outcome = world.write("SO", before.subject, "is", author=BOB, derived_from=(source,))
            assert outcome.code == "repeated"
        after = world.record(value)
        assert (after.support, after.confidence_ppm) == (before.support, before.confidence_ppm)
        assert after.derived_from == tuple(sources)


def test_who_states_it_after_all_counts(world: World) -> None:
    """A derived value that is stated is worth what a stated value is that was derived too."""
    premise = fact(world, "premise")
    first = fact(world, "derived first", premise, author=ALICE)
    second = fact(world, "stated first", author=ALICE)
    assert world.write("so", "derived first", "is", author=ALICE).code == "corroborated"
    assert world.write("so", "stated first", "is", author=ALICE, derived_from=(premise,)).code == "repeated"
    one, other = world.record(first), world.record(second)
    assert (one.support, one.confidence_ppm) == (other.support, other.confidence_ppm) == (1, 500_000)
    assert set(one.sources) == set(other.sources)


def test_a_derivation_confirms_nothing(guarded: World) -> None:
    """Two principals verify by stating; deriving is not stating."""
    premise = fact(guarded, "premise", author=ALICE)
    id = fact(guarded, "conclusion", premise, author=ALICE)
    fact(guarded, "conclusion", premise, author=BOB)
    fact(guarded, "conclusion", premise, author=CAROL)
    assert (guarded.record(id).trust, guarded.record(id).authenticated) == (CANDIDATE, ())
    fact(guarded, "conclusion", author=ALICE)
    fact(guarded, "conclusion", author=BOB)
    assert guarded.record(id).trust == VERIFIED


def test_a_derived_value_displaces_nothing_verified(guarded: World) -> None:
    """It waits beside it, also where its author is one of those who support the other."""
    id = fact(guarded, "rule", author=ALICE)
    guarded.approve(id, author=CAROL)
    premise = fact(guarded, "premise", author=ALICE)
    assert guarded.write("not so", "rule", "is", author=ALICE, derived_from=(premise,)).code == "conflicted"
    [contender] = guarded.state.contending(id)
    assert (contender.support, contender.derived_from) == (0, (premise,))
    other = fact(guarded, "another premise", author=ALICE)
    assert guarded.write("not so", "rule", "is", author=BOB, derived_from=(other,)).code == "conflicted"
    [contender] = guarded.state.contending(id)
    assert (contender.support, contender.derived_from) == (0, (premise, other))
    assert guarded.write("not so", "rule", "is", author=BOB).code == "conflicted"
    assert [contender.support for contender in guarded.state.contending(id)] == [1]


def test_a_source_that_is_not_there_is_refused(world: World) -> None:
    """Never held, forgotten, rejected, expired; and one that is there is not."""
    kept, forgotten, rejected = (fact(world, name) for name in ("kept", "forgotten", "rejected"))
    expired = fact(world, "expired", ttl_us=1)
    world.forget(forgotten)
    world.reject(rejected)
    world.wait(HOUR_US)
    for gone in (bytes(16), forgotten, rejected, expired):
        for sources in ((gone,), (kept, gone)):
            outcome = world.write("so", "conclusion", "is", derived_from=sources)
            assert (outcome.code, outcome.rule) == ("refused", rules.SOURCE_GONE)
    assert world.write("so", "conclusion", "is", derived_from=(kept,)).code == "asserted"


def test_a_source_that_may_not_be_read_is_not_there(guarded: World) -> None:
    """It is refused as an id that nobody holds."""
    secret = fact(guarded, "secret", scope="user:alice", author=ALICE)
    for source in (secret, bytes(16)):
        refusal = guarded.write("so", "conclusion", "is", author=BOB, derived_from=(source,))
        assert (refusal.rule, refusal.record_id) == (rules.SOURCE_GONE, b"")
    assert guarded.write("so", "conclusion", "is", author=ALICE, derived_from=(secret,)).code == "asserted"


def test_nothing_rests_on_itself(world: World) -> None:
    """Neither at once nor around corners: what comes back to where it comes from is no ground."""
    premise = fact(world, "premise")
    conclusion = fact(world, "conclusion", premise)
    further = fact(world, "further", conclusion)
    for source in (premise, conclusion, further):
        assert world.write("so", "premise", "is", derived_from=(source,)).rule == rules.CIRCULAR_SOURCE
        assert world.write("another", "premise", "is", derived_from=(source,)).rule == rules.CIRCULAR_SOURCE
    other = fact(world, "other")
    assert world.write("so", "premise", "is", derived_from=(further, other)).code == "repeated"
    assert world.record(premise).derived_from == (other,)


def test_recalled_text_is_no_derivation(world: World) -> None:
    """A source of the form `recall:` stays what it is, whatever the statement names."""
    premise = fact(world, "premise")
    assert world.write("so", "x", "is", source="recall:1", derived_from=(premise,)).rule == rules.RECALLED_TEXT
    stated = fact(world, "stated")
    assert world.write("so", "stated", "is", source="recall:1", derived_from=(premise,)).code == "repeated"
    assert world.record(stated).derived_from == ()


def test_how_many_sources_a_statement_may_name() -> None:
    """The limit is named; what is no id is refused."""
    body = WriteBody("fact", "a", "is", "global", "so", derived_from=(bytes(16),) * limits.DERIVED_FROM_LIMIT)
    encode_body(WRITE, body)
    with pytest.raises(TooLarge, match="derived_from"):
        encode_body(WRITE, body._replace(derived_from=(bytes(16),) * (limits.DERIVED_FROM_LIMIT + 1)))
    for wrong in ((b"short",), ["no tuple"], ("text",)):
        with pytest.raises(Invalid):
            encode_body(WRITE, body._replace(derived_from=wrong))


def test_a_value_rests_on_a_bounded_number_of_records(world: World) -> None:
    """Further ones are not noted; the statement is a repetition like any other."""
    sources = [fact(world, f"premise {number}") for number in range(limits.SOURCES_LIMIT + 3)]
    id = fact(world, "conclusion", *sources[:60])
    fact(world, "conclusion", *sources[60:])
    fact(world, "conclusion", sources[-1])
    assert world.record(id).derived_from == tuple(sources[: limits.SOURCES_LIMIT])


# --- forgetting -----------------------------------------------------------------------------------------------------


def test_what_rested_on_it_alone_is_forgotten_with_it(world: World) -> None:
    """Through any number of steps; history says when, and with what."""
    premise = fact(world, "premise")
    conclusion = fact(world, "conclusion", premise)
    further = fact(world, "further", conclusion)
    bystander = fact(world, "bystander")
    done = world.forget(premise)
    assert done.code == "forgotten"
    assert set(world.state.records) == {bystander}
    for id in (conclusion, further):
        last = world.state.history(id)[-1]
        assert (last.ended_by, last.until) == ("forgotten", done.version)
        assert premise.hex() in last.reason and f"forgotten at 1.{done.version.index}.0" in last.reason


def test_what_rests_on_something_else_stays(world: World) -> None:
    """On another record, or on a statement of its own; it no longer names what is gone."""
    premise, other = fact(world, "premise"), fact(world, "other")
    both = fact(world, "both", premise, other)
    stated = fact(world, "stated", premise)
    fact(world, "stated", author=ALICE)
    world.forget(premise)
    assert world.record(both).derived_from == world.record(both).sources == (other,)
    assert (world.record(stated).derived_from, world.record(stated).support) == ((), 1)
    assert world.state.history(both)[-1].ended_by == "withdrawn"
    world.forget(other)
    assert (world.state.record(both), world.state.record(stated) is None) == (None, False)


def test_a_ring_of_grounds_does_not_hold_itself_up(world: World) -> None:
    """Two records that are derived from each other, but for one premise, fall with it."""
    premise = fact(world, "premise")
    one = fact(world, "one", premise)
    other = fact(world, "other", one, premise)
    assert world.write("so", "one", "is", derived_from=(other,)).rule == rules.CIRCULAR_SOURCE
    world.forget(premise)
    assert (world.state.record(one), world.state.record(other)) == (None, None)


def test_a_contending_value_falls_like_any_other(world: World) -> None:
    """Where it rested on that alone; one that rests on more is cut, and the value that is held is untouched."""
    id = fact(world, "rule", author=ALICE)
    world.promote(id)
    premise, other = fact(world, "premise"), fact(world, "other")
    world.write("a", "rule", "is", derived_from=(premise,))
    world.write("b", "rule", "is", derived_from=(premise, other))
    before = world.record(id)
    world.forget(premise)
    [contender] = world.state.contending(id)
    assert (contender.text, contender.derived_from) == ("b", (other,))
    assert world.record(id) == before


def test_forgetting_wins_in_one_envelope(world: World) -> None:
    """What is derived after the source was forgotten is refused, before any of it is committed."""
    premise = fact(world, "premise")
    body = WriteBody("fact", "conclusion", "is", "repo:app", "so", derived_from=(premise,))
    derive = [Command(uuid7(START_US, number), WRITE, encode_body(WRITE, body), None) for number in (1, 3)]
    forget = Command(uuid7(START_US, 2), FORGET, encode_body(FORGET, ForgetBody(premise)), None)
    first, second, third = world.envelope([derive[0], forget, derive[1]])
    assert (first.code, second.code, third.rule) == ("asserted", "forgotten", rules.SOURCE_GONE)
    assert world.state.records == {}


def test_a_forgotten_conclusion_does_not_come_back_from_its_source(world: World) -> None:
    """From that source it is barred; from another one it may be drawn again."""
    premise, other = fact(world, "premise"), fact(world, "other")
    id = fact(world, "conclusion", premise, author=ALICE)
    world.forget(id)
    for author in (None, ALICE, BOB):
        refusal = world.write("SO", "conclusion", "is", author=author, derived_from=(premise,))
        assert (refusal.rule, refusal.record_id) == (rules.FORGOTTEN_SOURCE, id)
    assert world.write("so", "conclusion", "is", derived_from=(premise, other)).code == "asserted"
    assert world.record(id).derived_from == (other,)


def test_a_premise_that_returns_may_be_drawn_on_again(world: World) -> None:
    """Who fell with it was not forgotten for what it said."""
    premise = fact(world, "premise", author=ALICE)
    id = fact(world, "conclusion", premise)
    world.forget(premise)
    assert world.write("so", "premise", "is", author=BOB).code == "asserted"
    assert world.write("so", "conclusion", "is", derived_from=(premise,)).code == "asserted"
    assert world.record(id).derived_from == (premise,)


def test_more_than_the_limit_does_not_fall_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the rule and changes nothing; with fewer it works."""
    monkeypatch.setattr("veridical.memory.derivation.WITHDRAWN_LIMIT", 3)
    premise = fact(world, "premise")
    ids = [fact(world, f"conclusion {number}", premise) for number in range(4)]
    before = world.state.buckets()
    assert world.forget(premise).rule == rules.WITHDRAWN_FULL
    assert world.state.buckets() == before
    world.forget(ids[0])
    world.forget(premise)
    assert world.state.records == {}


def test_a_verified_record_does_not_fall_by_a_stranger(guarded: World) -> None:
    """Who may not forget it may not forget what it rests on; a reviewer may."""
    premise = fact(guarded, "premise", author=ALICE)
    id = fact(guarded, "conclusion", premise, author=ALICE)
    guarded.approve(id, author=CAROL)
    assert guarded.forget(premise, author=BOB).rule == rules.VERIFIED_FALLS
    assert guarded.record(id).trust == VERIFIED
    assert guarded.forget(premise, author=CAROL).code == "forgotten"
    assert guarded.state.record(id) is None


def test_what_fades_takes_nothing_along(world: World) -> None:
    """A premise that expired was not withdrawn; it is kept, unseen, until nothing rests on it, and can be forgotten."""
    premise, lone = fact(world, "premise", ttl_us=HOUR_US), fact(world, "lone", ttl_us=HOUR_US)
    id = fact(world, "conclusion", premise)
    world.wait(DAY_US)
    assert world.prune(premise, lone).count == 1
    assert world.record(id).derived_from == (premise,)
    world.forget(premise)
    assert world.state.record(id) is None


# --- rejecting, and taking back -------------------------------------------------------------------------------------


def test_what_rests_on_a_rejected_record_alone_is_gone(world: World) -> None:
    """A verdict that is refuted takes its consequences out of recall, through any number of steps."""
    premise, other = fact(world, "premise"), fact(world, "other")
    conclusion = fact(world, "conclusion", premise)
    further = fact(world, "further", conclusion)
    both = fact(world, "both", conclusion, other)
    world.reject(premise)
    assert (world.state.record(conclusion), world.state.record(further)) == (None, None)
    assert world.state.history(further)[-1].ended_by == "withdrawn"
    assert world.record(both).trust == CANDIDATE
    world.reject(other)
    assert world.state.record(both) is None


def test_what_was_rejected_itself_falls_too(world: World) -> None:
    """Its rejection stands without it: the value does not come back, from whatever source."""
    premise, other = fact(world, "premise"), fact(world, "other")
    conclusion = fact(world, "conclusion", premise)
    further = fact(world, "further", conclusion)
    world.reject(further)
    world.reject(premise)
    assert set(world.state.records) == {premise, other}
    assert world.write("so", "further", "is", derived_from=(other,)).rule == rules.REJECTED_VALUE


@pytest.mark.parametrize("verb", ["reject", "demote", "contradict"])
def test_whatever_rejects_it(world: World, verb: str) -> None:
    """A review, or doubts that became too many."""
    premise = fact(world, "premise")
    id = fact(world, "conclusion", premise)
    while world.record(premise).trust != REJECTED:
        assert world.state.record(id) is not None
        getattr(world, verb)(premise)
    assert (world.record(premise).trust, world.state.record(id)) == (REJECTED, None)


def test_a_rejection_does_not_displace_what_others_verified(guarded: World) -> None:
    """A verified conclusion has more to say for itself; who may reject it as well takes it along."""
    guarded.give(ALICE, "user:*", "review", author=CAROL)
    for reviewer, stays in ((ALICE, True), (CAROL, False)):
        premise = fact(guarded, "premise", scope="user:alice", text=reviewer.hex(), author=ALICE)
        id = fact(guarded, "conclusion", premise, text=reviewer.hex(), author=ALICE)
        guarded.approve(id, author=CAROL)
        guarded.reject(premise, author=reviewer)
        assert (guarded.state.record(id) is not None) == stays
        guarded.forget(id, author=CAROL)


def test_undoing_an_assertion_withdraws_it(world: World) -> None:
    """What rested on it alone is gone with it."""
    premise = world.write("so", "premise", "is")
    id = fact(world, "conclusion", premise.record_id)
    assert world.undo(premise.record_id, premise).code == "undone"
    assert world.state.records == {}
    assert world.state.history(id)[-1].ended_by == "withdrawn"


def test_a_record_that_fell_returns_by_undoing_that_event(world: World) -> None:
    """Once what it rests on is there again, and not before."""
    premise = fact(world, "premise")
    id = fact(world, "conclusion", premise)
    forgotten = world.forget(premise)
    assert world.undo(id, forgotten).rule == rules.SOURCE_GONE
    assert world.undo(premise, forgotten).code == "undone"
    assert world.state.record(id) is None
    assert world.undo(id, forgotten).code == "undone"
    assert world.record(id).derived_from == (premise,)
    assert world.state.derived(premise) == (id,)


def test_a_row_that_returns_leaves_out_what_is_gone(world: World) -> None:
    """It rests on what is there."""
    premise, other = fact(world, "premise"), fact(world, "other")
    id = fact(world, "conclusion", premise, other)
    changed = world.write("something else", "conclusion", "is")
    world.forget(premise)
    assert world.undo(id, changed).code == "undone"
    assert (world.record(id).text, world.record(id).derived_from) == ("so", (other,))


def test_a_row_that_returns_closes_no_circle(world: World) -> None:
    """Its former source has come to rest on it meanwhile."""
    premise = fact(world, "premise")
    id = fact(world, "conclusion", premise)
    changed = world.write("something else", "conclusion", "is")
    fact(world, "premise", id, text="new")
    assert world.undo(id, changed).rule == rules.SOURCE_GONE
    assert world.record(id).text == "something else"


def test_an_edit_rests_on_the_reviewer(world: World) -> None:
    """What was derived is no longer where the value comes from."""
    premise = fact(world, "premise")
    id = fact(world, "conclusion", premise)
    world.edit(id, "better")
    assert world.record(id).derived_from == ()
    world.forget(premise)
    assert world.record(id).trust == VERIFIED


# --- any history ----------------------------------------------------------------------------------------------------

VERBS = ["forget", "reject", "contradict", "undo", "promote", "prune", "demote", "prefer", "edit", "withdraw"]
NAMES, TEXTS = [f"subject {number}" for number in range(5)], ["so", "SO", "not so"]

steps = st.one_of(
    st.tuples(
        st.just("write"), st.sampled_from(NAMES), st.sampled_from(TEXTS), st.sampled_from([None, ALICE, BOB]),
        st.lists(st.integers(0, 6), max_size=3), st.sampled_from([None, None, HOUR_US]),
    ),
    st.tuples(
st.sampled_from(VERBS),
        st.integers(0, 6),
    ),
    st.tuples(st.just("sentence"), st.sampled_from(TEXTS), st.sampled_from([None, ALICE])),
    st.tuples(st.just("correct"), st.sampled_from(TEXTS), st.lists(st.integers(0, 6), min_size=1, max_size=2)),
    st.tuples(st.just("say"), st.integers(0, 2), st.sampled_from([None, ALICE]), st.integers(0, 6)),
    st.tuples(st.just("wait"), st.sampled_from([HOUR_US, 40 * DAY_US])),
)  # fmt: skip
histories = st.lists(steps, min_size=5, max_size=30)


def carry_out(history: list[Any]) -> World:
    """Let a history happen. Steps choose among the ids that were ever named."""
    world, named = World(), {bytes(16): None}
    for step in history:
        match step:
            case ("wait", duration_us):
                world.wait(duration_us)
            case ("sentence", text, author):
                named[world.write(text, "", "", author=author).record_id or bytes(16)] = None
            case ("correct", text, places):
                ids = dict.fromkeys(chosen(world.state.records or named, place) for place in places)
                named[world.correct(text, *ids).record_id or bytes(16)] = None
            case ("say", number, author, place):
                follows = chosen(world.state.records or named, place) if number else b""
                outcome = world.write(f"turn {number}", "", "", author=author, kind="episode", follows=follows)
                named[outcome.record_id or bytes(16)] = None
            case ("write", name, text, author, places, ttl_us):
                held = world.state.records or named
                sources = tuple(dict.fromkeys(chosen(held, place) for place in places))
                outcome = world.write(text, name, "is", author=author, derived_from=sources, ttl_us=ttl_us)
                named[outcome.record_id or bytes(16)] = None
            case _:
                verb, place = cast("tuple[str, int]", step)
                use(world, verb, chosen(named if verb == "undo" else world.state.records or named, place))
    return world


def chosen(named: Iterable[bytes], place: int) -> bytes:
    """One of the ids."""
    ids = list(named)
    return ids[-1 - place % len(ids)]


def use(world: World, verb: str, id: bytes) -> Outcome | None:
    """One verb on one record."""
    present, last = world.state.record(id), world.state.last_past(id)
    match verb:
        case "undo":
            at = last.until if last else present.version if present else None
            first = present is not None and present.cause == "asserted"
            at = present.version if present is not None and first else at
            return at and world.undo(id, Outcome("", "", "", id, 0, (), at, False))
        case "prefer":
            rivals = world.state.contending(id)
            return world.approve(id, rivals[0].value_digest) if rivals else None
        case "edit":
            return world.edit(id, "edited")
        case _:
            return getattr(world, verb)(id)


def rests_on(state: MemoryState, record: Record) -> set[bytes]:
    """All that a record rests on, through any number of steps."""
    found: set[bytes] = set()
    waiting = list(record.derived_from)
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting += resting_under(state, id)
    return found


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_any_history_leaves_sound_grounds(history: list[Any]) -> None:
    """Every source is there, nothing rests on itself, and whatever may be recalled has something to rest on."""
    state = carry_out(history).state
    rows = [*state.records.values(), *(row for rivals in state.contenders.values() for row in rivals)]
    for row in rows:
        assert all(state.record(id) is not None for id in row.derived_from)
        assert row.id not in rests_on(state, row)
        assert set(row.derived_from) <= set(row.sources)
        assert row.trust in (REJECTED, VERIFIED) or stands(state, row)
    for source in state.dependants:
        assert state.derived(source) == tuple(sorted({row.id for row in rows if source in row.derived_from}))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_any_history_with_grounds_replays(history: list[Any]) -> None:
    """Folded again it is the same, and without bodies the same but for text."""
    world = carry_out(history)
    again, bare = replayed(world), replayed(world, with_bodies=False)
    assert again.state_digest() == world.state.state_digest()
    assert again.dependants == bare.dependants == world.state.dependants
    assert {id: row.sources for id, row in bare.records.items()} == {
        id: row.sources for id, row in world.state.records.items()
    }


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, st.integers(0, 30))
def test_what_rests_on_what_is_known_before_it_is_folded(history: list[Any], folded: int) -> None:
    """A leader decides on layers of changes above its state; they answer as the state will."""
    world = carry_out(history)
    base = MemoryState()
    for entry in world.log[:folded]:
        fold(base, entry, world.epoch)
    layer = Workspace(Workspace(base))
    for entry in world.log[folded:]:
        evolve_entry(layer, entry.index, 1, entry.time_us, entry.author, entry.heads, entry.items, entry.bodies)
    ids = [*world.state.records, *world.state.versions]
    assert [layer.derived(id) for id in ids] == [world.state.derived(id) for id in ids]
    assert layer.rested_upon(ids) == world.state.rested_upon(ids)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, st.integers(0, 6))
def test_a_forgotten_source_leaves_no_record_that_rested_on_it_alone(history: list[Any], place: int) -> None:
    """Whatever happened before: what is left never needed it."""
    world = carry_out(history)
    ids = sorted(world.state.records)
    if not ids:
        return
    id = ids[place % len(ids)]
    if world.forget(id).code != "forgotten":
        return
    assert world.state.derived(id) == ()
    for row in world.state.records.values():
        assert id not in row.sources
        assert row.sources or row.trust == REJECTED


# --- what was written before ----------------------------------------------------------------------------------------


def test_events_of_before_there_were_grounds_still_fold() -> None:
    """In the form in which they stand in histories, they lead to what they led to."""
    held, gone, value, other, source = b"i" * 16, b"j" * 16, b"v" * 16, b"w" * 16, b"s" * 16
    written = (WRITE, encode_body(WRITE, WriteBody("fact", "auth", "uses", "repo:app", "JWT")))
    forgotten = (FORGET, encode_body(FORGET, ForgetBody(gone)))
    told: list[list[Any]] = [
        ["asserted", held, [], value, source, None, "fact", 500_000, None, None, None, None],
        ["corroborated", held, [], b"t" * 16, ALICE[:16], 600_000, 2, None, None, None, False],
        ["repeated", held, [], source, None, None, None, False],
        ["conflicted", held, [], other, source, None, "fact", 500_000, 1, None, None, None, None],
        ["asserted", gone, [], value, source, None, "fact", 500_000, None, None, None, None],
        ["forgotten", gone],
        ["undone", gone, True],
        ["undone", held, False],
    ]
    said = [written if event[0] not in ("forgotten", "undone") else forgotten for event in told]
    heads = [(uuid7(START_US, number), kind) for number, (kind, _) in enumerate(said)]
    items: list[list[Any]] = [[bytes(16), event] for event in told]
    state, bare = MemoryState(), MemoryState()
    entry = FoldedEntry(1, START_US, None, heads, items, [body for _, body in said])
    fold(state, entry, 1)
    fold(bare, entry, 1, with_bodies=False)
    [record] = state.records.values()
    assert (record.id, record.text, record.sources, record.grounds, record.follows) == (gone, "JWT", (source,), (), b"")
    assert [past.record.support for past in state.history(held)] == [1, 2]
    assert (state.contending(held), state.dependants) == ((), {})
    assert bare.records.keys() == state.records.keys()
