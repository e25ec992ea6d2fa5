"""`status`: one row for each member of the configuration, and an exit code that says how the cluster is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .options import DataOption, EndpointOption, JsonOption
from .survey import ANSWER_TIMEOUT_S, MemberRow, Survey, surveyed

if TYPE_CHECKING:
    from rich.console import Group

    from .target import Target

WATCH_PERIOD_S: Final = 1.0
COLUMNS: Final = (
    "member", "id", "endpoint", "role", "epoch", "commit", "applied", "lag", "lease", "disk free", "state",
)  # fmt: skip
WIDE: Final = ("id", "disk free")
"""Columns for which a narrow terminal has no room."""

WIDE_COLUMNS: Final = 110
NUMBERS: Final = ("epoch", "commit", "applied", "lag", "lease", "disk free")


def status(
    data: DataOption = None,
    endpoint: EndpointOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every second, until Ctrl-C.", show_default=False)
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.05, help="How long a member may take to answer.")
    ] = ANSWER_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say how the cluster is. Exit code: 0 healthy, 1 degraded, 2 no quorum, 3 cannot tell."""
    from ..memory.errors import Invalid
    from .survey import Health
    from .target import target

    try:
        asked = target(data, endpoint)
    except Invalid as error:
        screen.complain(f"veridical: {error}")
        raise typer.Exit(Health.CANNOT_TELL) from error
    if watch:
        raise typer.Exit(_watched(asked, timeout, as_json).health)
    survey = _taken(asked, timeout)
    _show(survey, asked.data, as_json)
    raise typer.Exit(survey.health)


def _taken(asked: Target, timeout_s: float) -> Survey:
    """A survey; for a local cluster with the pids, and with its known nodes as rows where nobody answers."""
    survey = asyncio.run(surveyed(asked.endpoints, timeout_s))
    return survey if asked.data is None else _with_local_knowledge(survey, asked.data)


def _with_local_knowledge(survey: Survey, data: Path) -> Survey:
    from .local import LocalCluster
    from .survey import DOWN

    cluster = LocalCluster.load(data)
    if cluster is None:
        return survey
    cluster = cluster.refreshed()
    if not survey.members:
        rows = tuple(MemberRow(node.id, node.name, DOWN, node.endpoint, True, pid=node.pid) for node in cluster.nodes)
        return replace(survey, cluster=cluster.cluster, members=rows)
    pids = {node.id: node.pid for node in cluster.nodes}
    return replace(survey, members=tuple(replace(member, pid=pids.get(member.id)) for member in survey.members))


def as_fields(survey: Survey, data: Path | None) -> Mapping[str, Any]:
    """What `--json` prints."""
    return {
        "health": survey.health.name.lower(),
        "reason": survey.reason,
        "cluster": survey.cluster,
        "cluster_id": survey.cluster_id,
        "leader": survey.leader.id if survey.leader else None,
        "data": None if data is None else str(data),
        "members": [asdict(member) for member in survey.members],
    }


def _show(survey: Survey, data: Path | None, as_json: bool) -> None:
    if as_json:
        screen.say_json(as_fields(survey, data))
    else:
        screen.console().print(_picture(survey, data))


def _picture(survey: Survey, data: Path | None) -> Group:
    from rich.console import Group
    from rich.text import Text

    is_wide = screen.console().width >= WIDE_COLUMNS
    shown = [name for name in COLUMNS if is_wide or name not in WIDE]
    rows = [[cells[name] for name in shown] for cells in map(_cells, survey.members)]
    verdict = survey.health.name.lower().replace("_", " ") + (f": {survey.reason}" if survey.reason else "")
    head = f"cluster {survey.cluster or 'unknown'}" + ("" if data is None else f" in {data}")
    return Group(screen.table(shown, rows, NUMBERS), Text(screen.plain(f"{head}: {verdict}")))


def _cells(member: MemberRow) -> dict[str, object]:
    """What the table shows of a member, by column."""
    return {
        "member": member.name,
        "id": member.id,
        "endpoint": member.endpoint,
        "role": member.role,
        "epoch": member.epoch,
        "commit": member.commit_index,
        "applied": member.applied_index,
        "lag": member.lag,
        "lease": f"{member.lease_ms} ms" if member.lease_ms else None,
        "disk free": screen.size(member.disk_free_bytes),
        "state": member.condition or ("ready" if member.ready else None),
    }


def _watched(asked: Target, timeout_s: float, as_json: bool) -> Survey:
    survey = _taken(asked, timeout_s)
    try:
        if as_json:
            while True:
                _show(survey, asked.data, as_json)
                time.sleep(WATCH_PERIOD_S)
                survey = _taken(asked, timeout_s)
        from rich.live import Live

        with Live(_picture(survey, asked.data), console=screen.console(), auto_refresh=False) as live:
            while True:
                time.sleep(WATCH_PERIOD_S)
                survey = _taken(asked, timeout_s)
                live.update(_picture(survey, asked.data), refresh=True)
    except KeyboardInterrupt:
        return survey
