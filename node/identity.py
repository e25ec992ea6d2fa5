"""A data directory: who the node is, its keys, and the lock that keeps a second process out.

    identity.json   format, node id, name, cluster name, and the cluster's id once it is known
    node.key        Ed25519 seed of the node, 64 hex digits, mode 0600
    digest.key      the cluster's digest key, likewise; handed over by the other members, or derived at founding
    log.db          the log; the only file whose loss means that this node is lost (*lost-disk-is-a-new-member*)
    projection.db   the fold of the log; made again when it is missing
    lock            held with flock while a process uses the directory

A memory in a program's own process has one file instead, its log, and the others beside it: FILE.identity, FILE.key,
FILE.digest, FILE.projection, FILE.lock.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

from ..log.lineage import Ancestor
from ..security.keys import KeyFileError, KeyPair, create_seed, load_seed
from .system import Entropy

FORMAT = 1
NODE_ID_BYTES = 8
SEED_BYTES = 32
PARTS = ("", "-wal", "-shm", "-mark")
"""What the names of a database's files end with."""

ASIDE = "older-copy"
"""What the name of a directory begins with that keeps the files of a node which turned out to be an older copy."""


class StartRefused(Exception):
    """This node cannot run as it is told to; the message says what to change. Trying again unchanged will not help."""


class DirectoryInUse(StartRefused):
    """Another process holds this data directory; stop it, or give this node a directory of its own."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a node's files lie. `root` is what its owner calls them: a directory, or the log's own file."""

    root: Path
    identity: Path
    key: Path
    digest_key: Path
    log: Path
    projection: Path
    lock: Path

    @staticmethod
    def inside(directory: Path) -> Places:
        """The files of a data directory."""
        names = ("identity.json", "node.key", "digest.key", "log.db", "projection.db", "lock")
        return Places(directory, *(directory / name for name in names))

    @staticmethod
    def beside(log: Path) -> Places:
        """The log's file, and everything else beside it."""
        names = ("identity", "key", "digest", "projection", "lock")
        identity, key, digest, projection, lock = (log.with_name(f"{log.name}.{name}") for name in names)
        return Places(log, identity, key, digest, log, projection, lock)


@dataclass(frozen=True, slots=True)
class Identity:
    """What `identity.json` holds. `digest_cluster_id` names the cluster that `digest.key` was made for.

    `ancestors` are the histories that this one goes on from, oldest first, each with its last entry.
    """

    node_id: str
    name: str
    cluster: str
    cluster_id: str = ""
    digest_cluster_id: str = ""
    format: int = FORMAT
    ancestors: tuple[Ancestor, ...] = ()


class DataDirectory:
    """An opened, locked data directory. Use `DataDirectory.open`; `in_memory` makes one that leaves no trace."""

    def __init__(self, places: Places | None, identity: Identity, key: KeyPair, lock: int | None) -> None:
        self.places = places
        self.identity = identity
        self.key = key
        self._lock = lock
        self._digest_secret = _loaded_digest_secret(places)
        _opened_directories.add(self)

    @staticmethod
    def open(path: Path, name: str, cluster: str, entropy: Entropy) -> DataDirectory:
        """Lock the directory, and read or make identity and keys. Raises `StartRefused`, `DirectoryInUse`."""
        path.mkdir(parents=True, exist_ok=True)
        return DataDirectory.at(Places.inside(path), name, cluster, entropy)

    @staticmethod
    def at(places: Places, name: str, cluster: str, entropy: Entropy) -> DataDirectory:
        """The same for files that lie elsewhere, in a folder that exists."""
        lock = _lock(places)
        try:
            return _opened(places, name, cluster, entropy, lock)
        except KeyFileError as error:
            os.close(lock)
            raise StartRefused(str(error)) from error
        except BaseException:
            os.close(lock)
            raise

    @staticmethod
    def in_memory(name: str, cluster: str, entropy: Entropy) -> DataDirectory:
        """An identity without files, for a memory that ends with its process."""
        identity = Identity(entropy.bytes(NODE_ID_BYTES).hex(), name, cluster)
        return DataDirectory(None, identity, KeyPair(entropy.bytes(SEED_BYTES)), None)

    @property
    def log_path(self) -> str:
        """Where the log lies."""
        return ":memory:" if self.places is None else str(self.places.log)

    @property
    def projection_path(self) -> str:
        """Where the projection lies."""
        return ":memory:" if self.places is None else str(self.places.projection)

    @property
    def founding_share(self) -> bytes:
        """This node's part of the digest key, 32 bytes: derived from its key, so that there is no file to lose."""
        return hmac.digest(self.key.seed, b"veridical/founding-share/1\0" + self.identity.node_id.encode(), "sha256")

    @property
    def digest_secret(self) -> bytes | None:
        """The cluster's digest key, or None while this node does not hold the one of its cluster."""
        known = self.identity.digest_cluster_id
        return self._digest_secret if known and known == self.identity.cluster_id else None

    def join_cluster(self, cluster_id: str, ancestors: tuple[Ancestor, ...] = ()) -> None:
        """Remember the id of the cluster that this node belongs to. It may change only while the log is empty."""
        if self.identity.cluster_id != cluster_id:
            self._store(replace(self.identity, cluster_id=cluster_id, ancestors=ancestors))

    def store_digest_secret(self, secret: bytes) -> None:
        """Keep the digest key of this node's cluster."""
        if self.places is not None:
            self.places.digest_key.unlink(missing_ok=True)
            create_seed(self.places.digest_key, secret)
        self._digest_secret = secret
        self._store(replace(self.identity, digest_cluster_id=self.identity.cluster_id))

    def set_aside(self) -> Path:
        """Move this node's files into a directory of their own; returns it. Whoever starts here then is another node.

        The log goes first: what a crash leaves of the rest is a node without a log, which its cluster turns away again.
        """
        places = self.places
        assert places is not None, "a memory without files has no older copy"
        aside = _vacant(places.log.parent / f"{ASIDE}-{self.identity.node_id}")
        aside.mkdir(mode=0o700)
        databases = [each.with_name(each.name + ending) for each in (places.log, places.projection) for ending in PARTS]
        for file in (*databases, places.digest_key, places.key, places.identity):
            if file.exists():
                file.rename(aside / file.name)
        for folder in (aside, places.log.parent):
            _sync(folder)
        return aside

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _store(self, identity: Identity) -> None:
        if self.places is not None:
            _write_identity(self.places.identity, identity)
        self.identity = identity


def _opened(places: Places, name: str, cluster: str, entropy: Entropy, lock: int) -> DataDirectory:
    if places.identity.exists():
        identity = read_identity(places)
        _refuse_another(places, identity, name, cluster)
        if not places.key.exists():
            raise StartRefused(f"{places.key} is missing: without its key this is no longer that node")
        key = KeyPair(load_seed(places.key))
    else:
        identity, key = _made(places, name, cluster, entropy)
    return DataDirectory(places, identity, key, lock)


def _loaded_digest_secret(places: Places | None) -> bytes | None:
    if places is None or not places.digest_key.exists():
        return None
    return load_seed(places.digest_key)


def _made(places: Places, name: str, cluster: str, entropy: Entropy) -> tuple[Identity, KeyPair]:
    if places.log.exists():
        missing, there = places.identity.name, places.root
        raise StartRefused(f"{there} holds a log but no {missing}: restore it, or start with an empty directory")
    if not places.key.exists():
        create_seed(places.key, entropy.bytes(SEED_BYTES))
    identity = Identity(entropy.bytes(NODE_ID_BYTES).hex(), name, cluster)
    _write_identity(places.identity, identity)
    return identity, KeyPair(load_seed(places.key))


def _refuse_another(places: Places, identity: Identity, name: str, cluster: str) -> None:
    if (identity.name, identity.cluster) != (name, cluster):
        there, here = f"{identity.name} of {identity.cluster}", f"{name} of {cluster}"
        raise StartRefused(f"{places.root} is the directory of node {there}, this node is told to be {here}")


def _lock(places: Places) -> int:
    lock = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise DirectoryInUse(f"{places.root} is in use by process {holder}") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def read_identity(places: Places) -> Identity:
    """What `identity.json` says. Raises `StartRefused` when it cannot be read."""
    try:
        fields = cast(dict[str, Any], json.loads(places.identity.read_text()))
        identity = Identity(**fields)
        identity = replace(identity, ancestors=tuple(Ancestor(*former) for former in identity.ancestors))
    except (ValueError, TypeError) as error:
        raise StartRefused(f"{places.identity} cannot be read: {error}") from error
    if identity.format != FORMAT:
        raise StartRefused(f"{places.root} has format {identity.format}; this version reads format {FORMAT}")
    return identity


def _write_identity(path: Path, identity: Identity) -> None:
    """Atomically: a crash leaves the old file or the new one."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w") as file:
        json.dump(asdict(identity), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync(path.parent)


def _vacant(path: Path) -> Path:
    """That path, or the first one with a number behind it that nothing has."""
    paths = (path if not number else path.with_name(f"{path.name}-{number + 1}") for number in count())
    return next(each for each in paths if not each.exists())


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


_opened_directories: WeakSet[DataDirectory] = WeakSet()


def _let_go_in_child() -> None:
    """A forked child inherits the descriptor, and with it the lock: it must not outlive the parent's use of it."""
    for directory in list(_opened_directories):
        directory.close()


os.register_at_fork(after_in_child=_let_go_in_child)
