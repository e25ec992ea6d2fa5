"""Lease sources: who may *try* to lead. The epoch itself is always granted by R members (PROTOCOL § 3).

A source is asked with the caller's elapsed clock and says until when the caller may try, on that same clock. A source
that was reset, restored or is of two minds can make elections slower, never wrong.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Claim:
    """Leave to try for an epoch above `token` until `until_us` of the caller's elapsed clock."""

    token: int
    until_us: int


class LeaseStoreDown(Exception):
    """The lease's own store does not answer: nobody may try now, whoever leads and whoever reads goes on."""


class LeaseSource(Protocol):
    """Decides who may try. Every implementation passes the same test class."""

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """Take or renew the claim of `cluster_key`; None while another owner has it. Raises `LeaseStoreDown`."""
        ...

    def release(self, cluster_key: str, owner: str) -> None:
        """Give the claim back, if `owner` has it. Raises `LeaseStoreDown`."""
        ...


class QuorumLease:
    """The default: the members themselves are the acceptors, so everybody may try and no further server is needed."""

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """Always leave to try, for one time to live."""
        return Claim(0, now_us + ttl_us)

    def release(self, cluster_key: str, owner: str) -> None:
        """Nothing was taken."""


@dataclass(frozen=True, slots=True)
class _Held:
    owner: str
    claim: Claim


def _next_claim(held: _Held | None, owner: str, ttl_us: int, now_us: int) -> Claim | None:
    """The claim that `owner` gets; its token grows whenever the owner changes.

    A claim that ends later than one time to live from now was made on the clock of an earlier boot: it has run out.
    """
    until_us = now_us + ttl_us
    if held is None:
        return Claim(1, until_us)
    if held.owner == owner:
        return Claim(held.claim.token, until_us)
    if now_us < held.claim.until_us <= until_us:
        return None
    return Claim(held.claim.token + 1, until_us)


class InMemoryLeaseStore:
    """Claims in this process, for clusters that live in it. Safe over threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """See `LeaseSource.acquire`."""
        with self._lock:
            claim = _next_claim(self._held.get(cluster_key), owner, ttl_us, now_us)
            if claim:
                self._held[cluster_key] = _Held(owner, claim)
            return claim

    def release(self, cluster_key: str, owner: str) -> None:
        """See `LeaseSource.release`. The token is kept, so that it never goes back."""
        with self._lock:
            held = self._held.get(cluster_key)
            if held and held.owner == owner:
                self._held[cluster_key] = _Held("", Claim(held.claim.token, 0))


class SqliteLeaseStore:
    """Claims in one SQLite file, for processes of one machine: its clock that counts through suspension is shared.

    Two stores on one file are one store.
    """

    BUSY_TIMEOUT_S = 1.0

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).resolve()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqliteLeaseStore) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """See `LeaseSource.acquire`."""
        with _Transaction(self._path, self.BUSY_TIMEOUT_S) as connection:
            claim = _next_claim(_select(connection, cluster_key), owner, ttl_us, now_us)
            if claim:
                _store(connection, cluster_key, owner, claim)
            return claim

    def release(self, cluster_key: str, owner: str) -> None:
        """See `LeaseSource.release`."""
        with _Transaction(self._path, self.BUSY_TIMEOUT_S) as connection:
            held = _select(connection, cluster_key)
            if held and held.owner == owner:
                _store(connection, cluster_key, "", Claim(held.claim.token, 0))


class _Transaction:
    """One immediate transaction on a connection of its own; any SQLite error is the store being down."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None)
            self._connection = connection
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS lease"
                " (cluster_key TEXT PRIMARY KEY, owner TEXT NOT NULL,"
                " token INTEGER NOT NULL, until_us INTEGER NOT NULL)"
            )
        except sqlite3.Error as error:
            self._close()
            raise LeaseStoreDown(f"lease store {self._path}: {error}") from error
        return connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if self._connection:
                self._connection.execute("ROLLBACK" if error else "COMMIT")
        except sqlite3.Error as failure:
            raise LeaseStoreDown(f"lease store {self._path}: {failure}") from failure
        finally:
            self._close()
        if isinstance(error, sqlite3.Error):
            raise LeaseStoreDown(f"lease store {self._path}: {error}") from error

    def _close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


def _select(connection: sqlite3.Connection, cluster_key: str) -> _Held | None:
    query = "SELECT owner, token, until_us FROM lease WHERE cluster_key = ?"
    row = connection.execute(query, (cluster_key,)).fetchone()
    return _Held(row[0], Claim(row[1], row[2])) if row else None


def _store(connection: sqlite3.Connection, cluster_key: str, owner: str, claim: Claim) -> None:
    connection.execute(
        "INSERT INTO lease VALUES (?, ?, ?, ?) ON CONFLICT (cluster_key)"
        " DO UPDATE SET owner = excluded.owner, token = excluded.token, until_us = excluded.until_us",
        (cluster_key, owner, claim.token, claim.until_us),
    )
