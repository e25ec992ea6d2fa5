"""What a write meets: each row of the table of MEMORY § 2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, DAY_US, HOUR_US, World

from veridical.memory import rules
from veridical.memory.keys import make_key, record_id
from veridical.memory.record import CANDIDATE, PPM, REJECTED, VERIFIED


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_there_asserts(world: World) -> None:
    """A first write is a candidate with confidence 0.5, strength 1 and support 1, under the id of its key."""
    outcome = world.write("JWT")
    record = world.record(outcome.record_id)
    assert outcome.code == "asserted"
    assert outcome.record_id == record_id(make_key("auth", "uses", "repo:app"))
    assert (record.trust, record.confidence_ppm, record.strength_ppm, record.support) == (CANDIDATE, 500_000, PPM, 1)
    assert (record.text, record.created_at_us, record.version) == ("JWT", world.now_us, (1, 1, 0))


def test_the_same_value_of_another_source_corroborates(world: World) -> None:
    """Support and confidence rise, strength is whole again, provenance is joined, a volatile record is confirmed."""
    id = world.write("JWT", author=ALICE, provenance=("a",), volatile=True).record_id
    world.wait(HOUR_US)
    assert world.write("jwt", author=BOB, provenance=("b", "a")).code == "corroborated"
    record = world.record(id)
    assert (record.support, record.confidence_ppm, record.strength_ppm) == (2, 600_000, PPM)
    assert record.strength_at_us == world.now_us
    assert record.provenance == ("a", "b")
    assert record.volatile_until_us is None
    assert record.text == "JWT"


def test_confidence_stops_at_one(world: World) -> None:
    """Many sources make it certain, not more than certain."""
    id = world.write("JWT", source="0").record_id
    for number in range(1, 9):
        world.write("JWT", source=str(number))
    assert (world.record(id).support, world.record(id).confidence_ppm) == (9, PPM)


@pytest.mark.parametrize("author", [ALICE, None])
def test_the_same_author_repeating_itself_changes_only_the_last_seen_time(world: World, author: bytes | None) -> None:
    """Twelve repetitions raise nothing."""
    before = world.record(world.write("JWT", author=author).record_id)
    for _ in range(12):
        world.wait(HOUR_US)
        assert world.write("JWT", author=author).code == "repeated"
    after = world.record(before.id)
    assert after == before._replace(last_seen_us=world.now_us, version=after.version)
    assert world.state.history(before.id) == []


def test_a_principal_gains_nothing_by_naming_many_sources(world: World) -> None:
    """Labels are cheap: a principal counts once whatever it cites."""
    id = world.write("JWT", author=ALICE, source="doc:0").record_id
    assert {world.write("JWT", author=ALICE, source=f"doc:{n}").code for n in range(1, 13)} == {"repeated"}
    assert (world.record(id).support, world.record(id).confidence_ppm) == (1, 500_000)


def test_our_own_recalled_text_is_no_support(world: World) -> None:
    """Text that came out of this memory corroborates nothing and asserts nothing new."""
    id = world.write("JWT", author=ALICE).record_id
    assert world.write("JWT", author=BOB, source=f"recall:{id.hex()}").code == "repeated"
    assert world.record(id).support == 1
    for subject in ("auth", "login"):
        refusal = world.write("cookies", subject=subject, author=BOB, source=f"recall:{id.hex()}")
        assert (refusal.code, refusal.rule) == ("refused", rules.RECALLED_TEXT)
    assert world.record(id).text == "JWT"


def test_another_value_supersedes_a_candidate(world: World) -> None:
    """The new value is a candidate of its own; the old one stays in the history."""
    id = world.write("JWT", author=ALICE).record_id
    world.write("JWT", author=BOB)
    world.wait(HOUR_US)
    outcome = world.write("cookies", author=CAROL)
    record = world.record(id)
    assert (outcome.code, record.text, record.trust) == ("superseded", "cookies", CANDIDATE)
    assert (record.support, record.confidence_ppm, record.corrections_count) == (1, 500_000, 1)
    past = world.state.history(id)[-1]
    assert (past.record.text, past.ended_by, past.until_us) == ("JWT", "superseded", world.now_us)


def test_the_history_of_corrections_has_no_end(world: World) -> None:
    """Every value that was ever held can be found."""
    id = world.write("value 0").record_id
    for number in range(1, 150):
        world.write(f"value {number}")
    corrections = [past.record.text for past in world.state.history(id) if past.ended_by == "superseded"]
    assert corrections == [f"value {number}" for number in range(149)]
    assert world.record(id).corrections_count == 149


def test_a_supporter_supersedes_a_verified_value(world: World) -> None:
    """Who supports the present value may correct it."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    assert world.write("cookies", author=ALICE).code == "superseded"
    assert world.record(id).trust == CANDIDATE


@pytest.mark.parametrize("author", [BOB, None])
def test_others_contend_with_a_verified_value(world: World, author: bytes | None) -> None:
    """It is not overwritten; the other value waits for a reviewer."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    before = world.record(id)
    assert world.write("cookies", author=author).code == "conflicted"
    assert world.record(id) == before
    [contender] = world.state.contending(id)
    assert (contender.text, contender.support) == ("cookies", 1)


def test_an_anonymous_writer_never_supports(world: World) -> None:
    """Even the value that it wrote itself, once verified, is not an anonymous writer's to change."""
    id = world.write("JWT").record_id
    world.promote(id)
    assert world.write("cookies").code == "conflicted"


def test_a_contender_counts_its_sources(world: World) -> None:
    """The same contending value is kept once; independent sources raise it, the same source does not."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    for author in (BOB, BOB, CAROL):
        assert world.write("cookies", author=author).code == "conflicted"
    [contender] = world.state.contending(id)
    assert (contender.support, contender.confidence_ppm) == (2, 600_000)


def test_contenders_are_bounded(world: World) -> None:
    """A flood of contending values is refused by name; the verified one stands."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    outcomes = [world.write(f"value {number}", author=BOB) for number in range(17)]
    assert [outcome.code for outcome in outcomes] == ["conflicted"] * 16 + ["refused"]
    assert outcomes[-1].rule == rules.CONTENDERS_FULL
    assert len(world.state.contending(id)) == 16


def test_a_contender_that_becomes_the_value_contends_no_more(world: World) -> None:
    """Its row is gone from the contenders when a supporter takes it over."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    world.write("cookies", author=BOB)
    world.write("cookies", author=ALICE)
    assert world.record(id).text == "cookies"
    assert world.state.contending(id) == ()


VARIANTS = [
    "closed",
    "CLOSED",
    "ｃｌｏｓｅｄ",
    "clo\u200bsed",
    "\u00a0closed ",
    "closed\u2060",
    "c\u00adlosed",
    "\u202dclosed",
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_rejected_value_stays_rejected(world: World, variant: str) -> None:
    """Reject X, write Y, write X: X is refused, in every look-alike, by everybody, and nothing rises."""
    id = world.write("closed", author=ALICE).record_id
    assert world.demote(id, "rejected").code == "rejected"
    assert world.write(variant, author=BOB).rule == rules.REJECTED_VALUE
    assert world.write("open", author=BOB).code == "superseded"
    before = world.record(id)
    for author in (ALICE, BOB, CAROL, None):
        assert world.write(variant, author=author, source="new").rule == rules.REJECTED_VALUE
    assert world.record(id) == before


def test_a_rejection_outlives_prune_and_forget(world: World) -> None:
    """The tombstone is kept by key and value, not by record."""
    id = world.write("closed", author=ALICE, ttl_us=HOUR_US).record_id
    world.demote(id, "rejected")
    world.wait(DAY_US)
    assert world.prune(id).count == 1
    assert world.write("closed", author=BOB).rule == rules.REJECTED_VALUE
    world.write("open", author=BOB)
    world.forget(id)
    assert world.write("closed", author=CAROL).rule == rules.REJECTED_VALUE


@pytest.mark.parametrize(
    ("subject", "predicate", "scope"),
    [
        ("a", "fails", "global"),
        ("a", " Schema".strip(), "global"),
        ("a", "is", "meta:authors"),
        ("a", "TOOL", "repo:x"),
    ],
)
def test_reserved_keys_are_refused(world: World, subject: str, predicate: str, scope: str) -> None:
    """The product's own records are not written by callers."""
    outcome = world.write("x", subject=subject, predicate=predicate, scope=scope)
    assert (outcome.code, outcome.rule) == ("refused", rules.RESERVED_KEY)


def test_a_key_held_by_another_kind_is_refused(world: World) -> None:
    """A fact does not overwrite a rule, nor the other way round."""
    id = world.write("JWT", kind="design_rule").record_id
    assert world.write("JWT", kind="fact").rule == rules.OTHER_KIND
    assert world.write("cookies", kind="fact").rule == rules.OTHER_KIND
    assert world.record(id).kind == "design_rule"


@pytest.mark.parametrize("subject", ["Café", "CAFE\u0301", " cafe\u0301".strip(), "CAFÉ"])
def test_names_in_every_normal_form_are_one_fact(world: World, subject: str) -> None:
    """A key in another normal form meets the same record."""
    id = world.write("open", subject="café").record_id
    assert world.write("closed", subject=subject, author=ALICE).record_id == id
    assert len(world.state.records) == 1


def test_similarity_never_decides(world: World) -> None:
    """Five years and six years are two values, however near they are."""
    world.write("5 years at the company", subject="dana", predicate="tenure")
    assert world.write("6 years at the company", subject="dana", predicate="tenure").code == "superseded"


def test_an_atomic_sentence_is_keyed_by_its_text(world: World) -> None:
    """Saying it twice never makes two; another scope does."""
    first = world.write("Theo is 15", "", "", author=ALICE)
    assert world.write("THEO is  15", "", "", author=BOB)[:1] == ("corroborated",)
    assert world.write("Theo is 16", "", "").code == "asserted"
    assert world.write("Theo is 15", "", "", scope="global").record_id != first.record_id
    assert len(world.state.records) == 3


def test_multi_valued_predicates_hold_values_side_by_side(world: World) -> None:
    """A declared predicate keeps each value as its own record; others in other scopes still supersede."""
    world.declare("repo:*", "Tested_With")
    first = world.write("qwen-3b", "bench", "tested_with")
    second = world.write("qwen-7b", "bench", "tested_with")
    assert (first.code, second.code) == ("asserted", "asserted")
    assert world.write("QWEN-3B", "bench", "tested_with", author=ALICE).record_id == first.record_id
    world.write("x", "bench", "tested_with", scope="global")
    assert world.write("y", "bench", "tested_with", scope="global").code == "superseded"


def test_what_was_said_before_the_declaration_is_not_said_twice(world: World) -> None:
    """A value held, or rejected, under the single key is met there."""
    id = world.write("qwen-3b", "bench", "tested_with").record_id
    world.declare("*", "tested_with")
    assert world.write("qwen-3b", "bench", "tested_with", author=ALICE).record_id == id
    world.demote(id, "rejected")
    assert world.write("qwen-3b", "bench", "tested_with", author=BOB).rule == rules.REJECTED_VALUE
    assert world.write("qwen-7b", "bench", "tested_with").code == "asserted"


@pytest.mark.parametrize(
    "predicate", ["is", "likes", "works at", "version", "tenure", "路径", "цвет", "a|b", "100%", "x"]
)
def test_superseding_is_the_same_for_every_predicate(world: World, predicate: str) -> None:
    """No predicate is special by its words."""
    codes = [world.write(value, "it", predicate).code for value in ("first", "second", "first")]
    assert codes == ["asserted", "superseded", "superseded"]


def test_an_opposite_value_replaces_and_never_leaves_nothing(world: World) -> None:
    """A contradiction in words is a new value, with the old one in the chain."""
    id = world.write("loves Chinese food", "dana", "taste").record_id
    world.write("hates Chinese food", "dana", "taste")
    assert world.record(id).text == "hates Chinese food"
    assert [past.record.text for past in world.state.history(id)] == ["loves Chinese food"]


def test_fields_that_no_caller_sets_are_named(world: World) -> None:
    """A write that carried trust or confidence is told that they were ignored."""
    outcome = world.write("JWT", ignored=("trust", "epistemic_confidence"))
    assert outcome.ignored == ("trust", "epistemic_confidence")
    assert world.record(outcome.record_id).trust == CANDIDATE


def test_metadata_and_dates_are_kept_unless_new_ones_come(world: World) -> None:
    """Saying it again without metadata keeps it; with other metadata replaces it, and the former is in the history."""
    id = world.write("JWT", metadata='{"a":1}', valid_from_us=5, author=ALICE).record_id
    world.write("JWT", author=BOB)
    assert (world.record(id).metadata, world.record(id).valid_from_us) == ('{"a":1}', 5)
    world.write("JWT", author=BOB, metadata='{"b":2}')
    assert (world.record(id).metadata, world.record(id).valid_from_us) == ('{"b":2}', 5)
    assert world.state.history(id)[-1].record.metadata == '{"a":1}'


def test_a_stranger_does_not_amend_a_verified_fact(world: World) -> None:
    """Corroborating a verified fact does not put metadata, dates or a time to live into it."""
    id = world.write("JWT", author=ALICE).record_id
    world.promote(id)
    world.write("JWT", author=BOB, metadata='{"evil":1}', valid_to_us=1, ttl_us=1)
    record = world.record(id)
    assert (record.metadata, record.valid_to_us, record.expires_at_us, record.support) == ("{}", None, None, 2)


def test_support_is_bounded(world: World) -> None:
    """At its limit a value is as supported as it can be; forgetting it then bars every source."""
    id = world.write("JWT", source="0").record_id
    for number in range(1, 70):
        world.write("JWT", source=str(number))
    assert world.record(id).support == 64
    world.forget(id)
    assert world.write("JWT", source="never seen").rule == rules.FORGOTTEN_SOURCE


@given(
    st.lists(st.tuples(st.sampled_from([ALICE, BOB, CAROL, None]), st.sampled_from(["", "doc:1", "doc:2"])), min_size=1)
)
def test_support_counts_sources_never_repetitions(statements: list[tuple[bytes | None, str]]) -> None:
    """However often it is said, support is at most the number of principals and anonymous sources that said it."""
    world = World()
    [*_, id] = [world.write("JWT", author=author, source=source).record_id for author, source in statements]
    principals = {author for author, _ in statements if author}
    anonymous = {source for author, source in statements if author is None}
    record = world.record(id)
    assert len(principals) <= record.support <= len(principals) + len(anonymous)
    assert record.confidence_ppm == min(PPM, 500_000 + 100_000 * (record.support - 1))
    assert record.trust not in (VERIFIED, REJECTED)
