"""Claims in an etcd, for fleets that already run one. Speaks to its v3 interface as JSON over HTTP.

One key a cluster holds who has the claim, under which token, and a number that every renewal changes. A claim has run
out when somebody has seen it unchanged for a time to live *on a clock of their own*: no clock is shared, and etcd's
leases, which last two seconds at least, would make every failover that much slower. Every change compares the key's
revision first, so that of two who try at once one fails.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from .sources import Claim, LeaseStoreDown

PREFIX: Final = "/veridical/lease/"
TIMEOUT_S: Final = 1.0
ANSWER_BYTES_LIMIT: Final = 1 << 20
PORT: Final = 2379


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Certificates for endpoints with `https`: the authority that signs etcd's, and this client's, if it wants one."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What stands under a key; revision 0: nothing."""

    revision: int
    owner: str = ""
    token: int = 0
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A revision, and when it was first seen, on the clock of who asked."""

    revision: int
    at_us: int


class EtcdLeaseStore:
    """A `LeaseSource`. `endpoints` are URLs, any of which may answer; keys begin with `prefix`.

    Raises `ValueError` for an endpoint that is none.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        tls: EtcdTls | None = None,
        timeout_s: float = TIMEOUT_S,
        prefix: str = PREFIX,
    ) -> None:
        if not endpoints:
            raise ValueError("name at least one endpoint of the etcd, such as http://127.0.0.1:2379")
        self._endpoints = [_checked(endpoint) for endpoint in endpoints]
        self._context = _context(tls) if any(url.scheme == "https" for url in self._endpoints) else None
        self._timeout_s = timeout_s
        self._prefix = prefix
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EtcdLeaseStore) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[tuple[SplitResult, ...], str]:
        """Two stores at one place are one store."""
        return tuple(self._endpoints), self._prefix

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """See `LeaseSource.acquire`."""
        found = self._found(cluster_key)
        if found.owner not in ("", owner) and not self._has_run_out(cluster_key, found, ttl_us, now_us):
            return None
        token = found.token if found.owner == owner else found.token + 1
        revision = self._put(cluster_key, found, _Found(0, owner, token, found.renewals + 1))
        if revision is None:
            return None
        self._note(cluster_key, revision, now_us)
        return Claim(token, now_us + ttl_us)

    def release(self, cluster_key: str, owner: str) -> None:
        """See `LeaseSource.release`. The token is kept, so that it never goes back."""
        found = self._found(cluster_key)
        if found.owner == owner:
            self._put(cluster_key, found, _Found(0, "", found.token, found.renewals + 1))

    # --- whether a claim has run out ----------------------------------------------------------------------------------

    def _has_run_out(self, cluster_key: str, found: _Found, ttl_us: int, now_us: int) -> bool:
        with self._lock:
            seen = self._seen.get(cluster_key)
        if seen is None or seen.revision != found.revision:
            self._note(cluster_key, found.revision, now_us)
            return False
        return not 0 <= now_us - seen.at_us < ttl_us  # a clock that has gone back is that of another boot

    def _note(self, cluster_key: str, revision: int, now_us: int) -> None:
        with self._lock:
            self._seen[cluster_key] = _Seen(revision, now_us)

    # --- etcd ---------------------------------------------------------------------------------------------------------

    def _found(self, cluster_key: str) -> _Found:
        answer = self._asked("/v3/kv/range", {"key": _base64(self._prefix + cluster_key)})
        for pair in answer.get("kvs", []):
            try:
                owner, token, renewals = json.loads(base64.b64decode(pair["value"]))
                return _Found(int(pair["mod_revision"]), str(owner), int(token), int(renewals))
            except (ValueError, KeyError, TypeError) as error:
                raise LeaseStoreDown(f"etcd holds no claim under {self._prefix}{cluster_key}: {error}") from error
        return _Found(0)

    def _put(self, cluster_key: str, found: _Found, wanted: _Found) -> int | None:
        """Replace what was found; the new revision, or None when somebody was faster."""
        key = _base64(self._prefix + cluster_key)
        value = _base64(json.dumps([wanted.owner, wanted.token, wanted.renewals]))
        unchanged = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(found.revision)}
        answer = self._asked(
            "/v3/kv/txn", {"compare": [unchanged], "success": [{"requestPut": {"key": key, "value": value}}]}
        )
        return int(answer["header"]["revision"]) if answer.get("succeeded") else None

    def _asked(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        """The answer of the first endpoint that gives one. Raises `LeaseStoreDown`."""
        reasons: list[str] = []
        for url in self._endpoints:
            try:
                return self._asked_at(url, path, question)
            except (OSError, http.client.HTTPException, ValueError) as error:
                reasons.append(f"{url.netloc}: {error or type(error).__name__}")
        raise LeaseStoreDown(f"no etcd answers ({'; '.join(reasons)})")

    def _asked_at(self, url: SplitResult, path: str, question: dict[str, Any]) -> dict[str, Any]:
        host, port = url.hostname or "", url.port or PORT
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._context)
            if url.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        )
        with closing(connection):
            connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            raw = answer.read(ANSWER_BYTES_LIMIT)
        if answer.status != http.client.OK:
            raise ValueError(f"status {answer.status}")
        return cast("dict[str, Any]", json.loads(raw))


def _checked(endpoint: str) -> SplitResult:
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{endpoint!r} is not the URL of an etcd; write it as http://HOST:PORT or https://HOST:PORT")
    return url


def _context(tls: EtcdTls | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if tls is None or tls.authority is None else str(tls.authority))
    if tls is not None and tls.certificate is not None:
        context.load_cert_chain(str(tls.certificate), None if tls.key is None else str(tls.key))
    return context


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
