"""Recall: hard filters inside, verified facts never pushed out, the same answer everywhere, and never an exception."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from projection_world import ALICE, BOB, SECOND_US, Folder, World, fact_id

from veridical.embedding.hashing import HashEmbedder
from veridical.memory import commands as c
from veridical.memory.errors import Invalid
from veridical.memory.ranking import rank
from veridical.memory.record import CANDIDATE, REJECTED, VERIFIED
from veridical.projection import recall, terms
from veridical.projection.answers import Filters
from veridical.projection.projection import Projection
from veridical.projection.reader import RECALL_LIMIT, Reader
from veridical.projection.rows import is_searchable
from veridical.projection.terms import Budget


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def texts(reader: Reader, query: str, now_us: int, filters: Filters | None = None, k: int = 5) -> list[str]:
    """The texts that a recall gives, best first."""
    return [hit.record.text for hit in reader.recall(query, now_us, k=k, filters=filters or Filters()).hits]


def test_finds_by_subject_predicate_text_metadata_and_date(fold: Folder) -> None:
    """Every field that names a fact leads to it."""
    world = World()
    world.write("dark mode", "Dana", "prefers", metadata='{"file":"src/theme.py","tags":["colour"],"n":7}')
    world.write("in Lisbon", "Dana", "lived", valid_from_us=1_710_000_000_000_000)
    reader = fold(world.entries).reader()
    for query in ("dana", "preferences of Dana", "DARK", "theme.py", "colour"):
        assert "dark mode" in texts(reader, query, world.now_us), query
    for query in ("march 2024", "2024-03-09"):
        assert texts(reader, query, world.now_us) == ["in Lisbon"], query


def test_an_answer_says_where_it_stands(fold: Folder) -> None:
    """Index and `now` come with it, and `now` is never before the entry that was read."""
    world = World()
    world.write("something")
    point = fold(world.entries).reader().recall("something", 5).point
    assert point == (1, 1, world.now_us)


def test_filters_are_inside(fold: Folder) -> None:
    """Scope, kind and trust hold for every hit; a scope is itself and nothing that begins like it."""
    world = World()
    for scope in ("u/test", "u/test1", "u"):
        world.write(f"secret of {scope}", "the", "secret", scope)
    world.write("secret rule", "a", "rule", "u", kind="skill")
    world.say((c.PROMOTE, c.PromoteBody(fact_id("the", "secret", "u"), "seen")))
    reader, now_us = fold(world.entries).reader(), world.now_us
    assert texts(reader, "secret", now_us, Filters(scopes=("u/test",))) == ["secret of u/test"]
    assert set(texts(reader, "secret", now_us, Filters(scopes=("u/test", "u/test1")))) == {
        "secret of u/test",
        "secret of u/test1",
    }
    assert texts(reader, "secret", now_us, Filters(kind="skill")) == ["secret rule"]
    assert texts(reader, "secret", now_us, Filters(trust=VERIFIED)) == ["secret of u"]
    assert set(texts(reader, "secret", now_us, Filters(scopes=("u",), trust=CANDIDATE))) == {"secret rule"}
    assert texts(reader, "secret", now_us, Filters(trust=REJECTED)) == []


def test_a_scope_and_those_around_it_are_searched_by_index(fold: Folder) -> None:
    """Which is what a recall in a lattice asks for: no statement reads all records, all texts or all vectors."""
    world = World()
    for number in range(40):
        world.write(f"alpha beta {number}", f"s{number}", "is", f"repo:{number % 8}")
    with Folder(HashEmbedder()) as with_vectors:
        for reader in (fold(world.entries).reader(), with_vectors(world.entries).reader()):
            asked: list[str] = []
            reader._connection.set_trace_callback(asked.append)  # pyright: ignore[reportPrivateUsage]
            filters = Filters(scopes=("repo:1", "repo:2", "repo:nowhere"))
            assert len(texts(reader, "alpha", world.now_us, filters, k=20)) == 10
            reader._connection.set_trace_callback(None)  # pyright: ignore[reportPrivateUsage]
            plans = [step for one in asked if one.lstrip().startswith(("SELECT", "WITH")) for step in plan(reader, one)]
            assert any(step.startswith("SEARCH record USING INTEGER PRIMARY KEY") for step in plans), plans
            for table in ("record", "content", "vector", "scope", "vanished"):
                assert not [step for step in plans if step.startswith(f"SCAN {table}")], plans
            full_text = [step for step in plans if step.startswith(("SCAN words", "SCAN sample"))]
            assert full_text and all("VIRTUAL TABLE INDEX" in step and "M" in step[-4:] for step in full_text), (
                full_text
            )


def plan(reader: Reader, statement: str) -> list[str]:
    """How SQLite goes about it."""
    rows = reader._connection.execute(f"EXPLAIN QUERY PLAN {statement}")  # pyright: ignore[reportPrivateUsage]
    return [row[-1] for row in rows]


def test_an_unknown_scope_is_empty_and_said_to_be_unknown(fold: Folder) -> None:
    """Silence would look like an empty memory; a scope whose last record went is unknown again."""
    world = World()
    world.write("here", "a", "is", "user:dana")
    gone = world.write("there", "b", "is", "user:gone")
    world.say((c.FORGET, c.ForgetBody(gone)))
    reader = fold(world.entries).reader()
    found = reader.recall("here there", world.now_us, filters=Filters(scopes=("user:dana", "user:nobody", "user:gone")))
    assert [hit.record.text for hit in found.hits] == ["here"]
    assert found.scopes == ("user:dana", "user:nobody", "user:gone")
    assert found.unknown_scopes == ("user:nobody", "user:gone")
    assert reader.recall("here", world.now_us, filters=Filters(scopes=("user:nobody",))).hits == ()


def test_forgotten_rejected_and_superseded_values_are_not_recalled(fold: Folder) -> None:
    """In the very index at which they ceased to hold."""
    world = World()
    world.write("alpha old", "one", "is")
    world.write("alpha new", "one", "is")
    forgotten = world.write("alpha forgotten", "two", "is")
    rejected = world.write("alpha rejected", "three", "is")
    before = fold(world.entries).reader()
    assert len(texts(before, "alpha", world.now_us)) == 3
    world.say((c.FORGET, c.ForgetBody(forgotten)))
    world.say((c.DEMOTE, c.DemoteBody(rejected, REJECTED, "wrong")))
    assert texts(fold(world.entries).reader(), "alpha", world.now_us) == ["alpha new"]
    assert texts(fold(world.entries, 4).reader(), "old forgotten rejected", world.now_us) == []


def test_expired_facts_are_not_recalled_before_they_are_pruned(fold: Folder) -> None:
    """No job has to run; the same `now` gives the same answer."""
    world = World()
    world.write("for an hour", "door", "code", ttl_us=3_600 * SECOND_US)
    reader, now_us = fold(world.entries).reader(), world.now_us
    assert texts(reader, "door", now_us + 3_599 * SECOND_US) == ["for an hour"]
    assert texts(reader, "door", now_us + 3_600 * SECOND_US) == []


def test_valid_time_filters(fold: Folder) -> None:
    """Only what was true at that moment."""
    world = World()
    world.write("lives in Porto", "dana", "home", valid_from_us=100, valid_to_us=200)
    world.write("lives in Faro", "rui", "home")
    reader = fold(world.entries).reader()
    assert texts(reader, "lives", world.now_us, Filters(valid_at_us=199)) == texts(reader, "lives", world.now_us)
    assert texts(reader, "lives", world.now_us, Filters(valid_at_us=200)) == ["lives in Faro"]
    assert texts(reader, "lives", world.now_us, Filters(valid_at_us=99)) == ["lives in Faro"]


def test_control_records_are_never_recalled(fold: Folder) -> None:
    """The product's own bookkeeping is no memory, whatever the filter."""
    world = World()
    id = world.write("trust of alice", "alice", "is")
    record = world.memory.records[id]
    for change in ({"predicate": "fails"}, {"predicate": "author_trust"}, {"scope": "meta:authors"}):
        assert not is_searchable(record._replace(**change))
    assert is_searchable(record)


def test_eighty_better_candidates_do_not_push_out_the_verified_fact(fold: Folder) -> None:
    """It has its own slice of candidates, and its place in the answer."""
    world = World()
    facts = [
        c.WriteBody("fact", f"deploy {number}", "deploy", "global", f"deploy key rotation policy deploy {number}")
        for number in range(80)
    ]
    world.write_many(facts)
    verified = world.write("a long sentence that mentions the rotation of something among many other words", "x", "y")
    world.say((c.PROMOTE, c.PromoteBody(verified, "seen")))
    hits = fold(world.entries).reader().recall("deploy key rotation policy", world.now_us, k=5).hits
    assert len(hits) == 5
    assert verified in [hit.record.id for hit in hits]


def test_ranks_by_the_formula_and_ties_by_id(fold: Folder) -> None:
    """Scores are those of the rules; equal scores come in the order of ids."""
    world = World()
    for subject in "abcdefgh":
        world.write("the same words", subject, "is")
    hits = fold(world.entries).reader().recall("same words", world.now_us, k=8).hits
    assert [hit.score for hit in hits] == [rank(hit.record, hit.relevance, world.now_us) for hit in hits]
    ordered = sorted(hits, key=lambda hit: (-hit.score, hit.record.id))
    assert list(hits) == ordered
    assert all(hit.lanes == {"words": hit.lanes["words"]} for hit in hits)


def test_the_same_history_in_other_batches_answers_alike(fold: Folder) -> None:
    """Equal index and equal `now`, equal answer, whatever came in which transaction."""
    world = World()
    for number in range(60):
        world.write(
            f"note {number % 7} about topic {number % 11}", f"s{number % 30}", "is", author=(ALICE, BOB)[number % 2]
        )
    one, other = fold(world.entries).reader(), fold(world.entries, *(1,) * 60).reader()
    for query in ("note 3", "topic 5 about", "s12 topic"):
        assert one.recall(query, world.now_us, k=20) == other.recall(query, world.now_us, k=20)


@pytest.mark.parametrize("query", ["", "   ", "?!", "\x00\ud800", '"', "AND OR NOT", "x" * (1 << 20), "word " * 10_000])
def test_any_input_is_a_valid_query(fold: Folder, query: str) -> None:
    """At worst it finds nothing, and a notice says why."""
    world = World()
    world.write("some words to be found")
    found = fold(world.entries).reader().recall(query, world.now_us)
    assert found.hits or found.notices or query.strip() == "AND OR NOT" or "x" in query


@pytest.mark.parametrize("k", [0, -1, RECALL_LIMIT + 1])
def test_k_has_limits(fold: Folder, k: int) -> None:
    """And says which."""
    with pytest.raises(Invalid, match=f"{k} is not between 1 and {RECALL_LIMIT}"):
        fold([]).reader().recall("x", 0, k=k)


# --- large stores, with the limits that make one brought down ---------------------------------------------------------


@pytest.fixture
def large(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> tuple[Projection, World]:
    """A store that counts as large: 640 records, of which each says `common`, and each tenth one `rare`."""
    monkeypatch.setattr(terms, "SMALL_POPULATION", 100)
    monkeypatch.setattr(recall, "EVERYWHERE", Budget(hits=100, share=0.2))
    monkeypatch.setattr(recall, "NEWEST_HITS", 20)
    monkeypatch.setattr(recall, "SMALL_SCOPE_RECORDS", 50)
    monkeypatch.setattr(recall, "SMALL_SCOPE_SHARE", 0.0)
    world = World()
    world.write_many(
        [
            c.WriteBody(
                "fact", f"s{number}", "is", "user:small" if number % 32 == 0 else "global",
                f"common words {'rare ' if number % 10 == 0 else ''}{number}",
            )
            for number in range(640)
        ]
    )  # fmt: skip
    verified = fact_id("s3", "is")
    world.say((c.PROMOTE, c.PromoteBody(verified, "seen")))
    return fold(world.entries), world


def test_common_words_beside_rarer_ones_are_left_aside(large: tuple[Projection, World]) -> None:
    """And the answer says so."""
    projection, world = large
    found = projection.reader().recall("common rare", world.now_us, k=100)
    assert len(found.hits) == 64
    assert any('"common"' in notice for notice in found.notices)


def test_only_common_words_find_the_newest_and_the_verified(large: tuple[Projection, World]) -> None:
    """The question is answered within its budget, and no flood hides what is verified."""
    projection, world = large
    found = projection.reader().recall("common", world.now_us, k=21)
    numbers = {int(hit.record.text.split()[-1]) for hit in found.hits}
    assert found.hits[0].record.text == "common words 3"
    assert numbers <= {3, *range(600, 640)}
    assert found.hits[0].lanes.keys() == {"newest"}
    assert "newest" in found.notices[-1]


def test_a_small_scope_is_searched_whole(large: tuple[Projection, World]) -> None:
    """What is common everywhere may be all there is to ask for in one scope."""
    projection, world = large
    filters = Filters(scopes=("user:small",))
    found = projection.reader().recall("common", world.now_us, k=100, filters=filters)
    assert len(found.hits) == 20
    assert {hit.record.scope for hit in found.hits} == {"user:small"}
