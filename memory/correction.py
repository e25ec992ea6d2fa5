"""A value is replaced by whoever knows better: the decider of `memory.correct` (MEMORY § 2).

Where the value is not part of the key it is the write of another value, and meets what such a write meets. Where it is,
as it is for a sentence, the other value has a record of its own: then what was corrected is retired into the history of
that one, what rested on it rests on that one, and the sources that had stated it do not bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import commands, events, rules
from .case import Case, judged
from .commands import CorrectBody, WriteBody
from .context import WRITE
from .derivation import resting_on
from .errors import Invalid
from .events import Event, refused, unchanged
from .fields import EMPTY_JSON
from .interference import decide_write, value_digest
from .keys import normal_name
from .merging import merged_json
from .record import Record
from .sources import may_alter


def _correct(case: Case[CorrectBody]) -> Event:
    records: list[Record] = []
    for id in dict.fromkeys(case.body.ids):
        record = judged(case, id, WRITE)
        if not isinstance(record, Record):
            return record
        records.append(record)
    if len({_place(record) for record in records}) > 1:
        return refused(rules.NOT_ALIKE, records[0].id)
    try:
        body = _as_written(case, records[0])
    except Invalid:
        return refused(rules.NOTES_FULL, records[0].id)
    if len(records) == 1 and value_digest(body.text, case.context.digests) == records[0].value_digest:
        return _respelled(case, records[0], body)
    inner = decide_write(case.state, body, case.author, case.now_us, case.context, corrects=True)
    if inner[0] == events.REFUSED:
        return inner
    replaced = [record for record in records if record.id != inner[1]]
    if not replaced:
        return [events.CORRECTED, inner[1], [], [], inner]
    return _replacing(case, replaced, inner)


def _place(record: Record) -> tuple[str, str, str, str]:
    """What records must have in common for one value to take the place of all."""
    return record.kind, normal_name(record.subject), normal_name(record.predicate), record.scope


def _as_written(case: Case[CorrectBody], record: Record) -> WriteBody:
    """The write that says the new value, with what is kept of the old one. Raises `Invalid` for too much metadata."""
    ttl_us = None if record.expires_at_us is None else record.expires_at_us - case.now_us
    return rewritten(record, case.body)._replace(
        valid_from_us=record.valid_from_us,
        valid_to_us=record.valid_to_us,
        ttl_us=ttl_us,
        volatile=record.volatile_until_us is not None,
    )


def rewritten(record: Record, body: CorrectBody | None) -> WriteBody:
    """The texts of the new value: its own, or nothing once it is erased, and the names and metadata of the old one."""
    text, metadata = ("", EMPTY_JSON) if body is None else (body.text, body.metadata)
    return WriteBody(
        record.kind,
        record.subject,
        record.predicate,
        record.scope,
        text,
        metadata=merged_json("metadata", record.metadata, metadata),
    )


def _respelled(case: Case[CorrectBody], record: Record, body: WriteBody) -> Event:
    if (body.text, body.metadata) == (record.text, record.metadata):
        return unchanged(record.id)
    if not may_alter(record, case.author, case.context):
        return refused(rules.NOT_YOURS, record.id)
    return [events.RESPELLED, record.id]


def _replacing(case: Case[CorrectBody], replaced: list[Record], inner: Event) -> Event:
    """The event that puts one record in the place of others, whose keys are made of their values."""
    dependants: set[bytes] = set()
    for record in replaced:
        if not may_alter(record, case.author, case.context):
            return refused(rules.NOT_YOURS, record.id)
        resting = resting_on(case.state, record.id)
        if resting is None:
            return refused(rules.WITHDRAWN_FULL, record.id)
        if inner[1] in resting:
            return refused(rules.CIRCULAR_SOURCE, record.id)
        dependants.update(case.state.derived(record.id))
    ids = [record.id for record in replaced]
    return [events.CORRECTED, inner[1], ids, sorted(dependants.difference(ids)), inner]


CORRECTION_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {commands.CORRECT: _correct}
