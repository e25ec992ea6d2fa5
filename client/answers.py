"""What comes back from a cluster, as callers see it: records, and lists that say what they are the answer at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

import msgpack

from ..memory.errors import Bug, Conflict, Refused
from ..memory.record import PastVersion, Record, Version
from ..memory.view import Done, HistoryItem, MemoryRecord, RecordVersion, datetime_of
from ..proto.generated import memory_pb2
from .envelope import Command

REFUSED: Final = "refused"
CONFLICT: Final = "conflict"

_unpack: Final = cast(Callable[..., Any], msgpack.unpackb)
_VERSION_PLACE: Final = len(Record._fields) - 1
_PAST_FIELDS: Final = len(PastVersion._fields)


class Answer(NamedTuple):
    """What became of one command: its outcome, the row as it stood right after it (or empty), its entry and place."""

    command_id: bytes
    outcome: memory_pb2.Outcome
    row: bytes
    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - of the log, as everywhere
    time_us: int
    place: int = 0

    @property
    def event(self) -> RecordVersion:
        """Where in history the command was decided: when it was sent first, if this is a repetition."""
        first = self.outcome.version if self.outcome.repeated_command else self
        return RecordVersion(epoch=first.epoch, index=first.index, place=first.place)


def answers_of(commands: Sequence[Command], result: memory_pb2.SubmitResult) -> list[Answer]:
    """The answers to `commands`, in order. Raises `Bug` when the result is not one to so many."""
    if not len(commands) == len(result.outcomes) == len(result.records):
        raise Bug(f"{len(result.outcomes)} outcomes and {len(result.records)} records for {len(commands)} commands")
    epoch, index, time_us = result.epoch, result.index, result.time_us
    return [
        Answer(command.id, outcome, row, epoch, index, time_us, place)
        for place, (command, outcome, row) in enumerate(zip(commands, result.outcomes, result.records, strict=True))
    ]


class Explanation(NamedTuple):
    """Why a record is among the hits of a recall.

    `score` is its rank; `relevance` (0 to 1) how well it fits the question; `lanes` the ways in which it was found with
    what each gave: `words` and `former words` BM25, `newest` the weight of its words, `vectors` the cosine.
    """

    id: str
    score: float
    relevance: float
    lanes: Mapping[str, float]


class Records(list[MemoryRecord]):
    """Records, with what they answer: the state after entry `(epoch, index)` as node `member` had it, judged at `now`.

    `scopes` are those that were searched (empty: all that are granted), `unknown_scopes` those of them that hold
    nothing, `notices` what was left aside of the question. `cursor` is where the next page begins, empty on the last.
    `explain` says of the hits of a recall why they are there.
    """

    def __init__(
        self,
        records: Iterable[MemoryRecord],
        reply: memory_pb2.ReadReply,
        unknown_scopes: Sequence[str] = (),
        notices: Sequence[str] = (),
        cursor: bytes = b"",
        explanations: Iterable[Explanation] = (),
    ) -> None:
        super().__init__(records)
        self.epoch: int = reply.epoch
        self.index: int = reply.index  # pyright: ignore[reportIncompatibleMethodOverride] - of the log, as everywhere
        self.now: datetime = datetime_of(reply.now_us)
        self.scopes: tuple[str, ...] = tuple(reply.scopes)
        self.unknown_scopes: tuple[str, ...] = tuple(unknown_scopes)
        self.notices: tuple[str, ...] = tuple(notices)
        self.member: str = reply.member
        self.cursor: bytes = cursor
        self._explanations = {hit.id: hit for hit in explanations}

    def explain(self) -> list[Explanation]:
        """Why each of these records was recalled, in their order; of those that were not, nothing."""
        return [self._explanations[record.id] for record in self if record.id in self._explanations]


def written(answer: Answer) -> MemoryRecord:
    """The record as it was right after the command, with the command's outcome. Raises `Refused` and `Conflict`.

    Of a command that is repeated after its record was removed, only the outcome and the record's id are left to tell.
    """
    refuse(answer)
    outcome = answer.outcome
    place = outcome.version if outcome.repeated_command else answer
    gone = MemoryRecord(text="", id=outcome.record_id.hex()) if not answer.row else None
    record = gone or record_of(answer.row, answer.time_us)
    # Thousands a second: the record is new and nobody else's, so that it may be completed in place, without validation.
    vars(record).update(
        outcome=outcome.code,
        command_id=answer.command_id.hex(),
        epoch=place.epoch,
        index=place.index,
        ignored=list(outcome.ignored),
    )
    return record


def done(answer: Answer) -> Done:
    """What is left to say of a command that does not answer with a record. Raises `Refused` and `Conflict`."""
    refuse(answer)
    return Done(answer.outcome.code, answer.command_id.hex(), answer.event)


def written_or_gone(answer: Answer) -> MemoryRecord | None:
    """`written`, or None when the command left no record behind."""
    return written(answer) if answer.row else refuse(answer)


def written_or_refused(answer: Answer) -> MemoryRecord | Refused:
    """`written`, with a refusal as a value: for bulk, where it stands at its place and stops nothing."""
    try:
        return written(answer)
    except Refused as refusal:
        return refusal


def refuse(answer: Answer) -> None:
    """Raise the refusal that an outcome is, if it is one."""
    outcome = answer.outcome
    if outcome.code == CONFLICT:
        raise Conflict(answer.command_id.hex())
    if outcome.code == REFUSED:
        raise Refused(outcome.rule, outcome.reason)


def found(reply: memory_pb2.ReadReply) -> list[MemoryRecord | None]:
    """The answers to a get, in the order of its ids."""
    return [_found(item, reply.now_us) for item in reply.records.found]


def recalled(reply: memory_pb2.ReadReply) -> Records:
    """The hits of a recall, best first, each with its score."""
    records = [record_of(hit.row, reply.now_us).model_copy(update={"score": hit.score}) for hit in reply.hits.hits]
    explanations = [
        Explanation(record.id, hit.score, hit.relevance, dict(hit.lanes))
        for record, hit in zip(records, reply.hits.hits, strict=True)
    ]
    return Records(records, reply, reply.hits.unknown_scopes, reply.hits.notices, explanations=explanations)


def page(reply: memory_pb2.ReadReply) -> Records:
    """One page of all records."""
    records = [record_of(row, reply.now_us) for row in reply.page.rows]
    return Records(records, reply, reply.page.unknown_scopes, cursor=reply.page.after)


def history(reply: memory_pb2.ReadReply) -> list[HistoryItem]:
    """What was held under an id, newest first."""
    return [
        HistoryItem.from_record(
            _record(_unpacked(item.row)),
            item.until_us if item.HasField("until_us") else None,
            item.ended_by,
            item.reason,
        )
        for item in reply.history.items
    ]


def record_of(row: bytes, now_us: int) -> MemoryRecord:
    """The record that a row holds, as it is at `now_us`."""
    return MemoryRecord.from_record(_record(_unpacked(row)), now_us)


def held(row: bytes) -> Record:
    """The row itself, as the rules know it."""
    return _record(_unpacked(row))


def past(row: bytes) -> PastVersion:
    """A past version itself, as the rules know it."""
    return _past(_unpacked(row))


def _found(item: memory_pb2.Found, now_us: int) -> MemoryRecord | None:
    if not item.row:
        return None
    corrections = [_past(_unpacked(row)) for row in item.corrections]
    return MemoryRecord.from_record(_record(_unpacked(item.row)), now_us, corrections)


def _unpacked(row: bytes) -> tuple[Any, ...]:
    return _unpack(row, use_list=False, strict_map_key=False)


def _record(fields: tuple[Any, ...]) -> Record:
    """Fields that a later release appended are left out."""
    return Record._make((*fields[:_VERSION_PLACE], Version._make(fields[_VERSION_PLACE])))


def _past(fields: tuple[Any, ...]) -> PastVersion:
    held, until, *rest = fields[:_PAST_FIELDS]
    return PastVersion._make((_record(held), Version(*until), *rest))
