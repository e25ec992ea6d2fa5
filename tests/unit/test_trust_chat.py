"""The model over HTTP, against a real server on this machine: deadlines are kept, and the key is told to nobody."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from veridical.memory import OpenAIChat, extract_facts
from veridical.memory.errors import Invalid
from veridical.trust.chat import ANSWER_BYTES_LIMIT, ChatFailed, openai_key

KEY = "sk-test-0123456789abcdef"


class Server:
    """A server whose next answer is `reply`; it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.reply: Callable[[BaseHTTPRequestHandler], None] = says("hello")
        self.over = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.path, dict(self.headers), json.loads(body)))
                outer.reply(self)

            def log_message(self, format: str, *args: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Let go of everybody."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def raw(status: int, body: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer as it goes over the wire."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def says(text: object) -> Callable[[BaseHTTPRequestHandler], None]:
    """The completion of a model that says this."""
    return raw(200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    """A real one."""
    server = Server()
    yield server
    server.close()


def test_a_model_is_asked_and_answers(server: Server) -> None:
    """One question, as OpenAI has it, with the key in its header."""
    server.reply = says('[{"subject": "Dana", "predicate": "prefers", "text": "dark mode"}]')
    chat = OpenAIChat("a-model", url=server.url, key=KEY)
    assert [tuple(fact) for fact in extract_facts("hello", chat)] == [("Dana", "prefers", "dark mode")]
    [(path, headers, body)] = server.asked
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (body["model"], body["temperature"], body["messages"][0]["role"]) == ("a-model", 0, "user")


def test_a_server_without_a_key_is_sent_none(server: Server) -> None:
    """A model on this machine needs none."""
    assert OpenAIChat(url=server.url, key="")("hi") == "hello"
    assert "Authorization" not in server.asked[0][1]


@pytest.mark.parametrize(("status", "may_retry"), [(400, False), (401, False), (302, False), (429, True), (503, True)])
def test_a_refusal_is_told_without_the_key(server: Server, status: int, may_retry: bool) -> None:
    """Servers repeat it; a redirect is not followed, since it could lead the key elsewhere."""
    server.reply = raw(status, f"Incorrect API key provided: {KEY}".encode(), Location="http://example.invalid/")
    chat = OpenAIChat(url=server.url, key=KEY)
    with pytest.raises(ChatFailed, match=f"HTTP {status}: Incorrect") as failure:
        chat("hi")
    assert failure.value.may_retry == may_retry
    assert KEY not in f"{failure.value} {failure.value!r} {chat!r}"
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "reply", [raw(200, b"<html>"), raw(200, b"{}"), raw(200, b"[" * 100_000), says(None), says(5), raw(200, b"")]
)
def test_an_answer_that_is_none_is_a_failure(server: Server, reply: Callable[[BaseHTTPRequestHandler], None]) -> None:
    """And extraction says so."""
    server.reply = reply
    chat = OpenAIChat(url=server.url, key=KEY)
    with pytest.raises(ChatFailed):
        chat("hi")
    assert extract_facts("hello", chat).failed


def test_an_endless_answer_is_not_read(server: Server) -> None:
    """It ends at the limit."""
    server.reply = raw(200, b"x" * (ANSWER_BYTES_LIMIT + 2))
    with pytest.raises(ChatFailed, match="longer than"):
        OpenAIChat(url=server.url, key=KEY)("hi")


def test_silence_ends_in_time(server: Server) -> None:
    """A server that never answers, and one that sends a byte now and then."""

    def silent(_: BaseHTTPRequestHandler) -> None:
        server.over.wait(10)

    def dripping(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not server.over.wait(0.02):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    for server.reply in (silent, dripping):
        begun = time.monotonic()
        with pytest.raises(ChatFailed, match="no answer in time"):
            OpenAIChat(url=server.url, key=KEY, timeout_s=0.2)("hi")
        assert time.monotonic() - begun < 2


def test_a_server_that_is_not_there_is_a_failure() -> None:
    """That may be tried again."""
    server = Server()
    server.close()
    with pytest.raises(ChatFailed) as failure:
        OpenAIChat(url=server.url, key=KEY)("hi")
    assert failure.value.may_retry


@pytest.mark.parametrize(
    ("url", "timeout_s"),
    [
        ("ftp://host/v1", 1),
        ("https://", 1),
        ("https://user:pw@host/v1", 1),
        ("http://models.example/v1", 1),
        ("https://host/v1", 0),
    ],
)
def test_a_wrong_setting_is_said_at_once(url: str, timeout_s: float) -> None:
    """A key is not sent in clear text to another machine."""
    with pytest.raises(Invalid):
        OpenAIChat(url=url, key=KEY, timeout_s=timeout_s)
    assert repr(OpenAIChat(url="https://models.example/v1", key=KEY)) == "OpenAIChat('gpt-4o-mini' at models.example)"


def test_the_key_is_found_in_the_environment_or_the_file(tmp_path: Path) -> None:
    """In that order; without either it says where it looks."""
    file = tmp_path / "key"
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        openai_key({}, file)
    file.write_text(f"{KEY}\n")
    assert openai_key({}, file) == KEY
    assert openai_key({"OPENAI_API_KEY": "sk-other"}, file) == "sk-other"
