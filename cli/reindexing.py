"""`reindex` and `reembed`: the projection folded again from the log, the one file that cannot be made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import screen
from .options import DataOption, JsonOption

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
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
    embedder: str
    waiting: int

    @property
    def is_equal(self) -> bool:
        """Whether what was there said the same."""
        return self.before == self.digest


PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        help="The file of a local memory, or a data directory. [default: the local cluster]",
        show_default=False,
    ),
]


def reindex(path: PathArgument = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Fold the log again into a new projection. Nothing may have it open; answers afterwards are those of the log."""
    _fold_again(path, data, as_json, "")


def reembed(
    embedder: Annotated[
        str,
        typer.Option(
            help="lexical: no vectors; hash: by surface, not meaning; local: by meaning, offline; openai: by a service."
        ),
    ],
    path: PathArgument = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make all vectors anew by another embedder, by folding the log again. Nothing may have it open.

    In a cluster: for each node in turn stop it, do this to its data, set its `embedder`, start it. A service is asked
    by the node that leads, once for each record; until then it is found by words.
    """
    from ..embedding.choice import checked_name
    from ..memory.errors import Invalid

    try:
        name = checked_name(embedder)
    except ValueError as error:
        raise Invalid("embedder", str(error)) from error
    _fold_again(path, data, as_json, name)


def _fold_again(path: Path | None, data: Path | None, as_json: bool, embedder: str) -> None:
    from ..memory.errors import Invalid
    from .sources import places

    found: list[Reindexed] = []
    for place in places(path, data, None):
        if place.stored is None:
            raise Invalid("path", f"{place.name} is an export: it has no projection")
        with screen.progress("entries", as_json) as bar:
            task = bar.add_task(f"folding {place.name}", total=None)
            found.append(reindexed(place, lambda index, task=task: bar.update(task, completed=index), embedder))
    if as_json:
        screen.say_json([asdict(done) | {"equal": done.is_equal} for done in found])
        return
    for done in found:
        told = "as before" if done.is_equal else f"before: {done.before}"
        screen.say(
            f"{done.source}: {done.records} records at entry {done.index}, digest {done.digest[:16]}…, {told};"
            f" vectors: {done.embedder}"
        )
        if done.waiting:
            screen.say(
                f"{done.source}: {done.waiting} records wait for the service; it is asked once this is open again"
            )


def reindexed(place: Place, progress: Callable[[int], None], embedder: str = "") -> Reindexed:
    """Fold the log there again, with vectors of that embedder; by default of the one before.

    Raises `LogInUse` while a process has it, `LogDamaged` where it is not whole, `Invalid` for an embedder that cannot
    be had.
    """
    from ..log.store import LogStore
    from ..projection.projection import Projection

    assert place.stored is not None, "an export has no projection"
    log, file = place.stored
    store = LogStore.open(log)
    try:
        for damage in store.check_file() or store.check():
            raise damage
        before, index = _known(file, store)
        maker = _embedder(embedder, file)
        projection = Projection.rebuild(file, store, index, progress, maker)
        try:
            digest, records = _state(projection)
            waiting = projection.reader().waiting().unembedded
        finally:
            projection.close()
        return Reindexed(place.name, index, records, digest, before, str(projection.made_by), waiting)
    finally:
        store.close()


def _known(file: Path, store: LogStore) -> tuple[str, int]:
    """The digest of the projection that is there, or what is wrong with it; and how much is known to be committed."""
    from ..projection.projection import Projection

    committed = _committed(store)
    wrong = next(Projection.inspect(file), None)
    if wrong is not None:
        return f"{wrong.where}: {wrong.what}", committed
    old = Projection.open(file, _embedder("", file))
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


def _embedder(name: str, file: Path) -> Embedder | None:
    from ..embedding.choice import index_embedder
    from ..memory.errors import Invalid
    from ..projection.projection import Projection

    try:
        return index_embedder(name, Projection.maker(file).name)
    except ValueError as error:
        raise Invalid("embedder", str(error)) from error


def _committed(store: LogStore) -> int:
    identity = store.identity
    return store.restored(0).committed_on("" if identity is None else identity.node)


def _state(projection: Projection) -> tuple[str, int]:
    reader = projection.reader()
    try:
        return reader.digest().hex(), reader.counts().records
    finally:
        reader.close()
