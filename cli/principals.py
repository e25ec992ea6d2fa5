"""`principal …` and `grant …`: keys, who is known by them, and what they may do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import screen
from .facts import TIMEOUT_S, CommandOption
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption, TokenOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..memory.view import Done

ENROLLED: Final = "enrolled"

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="A public key: 64 hex digits.", show_default=False)]
PatternArgument = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="A scope, `a/**`, `kind:*`, or `*` for every scope.", show_default=False),
]
RightsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RIGHT", help="read, write, review, attest, vouch, admin.", show_default=False),
]


def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the seed goes; must not be there yet.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Make a seed in a file that nobody else may read, and say its public key. Nothing is sent."""
    from ..security.keys import create_seed
    from ..security.principal import Principal

    made = Principal.generate()
    create_seed(file, made.seed)
    if as_json:
        screen.say_json({"principal": made.key_id, "file": str(file)})
    else:
        screen.say(made.key_id)


def known(
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say who is known: to a holder of `admin` in `*` everybody, to anybody else itself."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key, token_file=token_file) as memory:
        found = memory.principals()
    if as_json:
        screen.say_json([principal.model_dump(mode="json") for principal in found])
        return
    rows = [
        (one.key, one.name or None, one.standing, _rights(one.grants) or None, one.kept, one.lost, f"{one.rate:.2f}")
        for one in found
    ]
    columns = ("key", "name", "standing", "grants", "kept", "lost", "rate")
    screen.console().print(screen.table(columns, rows, numbers=("kept", "lost", "rate")))


def grants(
    principal: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only of this one.", show_default=False)
    ] = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say which rights are in force: a line for each principal and pattern."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key, token_file=token_file) as memory:
        found = memory.principals()
    rows = [
        (one.key, one.name, pattern, rights)
        for one in found
        if one.standing == ENROLLED and principal in (None, one.key)
        for pattern, rights in one.grants.items()
    ]
    columns = ("principal", "name", "pattern", "rights")
    if as_json:
        screen.say_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        lines = [(who, name or None, pattern, ", ".join(rights)) for who, name, pattern, rights in rows]
        screen.console().print(screen.table(columns, lines))


def _rights(grants: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{pattern}={','.join(rights)}" for pattern, rights in grants.items())


def enroll(
    principal: KeyArgument,
    name: Annotated[str, typer.Option("--name", help="What people call it.", show_default=False)] = "",
    grants: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="PATTERN=RIGHT,...",
            help="Rights from the start, as often as wanted.",
            show_default=False,
        ),
    ] = None,
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Know a key from now on. The first one guards the memory for good, and must hold `admin` in `*`."""
    from .target import connected

    given = granted(grants or ())
    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.enroll(principal, name=name, grants=given, command_id=command)
    tell(done, "principal", principal, as_json)


def revoke(
    principal: KeyArgument,
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)],
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """From now on nothing counts that this key signs, nor the support that it gave."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.revoke(principal, reason=reason, command_id=command)
    tell(done, "principal", principal, as_json)


def rotate(
    principal: KeyArgument,
    successor: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The new seed: 64 hex digits, mode 0600.", show_default=False),
    ],
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Let the same principal go on with another key, whose seed signs that it agrees."""
    from .target import connected, principal_of

    other = principal_of(successor)
    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.rotate(principal, other, command_id=command)
    tell(done, "principal", other.key_id, as_json)


def give(
    principal: KeyArgument,
    pattern: PatternArgument,
    rights: RightsArgument,
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Give a principal rights in all scopes of a pattern."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.grant(principal, pattern, rights, command_id=command)
    tell(done, "principal", principal, as_json)


def take(
    principal: KeyArgument,
    pattern: PatternArgument,
    rights: RightsArgument,
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Take rights from a principal in all scopes of a pattern."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.ungrant(principal, pattern, rights, command_id=command)
    tell(done, "principal", principal, as_json)


def granted(texts: Sequence[str]) -> dict[str, list[str]]:
    """Rights by pattern, of words like `team:a/**=read,write`. Raises `Invalid`."""
    from ..memory.errors import Invalid

    found: dict[str, list[str]] = {}
    for text in texts:
        pattern, equals, rights = text.partition("=")
        if not (pattern and equals and rights):
            raise Invalid("grant", f"{text!r} is not PATTERN=RIGHT,RIGHT")
        found.setdefault(pattern, []).extend(rights.split(","))
    return found


def tell(done: Done, what: str, name: str, as_json: bool) -> None:
    """What became of a command about something that has no record to show."""
    if as_json:
        screen.say_json(
            {"outcome": done.outcome, what: name, "command_id": done.command_id}
            | done.event.model_dump(include={"epoch", "index"})
        )
    else:
        screen.say(f"{done.outcome} {name} (epoch {done.event.epoch}, index {done.event.index})")
