"""An event with its surroundings, and the rows that it is about: what all folding rests on."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, cast

from .commands import (
    ContradictBody,
    CorrectBody,
    DemoteBody,
    ForgetBody,
    PromoteBody,
    WriteBody,
    stored_body,
)
from .errors import Bug
from .events import Event
from .record import Record, Version
from .state import Workspace
from .trust_commands import EditBody, EraseBody, ReviewBody, RevokeRejectionBody, UndoBody

_Reasoned: TypeAlias = (
    CorrectBody
    | ContradictBody
    | PromoteBody
    | DemoteBody
    | ForgetBody
    | ReviewBody
    | EditBody
    | RevokeRejectionBody
    | UndoBody
    | EraseBody
)


class Happening(NamedTuple):
    """An event with its surroundings: the command's kind, content (None once erased), place, time and author (hex).

    `written` are the texts of a write, where they are not in the content as they stand.
    """

    event: Event
    kind: str
    content: bytes | None
    at: Version
    time_us: int
    author: str
    written: WriteBody | None = None


def present_row(workspace: Workspace, happening: Happening) -> Record:
    """The row that the event is about: the second field of most events is its id."""
    return held_row(workspace, happening.event[1], happening)


def held_row(workspace: Workspace, id: bytes, happening: Happening) -> Record:
    """The row of that id. Raises `Bug` when there is none: no event is about nothing."""
    record = workspace.record(id)
    if record is None:
        raise Bug(f"event {happening.event[0]!r} at {happening.at} is about record {id.hex()}, which is not held")
    return record


def changing_row(workspace: Workspace, happening: Happening) -> Record:
    """The present row as the start of its next version; the row itself becomes a past version.

    What an earlier event of the same command made is no version of its own.
    """
    record = present_row(workspace, happening)
    if record.version != happening.at:
        workspace.retire(record, happening.at, happening.time_us, happening.event[0])
    return record._replace(updated_at_us=happening.time_us, cause=happening.event[0], version=happening.at)


def said(happening: Happening) -> str:
    """The reason that the command's author gave; empty once it is erased."""
    if happening.content is None:
        return ""
    body = stored_body(happening.kind, happening.content)
    return cast(_Reasoned, body).reason
