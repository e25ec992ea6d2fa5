"""Where a history can be read from: a node's data directory, an export, or a running node."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ..log.entry import Entry
from ..log.seal import Seal
from ..memory.errors import Invalid
from .local import CLUSTER_FILE, cluster_in
from .options import data_directory
from .tickets import ticket

if TYPE_CHECKING:
    from ..log.store import LogStore

LOG_FILE: Final = "log.db"
PROJECTION_FILE: Final = "projection.db"
SQLITE_MAGIC: Final = b"SQLite format 3\0"
CALL_TIMEOUT_S: Final = 3600.0
ERASURES_STEP: Final = 1 << 12
FIRST_ANSWER_TIMEOUT_S: Final = 5.0

Item = tuple[Entry, "Seal | None"]


@dataclass(frozen=True, slots=True)
class FileDamage:
    """Damage that belongs to no entry: in which file, on which page (None: unknown), and what."""

    file: str
    page: int | None
    what: str


class Source(Protocol):
    """A history that is being read. `last` is where it ends, if that is known; no ids without entries."""

    name: str
    cluster_id: str
    cluster: str
    last: int | None
    committed: int | None

    def history(self, first: int = 1, last: int | None = None) -> Iterator[Item]:
        """The entries from `first` on, each with its seal. Raises `LogDamaged` at one that cannot be read."""
        ...

    def file_damages(self) -> list[FileDamage]:
        """What is wrong with the files beside the entries."""
        ...


class StoredSource:
    """The files of a node, or of a memory in a program's own process, running or not; nothing in them is changed."""

    def __init__(self, name: str, store: LogStore, projection: Path) -> None:
        self.name = name
        self._projection = projection
        self._store = store
        identity = store.identity
        self.cluster_id = identity.cluster_id if identity else ""
        self.cluster = identity.cluster if identity else ""
        self.last: int | None = store.last.index
        self.committed: int | None = max(store.commit_index, _folded(store, projection))

    def history(self, first: int = 1, last: int | None = None) -> Iterator[Item]:
        """See `Source`."""
        return self._store.history(first, self.last if last is None else last)

    def file_damages(self) -> list[FileDamage]:
        """What SQLite finds in the log's pages, and what is wrong with the projection beside it."""
        found = [FileDamage(damage.file, damage.page, damage.what) for damage in self._store.check_file()]
        return found + _projection_damages(self._projection)


class ExportSource:
    """A file that `audit export` wrote. It can be read once, from its beginning."""

    committed: int | None = None
    last: int | None = None

    def __init__(self, path: Path, stream: Any) -> None:
        from ..log.export import Export

        self.name = str(path)
        self._export = Export(stream, path.name)
        self.cluster_id = self._export.header.cluster_id
        self.cluster = self._export.header.cluster

    def history(self, first: int = 1, last: int | None = None) -> Iterator[Item]:
        """See `Source`."""
        for entry, seal in self._export.history():
            if last is not None and entry.index > last:
                return
            if entry.index >= first:
                yield entry, seal

    def file_damages(self) -> list[FileDamage]:
        """An export is nothing but its entries."""
        return []


class NodeSource:
    """A running node, asked over the network."""

    def __init__(self, endpoint: str, channel: Any) -> None:
        from ..proto.generated import admin_pb2, admin_pb2_grpc

        self.name = endpoint
        self._endpoint = endpoint
        self._stub: Any = admin_pb2_grpc.AdminStub(channel)
        with _translated(endpoint):
            status: Any = self._stub.Status(admin_pb2.StatusRequest(), timeout=FIRST_ANSWER_TIMEOUT_S)
        self.cluster_id: str = status.cluster_id
        self.cluster: str = status.cluster
        self.last: int | None = status.commit_index
        self.committed: int | None = status.commit_index

    def history(self, first: int = 1, last: int | None = None) -> Iterator[Item]:
        """See `Source`."""
        from ..node.wire import entry_from_wire, seal_from_wire
        from ..proto.generated import admin_pb2

        asker = ticket(self.cluster_id)
        request = admin_pb2.ExportRequest(first=first, last=last or self.last or 0, ticket=asker)
        with _translated(self._endpoint):
            for reply in self._stub.Export(request, timeout=CALL_TIMEOUT_S):
                seals = {seal.index: seal_from_wire(seal) for seal in reply.seals}
                for raw in reply.entries:
                    yield entry_from_wire(raw), seals.get(raw.index)

    def file_damages(self) -> list[FileDamage]:
        """A node looks after its files itself: see `status`."""
        return []


def explained(source: Source, last: int | None) -> Iterator[Item]:
    """The history up to `last`, and on to whatever entry a body of it turns out to be missing for, up to a seal.

    Erasing may go on while a history is read: what an entry behind `last` has erased by then is missing from it, and
    without that entry it would pass for damage. Whoever has erased something has that entry, and it is committed.
    """
    reached = named = 0
    is_sealed = False
    for entry, seal in source.history(last=last):
        reached, named, is_sealed = entry.index, max(named, entry.erased_by), seal is not None
        yield entry, seal
    while last is not None and named > last and (reached < named or not is_sealed):
        before = reached
        for entry, seal in source.history(reached + 1, reached + ERASURES_STEP):
            reached, named, is_sealed = entry.index, max(named, entry.erased_by), seal is not None
            yield entry, seal
            if is_sealed and reached >= named:
                return
        if reached == before:
            return


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history is to be read. One of the four is set: `store` is the log of a memory in one file."""

    directory: Path | None = None
    store: Path | None = None
    file: Path | None = None
    endpoint: str = ""

    @property
    def name(self) -> str:
        """What the user knows it by."""
        return self.endpoint or str(self.directory or self.store or self.file)

    @property
    def stored(self) -> tuple[Path, Path] | None:
        """Its log and its projection, where it consists of those files."""
        if self.directory is not None:
            return self.directory / LOG_FILE, self.directory / PROJECTION_FILE
        return None if self.store is None else (self.store, self.store.with_name(f"{self.store.name}.projection"))


def places(path: Path | None, data: Path | None, endpoint: Sequence[str] | None) -> list[Place]:
    """The histories that a verb is about: of these nodes, of this path, else of every node of the local cluster.

    Raises `Invalid` when there is nothing to read, or more than one kind of place is named.
    """
    if sum((path is not None, data is not None, bool(endpoint))) > 1:
        raise Invalid("path", "give a path, or --data, or --endpoint")
    if endpoint:
        from .target import target

        return [Place(endpoint=each) for each in target(None, endpoint).endpoints]
    where = data_directory(data) if path is None else path
    if path is not None and not path.exists():
        raise Invalid("path", f"{path} does not exist")
    return _places_in(where)


def _places_in(path: Path) -> list[Place]:
    if path.is_file():
        with path.open("rb") as file:
            is_log = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
        if path.name == LOG_FILE:
            return [Place(directory=path.parent)]
        return [Place(store=path)] if is_log else [Place(file=path)]
    if (path / LOG_FILE).exists():
        return [Place(directory=path)]
    if path.is_dir() and not (path / CLUSTER_FILE).exists():
        raise Invalid("path", f"{path} holds neither a log nor a local cluster")
    found = [node.directory for node in cluster_in(path).nodes if (node.directory / LOG_FILE).exists()]
    if not found:
        raise Invalid("path", f"no node of the cluster in {path} has a log yet")
    return [Place(directory=directory) for directory in found]


@contextmanager
def opened(place: Place) -> Generator[Source]:
    """Read there. Raises `LogDamaged`, `LogError`, `Unavailable`."""
    with ExitStack() as stack:
        if place.stored is not None:
            from ..log.store import LogStore

            log, projection = place.stored
            store = LogStore.open(log, read_only=True)
            stack.callback(store.close)
            yield StoredSource(place.name, store, projection)
        elif place.file is not None:
            yield ExportSource(place.file, stack.enter_context(place.file.open("rb")))
        else:
            yield NodeSource(place.endpoint, stack.enter_context(_channel(place.endpoint)))


def _channel(endpoint: str) -> Any:
    from ..client.environment import credentials
    from ..proto.channel import open_blocking_channel

    return open_blocking_channel(endpoint, credentials())


@contextmanager
def _translated(endpoint: str) -> Generator[None]:
    import grpc

    from ..client.errors import error_of

    try:
        yield
    except grpc.RpcError as error:
        raise error_of(cast("Any", error), endpoint) from error


def _folded(store: LogStore, path: Path) -> int:
    """Up to where a projection has folded this log: committed, which a log itself stores only a lower bound of."""
    import sqlite3

    from ..log.errors import LogDamaged
    from ..projection.errors import ProjectionError
    from ..projection.sqlite import Database
    from ..projection.state import StoredState

    if not path.exists():
        return 0
    try:
        connection = Database(path).inspector()
    except ProjectionError:
        return 0
    try:
        standing = StoredState(connection, path.name).standing()
        entry = store.entry(standing.index)
    except (sqlite3.DatabaseError, ProjectionError, LogDamaged):
        return 0
    finally:
        connection.close()
    return standing.index if entry is not None and entry.hash == standing.hash else 0


def _projection_damages(path: Path) -> list[FileDamage]:
    """What is wrong with a projection; nothing where there is none, for it can be folded again."""
    import sqlite3

    from ..projection.integrity import findings
    from ..projection.sqlite import Database

    if not path.exists():
        return []
    connection = Database(path).inspector()
    try:
        connection.execute("BEGIN")
        return [FileDamage(path.name, None, f"{found.where}: {found.what}") for found in findings(connection)]
    except sqlite3.DatabaseError as error:
        return [FileDamage(path.name, None, str(error))]
    finally:
        connection.close()
