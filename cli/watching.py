"""`watch`: the change feed, a line for each change."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .facts import TIMEOUT_S, ReadOption, summary
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption, TokenOption

if TYPE_CHECKING:
    from ..client.watching import Change

BEGINNING: Final = "beginning"


def watch(
    after: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CURSOR",
            help=f"Behind HISTORY:INDEX or a cursor that was shown; or `{BEGINNING}`. [default: from now on]",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="Only there. [default: wherever granted]", show_default=False)
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only such events: asserted, superseded, forgotten, …", show_default=False),
    ] = None,
    id: Annotated[list[str] | None, typer.Option("--id", help="Only these records.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option(help="Go on as things happen; or end with what has happened.")] = True,
    read: ReadOption = "strong",
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show every change as it is committed, each once, in order; with --json, one object a line.

    When it ends, the last cursor says where to go on.
    """
    from ..client.watching import BEGINNING as FIRST
    from .target import connected

    place = FIRST if after == BEGINNING else after
    with (
        connected(data, endpoint, timeout, read, key=key, token_file=token_file) as memory,
        suppress(KeyboardInterrupt),
    ):
        for change in memory.watch(place, scope=scope, kinds=kind, ids=id, follow=follow):
            screen.say(screen.json_line(_fields(change)) if as_json else _line(change))
            sys.stdout.flush()


def _fields(change: Change) -> dict[str, Any]:
    record = change.record
    return {
        "cursor": change.cursor.spelled(),
        "kind": change.kind,
        "kinds": list(change.kinds),
        "id": change.id,
        "scope": change.scope,
        "gone": change.gone,
        "record": None if record is None else record.model_dump(mode="json"),
        "author": change.author,
        "time": change.time.isoformat(),
        "epoch": change.epoch,
        "command_id": change.command_id,
    }


def _line(change: Change) -> str:
    what = "" if change.record is None else f" {summary(change.record)}"
    return f"{change.cursor.spelled()} {'+'.join(change.kinds)} {change.id or '-'}{what}"
