"""The report of a drill: one page for people, and the same as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .run import FAILED, HELD, Result


def as_fields(results: Sequence[Result], cluster: str, began: str) -> dict[str, Any]:
    """The report as a JSON object."""
    return {
        "cluster": cluster,
        "began": began,
        "passed": not any(result.state == FAILED for result in results),
        "exercises": [asdict(result) for result in results],
    }


def as_markdown(results: Sequence[Result], cluster: str, began: str) -> str:
    """The report as a page."""
    lines = [
        f"# Drill of {cluster}",
        "",
        f"{began}, under the load of several writers. Every acknowledged fact was looked for afterwards, with a strong"
        " read, and every node's state compared by digest.",
        "",
        "| exercise | | acknowledged | longest gap | calls overdue | lost | states |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    lines += [_row(result) for result in results]
    for result in results:
        lines += ["", f"## {result.name}: {result.about}", ""]
        if result.reason:
            lines += [f"**{result.state}**: {result.reason}", ""]
        lines += [f"- {moment.at_s:.2f} s: {moment.what}" for moment in result.moments]
        if result.errors:
            told = ", ".join(f"{name} {count} ×" for name, count in result.errors)
            lines.append(f"- clients were told, and asked again: {told}")
    return "\n".join(lines) + "\n"


def _row(result: Result) -> str:
    if result.state not in (HELD, FAILED):
        return f"| {result.name} | {result.state} | | | | | |"
    states = "equal" if not result.differing else f"differ: {', '.join(result.differing)}"
    return (
        f"| {result.name} | {result.state} | {result.acknowledged} | {result.gap_s:.2f} s of {result.gap_limit_s:g} "
        f"| {result.overdue} | {len(result.lost)} | {states} |"
    )
