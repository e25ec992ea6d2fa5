"""How a record that is reviewed looks in a terminal: what it says, who says so, what stands against it, what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from . import screen

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from ..memory.reviewing import BarredValue, Contender, ReviewItem
    from ..memory.view import HistoryItem

SHORT_KEY: Final = 12
"""Digits by which people tell keys apart; `principal list` has them in full."""


def overview(items: Sequence[ReviewItem]) -> Table:
    """A line for each record that waits."""
    rows = [
        (
            item.record.id, item.record.scope, item.record.trust.value, _about(item), item.record.text,
            item.record.support_count, len(item.contenders) or None,
        )
        for item in items
    ]  # fmt: skip
    columns = ("id", "scope", "trust", "about", "text", "support", "contending")
    return screen.table(columns, rows, numbers=("support", "contending"))


def picture(item: ReviewItem) -> Group:
    """All that a reviewer is shown of a record before deciding."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    record = item.record
    head = f"{record.kind.value} in {record.scope}: {record.trust.value}, confidence {record.epistemic_confidence:.2f}"
    claim = Text(f"{_about(item)}: {screen.plain(record.text)}" if _about(item) else screen.plain(record.text))
    claim.stylize("bold")
    parts: list[Rule | Text | Table] = [Rule(screen.plain(head), align="left"), claim]
    parts.append(screen.table(("evidence", ""), [(name, told) for name, told in _evidence(item) if told]))
    if item.contenders:
        parts.append(_contending(item.contenders))
    if record.corrections:
        parts.append(_corrected(record.corrections))
    return Group(*parts)


def ruled_out(values: Sequence[BarredValue]) -> Table:
    """The values that were rejected under a key, and stay so."""
    return screen.table(
        ("rejected here", "value"), [(one.text or "(no version holds it any more)", one.value) for one in values]
    )


def past(items: Sequence[HistoryItem]) -> Table:
    """Every value that was held, newest first."""
    rows = [
        (
            item.recorded_from.isoformat(timespec="seconds"), item.cause, item.trust.value, item.text,
            _short(item.author), item.ended_by or None, item.ended_reason or item.reason or None,
        )
        for item in items
    ]  # fmt: skip
    return screen.table(("recorded", "by", "trust", "text", "author", "ended by", "reason"), rows)


def _about(item: ReviewItem) -> str:
    record = item.record
    return screen.plain(f"{record.subject} / {record.predicate}") if record.subject else ""


def _evidence(item: ReviewItem) -> list[tuple[str, str]]:
    record, author = item.record, item.author
    known = (
        ""
        if author is None
        else f" ({item.author_standing}), right {author.rate:.2f}: {author.kept} kept, {author.lost} lost"
    )
    return [
        ("id", record.id),
        ("author", (_short(record.author) or "anonymous") + known),
        ("source", record.source),
        ("provenance", ", ".join(record.provenance)),
        ("rests on", ", ".join(record.derived_from)),
        ("support", f"{_count(record.support_count, 'source')}, {_count(item.supporters, 'principal')}"),
        ("confirmed by", f"{item.confirmed_by} of {item.principals_needed} principals that verify it"),
        ("said for it", _times(item.corroborations)),
        ("said against it", _times(item.contradictions)),
        ("doubted", "a reviewer demoted it: no number of voices verifies it" if item.doubted else ""),
        ("barred", f"{_count(item.barred, 'value')} rejected under this key" if item.barred else ""),
        ("true", _interval(item)),
        ("recorded", "" if record.updated_at is None else record.updated_at.isoformat(timespec="seconds")),
        ("reason", record.reason),
        ("metadata", str(record.metadata) if record.metadata else ""),
    ]


def _contending(contenders: Sequence[Contender]) -> Table:
    rows = [
        (
            place, one.text, f"{one.epistemic_confidence:.2f}", one.support_count, _short(one.author) or "anonymous",
            one.source or ", ".join(one.provenance) or None, one.value,
        )
        for place, one in enumerate(contenders, 1)
    ]  # fmt: skip
    columns = ("contending", "text", "confidence", "support", "author", "source", "value")
    return screen.table(columns, rows, numbers=("contending", "confidence", "support"))


def _corrected(corrections: Sequence[HistoryItem]) -> Table:
    rows = [
        (item.text, item.trust.value, _short(item.author) or "anonymous", item.reason or None) for item in corrections
    ]
    return screen.table(("it was", "trust", "author", "reason"), rows)


def _interval(item: ReviewItem) -> str:
    begin, end = item.record.valid_from, item.record.valid_to
    words = [] if begin is None else [f"from {begin.isoformat(timespec='seconds')}"]
    return " ".join(words if end is None else [*words, f"until {end.isoformat(timespec='seconds')}"])


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _times(count: int) -> str:
    return "" if not count else "once" if count == 1 else f"{count} times"


def _short(key: str) -> str:
    return key[:SHORT_KEY]
