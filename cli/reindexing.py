"""`reindex`: the projection thrown away and folded again from the log, the only file that cannot be made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import screen
from .options import DataOption, JsonOption

if TYPE_CHECKING:
    from ..log.store import LogStore
    from ..projection.projection import Projection
    from .sources import Place


@dataclass(frozen=True, slots=True)
class Reindexed:
    """A projection that was folded again up to entry `index`. `before` is what was there: its digest, or why it went.

    `digest` covers all records and what belongs to them; it is equal on all nodes at one index.
    """

    source: str
    index: int
    records: int
    digest: str
    before: str

    @property
    def is_equal(self) -> bool:
        """Whether what was there said the same."""
        return self.before == self.digest


def reindex(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="The file of a local memory, or a data directory. [default: the local cluster]",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fold the log again into a new projection. Nothing may have it open; answers afterwards are those of the log."""
    from ..memory.errors import Invalid
    from .sources import places

    found: list[Reindexed] = []
    for place in places(path, data, None):
        if place.stored is None:
            raise Invalid("path", f"{place.name} is an export: it has no projection")
        with screen.progress("entries", as_json) as bar:
            task = bar.add_task(f"folding {place.name}", total=None)
            found.append(reindexed(place, lambda index, task=task: bar.update(task, completed=index)))
    if as_json:
        screen.say_json([asdict(done) | {"equal": done.is_equal} for done in found])
        return
    for done in found:
        told = "as before" if done.is_equal else f"before: {done.before}"
        screen.say(f"{done.source}: {done.records} records at entry {done.index}, digest {done.digest[:16]}…, {told}")


def reindexed(place: Place, progress: Callable[[int], None]) -> Reindexed:
    """Fold the log there again. Raises `LogInUse` while a process has it, `LogDamaged` where it is not whole."""
    from ..log.store import LogStore
    from ..projection.projection import Projection

    assert place.stored is not None, "an export has no projection"
    log, file = place.stored
    store = LogStore.open(log)
    try:
        for damage in store.check_file() or store.check():
            raise damage
        before, index = _known(file, store)
        projection = Projection.rebuild(file, store, index, progress)
        try:
            digest, records = _state(projection)
        finally:
            projection.close()
        return Reindexed(place.name, index, records, digest, before)
    finally:
        store.close()


def _known(file: Path, store: LogStore) -> tuple[str, int]:
    """The digest of the projection that is there, or what is wrong with it; and how much is known to be committed."""
    from ..projection.projection import Projection

    committed = _committed(store)
    wrong = next(Projection.inspect(file), None)
    if wrong is not None:
        return f"{wrong.where}: {wrong.what}", committed
    old = Projection.open(file)
    try:
        if old.started_over:
            return old.started_over, committed
        applied = old.applied.index
        entry = store.entry(applied)
        if applied and (entry is None or entry.hash != old.applied_hash):
            return "of another history", committed
        return _state(old)[0], max(committed, applied)
    finally:
        old.close()


def _committed(store: LogStore) -> int:
    """How much is committed for sure. With one voting member, whatever is in its log is."""
    restored = store.restored(0)
    alone = bool(restored.configurations) and len(restored.configurations[-1].voters) == 1
    return store.last.index if alone else min(store.commit_index, store.last.index)


def _state(projection: Projection) -> tuple[str, int]:
    reader = projection.reader()
    try:
        return reader.digest().hex(), reader.counts().records
    finally:
        reader.close()
