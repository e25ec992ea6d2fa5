"""`review …`: what a reviewer finds of a record, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import screen
from .facts import TIMEOUT_S, CommandOption, Names, ScopeOption, record_id, summary
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption

if TYPE_CHECKING:
    from ..memory.view import MemoryRecord

ReasonOption = Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)]


def approve(
    names: Names,
    reason: ReasonOption,
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Verify what is held."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        record = memory.approve(id, reason=reason, command_id=command)
    _tell(record, as_json)


def reject(
    names: Names,
    reason: ReasonOption,
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Reject what is held, for good and in every spelling."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        record = memory.reject(id, reason=reason, command_id=command)
    _tell(record, as_json)


def edit(
    names: Names,
    text: Annotated[str, typer.Option("--text", help="What is so instead.", show_default=False)],
    reason: ReasonOption,
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Put another text in the place of what is held, as verified."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        record = memory.edit(id, text, reason=reason, command_id=command)
    _tell(record, as_json)


def _tell(record: MemoryRecord, as_json: bool) -> None:
    if as_json:
        screen.say_json(record.model_dump(mode="json"))
    else:
        screen.say(f"{record.outcome} {record.id} {summary(record)} (epoch {record.epoch}, index {record.index})")
