"""`make figures`: the README's table, written anew from `bench/figures.json`; a unit test tells when it was not."""

from __future__ import annotations

from pathlib import Path

from figures import Figures
from table import goal_table

BENCH = Path(__file__).parent
STORED = BENCH / "figures.json"
README = BENCH.parent / "README.md"
BEGIN, END = "<!-- figures: `make figures` writes what follows -->\n", "<!-- figures end -->\n"


def with_figures(readme: str, figures: Figures) -> str:
    """The README with these figures between its two marks. Raises `ValueError` unless it has both, once each."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    if readme.count(BEGIN) != 1 or rest.count(END) != 1:
        raise ValueError(f"the README needs one line {BEGIN!r} and after it one line {END!r}")
    return f"{before}{BEGIN}{goal_table(figures)}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_figures(README.read_text(), Figures.load(STORED)))
