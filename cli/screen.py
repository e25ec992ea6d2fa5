"""How answers look: JSON for programs, lines and tables for people, progress and complaints on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..memory.text import canonical_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

WIDTH_OF_FILES: Final = 200
"""Columns where standard output is no terminal: tables are not to be cut in a pipe."""


def say(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def complain(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")


def say_json(value: Any) -> None:
    """A JSON value on standard output; on one line, where nobody reads along."""
    indent = 2 if sys.stdout.isatty() else None
    say(json.dumps(value, indent=indent, ensure_ascii=False))


def json_line(value: Any) -> str:
    """A JSON value on one line."""
    return json.dumps(value, ensure_ascii=False)


def plain(text: str) -> str:
    """Stored text on one line, without the control characters by which it could repaint somebody's terminal."""
    return canonical_text(text)


def console() -> Console:
    """Standard output for tables."""
    from rich.console import Console

    as_file = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDTH_OF_FILES if as_file else None, highlight=False, markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = ()) -> Table:
    """A table; the columns named in `numbers` are set flush right, and None is shown as a dash."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("–" if cell is None else plain(str(cell))) for cell in row))
    return made


def progress(unit: str, quiet: bool) -> Progress:
    """A progress bar on standard error; nothing at all when `quiet` or when standard error is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=screen, transient=True, disable=quiet or not screen.is_terminal)


def size(count_bytes: int | None) -> str | None:
    """A number of bytes as people write it."""
    if count_bytes is None:
        return None
    value = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
