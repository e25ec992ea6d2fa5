"""Figures as Markdown: all of them for the terminal, those with a goal for the README."""

from __future__ import annotations

from collections.abc import Sequence

from figures import OURS, Figures, shown
from goals import ETCD, PYSYNCOBJ, SQLITE, Bound, goals, is_met

PEERS = (ETCD, PYSYNCOBJ, SQLITE)
NOTHING = "–"
VERDICTS = {True: "yes", False: "**no**", None: NOTHING}
QUICK = "**From a quick run on a busy machine: it shows that every work is measured, not how fast it is.**"


def full_table(figures: Figures) -> str:
    """Every work that was measured, whether or not it has a goal."""
    systems = (figures.systems.get(OURS, {}), *figures.systems.values())
    return _table(figures, list(dict.fromkeys(work for measured in systems for work in measured)))


def goal_table(figures: Figures) -> str:
    """The works that have a goal, where the figures come from, and which goals they leave open."""
    notes = [QUICK, ""] if figures.scale.quick else []
    works = list(goals(figures.scale))
    measured = [work for work in works if figures.of(OURS, work) is not None]
    missing = dict.fromkeys(work.partition(": ")[0] for work in works if work not in measured)
    lines = [*notes, _table(figures, measured), "", _origin(figures)]
    return "\n".join(lines + (["", f"Not measured in that run: {'; '.join(missing)}."] if missing else []))


def _table(figures: Figures, works: Sequence[str]) -> str:
    peers = [peer for peer in PEERS if peer in figures.systems]
    head = ["work", OURS, *peers, "goal", "met"]
    bounds = goals(figures.scale)
    rows = [_row(figures, work, peers, bounds.get(work, ())) for work in works]
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (head, ["---", *["--:"] * (1 + len(peers)), "---", "---"], *rows)
    )


def _row(figures: Figures, work: str, peers: Sequence[str], bounds: tuple[Bound, ...]) -> list[str]:
    ours = figures.of(OURS, work)
    theirs = [_beside(ours, figures.of(peer, work)) for peer in peers]
    met = VERDICTS[is_met(bounds, figures, work, ours)] if bounds and ours is not None else NOTHING if bounds else ""
    return [work, NOTHING if ours is None else shown(ours), *theirs, ", ".join(map(str, bounds)), met]


def _beside(ours: float | None, theirs: float | None) -> str:
    """A peer's figure, and how many times that ours is."""
    if theirs is None:
        return ""
    return shown(theirs) + (f" ({ours / theirs:.2f} ×)" if ours is not None and theirs else "")


def _origin(figures: Figures) -> str:
    machine, trials = figures.machine, figures.scale.trials
    versions = ", ".join(f"{name} {machine[name]}" for name in ("Python", "SQLite", *PEERS[:2]) if name in machine)
    left_out = "".join(f" {system} took no part." for system in figures.skipped)
    return (
        f"One run on {machine['cores']} cores ({machine['system']}, {versions}), {trials} trial{'s' * (trials > 1)} of"
        f" each failure; in brackets: ours in multiples of theirs.{left_out}"
    )
