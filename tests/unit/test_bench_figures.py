"""The README shows the figures that were measured, and judges them as it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from figures import Figures

BENCH = Path(__file__).parents[2] / "bench"


pytestmark = pytest.mark.usefixtures("bench_modules")


def figures_of(**systems: dict[str, float]) -> Figures:
    """Figures of a full run."""
    from figures import Figures
    from scale import FULL

    machine = {"cores": "2", "system": "Linux", "Python": "3.11.7", "SQLite": "3.40.1", "etcd": "3.4.23"}
    return Figures(FULL, machine, dict(systems))


def test_the_readme_shows_the_stored_figures() -> None:
    """After a `make bench` whose figures are to stay, `make figures` brings the README to them."""
    from figures import Figures
    from readme import README, STORED, with_figures

    readme = README.read_text()
    assert readme == with_figures(readme, Figures.load(STORED)), "run `make figures`"


def test_every_goal_has_a_stored_figure() -> None:
    """No work drops out of the run unseen, nor is called otherwise by its goal; a million facts are on request.

    Fifty scopes are newer than the stored run: the README says that they are missing there, until they are not.
    """
    import names
    from figures import OURS, Figures
    from goals import goals
    from readme import README, STORED

    figures = Figures.load(STORED)
    missing = set(goals(figures.scale)) - {names.recall_in_process(figures.scale)} - set(figures.systems[OURS])
    newer = {names.in_scopes(figures.scale, embedder, "") for embedder in ("lexical", "local")}
    assert {work for work in missing if not work.startswith(tuple(newer))} == set()
    assert all(work.partition(": ")[0] in README.read_text() for work in missing)


def test_a_row_judges_against_peers_of_the_same_run() -> None:
    """Ratios are ours over theirs, and all bounds of a goal are to hold."""
    from table import full_table

    work = "64 in flight, facts/s"
    figures = figures_of(veridical={work: 6200}, etcd={work: 6000}, PySyncObj={work: 2100})
    assert full_table(figures).splitlines()[2] == (
        f"| {work} | 6 200 | 6 000 (1.03 ×) | 2 100 (2.95 ×) | ≥ 1 × etcd, ≥ 3 × PySyncObj | **no** |"
    )
    figures.systems["PySyncObj"][work] = 2000
    assert full_table(figures).splitlines()[2].endswith("| yes |")


def test_a_goal_that_needs_an_absent_peer_is_not_judged() -> None:
    """A peer that is not installed makes nothing true, and the table says that it took no part."""
    from table import goal_table

    work = "1 in flight, p50 ms"
    figures = figures_of(veridical={work: 2.25})
    figures.skip("etcd", "it is not installed")
    table = goal_table(figures)
    assert f"| {work} | 2.25 | ≤ 2 × etcd | – |" in table.splitlines()
    assert "etcd took no part" in table


def test_figures_come_back_as_they_were_stored(tmp_path: Path) -> None:
    """What is written as JSON is read back equal; another format is refused."""
    from figures import Figures

    figures = figures_of(veridical={"bulk of 64, facts/s": 12_345})
    figures.store(tmp_path / "figures.json")
    assert Figures.load(tmp_path / "figures.json") == figures
    text = (tmp_path / "figures.json").read_text()
    (tmp_path / "figures.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match="format"):
        Figures.load(tmp_path / "figures.json")


@pytest.mark.parametrize(("value", "digits"), [(12_345.6, "12 346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23")])
def test_a_figure_has_the_digits_it_deserves(value: float, digits: str) -> None:
    """Three that count."""
    from figures import shown

    assert shown(value) == digits


def test_a_readme_without_marks_is_refused() -> None:
    """Nothing is written to where nobody made room for it."""
    from readme import with_figures

    with pytest.raises(ValueError, match="needs one line"):
        with_figures("# Title\n", figures_of(veridical={}))


def test_the_longest_gap_counts_what_was_never_answered() -> None:
    """It reaches from the last acknowledgement before the disturbance to the end, where nothing came in between."""
    from load import Acknowledgements

    async def nothing(_: int) -> None:
        pass

    acknowledgements = Acknowledgements(nothing, [1.0, 2.0, 2.5, 4.0])
    assert acknowledgements.longest_gap_ms(since=2.2, until=4.5) == 1500
    assert acknowledgements.longest_gap_ms(since=2.2, until=6.0) == 2000
    assert Acknowledgements(nothing, []).longest_gap_ms(since=1.0, until=3.0) == 2000
