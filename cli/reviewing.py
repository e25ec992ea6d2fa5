"""`review …`: what waits for a reviewer, and what one finds of it, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import screen
from .facts import TIMEOUT_S, CommandOption, Names, ScopeOption, record_id, summary
from .failures import NEGATIVE
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption

WAITING_SHOWN: Final = 50

if TYPE_CHECKING:
    from ..memory.view import MemoryRecord

ValueOption = Annotated[
    str,
    typer.Option(
        "--value", metavar="HEX", help="Of the values that contend, the one with this digest.", show_default=False
    ),
]
ScopesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help="Only there, as often as wanted. [default: all that you may review]", show_default=False
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)]


def desk(
    context: typer.Context,
    scope: ScopesOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
) -> None:
    """Decide on what waits, one record after the other; with a verb, on one record."""
    if context.invoked_subcommand is not None:
        return
    from .review_desk import Desk
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        tally = Desk(memory, screen.console(), input).run(scope)
    screen.say(str(tally))


def waiting(
    scope: ScopesOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = WAITING_SHOWN,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """List what waits: contended records, then candidates scope by scope, the most supported first."""
    from .evidence import overview
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        page = memory.review_queue(scope=scope, limit=limit)
        items = list(page)
        while page.cursor and len(items) < limit:
            page = memory.review_queue(scope=scope, limit=limit - len(items), after=page)
            items += page
    if as_json:
        shown = [item.model_dump(mode="json") for item in items]
        screen.say_json({"index": page.index, "now": page.now.isoformat(), "items": shown, "more": bool(page.cursor)})
        return
    screen.console().print(overview(items))
    if page.cursor:
        screen.complain("there are more: --limit")


def show(
    names: Names,
    scope: ScopeOption = "global",
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show a record with its evidence, as a reviewer sees it. Exit code 1: there is none that you may review."""
    from .evidence import picture
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        item = memory.review_item(id)
    if as_json:
        screen.say_json(None if item is None else item.model_dump(mode="json"))
    elif item is not None:
        screen.console().print(picture(item))
    if item is None:
        screen.complain(f"veridical: no record {id} that this principal may review")
        raise typer.Exit(NEGATIVE)


def approve(
    names: Names,
    reason: ReasonOption,
    value: ValueOption = "",
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Verify what is held, or let a contending value take its place."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        record = memory.approve(id, value=value, reason=reason, command_id=command)
    _tell(record, as_json)


def reject(
    names: Names,
    reason: ReasonOption,
    value: ValueOption = "",
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Reject what is held, or a contending value, for good and in every spelling."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        record = memory.reject(id, value=value, reason=reason, command_id=command)
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


def revoke_rejection(
    names: Names,
    reason: ReasonOption,
    text: Annotated[
        str, typer.Option("--text", help="The rejected value; without it, the one that is held.", show_default=False)
    ] = "",
    scope: ScopeOption = "global",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Let a rejected value be asserted again."""
    from .principals import tell
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.revoke_rejection(id, text, reason=reason, command_id=command)
    tell(done, "id", id, as_json)


def _tell(record: MemoryRecord, as_json: bool) -> None:
    if as_json:
        screen.say_json(record.model_dump(mode="json"))
    else:
        screen.say(f"{record.outcome} {record.id} {summary(record)} (epoch {record.epoch}, index {record.index})")
