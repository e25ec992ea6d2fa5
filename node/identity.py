"""A data directory: who the node is, its keys, and the lock that keeps a second process out.

    identity.json   format, node id, name, cluster name, and the cluster's id once it is known
    node.key        Ed25519 seed of the node, 64 hex digits, mode 0600
    digest.key      the cluster's digest key, likewise; handed over by the other members, or derived at founding
    log.db          the log; the only file whose loss means that this node is lost (*lost-disk-is-a-new-member*)
    projection.db   the fold of the log; made again when it is missing
    lock            held with flock while a process uses the directory
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..security.keys import KeyFileError, KeyPair, create_seed, load_seed
from .system import Entropy

FORMAT = 1
NODE_ID_BYTES = 8
SEED_BYTES = 32


class StartRefused(Exception):
    """This node cannot run as it is told to; the message says what to change. Trying again unchanged will not help."""


class DirectoryInUse(StartRefused):
    """Another process holds this data directory; stop it, or give this node a directory of its own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What `identity.json` holds. `digest_cluster_id` names the cluster that `digest.key` was made for."""

    node_id: str
    name: str
    cluster: str
    cluster_id: str = ""
    digest_cluster_id: str = ""
    format: int = FORMAT


class DataDirectory:
    """An opened, locked data directory. Use `DataDirectory.open`; `in_memory` makes one that leaves no trace."""

    def __init__(self, path: Path | None, identity: Identity, key: KeyPair, lock: int | None) -> None:
        self.path = path
        self.identity = identity
        self.key = key
        self._lock = lock
        self._digest_secret = _loaded_digest_secret(path)

    @staticmethod
    def open(path: Path, name: str, cluster: str, entropy: Entropy) -> DataDirectory:
        """Lock the directory, and read or make identity and keys. Raises `StartRefused`, `DirectoryInUse`."""
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
        try:
            return _opened(path, name, cluster, entropy, lock)
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
        return ":memory:" if self.path is None else str(self.path / "log.db")

    @property
    def projection_path(self) -> str:
        """Where the projection lies."""
        return ":memory:" if self.path is None else str(self.path / "projection.db")

    @property
    def founding_share(self) -> bytes:
        """This node's part of the digest key, 32 bytes: derived from its key, so that there is no file to lose."""
        return hmac.digest(self.key.seed, b"veridical/founding-share/1\0" + self.identity.node_id.encode(), "sha256")

    @property
    def digest_secret(self) -> bytes | None:
        """The cluster's digest key, or None while this node does not hold the one of its cluster."""
        known = self.identity.digest_cluster_id
        return self._digest_secret if known and known == self.identity.cluster_id else None

    def join_cluster(self, cluster_id: str) -> None:
        """Remember the id of the cluster that this node belongs to. It may change only while the log is empty."""
        if self.identity.cluster_id != cluster_id:
            self._store(replace(self.identity, cluster_id=cluster_id))

    def store_digest_secret(self, secret: bytes) -> None:
        """Keep the digest key of this node's cluster."""
        if self.path is not None:
            (self.path / "digest.key").unlink(missing_ok=True)
            create_seed(self.path / "digest.key", secret)
        self._digest_secret = secret
        self._store(replace(self.identity, digest_cluster_id=self.identity.cluster_id))

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _store(self, identity: Identity) -> None:
        if self.path is not None:
            _write_identity(self.path, identity)
        self.identity = identity


def _opened(path: Path, name: str, cluster: str, entropy: Entropy, lock: int) -> DataDirectory:
    if (path / "identity.json").exists():
        identity = _read_identity(path)
        _refuse_another(path, identity, name, cluster)
        if not (path / "node.key").exists():
            raise StartRefused(f"{path / 'node.key'} is missing: without its key this is no longer that node")
        key = KeyPair(load_seed(path / "node.key"))
    else:
        identity, key = _made(path, name, cluster, entropy)
    return DataDirectory(path, identity, key, lock)


def _loaded_digest_secret(path: Path | None) -> bytes | None:
    if path is None or not (path / "digest.key").exists():
        return None
    return load_seed(path / "digest.key")


def _made(path: Path, name: str, cluster: str, entropy: Entropy) -> tuple[Identity, KeyPair]:
    if (path / "log.db").exists():
        raise StartRefused(f"{path} holds a log but no identity.json: restore it, or start with an empty directory")
    if not (path / "node.key").exists():
        create_seed(path / "node.key", entropy.bytes(SEED_BYTES))
    identity = Identity(entropy.bytes(NODE_ID_BYTES).hex(), name, cluster)
    _write_identity(path, identity)
    return identity, KeyPair(load_seed(path / "node.key"))


def _refuse_another(path: Path, identity: Identity, name: str, cluster: str) -> None:
    if (identity.name, identity.cluster) != (name, cluster):
        there, here = f"{identity.name} of {identity.cluster}", f"{name} of {cluster}"
        raise StartRefused(f"{path} is the directory of node {there}, this node is told to be {here}")


def _lock(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise DirectoryInUse(f"{path} is in use by process {holder}") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _read_identity(path: Path) -> Identity:
    try:
        fields = cast(dict[str, Any], json.loads((path / "identity.json").read_text()))
        identity = Identity(**fields)
    except (ValueError, TypeError) as error:
        raise StartRefused(f"{path / 'identity.json'} cannot be read: {error}") from error
    if identity.format != FORMAT:
        raise StartRefused(f"{path} has format {identity.format}; this version reads format {FORMAT}")
    return identity


def _write_identity(path: Path, identity: Identity) -> None:
    """Atomically: a crash leaves the old file or the new one."""
    temporary = path / "identity.json.new"
    with temporary.open("w") as file:
        json.dump(asdict(identity), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path / "identity.json")
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
