"""The review queue: its order, its pages, what is left out of it, and that a page costs what it shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from projection_world import ALICE, BOB, CAROL, SECOND_US, Folder, World, fact_id

from veridical.memory import commands as c
from veridical.memory.errors import Invalid
from veridical.memory.record import REJECTED, VERIFIED
from veridical.projection import queue, schema
from veridical.projection.answers import Filters, Review
from veridical.projection.reader import BARRED_LIMIT, REVIEW_LIMIT, Reader
from veridical.projection.rows import pack

DAY_US = 86_400 * SECOND_US


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def pages(reader: Reader, limit: int, filters: Filters | None = None) -> list[list[Review]]:
    """All pages of the queue, one after the other."""
    page = reader.review_queue(0, filters=filters or Filters(), limit=limit)
    found = [list(page.items)]
    while page.after is not None:
        page = reader.review_queue(0, filters=filters or Filters(), limit=limit, after=page.after)
        found.append(list(page.items))
    return found


def subjects(items: list[Review] | tuple[Review, ...]) -> list[str]:
    """What these items are about."""
    return [item.record.subject for item in items]


def busy_world() -> World:
    """Two scopes with candidates of different support, one of them contended, and things that wait for nobody."""
    world = World()
    for number in range(3):
        world.write("b", f"b{number}", "is", "team:b")
        world.write("a", f"a{number}", "is", "team:a")
    for source in ("x", "y"):
        world.write("a", "a2", "is", "team:a", author=None, source=source)
    world.write("b", "b1", "is", "team:b", author=BOB)
    verified = world.write("so", "settled", "is", "team:b")
    world.say((c.PROMOTE, c.PromoteBody(verified, "seen")))
    world.write("so", "certain", "is", "team:c")
    world.say((c.PROMOTE, c.PromoteBody(fact_id("certain", "is", "team:c"), "seen")))
    world.write("not so", "certain", "is", "team:c", author=CAROL)
    rejected = world.write("wrong", "wrong", "is", "team:a")
    world.say((c.DEMOTE, c.DemoteBody(rejected, REJECTED, "wrong")))
    return world


ORDER = ["certain", "a2", "a0", "a1", "b1", "b0", "b2"]


def test_contended_first_then_scope_by_scope_the_most_supported_first(fold: Folder) -> None:
    """Of equals the oldest first; what is verified or rejected waits for nobody."""
    reader = fold(busy_world().entries).reader()
    items = reader.review_queue(0).items
    assert subjects(items) == ORDER
    assert (items[0].record.trust, [one.text for one in items[0].contenders]) == (VERIFIED, ["not so"])
    assert not any(item.contenders for item in items[1:])


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8])
def test_pages_of_any_size_give_the_same_queue(fold: Folder, limit: int) -> None:
    """Everything once; the last page says that it is the last."""
    found = pages(fold(busy_world().entries).reader(), limit)
    assert [subject for page in found for subject in subjects(page)] == ORDER
    assert all(len(page) == limit for page in found[:-1])


def test_the_queue_is_the_same_on_every_node(fold: Folder) -> None:
    """However the history was cut into batches; a cursor of one is understood by the other."""
    entries = busy_world().entries
    one, other = fold(entries, 1, 2, 3).reader(), fold(entries).reader()
    page = one.review_queue(0, limit=4)
    assert page.after is not None
    rest = other.review_queue(0, after=page.after)
    assert subjects(page.items + rest.items) == ORDER


def test_filters_bound_it(fold: Folder) -> None:
    """Scopes by name and by pattern, contended ones as well; a scope that holds nothing is named."""
    reader = fold(busy_world().entries).reader()
    within = {
        ("team:a",): ["a2", "a0", "a1"], ("team:c", "team:a"): ["certain", "a2", "a0", "a1"],
        ("team:*",): ORDER, ("none",): [], (): [],
    }  # fmt: skip
    for scopes, expected in within.items():
        page = reader.review_queue(0, filters=Filters(scopes))
        assert subjects(page.items) == expected
        assert page.unknown_scopes == (("none",) if scopes == ("none",) else ())


def test_what_was_decided_on_is_gone_and_the_next_page_goes_on(fold: Folder) -> None:
    """A reviewer decides on a page before asking for the next: nothing is passed over."""
    world = busy_world()
    before = fold(world.entries).reader().review_queue(0, limit=3)
    assert subjects(before.items) == ORDER[:3] and before.after is not None
    for item in before.items:
        world.say((c.PROMOTE, c.PromoteBody(item.record.id, "seen")))
    after = fold(world.entries).reader().review_queue(0, after=before.after)
    assert subjects(after.items) == ORDER[3:]


def test_a_group_begins_anew_where_the_record_of_a_cursor_is_gone(fold: Folder) -> None:
    """What was shown comes again rather than that something is passed over."""
    world = busy_world()
    before = fold(world.entries).reader().review_queue(0, limit=3)
    assert before.after is not None
    world.say((c.FORGET, c.ForgetBody(fact_id("a0", "is", "team:a"))), author=ALICE)
    after = fold(world.entries).reader().review_queue(0, after=before.after)
    assert subjects(after.items) == ORDER[3:]


def test_expired_and_reserved_records_are_left_out(fold: Folder) -> None:
    """Nobody has to decide on what time takes away, nor on the product's own records."""
    world = World()
    world.write("soon gone", "fleeting", "is", ttl_us=DAY_US)
    world.write("overflow", "card", "fails", kind="failure")
    world.write("stays", "lasting", "is")
    reader = fold(world.entries).reader()
    assert subjects(reader.review_queue(world.now_us).items) == ["fleeting", "lasting"]
    assert subjects(reader.review_queue(world.now_us + DAY_US).items) == ["lasting"]


def test_one_record_is_shown_whether_it_waits_or_not(fold: Folder) -> None:
    """With what contends with it; not once it has expired."""
    world = busy_world()
    fleeting = world.write("soon gone", "fleeting", "is", ttl_us=DAY_US)
    reader, now_us = fold(world.entries).reader(), world.now_us
    for subject, scope, contenders in (("certain", "team:c", 1), ("settled", "team:b", 0), ("wrong", "team:a", 0)):
        (item,) = reader.review_of(now_us, fact_id(subject, "is", scope)).items
        assert (item.record.subject, len(item.contenders)) == (subject, contenders)
    assert len(reader.review_of(now_us, fleeting).items) == 1
    assert reader.review_of(now_us + DAY_US, fleeting).items == ()
    assert reader.review_of(now_us, bytes(16)).items == ()


@pytest.mark.parametrize(
    "cursor", [b"x", b"\xc1", pack(1), pack((1, 2)), pack((b"", "", "")), pack((b"", "", 1 << 63)), pack((b"", 1, 1))]
)
def test_a_cursor_that_is_none_is_refused(fold: Folder, cursor: bytes) -> None:
    """It comes from outside."""
    reader = fold(busy_world().entries).reader()
    with pytest.raises(Invalid, match="after"):
        reader.review_queue(0, after=cursor)


def test_a_page_is_bounded(fold: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """In items and in bytes; there is always one."""
    world = World()
    world.write_many([c.WriteBody("fact", f"s{number}", "is", "global", "x" * 100) for number in range(120)])
    reader = fold(world.entries).reader()
    assert len(reader.review_queue(0, limit=1_000).items) == REVIEW_LIMIT
    monkeypatch.setattr(queue, "PAGE_BYTES", 1_000)
    found = pages(reader, 100)
    assert 1 < len(found[0]) < 10
    assert len([item for page in found for item in page]) == 120
    monkeypatch.setattr(queue, "PAGE_BYTES", 1)
    assert len(reader.review_queue(0).items) == 1


def test_a_page_is_found_by_index_and_sorts_nothing(fold: Folder) -> None:
    """Whatever is held elsewhere: each of its statements walks an index in the order of the answer."""
    reader = fold(busy_world().entries).reader()
    asked: list[str] = []
    reader._connection.set_trace_callback(asked.append)  # pyright: ignore[reportPrivateUsage]
    pages(reader, 2)
    pages(reader, 2, Filters(("team:a", "team:b")))
    reader._connection.set_trace_callback(None)  # pyright: ignore[reportPrivateUsage]
    statements = [one for one in asked if "scope CROSS JOIN record" in one or "contender CROSS JOIN" in one]
    assert len(statements) > 6
    for statement in statements:
        rows = reader._connection.execute(f"EXPLAIN QUERY PLAN {statement}")  # pyright: ignore[reportPrivateUsage]
        plan = [row[-1] for row in rows]
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN record") for step in plan), plan
        if "scope CROSS JOIN record" in statement:
            assert any("record_waiting (scope=?" in step for step in plan), plan


# --- what is barred ---------------------------------------------------------------------------------------------------


def test_barred_values_are_told_with_their_texts(fold: Folder) -> None:
    """Of values that were held, also after the record was forgotten; at most a thousand are counted."""
    world = World()
    id = world.write("Porto", "dana", "home")
    world.say((c.DEMOTE, c.DemoteBody(id, REJECTED, "wrong")))
    world.write("Faro", "dana", "home")
    assert [one.text for one in fold(world.entries).reader().barred(id)] == ["Porto"]
    world.say((c.FORGET, c.ForgetBody(id)), author=ALICE)
    reader = fold(world.entries).reader()
    assert [one.text for one in reader.barred(id)] == ["Porto"]
    assert reader.scope_of(id) == "global"
    assert (reader.barred(bytes(16)), reader.scope_of(bytes(16))) == ((), None)
    assert "LIMIT" in schema.GET_REJECTED and BARRED_LIMIT == 1_000
