"""`make retrieval`: how well recall finds, beside plain BM25, over the invented conversations and, with a path, LoCoMo.

Shares of the evidence in the first k, the mean reciprocal rank, and the share of the evidence that a budget of tokens
holds. Every turn is remembered as an episode that follows the one before, and asked for by the public `recall`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import locomo
from .measure import BUDGETS, DEPTHS, PLAIN, Measured, by_plain_bm25, by_veridical, measured
from .talks import Talk, talks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "retrieval.md"
BEGIN, END = "<!-- figures: `make retrieval` writes what follows -->\n", "<!-- figures end -->\n"
EMBEDDERS = ("lexical", "hash", "local")


def figures(found: Sequence[Talk]) -> list[Measured]:
    """All ways of finding, one after the other."""
    ways = [measured(PLAIN, found, by_plain_bm25)]
    return ways + [measured(f"veridical, {name}", found, by_veridical(name)) for name in EMBEDDERS]


def table(ways: Sequence[Measured]) -> str:
    """A Markdown table, one line for each way of finding."""
    heads = [*(f"R@{k}" for k in DEPTHS), "MRR", *(f"in {budget} tokens" for budget in BUDGETS)]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for way in ways:
        whole = way.whole
        values = [*whole.at.values(), whole.mrr, *whole.within.values()]
        lines.append(f"| {way.name} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return "\n".join(lines) + "\n"


def kinds_table(ways: Sequence[Measured]) -> str:
    """R@10 by kind of question."""
    kinds = {kind: scores.questions for way in ways for kind, scores in way.by_kind.items()}
    lines = [
        f"| R@10 | {' | '.join(f'{kind} ({count})' for kind, count in kinds.items())} |",
        "|---|" + "--:|" * len(kinds),
    ]
    lines += [
        f"| {way.name} | {' | '.join(f'{way.by_kind[kind].at[10]:.2f}' for kind in kinds)} |" for way in ways
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def told(found: Sequence[Talk], ways: Sequence[Measured]) -> str:
    """What was measured, over what."""
    turns, questions = sum(len(talk.turns) for talk in found), sum(len(talk.questions) for talk in found)
    return (
        f"{len(found)} conversations, {turns} turns, {questions} questions.\n\n{table(ways)}\n{kinds_table(ways)}"
    )  # fmt: skip


def with_figures(page: str, text: str) -> str:
    """The page with that between its marks. Raises `ValueError` unless it has both, once each."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if page.count(BEGIN) != 1 or rest.count(END) != 1:
        raise ValueError(f"{PAGE.name} needs one line {BEGIN!r} and after it one line {END!r}")
    return f"{before}{BEGIN}{text}{END}{after}"


def main() -> int:
    """Measure and print; the invented conversations go into `docs/retrieval.md`. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make retrieval", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", help="locomo10.json; its figures are printed only")
    options = parser.parse_args()
    if options.locomo is not None:
        try:
            found = locomo.read(options.locomo)
        except (OSError, ValueError) as error:
            print(f"make retrieval: {error}", file=sys.stderr)
            return 2
        print(told(found, figures(found)))
        return 0
    found = talks()
    ways = figures(found)
    print(told(found, ways))
    print("\n".join(f"{way.name}: {way.ms_a_question:.2f} ms a question" for way in ways))
    PAGE.write_text(with_figures(PAGE.read_text(), told(found, ways)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
