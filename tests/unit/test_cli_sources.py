"""A history that is read while something in it is erased: what explains the gap is read along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from log_world import NAME, Scribe

from veridical.cli.sources import FileDamage, Item, explained

COMMITTED = 5


class Erasing:
    """A history of which the body of entry 3 is destroyed, by entry `by`, before it is read. `read` is how far it was.

    The log goes on up to `last`, and is sealed at every second entry.
    """

    name, cluster_id, cluster = "here", "", NAME
    committed: int | None = COMMITTED

    def __init__(self, by: int, last: int) -> None:
        scribe = Scribe()
        scribe.found()
        while scribe.end.index < last:
            batch = scribe.say("one", "two")
            if batch[0].index <= 3 <= batch[-1].index:
                place = 2
                scribe.entries[place] = replace(scribe.entries[place], bodies=(None,), erased_by=by)
        self.last: int | None = scribe.end.index
        self._items = scribe.history
        self.read = 0

    def history(self, first: int = 1, last: int | None = None) -> Iterator[Item]:
        """As any source."""
        for item in self._items[first - 1 : last]:
            self.read = item[0].index
            yield item

    def file_damages(self) -> list[FileDamage]:
        """None."""
        return []


@pytest.mark.parametrize(
    ("by", "end"), [(0, COMMITTED), (4, COMMITTED), (5, COMMITTED), (6, 6), (7, 8), (8, 8), (9, 10)]
)
def test_what_erased_a_body_is_read_along_up_to_a_seal(by: int, end: int) -> None:
    """Where it lies behind the end that was asked for, and nowhere else."""
    source = Erasing(by, 12)
    found = list(explained(source, COMMITTED))
    assert [entry.index for entry, _ in found] == list(range(1, end + 1))
    assert source.read == end
    assert by <= COMMITTED or found[-1][1] is not None


def test_a_history_that_ends_too_early_ends() -> None:
    """The gap stays unexplained then, and is told."""
    source = Erasing(40, 12)
    assert [entry.index for entry, _ in explained(source, COMMITTED)] == list(range(1, 13))
    assert [entry.index for entry, _ in explained(source, None)] == list(range(1, 13))
