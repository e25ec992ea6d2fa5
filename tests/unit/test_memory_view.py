"""Records as callers see them, the lazy door, and errors that say what to do."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from memory_world import ALICE, BOB, DAY_US, START_US, World
from pydantic import ValidationError

from veridical.memory import MemoryKind, MemoryRecord, Trust, correction_chain, errors, make_id, make_key
from veridical.memory.commands import WRITE, encode_body
from veridical.memory.view import HistoryItem, datetime_of, microseconds


def test_the_first_documents_record_can_be_written() -> None:
    """The constructor takes what the document shows, and the body holds it."""
    record = MemoryRecord(
        kind=MemoryKind.FACT, subject="auth", predicate="uses",
        text="sessions are JWT, 15-min expiry", scope="repo:app",
        subj_pred_key=make_key("auth", "uses", "repo:app"))  # fmt: skip
    body = record.write_body()
    assert (body.kind, body.subject, body.predicate, body.scope) == ("fact", "auth", "uses", "repo:app")
    assert body.ignored == ()
    assert encode_body(WRITE, body)


def test_what_no_caller_sets_is_named() -> None:
    """Trust, confidence, support, author, id and a key of one's own are left out, and said to be."""
    record = MemoryRecord(
        text="x", id="00" * 16, trust=Trust.VERIFIED, epistemic_confidence=1.0, support_count=9, author="me",
        subj_pred_key="mine", pinned=True, retrieval_strength=1.0,
    )  # fmt: skip
    assert record.write_body().ignored == (
        "id", "trust", "epistemic_confidence", "support_count", "author", "pinned", "subj_pred_key",
    )  # fmt: skip


def test_a_scope_is_written_in_its_normal_form() -> None:
    """TEAM and team are one scope."""
    assert MemoryRecord(text="x", scope=" TEAM ").write_body().scope == "team"


def test_a_naive_time_is_refused() -> None:
    """Valid time needs a timezone; recorded time is never asked for."""
    naive = datetime_of(START_US).replace(tzinfo=None)
    with pytest.raises(ValidationError):
        MemoryRecord(text="x", valid_from=naive)
    with pytest.raises(errors.Invalid):
        microseconds(naive)


def test_times_are_aware_datetimes_or_epoch_seconds() -> None:
    """Both name the same moment, and `ts` is another name of `valid_from`."""
    moment = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    seconds = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert microseconds(moment) == microseconds(seconds) == 1_767_225_600_000_000
    assert MemoryRecord(text="x", ts=moment).write_body().valid_from_us == microseconds(moment)  # pyright: ignore[reportCallIssue]
    assert MemoryRecord.model_validate({"text": "x", "valid_from": seconds}).valid_from == moment


@pytest.mark.parametrize("moment_us", [START_US, 0, -1, -62_135_596_800_000_000, 253_402_300_799_999_999])
def test_times_survive_the_way(moment_us: int) -> None:
    """Every microsecond that a datetime can hold comes back."""
    assert microseconds(datetime_of(moment_us)) == moment_us


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_time_to_live_that_is_no_duration(seconds: float) -> None:
    """It is named as such."""
    with pytest.raises(errors.Invalid, match="ttl_s"):
        MemoryRecord(text="x", ttl_s=seconds).write_body()


def test_unknown_fields_are_refused() -> None:
    """A misspelled field is never ignored."""
    with pytest.raises(ValidationError):
        MemoryRecord(text="x", scop="global")  # pyright: ignore[reportCallIssue]


def test_a_row_as_a_caller_sees_it() -> None:
    """Shares are fractions, times are datetimes, ids are hex; what depends on time is judged at one now."""
    world = World()
    id = world.write("JWT", metadata='{"a":1}', author=ALICE, valid_from_us=START_US).record_id
    world.write("JWT", author=BOB)
    seen = MemoryRecord.from_record(world.record(id), START_US + 31 * DAY_US)
    assert seen.id == make_id(seen.subj_pred_key) == id.hex()
    assert (seen.text, seen.metadata, seen.author) == ("JWT", {"a": 1}, ALICE.hex())
    assert (seen.epistemic_confidence, seen.support_count, seen.trust) == (0.6, 2, Trust.CANDIDATE)
    assert 0 < seen.retrieval_strength < 0.2
    assert (seen.stale, seen.valid_from) == (True, datetime_of(START_US))
    assert seen.version is not None
    assert (seen.version.epoch, seen.version.index, seen.version.place) == (1, 2, 0)
    assert MemoryRecord.model_validate(seen.model_dump()) == seen


def test_the_correction_chain_of_the_first_document() -> None:
    """The prior values of a record, oldest first."""
    world = World()
    id = world.write("current branch is feature/x", "branch", "is").record_id
    world.write("current branch is main", "branch", "is")
    record = MemoryRecord.from_record(world.record(id), world.now_us, world.state.history(id))
    assert [c["text"] for c in correction_chain(record)] == ["current branch is feature/x"]
    assert correction_chain(record)[0]["ended_by"] == "superseded"


def test_a_record_shows_its_last_hundred_corrections() -> None:
    """The rest is paged by history."""
    world = World()
    [*_, id] = [world.write(f"value {number}").record_id for number in range(120)]
    record = MemoryRecord.from_record(world.record(id), world.now_us, world.state.history(id))
    assert (len(record.corrections), record.corrections_count) == (100, 119)
    assert record.corrections[-1].text == "value 118"


def test_what_is_held_now_is_the_last_item_of_history() -> None:
    """It has no end."""
    world = World()
    item = HistoryItem.from_record(world.record(world.write("JWT").record_id))
    assert (item.recorded_to, item.ended_by, item.cause) == (None, "", "asserted")


def test_the_door_is_lazy_and_the_rules_import_nothing() -> None:
    """Importing the rules brings in neither the models nor any other room."""
    program = (
        "import sys, veridical.memory.machine; "
        "print([m for m in sys.modules if m.startswith('veridical.') and not m.startswith('veridical.memory')"
        " or m in ('pydantic', 'grpc', 'sqlalchemy')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_door_knows_its_names() -> None:
    """Names are listed, and others are an AttributeError."""
    import veridical.memory as door

    assert {"LocalMemory", "ReplicatedMemory", "AsyncReplicatedMemory", "MemoryView"} <= set(dir(door))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = door.nonsense


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (errors.Retry("busy", 0.2), {"retry_after_s": 0.2}),
        (errors.NotLeader("127.0.0.1:7400"), {"leader": "127.0.0.1:7400"}),
        (errors.OutcomeUnknown("ab"), {"command_id": "ab"}),
        (errors.Refused("rejected_value", "stands"), {"rule": "rejected_value", "reason": "stands"}),
        (errors.TooLarge("text", 20_001, 20_000, "characters"), {"size": 20_001, "limit": 20_000, "field": "text"}),
        (errors.Conflict("ab"), {"command_id": "ab"}),
        (errors.Unavailable("too few", ["n2"]), {"who": ("n2",)}),
    ],
)
def test_errors_carry_what_the_caller_needs(error: errors.VeridicalError, data: dict[str, object]) -> None:
    """Each is one family, has its data, and says it in words."""
    assert {name: getattr(error, name) for name in data} == data
    assert all(str(value) in str(error) for name, value in data.items() if name in ("size", "limit", "rule", "leader"))
