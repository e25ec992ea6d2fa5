"""`backup`, `restore`, `recover`: a history taken along, begun anew elsewhere, and gone on with after a loss."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..memory.errors import Invalid
from . import screen
from .audit import VERIFIER_THREADS, longest
from .failures import DAMAGED
from .local import LocalCluster, LocalNode
from .options import DataOption, EndpointOption, JsonOption, data_directory

if TYPE_CHECKING:
    from ..log.entry import Entry
    from ..log.export import ExportHeader
    from ..log.seal import Seal
    from ..log.verify import Verification
    from ..node.resuming import Resumed
    from .sources import Place, Source

PARTIAL: Final = ".partial"
SUFFIX: Final = ".vlog"
FIRST_NODE: Final = "n1"

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A backup.", show_default=False)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check everything, and say what would be done.")]


@dataclass(frozen=True, slots=True)
class Backup:
    """What a file was found to hold. `bad_index` is the first entry that does not verify."""

    file: str
    cluster: str
    cluster_id: str
    created: str
    key: str
    index: int
    hash: str
    seals: int
    members: tuple[str, ...]
    good: bool
    bad_index: int | None
    what: str


def create(
    to: Annotated[Path, typer.Option("--to", metavar="FILE|DIR", help="A new file, or a directory to put one in.")],
    key_to: Annotated[
        Path | None,
        typer.Option(
            "--key-to",
            metavar="FILE",
            help="Write the digest key there, mode 0600: it is in no backup, and needed to restore one.",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all that is committed into one file, up to a seal, from any node, while the cluster goes on."""
    from ..node.system import SystemClock
    from .sources import opened

    place, committed = _furthest(data, endpoint)
    secret = _digest_secret(place)
    if key_to is not None and secret is None:
        raise Invalid("key-to", "the key is read from a node's files: name its cluster with --data")
    wall_us = SystemClock().wall_us()
    with opened(place) as source:
        file = to / f"{source.cluster}-{_stamp(wall_us)}{SUFFIX}" if to.is_dir() else to
        source.committed = committed or source.committed
        _write(source, file, wall_us, _key_name(secret), as_json)
    if key_to is not None and secret is not None:
        from ..security.keys import create_seed

        create_seed(key_to, secret)
    found, _ = examined(file, as_json)
    _show(found, as_json)


def verify(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check every byte, chain, seal and signature of a backup, and name the first bad index. Exit code 30: damaged."""
    found, _ = examined(file, as_json)
    _show(found, as_json)


def restore(
    file: FileArgument,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A new directory for the new cluster.")],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="The digest key that belongs to the backup.", show_default=False),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a new cluster of one node out of a backup. Its history has a new id; `veridical up` starts it."""
    from ..node.resuming import require_vacant

    target = data.expanduser().absolute()
    require_vacant(target)
    found, verification = examined(file, as_json)
    if not found.good or dry_run:
        _show(found, as_json)
        return
    secret = _given_key(key, found)
    resumed = _restored(file, target, found, verification, secret, as_json)
    told: dict[str, Any] = {"restored": asdict(found), "data": str(target), **asdict(resumed)}
    _say_resumed(told, f"start it with: veridical up --nodes 1 --data {target}", as_json)


def recover(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The data directory of the node that is left.")],
    accept_data_loss: Annotated[
        bool, typer.Option("--accept-data-loss", help="What only the lost nodes held is gone for good.")
    ] = False,
    endpoint: Annotated[
        str, typer.Option("--endpoint", metavar="HOST:PORT", help="Its new address. [default: as before]")
    ] = "",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a single node out of one data directory, when the majority is lost for ever. The node must not run."""
    from ..node.resuming import set_aside

    path = data.expanduser().absolute()
    with _stopped(path) as survivor:
        found, verification = survivor.examined(as_json)
        if not found.good:
            _show(found, as_json)
            return
        note = survivor.note(verification)
        if dry_run or not accept_data_loss:
            if as_json:
                screen.say_json({"would_recover": asdict(found), "note": note})
            else:
                screen.say(f"{path}: {note}")
            if dry_run:
                return
            raise Invalid("accept-data-loss", "nothing was done; say --accept-data-loss to go on without the others")
        fresh = path.with_name(path.name + ".recovered")
        resumed = survivor.resume(fresh, verification, note, endpoint, as_json)
    aside = set_aside(path)
    fresh.rename(path)
    told: dict[str, Any] = {"recovered": asdict(found), "note": note, "kept": str(aside), **asdict(resumed)}
    _say_resumed(told, f"what was there is kept in {aside}; start the node as before, the others with no data", as_json)


def examined(file: Path, quiet: bool) -> tuple[Backup, Verification]:
    """Verify a backup from its first byte to its last."""
    from ..log.export import Export

    with file.open("rb") as stream:
        export = Export(stream, file.name)
        return _examined(str(file), export.header, export.history(), quiet)


def _examined(
    name: str, header: ExportHeader, history: Iterable[tuple[Entry, Seal | None]], quiet: bool
) -> tuple[Backup, Verification]:
    from concurrent.futures import ThreadPoolExecutor

    from ..log.verify import verify as verify_history
    from .gaps import Gaps

    gaps = Gaps()
    with ThreadPoolExecutor(VERIFIER_THREADS) as executor, screen.progress("entries", quiet) as bar:
        task = bar.add_task(f"verifying {name}", total=None)
        result = verify_history(
            gaps.noted(history),
            header.cluster_id,
            header.cluster,
            executor=executor,
            progress=lambda index: bar.update(task, completed=index),
            may_lack=lambda _index, _place: True,  # whether an entry erased it is known at the end
        )
    what, bad_index = result.what, result.bad_index
    if not what and (gap := gaps.unexplained()) is not None:
        bad_index, what = gap
    if not what and not result.last.index:
        what = "it holds no entry"
    if not what and result.unsealed:
        what = f"its last {result.unsealed} entries are not sealed"
    members = () if result.configuration is None else tuple(member.name for member in result.configuration.members)
    created = _time(header.created_us) if header.created_us else ""
    found = Backup(
        name, header.cluster, header.cluster_id, created, header.key_name, result.last.index,
        result.last.hash.hex(), result.seals, members, not what, bad_index, what,
    )  # fmt: skip
    return found, result


def _write(source: Source, file: Path, wall_us: int, key_name: str, quiet: bool) -> None:
    from ..log.export import ExportHeader, write_export
    from ..node.resuming import sealed
    from .sources import explained

    partial = file.with_name(file.name + PARTIAL)
    if file.exists():
        raise Invalid("to", f"{file} exists; a backup is never overwritten")
    with partial.open("wb") as stream, screen.progress("entries", quiet) as bar:
        task = bar.add_task(source.name, total=source.committed)

        def counted() -> Iterator[tuple[Entry, Seal | None]]:
            for item in sealed(explained(source, source.committed)):
                bar.update(task, completed=item[0].index)
                yield item

        write_export(stream, ExportHeader(source.cluster_id, source.cluster, wall_us, key_name), counted())
        stream.flush()
        os.fsync(stream.fileno())
    partial.rename(file)
    folder = os.open(file.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _furthest(data: Path | None, endpoint: Sequence[str] | None) -> tuple[Place, int]:
    """The place whose history is committed furthest, and how far; 0: as far as it says itself.

    A log only stores a lower bound of its commit index, so that a node that runs is asked for it.
    """
    from .sources import places

    cluster = None if endpoint else LocalCluster.load(data_directory(data))
    if cluster is None:
        return longest(None, data, endpoint), 0
    running = {node.directory: node.endpoint for node in cluster.nodes if node.running_pid()}
    known = [(_committed(place, running), place) for place in places(None, data, None)]
    committed, place = max(known, key=lambda each: each[0])
    return place, committed


def _committed(place: Place, running: Mapping[Path, str]) -> int:
    from ..log.errors import LogError
    from ..memory.errors import Unavailable
    from .sources import Place, opened

    asked = running.get(place.directory) if place.directory is not None else None
    try:
        with opened(place if asked is None else Place(endpoint=asked)) as source:
            return source.committed or 0
    except (LogError, Unavailable):
        return 0


def _digest_secret(place: Place) -> bytes | None:
    """The digest key beside the files that are read; None where a node is asked over the network."""
    from ..node.identity import Places
    from ..security.keys import load_seed

    if place.directory is not None:
        file = Places.inside(place.directory).digest_key
    elif place.store is not None:
        file = Places.beside(place.store).digest_key
    else:
        return None
    return load_seed(file) if file.exists() else None


def _key_name(secret: bytes | None) -> str:
    from ..security.digests import DigestKey

    return "" if secret is None else DigestKey(secret).name


def _given_key(key: Path | None, found: Backup) -> bytes:
    from ..security.keys import load_seed

    if key is None:
        named = f" It is called {found.key}." if found.key else ""
        raise Invalid("key", f"a backup does not hold its digest key: give it with --key FILE.{named}")
    secret = load_seed(key)
    if found.key and _key_name(secret) != found.key:
        raise Invalid("key", f"{key} holds key {_key_name(secret)}; the backup belongs to key {found.key}")
    return secret


def _restored(
    file: Path, target: Path, found: Backup, verification: Verification, secret: bytes, quiet: bool
) -> Resumed:
    from ..log.export import Export
    from ..log.lineage import RESTORED
    from ..node.resuming import Heir, Origin, resumed
    from ..node.system import SystemClock, SystemEntropy
    from .processes import CONFIGURATION, HOST, configuration, free_ports

    grpc, http = free_ports(2)
    node = LocalNode(FIRST_NODE, f"{HOST}:{grpc}", f"{HOST}:{http}", str(target / FIRST_NODE))
    origin = Origin(found.cluster_id, found.cluster, verification.last, verification.ancestors)
    heir = Heir(FIRST_NODE, node.endpoint, secret)
    note = f"by {_user()}, of a backup up to entry {found.index}; what was written after it is not here"
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("rb") as stream, screen.progress("entries", quiet) as bar:
        task = bar.add_task(f"restoring {file}", total=found.index)
        history = Export(stream, file.name).history()
        done = resumed(
            node.directory, origin, history, heir, (RESTORED, note), SystemClock(), SystemEntropy(),
            lambda index: bar.update(task, completed=index),
        )  # fmt: skip
    cluster = LocalCluster(target, found.cluster, (node,))
    (node.directory / CONFIGURATION).write_text(configuration(cluster, node))
    cluster.store()
    return done


class _Survivor:
    """The files of a node that does not run, opened to read and locked."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        from ..log.errors import LogError
        from ..log.store import LogStore
        from ..node.identity import DataDirectory, Places, read_identity
        from ..node.system import SystemEntropy

        places = Places.inside(path)
        if not places.identity.exists() or not places.log.exists():
            raise Invalid("data", f"{path} is not the data directory of a node")
        known = read_identity(places)
        self._directory = DataDirectory.open(path, known.name, known.cluster, SystemEntropy())
        stack.callback(self._directory.close)
        self._store = LogStore.open(places.log, read_only=True)
        stack.callback(self._store.close)
        self.identity = known
        if not known.cluster_id or not self._store.last.index:
            raise LogError(f"{path} holds no history; there is nothing to recover")

    def examined(self, quiet: bool) -> tuple[Backup, Verification]:
        """Everything up to the last seal, verified."""
        from ..log.export import ExportHeader
        from ..node.resuming import sealed

        header = ExportHeader(self.identity.cluster_id, self.identity.cluster)
        return _examined(self._store_name, header, sealed(self._store.history()), quiet)

    @property
    def _store_name(self) -> str:
        assert self._directory.places is not None, "a directory with files"
        return str(self._directory.places.log)

    def note(self, verification: Verification) -> str:
        """What is done, in a sentence that will stand in the log."""
        known = verification.configuration
        assert known is not None, "a verified history has a configuration"
        members = ", ".join(member.name for member in known.members)
        last, committed = verification.last.index, self._store.commit_index
        return (
            f"by {_user()}, from the files of {self.identity.name} alone, of members {members} "
            f"(W={known.write_quorum}, R={known.recovery_quorum}): entries up to {last} are kept, "
            f"{committed} of them surely committed; "
            f"acknowledged writes after entry {last} are lost"
        )

    def resume(self, fresh: Path, verification: Verification, note: str, endpoint: str, quiet: bool) -> Resumed:
        """Make the new directory beside the old one."""
        from ..log.lineage import RECOVERED
        from ..node.resuming import Heir, Origin, resumed, sealed
        from ..node.system import SystemClock, SystemEntropy
        from .processes import CONFIGURATION

        secret = self._directory.digest_secret
        if secret is None:
            raise Invalid("data", "this node never received the cluster's digest key; recover another one")
        known, identity = verification.configuration, self.identity
        member = None if known is None else known.member(identity.node_id)
        address = endpoint or (member.endpoint if member else "")
        if not address:
            raise Invalid("endpoint", "the history does not name this node: say its address with --endpoint")
        origin = Origin(identity.cluster_id, identity.cluster, verification.last, verification.ancestors)
        with screen.progress("entries", quiet) as bar:
            task = bar.add_task("recovering", total=verification.last.index)
            history = sealed(self._store.history(last=verification.last.index))
            done = resumed(
                fresh, origin, history, Heir(identity.name, address, secret), (RECOVERED, note), SystemClock(),
                SystemEntropy(), lambda index: bar.update(task, completed=index),
            )  # fmt: skip
        assert self._directory.places is not None, "a directory with files"
        told = self._directory.places.root / CONFIGURATION
        if told.exists():
            shutil.copy2(told, fresh / CONFIGURATION)
        return done


@contextmanager
def _stopped(path: Path) -> Generator[_Survivor]:
    """Its files for as long as they are looked at. Raises `DirectoryInUse` while the node runs."""
    with ExitStack() as stack:
        yield _Survivor(path, stack)


def _say_resumed(told: dict[str, Any], hint: str, as_json: bool) -> None:
    if as_json:
        screen.say_json(told)
    else:
        screen.say(f"history {told['cluster_id']} begins with entry {told['index']}, at node {told['node_id']}; {hint}")


def _show(found: Backup, as_json: bool) -> None:
    if as_json:
        screen.say_json(asdict(found))
    elif found.good:
        key = f", digest key {found.key}" if found.key else ""
        screen.say(
            f"{found.file}: {found.index} entries and {found.seals} seals of {found.cluster} ({found.cluster_id}) "
            f"verify{key}; it ends with {found.hash[:16]}…"
        )
    else:
        place = "" if found.bad_index is None else f"entry {found.bad_index}: "
        screen.say(f"{found.file}: BAD: {place}{screen.plain(found.what)}")
    if not found.good:
        raise typer.Exit(DAMAGED)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"


def _time(wall_us: int) -> str:
    return datetime.fromtimestamp(wall_us / 1_000_000, UTC).isoformat(timespec="seconds")


def _stamp(wall_us: int) -> str:
    return datetime.fromtimestamp(wall_us / 1_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
