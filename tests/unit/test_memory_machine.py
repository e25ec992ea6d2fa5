"""Whole envelopes: exactly once, the same on every node, and the same without the bodies (PROTOCOL §§ 6 and 8)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_world import (
    ALICE,
    BOB,
    DAY_US,
    HOUR_US,
    MINUTE_US,
    START_US,
    Digests,
    EnforcedRights,
    FoldedEntry,
    World,
    fold,
    replayed,
    uuid7,
)

from veridical.memory import rules
from veridical.memory.commands import WINDOW_COUNT, WINDOW_US, WRITE, Command, WriteBody, encode_body
from veridical.memory.errors import Bug, Invalid
from veridical.memory.machine import Context, OperatorRights, decide_envelope, evolve_entry, outcomes
from veridical.memory.record import REJECTED, TEXT_FIELDS, VERIFIED, Record
from veridical.memory.state import MemoryState, Workspace
from veridical.memory.window import Window, advanced, command_time_us, first_id

# --- the window ---------------------------------------------------------------------------------------------------


def write(text: str, id: bytes, author: bytes | None = None) -> Command:
    """A write of that text under a chosen command id."""
    return Command(id, WRITE, encode_body(WRITE, WriteBody("fact", "auth", "uses", "repo:app", text)), author)


@pytest.fixture
def world() -> World:
    return World()


def test_a_repeated_command_gets_its_first_outcome(world: World) -> None:
    """However late, and whatever happened since, it is answered as the first time and changes nothing."""
    command = write("JWT", uuid7(START_US, 1))
    [first] = world.envelope([command])
    world.write("cookies")
    world.wait(DAY_US)
    before = world.state.records.copy()
    [again] = world.envelope([command])
    assert again == first._replace(repeated_command=True)
    assert (again.code, again.version) == ("asserted", (1, 1, 0))
    assert world.state.records == before


def test_a_refusal_is_remembered_like_any_outcome(world: World) -> None:
    """A retry of what was refused is refused by the same rule, also when the rule would no longer stand."""
    id = world.write("JWT").record_id
    world.demote(id)
    command = write("JWT", uuid7(world.now_us, 77))
    [first] = world.envelope([command])
    assert first.rule == rules.REJECTED_VALUE
    assert world.envelope([command]) == [first._replace(repeated_command=True)]


def test_a_repetition_within_one_envelope_is_one_command(world: World) -> None:
    """Each command is decided after the one before."""
    command = write("JWT", uuid7(START_US, 1))
    first, second = world.envelope([command, command])
    assert (first.repeated_command, second.repeated_command) == (False, True)
    assert second.version == (1, 1, 0)


@pytest.mark.parametrize("change", [{"content": write("cookies", b"").content}, {"author": ALICE}])
def test_the_same_id_for_another_command_is_a_conflict(world: World, change: dict[str, Any]) -> None:
    """The same is author, kind and content; anything else under that id changes nothing."""
    command = write("JWT", uuid7(START_US, 1))
    world.envelope([command])
    before = world.state.records.copy()
    [outcome] = world.envelope([command._replace(**change)])
    assert outcome.code == "conflict"
    assert world.state.records == before


def test_an_id_of_before_the_window_is_refused(world: World) -> None:
    """Forgotten ids never run again."""
    command = write("JWT", uuid7(START_US, 1))
    world.envelope([command])
    world.wait(8 * DAY_US)
    world.write("other", "subject")
    [outcome] = world.envelope([command])
    assert (outcome.code, outcome.rule) == ("refused", rules.ID_TOO_OLD)
    assert command.id not in world.state.outcomes
    assert str(world.state.window().start_us) in outcome.reason


def test_an_id_from_the_future_is_refused_and_told_the_time(world: World) -> None:
    """Five minutes are allowed, more are not; the refusal is not remembered, so the id can be used later."""
    command = write("JWT", uuid7(START_US + 6 * MINUTE_US, 1))
    [outcome] = world.envelope([command])
    assert outcome.rule == rules.ID_TOO_FAR_AHEAD
    assert str(START_US) in outcome.reason
    world.wait(2 * MINUTE_US)
    assert world.envelope([command])[0].code == "asserted"


@pytest.mark.parametrize("id", [b"", bytes(16), b"\xff" * 16, uuid7(START_US, 1)[:15]])
def test_an_id_without_a_time_is_refused(world: World, id: bytes) -> None:
    """Only UUIDs of version 7 say when they were made."""
    assert world.envelope([write("JWT", id)])[0].rule == rules.ID_NOT_A_TIME


def test_the_window_is_a_setting_and_never_moves_back(world: World) -> None:
    """A shorter window forgets sooner; a longer one brings nothing back."""
    command = write("JWT", uuid7(START_US, 1))
    world.envelope([command])
    world.set(WINDOW_US, HOUR_US)
    world.wait(2 * HOUR_US)
    world.write("x", "other")
    start_us = world.state.window().start_us
    assert start_us == (world.now_us - HOUR_US) // MINUTE_US * MINUTE_US
    world.set(WINDOW_US, 30 * DAY_US)
    assert world.state.window().start_us == start_us
    assert world.envelope([command])[0].rule == rules.ID_TOO_OLD


def test_the_window_is_bounded_in_count(world: World) -> None:
    """Over the limit the oldest ids are forgotten, and refused."""
    world.set(WINDOW_COUNT, 64)
    command = write("JWT", uuid7(world.now_us, 9_999))
    world.envelope([command])
    for number in range(500):
        world.wait(MINUTE_US)
        world.write(str(number), "other")
    assert len(world.state.outcomes) <= 64 + 4
    assert world.envelope([command])[0].rule == rules.ID_TOO_OLD
    assert world.write("still", "served").code == "asserted"


@given(st.lists(st.tuples(st.integers(0, 3 * DAY_US), st.integers(0, 40)), max_size=60), st.integers(1, 200))
def test_the_window_never_moves_back_and_never_passes_now(steps: list[tuple[int, int]], limit: int) -> None:
    """Whatever arrives, its start only grows, and stays at or behind log time."""
    window, time_us = Window(), START_US
    for elapsed_us, arrivals in steps:
        time_us += elapsed_us
        moved = advanced(window, time_us, arrivals, 7 * DAY_US, limit)
        assert window.start_us <= moved.start_us <= time_us
        assert sum(count for _, count in moved.segments) <= limit + max(1, limit // 16) + 40
        window = moved


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_the_first_remembered_id_divides_old_from_new(made_at_us: int, start_us: int) -> None:
    """An id sorts below it exactly when its own time is before the window."""
    id = uuid7(made_at_us, 0)
    time_us = command_time_us(id)
    assert time_us is not None
    assert (id < first_id(start_us)) == (time_us < start_us)


# --- envelopes ------------------------------------------------------------------------------------------------------


def test_commands_of_an_envelope_are_decided_one_after_the_other(world: World) -> None:
    """Each meets what the one before left, and each has a version of its own."""
    answers = world.envelope([write(text, uuid7(START_US, n)) for n, text in enumerate(("a", "b", "b"))])
    assert [answer.code for answer in answers] == ["asserted", "superseded", "repeated"]
    assert [answer.version for answer in answers] == [(1, 1, 0), (1, 1, 1), (1, 1, 2)]


def test_a_malformed_body_is_a_recorded_refusal(world: World) -> None:
    """What cannot be read changes nothing and stops nothing."""
    for content in (b"", b"\xc1", b"\x93\x01\x02\x03", encode_body(WRITE, WriteBody("fact", "a", "b", "c", "d"))[:-3]):
        world.wait(1000)
        [outcome] = world.envelope([Command(uuid7(world.now_us, 5), WRITE, content, None)])
        assert (outcome.code, outcome.rule) == ("refused", rules.MALFORMED)
    assert world.state.records == {}


def test_a_kind_that_is_no_command_is_not_decided(world: World) -> None:
    """System entries come from the core; a caller cannot send one."""
    for kind in ("leader.elected", "cluster.configured", "memory.nonsense"):
        with pytest.raises(Invalid):
            world.envelope([Command(uuid7(START_US, 1), kind, b"", None)])


def test_system_entries_let_time_pass_and_nothing_else(world: World) -> None:
    """The first entry of an epoch folds as its time."""
    workspace = Workspace(world.state)
    evolve_entry(workspace, 1, 1, START_US, ALICE, [(b"i" * 16, "leader.elected")], [[1, "n1"]], [b""])
    world.state.apply(workspace)
    assert world.state.time_us() == START_US
    assert (world.state.records, world.state.outcomes) == ({}, {})


def test_an_event_of_the_future_stops_the_fold(world: World) -> None:
    """History that this version cannot read is never skipped."""
    entry = FoldedEntry(1, START_US, None, [(uuid7(START_US, 1), WRITE)], [[bytes(16), ["beamed", bytes(16)]]], [None])
    with pytest.raises(Bug, match="beamed"):
        fold(world.state, entry, 1)


def test_time_never_goes_back(world: World) -> None:
    """A leader with a slow clock decides at log time."""
    world.write("JWT")
    world.now_us -= HOUR_US
    id = world.write("x", "other", ttl_us=1).record_id
    assert world.record(id).expires_at_us == START_US + 1


def test_workspaces_stack(world: World) -> None:
    """A batch can be decided on top of a batch that is not applied yet, and the lower one replaced once it is."""
    context = Context(Digests(), OperatorRights(), 1)
    lower = Workspace(world.state)
    first = [write("JWT", uuid7(START_US, 1), ALICE)]
    decide_envelope(lower, first, START_US, context, 1)
    upper = Workspace(lower)
    items = decide_envelope(upper, [write("jwt", uuid7(START_US, 2), BOB), *first], START_US, context, 2)
    assert [answer.code for answer in outcomes(items, 1, 2)] == ["corroborated", "asserted"]
    world.state.apply(lower)
    upper.base = world.state
    assert upper.record(next(iter(upper.records))) is not None
    world.state.apply(upper)
    [record] = world.state.records.values()
    assert record.support == 2


# --- any history ----------------------------------------------------------------------------------------------------

SUBJECTS, TEXTS = ["auth", "AUTH", "login", ""], ["JWT", "jwt\u200b", "cookies", "ｊｗｔ"]
AUTHORS = [None, None, ALICE, BOB]
VERBS = [
    "corroborate",
    "contradict",
    "promote",
    "demote",
    "pin",
    "unpin",
    "forget",
    "prune",
    "reinforce",
    "set_flags",
    "annotate",
]

writes = st.tuples(
    st.just("write"),
    st.sampled_from(SUBJECTS),
    st.sampled_from(TEXTS),
    st.sampled_from(AUTHORS),
    st.fixed_dictionaries(
        {},
        optional={
            "source": st.sampled_from(["doc:1", "doc:2", "recall:x"]),
            "metadata": st.sampled_from(['{"a":1}', '{"b":2}']),
            "ttl_us": st.sampled_from([HOUR_US, 9 * DAY_US]),
            "volatile": st.booleans(),
            "valid_from_us": st.sampled_from([0, 5]),
            "provenance": st.just(("p",)),
            "kind": st.sampled_from(["fact", "fact", "skill"]),
        },
    ),
)
verbs = st.tuples(
    st.sampled_from(VERBS), st.integers(0, 5), st.sampled_from(AUTHORS), st.sampled_from(["", "doc:1", "doc:3"])
)
waits = st.tuples(st.just("wait"), st.sampled_from([1, HOUR_US, DAY_US, 20 * DAY_US]))
declarations = st.tuples(st.just("declare"), st.sampled_from(["*", "repo:*"]))
histories = st.lists(writes | verbs | waits | declarations | writes, max_size=30)


def carry_out(world: World, history: list[Any]) -> None:
    """Let a history happen. Verbs choose among the ids that were ever named."""
    named: dict[bytes, None] = {bytes(16): None}
    for step in history:
        match step:
            case ("wait", duration_us):
                world.wait(duration_us)
            case ("declare", pattern):
                world.declare(pattern, "uses")
            case ("write", subject, text, author, fields):
                predicate = "uses" if subject else ""
                named[world.write(text, subject, predicate, author=author, **fields).record_id or bytes(16)] = None
            case _:
                verb, number, author, label = cast("tuple[str, int, bytes | None, str]", step)
                ids = list(named)
                use(world, verb, ids[-1 - number % len(ids)], author, label)


def use(world: World, verb: str, id: bytes, author: bytes | None, label: str) -> None:
    """Use one verb on one record."""
    match verb:
        case "corroborate" | "contradict":
            getattr(world, verb)(id, label, author=author)
        case "set_flags":
            world.set_flags(id, author=author, ttl_us=HOUR_US * len(label))
        case "annotate":
            world.annotate(id, author=author, metadata='{"n":1,"a":null}')
        case "prune" | "reinforce":
            getattr(world, verb)(id)
        case _:
            getattr(world, verb)(id, author=author)


def without_text(record: Record) -> Record:
    """A row as it is when all bodies were erased."""
    blank: dict[str, Any] = dict.fromkeys(TEXT_FIELDS, "")
    return record._replace(**blank)


def skeleton(state: MemoryState) -> dict[str, Any]:
    """Everything in a state that is not text."""
    return {
        "records": {id: without_text(record) for id, record in state.records.items()},
        "versions": {
            id: [past._replace(record=without_text(past.record), reason="") for past in versions]
            for id, versions in state.versions.items()
        },
        "contenders": {id: tuple(map(without_text, rivals)) for id, rivals in state.contenders.items()},
        "rejections": state.rejections,
        "retractions": state.retractions,
        "outcomes": state.outcomes,
        "settings": state.settings,
        "window": state.window(),
        "time": state.time_us(),
    }


rights = st.sampled_from([OperatorRights(), EnforcedRights((ALICE, "review"), (ALICE, "admin"))])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, rights)
def test_any_history_replays_to_the_same_state(history: list[Any], rights: Any) -> None:
    """Folding the log again gives what lived, row for row; without bodies it gives the same but for the text."""
    world = World(rights=rights)
    carry_out(world, history)
    again, bare = replayed(world), replayed(world, with_bodies=False)
    assert again.state_digest() == world.state.state_digest()
    assert again.buckets() == world.state.buckets()
    assert skeleton(bare) == skeleton(world.state)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_deciding_leaves_what_folding_leaves(history: list[Any]) -> None:
    """The leader's overlay after deciding equals the state after the fold, and deciding twice gives the same events."""
    live = World()
    carry_out(live, history)
    overlay = MemoryState()
    for entry in live.log:
        commands = [
            Command(id, kind, content, entry.author)
            for (id, kind), content in zip(entry.heads, entry.bodies, strict=True)
            if content is not None
        ]
        workspace = Workspace(overlay)
        items = decide_envelope(workspace, commands, entry.time_us, Context(Digests(), live.rights, 1), entry.index)
        assert items == entry.items
        overlay.apply(workspace)
    assert overlay.state_digest() == live.state.state_digest()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, st.integers(2, 5))
def test_how_a_history_is_cut_into_batches_does_not_matter(history: list[Any], size: int) -> None:
    """Many entries folded in one workspace give what one at a time gives."""
    world = World()
    carry_out(world, history)
    batched = MemoryState()
    for start in range(0, len(world.log), size):
        workspace = Workspace(batched)
        for entry in world.log[start : start + size]:
            evolve_entry(workspace, entry.index, 1, entry.time_us, entry.author, entry.heads, entry.items, entry.bodies)
        batched.apply(workspace)
    assert batched.buckets() == world.state.buckets()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories)
def test_nothing_becomes_verified_by_say_so(history: list[Any]) -> None:
    """Without a review no history makes anything verified, and a rejected value is held by no living record."""
    world = World()
    carry_out(world, [step for step in history if step[0] != "promote"])
    for record in world.state.records.values():
        assert record.trust != VERIFIED
        assert (record.trust == REJECTED) == world.state.rejected(record.id, record.value_digest)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories, st.sampled_from(TEXTS), st.sampled_from(AUTHORS))
def test_a_forgotten_statement_stays_forgotten(history: list[Any], text: str, author: bytes | None) -> None:
    """Whatever happened before and happens after, the same source does not bring the same value back."""
    world = World()
    carry_out(world, history)
    outcome = world.write(text, author=author)
    if outcome.code not in ("asserted", "superseded", "corroborated", "repeated"):
        return
    world.forget(outcome.record_id, author=author)
    world.wait(DAY_US)
    assert world.write(text, author=author).rule == rules.FORGOTTEN_SOURCE


def test_a_change_moves_the_digest_of_its_bucket_only(world: World) -> None:
    """So that two nodes find by 256 comparisons where they differ."""
    world.write("JWT")
    before = world.state.buckets()
    id = world.write("x", "other").record_id
    after = world.state.buckets()
    assert [place for place in range(256) if before[place] != after[place]] == [id[0]]
    world.forget(id)
    assert world.state.buckets() != after
