"""What nodes say of vectors: decided whole or not at all, and where not, no history keeps it.

The body of such a command is as good as the text that it was made of. A text can be erased while a service is asked for
its vector; what comes too late for what is held must not come into the log, where no erasure would look for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from . import rules
from .case import Case
from .commands import Command, EmbedBody, decode_body
from .errors import Invalid
from .events import EMBEDDED, Event, refused
from .record import REJECTED
from .state import State

DENIED: Final = "denied"


def decide_embed(case: Case[EmbedBody]) -> Event:
    """The vector counts for what is held now, and only while it can be recalled."""
    rule = _obstacle(case.state, case.body, case.context.epoch)
    return refused(rule, case.body.id) if rule else [EMBEDDED, case.body.id, case.body.value]


def denials(state: State, commands: Sequence[Command], epoch: int) -> list[list[Any]]:
    """The items of an envelope of which something comes too late; empty where all of it may be decided."""
    found = [_judged(state, command, epoch) for command in commands]
    if not any(rule for rule, _ in found):
        return []
    return [[DENIED, rule or rules.WITH_OTHERS, id] for rule, id in found]


def _judged(state: State, command: Command, epoch: int) -> tuple[str, bytes]:
    try:
        body = decode_body(command.kind, command.content)
    except Invalid:
        return rules.MALFORMED, b""
    if type(body) is not EmbedBody:
        return rules.NOT_GRANTED, b""
    return _obstacle(state, body, epoch), body.id


def _obstacle(state: State, body: EmbedBody, epoch: int) -> str:
    if body.epoch != epoch:
        return rules.PAST_EPOCH
    record = state.record(body.id)
    if record is None:
        return rules.UNKNOWN_RECORD
    return rules.NOT_CURRENT if record.value_digest != body.value or record.trust == REJECTED else ""
