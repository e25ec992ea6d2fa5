"""`token …`: bearer tokens, each shown once and kept by nobody but its holder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from . import screen
from .facts import TIMEOUT_S, CommandOption
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption, TokenOption
from .principals import tell

SECOND_OF: dict[str, int] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def issue(
    principal: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="For whom: 64 hex digits. [default: who signs]", show_default=False),
    ] = None,
    label: Annotated[str, typer.Option("--label", help="What it is for.", show_default=False)] = "",
    lasts: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="How long: 30m, 12h, 90d. [default: for good]", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where it goes, mode 0600; else it is shown here, once.", show_default=False
        ),
    ] = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Make a token by which its holder reads what that enrolled principal may. Only a digest of it is kept."""
    from .target import connected

    ttl_s = None if lasts is None else seconds(lasts)
    handle = None if out is None else _created(out)
    try:
        with connected(data, endpoint, timeout, key=key) as memory:
            issued = memory.issue_token(principal, label=label, ttl_s=ttl_s)
        if handle is not None:
            os.write(handle, f"{issued.secret}\n".encode())
            os.fsync(handle)
    except BaseException:
        if out is not None:
            out.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    expires = None if issued.expires_at is None else issued.expires_at.isoformat()
    if as_json:
        shown = {"file": str(out)} if out is not None else {"token": issued.secret}
        said = {"id": issued.id, "principal": issued.principal, "label": label, "expires_at": expires}
        screen.say_json(shown | said | {"command_id": issued.done.command_id})
        return
    if out is None:
        screen.say(issued.secret)
    screen.complain(f"token {issued.id} of {issued.principal}, {f'until {expires}' if expires else 'for good'}")


def listed(
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say which tokens were issued: to a holder of `admin` in `*` all, to anybody else its own. No secrets."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key, token_file=token_file) as memory:
        found = memory.tokens()
    if as_json:
        screen.say_json([token.model_dump(mode="json") for token in found])
        return
    rows = [
        (one.id, one.label or None, one.standing, one.principal, one.expires_at.isoformat() if one.expires_at else None)
        for one in found
    ]
    screen.console().print(screen.table(("id", "label", "standing", "principal", "expires"), rows))


def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `token list` says it.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)] = "",
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """From now on this token opens nothing, also for whoever uses it at the moment."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.revoke_token(id, reason=reason, command_id=command)
    tell(done, "token", id, as_json)


def seconds(text: str) -> float:
    """A length of time such as 30m, 12h or 90d. Raises `Invalid`."""
    from ..memory.errors import Invalid

    number, unit = text[:-1], SECOND_OF.get(text[-1:])
    if unit is None or not number.isdecimal() or int(number) == 0:
        raise Invalid("for", f"{text!r} is not a number with {', '.join(SECOND_OF)} behind it, such as 12h")
    return float(int(number) * unit)


def _created(file: Path) -> int:
    """A new file that nobody else may read, made before there is anything to lose."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
