"""Questions to a server with the interface of OpenAI, as JSON over HTTP: for vectors here, for models elsewhere.

The key never appears in an error, a log line or `repr`; it is sent to a host elsewhere over TLS only. Redirects are not
followed.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from threading import Timer
from typing import Any, Final
from urllib.parse import urlsplit

KEY_VARIABLE: Final = "OPENAI_API_KEY"
KEY_FILE: Final = Path("~/.config/OpenAI/key")
OPENAI_URL: Final = "https://api.openai.com/v1"
TIMEOUT_S: Final = 30.0
ANSWER_BYTES_LIMIT: Final = 16 << 20
COMPLAINT_CHARACTERS: Final = 300
LATE: Final = "no answer in time"
PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
SERVER_AT_FAULT: Final = HTTPStatus.INTERNAL_SERVER_ERROR


class ServiceFailed(Exception):
    """The server gave no answer that can be used; `may_retry` says whether the same question may succeed later."""

    def __init__(self, reason: str, *, may_retry: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_retry = may_retry


class ServiceMisused(ValueError):
    """What was told of the server cannot be used: `field` says what."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def openai_key(environment: Mapping[str, str] = os.environ, file: Path = KEY_FILE) -> str:
    """The key of the environment, else of the user's file. Raises `ServiceMisused` when there is none."""
    key = environment.get(KEY_VARIABLE, "").strip()
    path = file.expanduser()
    if not key and path.is_file():
        key = path.read_text().strip()
    if not key:
        raise ServiceMisused("key", f"none found; set {KEY_VARIABLE}, or write it to {file}")
    return key


class Service:
    """A server at `url`. `timeout_s` bounds each call as a whole. One on this machine may be asked without a key.

    Raises `ServiceMisused` for an address that is none, a key that would travel in clear text, a time-out that is none.
    """

    def __init__(self, url: str, key: str, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ServiceMisused("url", "is not http(s)://host[:port][/path]")
        if parts.scheme == "http" and key and not _is_loopback(parts.hostname):
            raise ServiceMisused("url", "would carry the key in clear text; use https")
        if not 0 < timeout_s < float("inf"):
            raise ServiceMisused("timeout_s", f"{timeout_s} is not a positive number of seconds")
        self._key = key
        self._timeout_s = timeout_s
        self._is_secure = parts.scheme == "https"
        self.host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")

    def ask(self, path: str, question: Mapping[str, Any]) -> Any:
        """The JSON that the server answers with. Raises `ServiceFailed`."""
        status, raw = self._posted(f"{self._path}/{path}", json.dumps(question).encode())
        if status != HTTPStatus.OK:
            may_retry = status in PASSING or status >= SERVER_AT_FAULT
            raise ServiceFailed(f"HTTP {status}: {self._complaint(raw)}", may_retry=may_retry)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise ServiceFailed("the server's answer is no JSON", may_retry=True) from None

    def _posted(self, path: str, body: bytes) -> tuple[int, bytes]:
        made = HTTPSConnection if self._is_secure else HTTPConnection
        connection = made(self.host, self._port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        deadline = _Deadline(self._timeout_s)
        try:
            with deadline:
                connection.connect()
                deadline.watch(connection.sock)
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                answer = response.status, _bounded(response)
        except (OSError, HTTPException) as error:
            late = LATE if isinstance(error, TimeoutError) else deadline.reason
            raise ServiceFailed(late or type(error).__name__, may_retry=True) from error
        finally:
            connection.close()
        if deadline.reason:
            raise ServiceFailed(deadline.reason, may_retry=True)
        return answer

    def _complaint(self, raw: bytes) -> str:
        """What a server says is wrong, without the key that some of them repeat."""
        text = raw.decode(errors="replace")
        return (text.replace(self._key, "…") if self._key else text)[:COMPLAINT_CHARACTERS]


class _Deadline:
    """Ends a connection that is not done in time: a server that sends a byte now and then never is."""

    def __init__(self, timeout_s: float) -> None:
        self._timer = Timer(timeout_s, self._end)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self.reason = ""

    def watch(self, connected: socket.socket) -> None:
        """This is the connection; at once ended if it is late."""
        self._socket = connected
        if self.reason:
            self._end()

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.reason = LATE
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _bounded(response: HTTPResponse) -> bytes:
    raw = response.read(ANSWER_BYTES_LIMIT + 1)
    if len(raw) > ANSWER_BYTES_LIMIT:
        raise ServiceFailed(f"the answer is longer than {ANSWER_BYTES_LIMIT} bytes", may_retry=False)
    return raw


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
