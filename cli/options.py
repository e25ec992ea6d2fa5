"""Options that many verbs share, spelled and explained once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from ..client.environment import ENDPOINTS_VARIABLE, PRINCIPAL_VARIABLE, TOKEN_VARIABLE

DATA_VARIABLE: Final = "VERIDICAL_DATA"

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help=f"The local cluster that was started there. [default: ${DATA_VARIABLE}, or ~/.local/share/veridical]",
        show_default=False,
    ),
]
EndpointOption = Annotated[
    list[str] | None,
    typer.Option(
        "--endpoint",
        metavar="HOST:PORT",
        help=f"A node to ask instead, as often as there are nodes. [default: ${ENDPOINTS_VARIABLE}]",
        show_default=False,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"Who signs: a seed in 64 hex digits, mode 0600. [default: ${PRINCIPAL_VARIABLE}, or nobody]",
        show_default=False,
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help=f"Who asks, where nobody signs: a bearer token, mode 0600. [default: ${TOKEN_VARIABLE}, or nobody]",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.", show_default=False)]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.01, max=3600, help="The call ends by then, in any case.")
]


def default_data() -> Path:
    """Where the local cluster lives unless somebody says otherwise: by `VERIDICAL_DATA`, else by the XDG rules."""
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    home = os.environ.get("XDG_DATA_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "share"
    return base / "veridical"


def data_directory(data: Path | None) -> Path:
    """The directory meant by `--data`, absolute, so that it stays the same for processes that start elsewhere."""
    return default_data() if data is None else data.expanduser().absolute()
