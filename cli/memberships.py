"""`members-as-of PREDICATE`: of whom something was said, at a moment."""

from __future__ import annotations

from typing import Annotated

import typer

from . import screen
from .facts import TIMEOUT_S, AsOfOption, ReadOption, ValidAtOption, moment, summary
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption, TokenOption


def members_as_of(
    predicate: Annotated[str, typer.Argument(metavar="PREDICATE", show_default=False)],
    value: Annotated[
        str | None, typer.Option("--value", metavar="TEXT", help="Only those of whom it says that.", show_default=False)
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Only there; all that is granted without it.", show_default=False)
    ] = None,
    read: ReadOption = "strong",
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show everything of which that predicate was held: who was an admin then?"""
    from .target import connected

    with connected(data, endpoint, timeout, read, key=key, token_file=token_file) as memory:
        found = memory.members_as_of(
            predicate,
            value=value,
            scope=scope,
            as_of=moment("as-of", as_of),
            valid_at=moment("valid-at", valid_at),
        )
    if as_json:
        screen.say_json([record.model_dump(mode="json") for record in found])
        return
    for record in found:
        screen.say(f"{record.id} {summary(record)}")
    if not found:
        screen.complain("nobody found")
