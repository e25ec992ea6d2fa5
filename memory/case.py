"""A command that is being decided, and what deciders of all kinds ask about it."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from . import rules
from .context import WRITE, Context
from .events import Event, refused
from .lifecycle import faded_ppm, is_expired
from .principals import Principal
from .record import EPISODE, Record
from .scope import EVERY_SCOPE
from .sources import may_alter
from .state import State

_BodyType = TypeVar("_BodyType")


class Case(NamedTuple, Generic[_BodyType]):
    """A command that is being decided, with everything that its decision may rest on.

    `author` is the identity behind the command: the first key of a principal that has rotated since.
    `principal` is the author's own row, in a guarded store.
    """

    state: State
    body: _BodyType
    author: bytes | None
    now_us: int
    context: Context
    principal: Principal | None = None

    def holds(self, right: str, scope: str) -> bool:
        """Whether the author holds that right in that scope."""
        return self.context.rights.holds(self.author, right, scope)


def permitted(case: Case[Any], id: bytes, right: str) -> Record | Event:
    """The record that a command is about, or the refusal: it is not held, it has expired, or the right is missing."""
    record = case.state.record(id)
    if record is None or is_expired(record, case.now_us):
        return refused(rules.UNKNOWN_RECORD if _may_know(case, record, id, right) else rules.NOT_GRANTED, id)
    return record if case.holds(right, record.scope) else refused(rules.NOT_GRANTED, id)


def judged(case: Case[Any], id: bytes, right: str) -> Record | Event:
    """The record that somebody judges, or the refusal: as `permitted`, or it is an episode, which nobody judges."""
    record = permitted(case, id, right)
    return refused(rules.IS_SOURCE, id) if isinstance(record, Record) and record.kind == EPISODE else record


def _may_know(case: Case[Any], record: Record | None, id: bytes, right: str) -> bool:
    """Whether the author may learn that a record is not there: ids can be guessed, and absence told apart."""
    if case.holds(right, EVERY_SCOPE):
        return True
    last = case.state.last_past(id) if record is None else None
    former = record if last is None else last.record
    return former is not None and case.holds(right, former.scope)


def alterable(case: Case[Any], id: bytes) -> Record | Event:
    """The record that a command changes, or the refusal: as `permitted`, or it is verified and others support it."""
    record = permitted(case, id, WRITE)
    if isinstance(record, Record) and not may_alter(record, case.author, case.context):
        return refused(rules.NOT_YOURS, id)
    return record


def strength_now(record: Record, now_us: int) -> int:
    """How reachable a record is now, in parts per million; a pinned one does not fade."""
    return record.strength_ppm if record.pinned else faded_ppm(record, now_us)
