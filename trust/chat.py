"""The language model: any callable from prompt to answer; and one that speaks to an OpenAI-compatible server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from threading import Timer
from typing import Any, Final
from urllib.parse import urlsplit

from ..memory.errors import Invalid, VeridicalError

Chat = Callable[[str], str]
"""A model: it is asked a prompt and answers with text. What it answers is believed in nothing."""

KEY_VARIABLE: Final = "OPENAI_API_KEY"
KEY_FILE: Final = Path("~/.config/OpenAI/key")
OPENAI_URL: Final = "https://api.openai.com/v1"
MODEL: Final = "gpt-4o-mini"
TIMEOUT_S: Final = 30.0
ANSWER_BYTES_LIMIT: Final = 4 << 20
COMPLAINT_CHARACTERS: Final = 300
LATE: Final = "no answer in time"
PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
SERVER_AT_FAULT: Final = HTTPStatus.INTERNAL_SERVER_ERROR


class ChatFailed(VeridicalError):
    """The model gave no answer. Nothing was stored; `may_retry` says whether the same call may succeed later."""

    def __init__(self, reason: str, *, may_retry: bool) -> None:
        super().__init__(f"the model gave no answer: {reason}")
        self.reason = reason
        self.may_retry = may_retry


def openai_key(environment: Mapping[str, str] = os.environ, file: Path = KEY_FILE) -> str:
    """The key of the environment, else of the user's file. Raises `Invalid` when there is none."""
    key = environment.get(KEY_VARIABLE, "").strip()
    path = file.expanduser()
    if not key and path.is_file():
        key = path.read_text().strip()
    if not key:
        raise Invalid("key", f"none found; set {KEY_VARIABLE}, or write it to {file}")
    return key


class OpenAIChat:
    """A `Chat` by HTTP, at any server with the chat completions of OpenAI.

    `timeout_s` bounds the whole call. The key never appears in an error, a log line or `repr`; it is sent to a host
    elsewhere over TLS only. A server on this machine may be asked without a key (`key=""`). Redirects are not followed.
    """

    def __init__(
        self, model: str = MODEL, *, url: str = OPENAI_URL, key: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise Invalid("url", "is not http(s)://host[:port][/path]")
        self._key = openai_key() if key is None else key
        if parts.scheme == "http" and self._key and not _is_loopback(parts.hostname):
            raise Invalid("url", "would carry the key in clear text; use https")
        if not 0 < timeout_s < float("inf"):
            raise Invalid("timeout_s", f"{timeout_s} is not a positive number of seconds")
        self.model = model
        self._timeout_s = timeout_s
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = f"{parts.path.rstrip('/')}/chat/completions"

    def __repr__(self) -> str:
        """Which model, and where; no key."""
        return f"OpenAIChat({self.model!r} at {self._host})"

    def __call__(self, prompt: str) -> str:
        """The model's answer. Raises `ChatFailed`."""
        question = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}
        status, raw = self._posted(json.dumps(question).encode())
        if status != HTTPStatus.OK:
            raise ChatFailed(
                f"HTTP {status}: {self._complaint(raw)}", may_retry=status in PASSING or status >= SERVER_AT_FAULT
            )
        return _content(raw)

    def _posted(self, body: bytes) -> tuple[int, bytes]:
        made = HTTPSConnection if self._is_secure else HTTPConnection
        connection = made(self._host, self._port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        deadline = _Deadline(self._timeout_s)
        try:
            with deadline:
                connection.connect()
                deadline.watch(connection.sock)
                connection.request("POST", self._path, body, headers)
                response = connection.getresponse()
                answer = response.status, _bounded(response)
        except (OSError, HTTPException) as error:
            late = LATE if isinstance(error, TimeoutError) else deadline.reason
            raise ChatFailed(late or type(error).__name__, may_retry=True) from error
        finally:
            connection.close()
        if deadline.reason:
            raise ChatFailed(deadline.reason, may_retry=True)
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
        raise ChatFailed(f"the answer is longer than {ANSWER_BYTES_LIMIT} bytes", may_retry=False)
    return raw


def _content(raw: bytes) -> str:
    try:
        answer: Any = json.loads(raw)
        content = answer["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise ChatFailed("the server's answer is no chat completion", may_retry=True) from None
    if type(content) is not str:
        raise ChatFailed("the model answered without text", may_retry=True)
    return content


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
