"""Recall for a prompt: as much of what is known as fits a number of tokens, the verified first, inside the fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..memory.errors import Invalid
from ..memory.fence import fenced, inert_line
from ..memory.view import MemoryKind, MemoryRecord, MemoryView, Trust
from .tokens import tokens_at_most

RECALLED: Final = 20
"""How many records are ranked for a budget, unless the caller names another number."""

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class BudgetedRecall:
    """What goes into a prompt. `used_tokens` is what all of `text` costs, fence included.

    `dropped` counts the hits that did not fit. `over_budget`: the fence and the best record alone cost more than was
    allowed, and are all that is here. Without any hit the text is empty.
    """

    text: str
    used_tokens: int
    dropped: int
    over_budget: bool
    records: tuple[MemoryRecord, ...]
    token_budget: int


def recall_budgeted(
    mem: MemoryView,
    query: str,
    *,
    scope: str | Sequence[str] | None = None,
    token_budget: int,
    k: int = RECALLED,
    kind: MemoryKind | None = None,
    count_tokens: CountTokens | None = None,
    as_of: datetime | float | None = None,
    valid_at: datetime | float | None = None,
) -> BudgetedRecall:
    """The best of what answers the query, rendered to cost at most `token_budget` tokens.

    A verified hit goes before every candidate, so that none can crowd it out. `count_tokens` is the tokenizer of the
    model that will read it; without one the count is an upper bound (`tokens_at_most`). A record that does not fit is
    left out, and smaller ones after it are not. `as_of` and `valid_at` as in `recall`.
    """
    if token_budget < 1:
        raise Invalid("token_budget", f"{token_budget} is not a positive number of tokens")
    hits = list(mem.recall(query, scope=scope, kind=kind, k=k, as_of=as_of, valid_at=valid_at))
    hits.sort(key=lambda hit: hit.trust != Trust.VERIFIED)
    return _packed(hits, token_budget, count_tokens or tokens_at_most)


def _packed(hits: Sequence[MemoryRecord], budget: int, count: CountTokens) -> BudgetedRecall:
    if not hits:
        return BudgetedRecall("", 0, 0, False, (), budget)
    chosen, lines = [hits[0]], [inert_line(hits[0])]
    for hit in hits[1:]:
        line = inert_line(hit)
        if _cost(count, fenced((*lines, line))) <= budget:
            chosen.append(hit)
            lines.append(line)
    return _rendered(chosen, lines, len(hits) - len(chosen), budget, count)


def _rendered(
    chosen: list[MemoryRecord], lines: list[str], dropped: int, budget: int, count: CountTokens
) -> BudgetedRecall:
    """The block with a line for what was dropped; records give way to that line, and it to the best record."""
    while dropped and len(lines) > 1 and _cost(count, fenced((*lines, _more(dropped)))) > budget:
        lines.pop()
        chosen.pop()
        dropped += 1
    told = fenced((*lines, _more(dropped))) if dropped else fenced(lines)
    if _cost(count, told) > budget:
        told = fenced(lines)
    used = _cost(count, told)
    return BudgetedRecall(told, used, dropped, used > budget, tuple(chosen), budget)


def _more(dropped: int) -> str:
    return f"- (+{dropped} more lower-ranked memories omitted for budget)"


def _cost(count: CountTokens, text: str) -> int:
    tokens = count(text)
    if type(tokens) is not int or tokens < 0:
        raise Invalid("count_tokens", f"answered {tokens!r}, not a number of tokens")
    return tokens
