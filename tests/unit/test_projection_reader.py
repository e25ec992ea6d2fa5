"""What a reader answers: single records now and then, history, pages, scopes, and what may be pruned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from projection_world import ALICE, BOB, SECOND_US, START_US, Folder, World, fact_id

from veridical.memory import commands as c
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.record import REJECTED, VERIFIED
from veridical.projection.answers import Filters, HistoryItem, ScopeRecords
from veridical.projection.reader import CORRECTIONS_LIMIT, GET_LIMIT, Reader

DAY_US = 86_400 * SECOND_US
HOME = fact_id("dana", "home")


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


def text(
    reader: Reader, id: bytes, now_us: int, as_of_us: int | None = None, valid_at_us: int | None = None
) -> str | None:
    """The text that is found under an id, or None."""
    found = reader.get(id, now_us, as_of_us=as_of_us, valid_at_us=valid_at_us)[1]
    return found.record.text if found else None


# --- single records ---------------------------------------------------------------------------------------------------


def test_gets_many_in_the_order_asked(fold: Folder) -> None:
    """All at one index, None where there is nothing."""
    world = World()
    one, two = world.write("one", "a", "is"), world.write("two", "b", "is")
    answer = fold(world.entries).reader().get_many([two, bytes(16), one, two], world.now_us)
    assert [found.record.text if found else None for found in answer.found] == ["two", None, "one", "two"]
    assert answer.point == (1, 2, world.now_us)


def test_too_many_ids_are_refused_with_the_limit() -> None:
    """Bounded, as everything is."""
    with Folder() as fold, pytest.raises(TooLarge, match=str(GET_LIMIT)):
        fold([]).reader().get_many([bytes(16)] * (GET_LIMIT + 1), 0)


def test_rejected_records_are_got_expired_ones_are_not(fold: Folder) -> None:
    """A reviewer has to see the one; nobody is to believe the other."""
    world = World()
    rejected = world.write("wrong", "a", "is")
    world.say((c.DEMOTE, c.DemoteBody(rejected, REJECTED, "wrong")))
    fleeting = world.write("soon gone", "b", "is", ttl_us=DAY_US)
    reader, now_us = fold(world.entries).reader(), world.now_us
    assert text(reader, rejected, now_us) == "wrong"
    assert text(reader, fleeting, now_us) == "soon gone"
    assert text(reader, fleeting, now_us + DAY_US) is None


def test_time_never_runs_behind_the_entry_that_is_read(fold: Folder) -> None:
    """A node whose clock lags still judges expiry at the time of its index."""
    world = World()
    fleeting = world.write("soon gone", "b", "is", ttl_us=DAY_US)
    world.pass_time(2 * DAY_US)
    world.write("later")
    point, found = fold(world.entries).reader().get(fleeting, 0)
    assert found is None
    assert point.now_us == world.now_us


def test_corrections_come_oldest_first_and_only_superseded_ones(fold: Folder) -> None:
    """A review or a repetition is no correction, nor is a value of before the record was forgotten."""
    world = World()
    world.write("forgotten", "dana", "home")
    world.write("forgotten too", "dana", "home")
    world.say((c.FORGET, c.ForgetBody(HOME)), author=ALICE)
    for place in ("Porto", "Faro", "Braga"):
        world.write(place, "dana", "home", author=BOB)
    world.say((c.PIN, c.PinBody(HOME)), author=BOB)
    found = fold(world.entries).reader().get(HOME, world.now_us)[1]
    assert found is not None
    assert found.record.text == "Braga"
    assert [past.record.text for past in found.corrections] == ["Porto", "Faro"]


def test_a_record_carries_its_last_hundred_corrections(fold: Folder) -> None:
    """History pages the rest."""
    world = World()
    for number in range(CORRECTIONS_LIMIT + 6):
        world.write(f"place {number}", "dana", "home")
    found = fold(world.entries).reader().get(HOME, world.now_us)[1]
    assert found is not None
    assert found.record.corrections_count == CORRECTIONS_LIMIT + 5
    assert [past.record.text for past in found.corrections] == [f"place {number}" for number in range(5, 105)]


# --- two kinds of time ------------------------------------------------------------------------------------------------


def test_as_of_gives_what_was_held_then(fold: Folder) -> None:
    """Every version of the record at every moment of recorded time, also after it was forgotten."""
    world = World()
    moments: list[tuple[int, str | None, str | None]] = [(world.now_us, None, None)]

    def note() -> None:
        record = world.memory.records.get(HOME)
        moments.append((world.now_us, record and record.text, record and record.trust))

    world.write("Porto", "dana", "home")
    note()
    world.say((c.PROMOTE, c.PromoteBody(HOME, "seen")))
    note()
    world.write("Faro", "dana", "home")
    note()
    world.say((c.REINFORCE, c.ReinforceBody((HOME,))))
    note()
    world.say((c.FORGET, c.ForgetBody(HOME)), author=ALICE)
    note()
    world.write("Braga", "dana", "home", author=BOB)
    note()
    reader = fold(world.entries).reader()
    for moment_us, place, trust in moments:
        for as_of_us in (moment_us, moment_us + SECOND_US - 1):
            found = reader.get(HOME, world.now_us, as_of_us=as_of_us)[1]
            assert (found and found.record.text, found and found.record.trust) == (place, trust)


def test_as_of_judges_expiry_at_that_moment(fold: Folder) -> None:
    """What has expired since was believed then."""
    world = World()
    fleeting = world.write("soon gone", "b", "is", ttl_us=DAY_US)
    written_us = world.now_us
    reader = fold(world.entries).reader()
    later_us = written_us + 3 * DAY_US
    assert text(reader, fleeting, later_us) is None
    assert text(reader, fleeting, later_us, as_of_us=written_us) == "soon gone"
    assert text(reader, fleeting, later_us, as_of_us=written_us + DAY_US) is None


def test_valid_at_gives_what_was_true_then(fold: Folder) -> None:
    """A superseded value is still the answer to a question about its own time."""
    world = World()
    world.write("Porto", "dana", "home", valid_from_us=100, valid_to_us=200)
    world.write("Faro", "dana", "home", valid_from_us=200)
    reader, now_us = fold(world.entries).reader(), world.now_us
    assert [text(reader, HOME, now_us, valid_at_us=moment) for moment in (99, 100, 199, 200, 10**15)] == [
        None, "Porto", "Porto", "Faro", "Faro",
    ]  # fmt: skip


def test_both_times_are_two_questions(fold: Folder) -> None:
    """What we believed at one time about another time."""
    world = World()
    world.write("Porto", "dana", "home", valid_from_us=100, valid_to_us=200)
    believed_us = world.now_us
    world.write("Lisbon", "dana", "home", valid_from_us=100, valid_to_us=300)
    reader, now_us = fold(world.entries).reader(), world.now_us
    assert text(reader, HOME, now_us, valid_at_us=150) == "Lisbon"
    assert text(reader, HOME, now_us, as_of_us=believed_us, valid_at_us=150) == "Porto"
    assert text(reader, HOME, now_us, as_of_us=believed_us, valid_at_us=250) is None
    assert text(reader, HOME, now_us, as_of_us=START_US, valid_at_us=150) is None


# --- history ----------------------------------------------------------------------------------------------------------


def test_history_is_newest_first_and_keeps_what_was_forgotten(fold: Folder) -> None:
    """Each item says how long it was held and what ended it."""
    world = World()
    world.write("Porto", "dana", "home")
    world.write("Faro", "dana", "home")
    world.say((c.FORGET, c.ForgetBody(HOME, "moved away")), author=ALICE)
    forgotten_us = world.now_us
    world.write("Braga", "dana", "home", author=BOB)
    page = fold(world.entries).reader().history(HOME, world.now_us)
    assert [(item.record.text, item.ended_by) for item in page.items] == [
        ("Braga", ""),
        ("Faro", "forgotten"),
        ("Porto", "superseded"),
    ]
    assert page.items[0].until_us is None
    assert page.items[1].until_us == forgotten_us
    assert page.items[1].reason == "moved away"
    assert page.before is None


def test_history_shows_an_expired_record_as_expired(fold: Folder) -> None:
    """Also while nobody has pruned it."""
    world = World()
    id = world.write("soon gone", "b", "is", ttl_us=DAY_US)
    expired_us = world.now_us + DAY_US
    (item,) = fold(world.entries).reader().history(id, expired_us).items
    assert (item.ended_by, item.until_us) == ("expired", expired_us)


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_history_pages_meet_without_a_gap(fold: Folder, limit: int) -> None:
    """All items once, in order, whatever the size of a page."""
    world = World()
    for number in range(12):
        world.write(f"place {number}", "dana", "home")
        world.say((c.PIN, c.PinBody(HOME)), (c.UNPIN, c.PinBody(HOME)))
    reader = fold(world.entries, 5).reader()
    whole = reader.history(HOME, world.now_us, limit=1_000).items
    assert len(whole) == 12 * 3
    pages: list[HistoryItem] = []
    before = None
    while True:
        page = reader.history(HOME, world.now_us, limit=limit, before=before)
        assert len(page.items) <= limit
        pages += page.items
        before = page.before
        if before is None:
            break
    assert tuple(pages) == whole


def test_history_of_nothing_is_empty(fold: Folder) -> None:
    """An id that never was."""
    page = fold([]).reader().history(bytes(16), 0)
    assert (page.items, page.before) == ((), None)


# --- many records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 10, 1_000])
def test_pages_give_every_record_once_in_the_order_of_ids(fold: Folder, limit: int) -> None:
    """Rejected ones included, expired ones not."""
    world = World()
    ids = [world.write(f"value {number}", f"s{number}", "is") for number in range(9)]
    world.say((c.DEMOTE, c.DemoteBody(ids[0], REJECTED, "wrong")))
    world.write("soon gone", "x", "is", ttl_us=1)
    pages = list(fold(world.entries).reader().all(world.now_us + 5, page_records=limit))
    assert [record.id for page in pages for record in page.records] == sorted(ids)


def test_pages_are_filtered(fold: Folder) -> None:
    """By scope, kind and trust; unknown scopes are named."""
    world = World()
    for number in range(6):
        world.write(
            f"value {number}", f"s{number}", "is", f"user:{number % 2}", kind="skill" if number == 4 else "fact"
        )
    world.say((c.PROMOTE, c.PromoteBody(fact_id("s2", "is", "user:0"), "seen")))
    reader = fold(world.entries).reader()

    def texts(filters: Filters) -> set[str]:
        return {record.text for page in reader.all(world.now_us, filters=filters) for record in page.records}

    assert texts(Filters(scopes=("user:0",))) == {"value 0", "value 2", "value 4"}
    assert texts(Filters(scopes=("user:0",), kind="fact")) == {"value 0", "value 2"}
    assert texts(Filters(trust=VERIFIED)) == {"value 2"}
    page = reader.page(world.now_us, filters=Filters(scopes=("user:9",)))
    assert (page.records, page.unknown_scopes) == ((), ("user:9",))


def test_all_sees_what_changes_while_it_is_read(fold: Folder) -> None:
    """Every page is of its own index, and no page holds a transaction open."""
    world = World()
    for number in range(6):
        world.write(f"value {number}", f"s{number}", "is")
    projection = fold(world.entries)
    pages = projection.reader().all(world.now_us, page_records=2)
    first = next(pages)
    last_id = max(world.memory.records)
    world.say((c.FORGET, c.ForgetBody(last_id)))
    projection.apply(world.entries)
    rest = list(pages)
    assert [first.point.index, *(page.point.index for page in rest)] == [6, 7, 7]
    assert last_id not in [record.id for page in rest for record in page.records]


@pytest.mark.parametrize("limit", [0, -3])
def test_a_page_of_nothing_is_refused(fold: Folder, limit: int) -> None:
    """It would never end."""
    reader = fold([]).reader()
    with pytest.raises(Invalid, match="less than 1"):
        reader.page(0, limit=limit)
    with pytest.raises(Invalid, match="less than 1"):
        reader.history(bytes(16), 0, limit=limit)


def test_scopes_and_counts(fold: Folder) -> None:
    """Scopes by name with their records, and totals."""
    world = World()
    gone = world.write("a", "a", "is", "user:gone")
    world.write("b", "b", "is", "user:b")
    world.write("c", "c", "is", "user:b")
    world.say((c.FORGET, c.ForgetBody(gone)))
    world.say((c.DEMOTE, c.DemoteBody(fact_id("c", "is", "user:b"), REJECTED, "wrong")))
    reader = fold(world.entries, 2).reader()
    assert reader.scopes() == (ScopeRecords("user:b", 2),)
    counts = reader.counts()
    assert (counts.records, counts.searchable, counts.rejections, counts.scopes) == (2, 1, 1, 1)
    assert (counts.past_versions, counts.commands) == (2, 5)


def test_prunable_records_are_those_that_a_prune_removes(fold: Folder) -> None:
    """Expired ones and faded doubtful ones; not the pinned, the verified, the believed."""
    world = World()
    expired = world.write("soon gone", "a", "is", ttl_us=DAY_US)
    pinned = world.write("kept", "b", "is", ttl_us=DAY_US)
    world.say((c.PIN, c.PinBody(pinned)))
    doubted = world.write("doubtful", "c", "is")
    world.say((c.CONTRADICT, c.ContradictBody(doubted, "evidence")), author=BOB)
    world.write("believed", "d", "is")
    reader = fold(world.entries).reader()
    assert reader.prunable(world.now_us) == []
    later_us = world.now_us + 60 * DAY_US
    assert reader.prunable(later_us) == [expired, doubted]
    assert reader.prunable(later_us, limit=1) == [expired]
    assert reader.prunable(later_us, half_life=1_000 * DAY_US) == [expired]


def test_a_snapshot_stays_where_it_is(fold: Folder, tmp_path: object) -> None:
    """Everything asked inside is of one index, whatever is folded meanwhile."""
    world = World()
    world.write("one", "a", "is")
    projection = fold(world.entries, path=f"{tmp_path}/projection.db")
    reader = projection.reader()
    with reader.snapshot():
        assert reader.applied.index == 1
        world.write("two", "a", "is")
        projection.apply(world.entries)
        assert reader.applied.index == 1
        assert text(reader, fact_id("a", "is"), world.now_us) == "one"
    assert reader.applied.index == 2
    assert text(reader, fact_id("a", "is"), world.now_us) == "two"


def test_what_something_rests_on_is_not_prunable(fold: Folder) -> None:
    """As no prune removes it; once nothing rests on it, it is."""
    world = World()
    premise = world.write("soon gone", "a", "is", ttl_us=DAY_US)
    conclusion = world.write("too", "b", "is", ttl_us=DAY_US, derived_from=(premise,))
    later_us = world.now_us + 2 * DAY_US
    assert fold(world.entries).reader().prunable(later_us) == [conclusion]
    world.say((c.FORGET, c.ForgetBody(conclusion)))
    assert fold(world.entries).reader().prunable(later_us) == [premise]


# --- episodes ---------------------------------------------------------------------------------------------------------


def test_episodes_are_found_from_what_was_taken_from_them(fold: Folder) -> None:
    """With those around them; a conversation that forks has more than one next."""
    world = World()
    first, other = (world.write(text, kind="episode", source="chat") for text in ("one", "another"))
    nexts = [world.write(text, kind="episode", follows=first) for text in ("two", "two instead")]
    premise = world.write("a premise", "a", "is")
    taken = world.write("taken", "b", "is", derived_from=(nexts[0], premise, other))
    reader = fold(world.entries).reader()
    record = reader.record(taken)
    assert record is not None
    episodes = reader.episodes_of(record)
    assert [episode.text for episode in episodes] == ["two", "another"]
    before = [reader.episode_before(episode) for episode in episodes]
    assert [episode and episode.text for episode in before] == ["one", None]
    assert reader.episodes_after(first) == tuple(sorted(nexts))
    assert reader.episodes_after(other) == ()
    world.say((c.FORGET, c.ForgetBody(first)))
    reader = fold(world.entries).reader()
    assert reader.episode_before(episodes[0]) is None


def test_episodes_are_recalled_by_who_asks_for_them(fold: Folder) -> None:
    """A page of all records has them; a recall only where their kind is asked for."""
    world = World()
    episode = world.write("figs", kind="episode", source="chat")
    fact = world.write("figs", "Zoe", "likes")
    reader = fold(world.entries).reader()
    found = [[hit.record.id for hit in reader.recall("figs", world.now_us, filters=Filters(kind=kind)).hits]
             for kind in (None, "episode", "fact")]  # fmt: skip
    assert found == [[fact], [episode], [fact]]
    assert {record.id for record in reader.page(world.now_us).records} == {episode, fact}


# --- corrections of sentences -----------------------------------------------------------------------------------------


def test_a_chain_of_corrections_is_followed_through_all_ids(fold: Folder) -> None:
    """A sentence gets another id by each; the last one shows all that it was, and what it was at any time."""
    world = World()
    texts = ("likes teal", "likes indigo", "likes green")
    ids = [world.write(texts[0])]
    times = [world.now_us]
    for corrected in texts[1:]:
        [outcome] = world.say((c.CORRECT, c.CorrectBody((ids[-1],), corrected)), author=ALICE)
        ids.append(outcome.record_id)
        times.append(world.now_us)
    reader = fold(world.entries).reader()
    _, found = reader.get(ids[-1], world.now_us)
    assert found is not None
    assert [past.record.text for past in found.corrections] == ["likes teal", "likes indigo"]
    assert [item.record.text for item in reader.history(ids[-1], world.now_us).items] == ["likes green", "likes indigo"]
    assert [hit.record.id for hit in reader.recall("likes", world.now_us).hits] == [ids[-1]]
    assert [text(reader, id, world.now_us) for id in ids] == [None, None, "likes green"]
    assert text(reader, ids[0], world.now_us, as_of_us=times[0]) == "likes teal"
    assert text(reader, ids[2], world.now_us, as_of_us=times[1]) == "likes indigo"


def test_a_sentence_that_was_corrected_back_has_been_both(fold: Folder) -> None:
    """Also where all of that happened in one entry."""
    world = World()
    teal = world.write("likes teal")
    [indigo] = world.say((c.CORRECT, c.CorrectBody((teal,), "likes indigo")), author=ALICE)
    there, back = c.CorrectBody((teal,), "likes indigo"), c.CorrectBody((indigo.record_id,), "likes teal")
    outcomes = world.say((c.CORRECT, back), (c.CORRECT, there), (c.CORRECT, back), author=ALICE)
    assert [outcome.record_id for outcome in outcomes] == [teal, indigo.record_id, teal]
    _, found = fold(world.entries).reader().get(teal, world.now_us)
    assert found is not None and found.record.text == "likes teal"
    texts = [past.record.text for past in found.corrections]
    assert texts == ["likes teal", "likes indigo", "likes teal", "likes indigo"]


def test_a_merged_sentence_shows_all_that_it_replaced(fold: Folder) -> None:
    """With what those had replaced themselves."""
    world = World()
    first, other = world.write("likes teal"), world.write("likes green")
    [outcome] = world.say((c.CORRECT, c.CorrectBody((first,), "likes indigo")), author=ALICE)
    [merged] = world.say((c.CORRECT, c.CorrectBody((outcome.record_id, other), "likes both")), author=ALICE)
    reader = fold(world.entries).reader()
    _, found = reader.get(merged.record_id, world.now_us)
    assert found is not None and found.record.corrections_count == 3
    assert sorted(past.record.text for past in found.corrections) == ["likes green", "likes indigo", "likes teal"]
    held = {item.record.text for item in reader.history(merged.record_id, world.now_us).items}
    assert held == {"likes both", "likes green", "likes indigo"}
    assert [hit.record.text for hit in reader.recall("likes", world.now_us).hits] == ["likes both"]


def test_a_long_chain_of_corrections_shows_its_last_hundred(fold: Folder) -> None:
    """However long it is."""
    world = World()
    id = world.write("sentence 0")
    for number in range(1, 1_200):
        [outcome] = world.say((c.CORRECT, c.CorrectBody((id,), f"sentence {number}")), author=ALICE)
        id = outcome.record_id
    reader = fold(world.entries).reader()
    for valid_at_us in (None, world.now_us):
        _, found = reader.get(id, world.now_us, valid_at_us=valid_at_us)
        assert found is not None and found.record.corrections_count == 1_199
        assert [past.record.text for past in found.corrections] == [f"sentence {n}" for n in range(1_099, 1_199)]
