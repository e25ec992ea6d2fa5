"""`drill …`: break a cluster on purpose, under load, and account for every acknowledgement."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import screen
from .options import JsonOption

if TYPE_CHECKING:
    from ..drills.exercises import Exercise
    from ..drills.run import Result
    from ..drills.site import Means, Site

ALL: Final = "all"
NODES: Final = 3
DAMAGE_DONE: Final = 1


def drill(
    exercises: Annotated[
        list[str],
        typer.Argument(
            metavar="EXERCISE...",
            help="kill, pause, partition, disk-full, bitrot, wipe, rolling-restart, clock, or all.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The local cluster that was started there. [default: one made for this drill, gone afterwards]",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", min=3, max=7, help="How many nodes the drill's own cluster has.")
    ] = NODES,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the report goes, as Markdown.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Break a cluster on purpose, under load. Exit code 1: it did not keep what it owes."""
    from ..drills.report import as_fields, as_markdown
    from ..drills.run import FAILED
    from ..node.system import SystemClock

    wanted = chosen(exercises)
    began = datetime.fromtimestamp(SystemClock().wall_us() / 1e6, UTC)
    says = _quiet if as_json else screen.complain
    results = asyncio.run(_held(wanted, data, nodes, f"drill {began:%Y%m%dT%H%M%S}", says))
    cluster = str(data) if data else f"a cluster of {nodes} nodes, made for it"
    page = as_markdown(results, cluster, f"{began:%Y-%m-%d %H:%M} UTC")
    if out is not None:
        out.write_text(page)
    if as_json:
        screen.say_json(as_fields(results, cluster, began.isoformat()))
    else:
        screen.say(page)
    if any(result.state == FAILED for result in results):
        raise typer.Exit(DAMAGE_DONE)


def chosen(names: Sequence[str]) -> list[Exercise]:
    """The exercises of these names, each once. Raises `Invalid` for a name that is none."""
    from ..drills.exercises import EXERCISES
    from ..memory.errors import Invalid

    wanted = list(EXERCISES) if ALL in names else names
    unknown = [name for name in wanted if name not in EXERCISES]
    if unknown:
        raise Invalid("exercise", f"{unknown[0]!r} is none of {', '.join(EXERCISES)}, {ALL}")
    return [EXERCISES[name] for name in dict.fromkeys(wanted)]


async def _held(
    exercises: Sequence[Exercise], data: Path | None, nodes: int, mark: str, says: Callable[[str], None]
) -> list[Result]:
    """All of them, on a cluster for each of the means that they take. SIGTERM ends it as Ctrl-C does."""
    from ..drills.site import Means

    results: list[Result] = []
    drilling = asyncio.current_task()
    assert drilling is not None, "a coroutine without a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drilling.cancel)
    for means in Means:
        some = [exercise for exercise in exercises if exercise.takes is means]
        if some:
            results += await _held_at(some, data, nodes, means, mark, says)
    return results


async def _held_at(
    exercises: Sequence[Exercise],
    data: Path | None,
    nodes: int,
    means: Means,
    mark: str,
    says: Callable[[str], None],
) -> list[Result]:
    from ..drills.run import NOT_HELD, Result, held
    from ..drills.site import Unsuited

    results: list[Result] = []
    try:
        async with _site(data, nodes, means) as site:
            for exercise in exercises:
                says(f"{exercise.name}: {exercise.about}")
                results.append(await held(exercise, site, mark, lambda what: says(f"  {what}")))
    except Unsuited as error:
        results += [Result(each.name, each.about, NOT_HELD, str(error), 0.0) for each in exercises]
    return results


@asynccontextmanager
async def _site(data: Path | None, nodes: int, means: Means) -> AsyncGenerator[Site]:
    from .local import cluster_in
    from .options import data_directory
    from .site import LocalSite, own_site

    if data is not None:
        yield LocalSite(cluster_in(data_directory(data)))
        return
    with tempfile.TemporaryDirectory(prefix="veridical-drill-") as folder:
        async with own_site(Path(folder), nodes, means) as site:
            yield site


def _quiet(_: str) -> None: ...
