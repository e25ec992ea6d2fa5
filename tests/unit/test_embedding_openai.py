"""Vectors from a server on this machine: batches, windows, attempts; and the key is told to nobody."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from veridical.embedding.choice import embedder_named
from veridical.embedding.embedder import EmbedderUnavailable
from veridical.embedding.openai import TEXTS_A_CALL, WINDOW_CHARACTERS, OpenAIEmbedder
from veridical.embedding.service import KEY_VARIABLE, ServiceMisused

KEY = "sk-secret-0123456789"


def never(_: float) -> None:
    """No pause is expected."""
    raise AssertionError("nothing to wait for")


class Server:
    """Answers with the vector (length of the text, 1); `failures` are statuses that come first."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.failures: list[int] = []
        self.width = 2
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(question | {"path": self.path, "authorization": self.headers["Authorization"]})
                status = outer.failures.pop(0) if outer.failures else 200
                rows = [
                    {"index": place, "embedding": [float(len(text)), *[1.0] * (outer.width - 1)]}
                    for place, text in enumerate(question["input"])
                ]
                body = json.dumps({"data": rows[::-1]} if status == 200 else {"error": f"no: {KEY}"}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Let go of everybody."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.close()


def embedder(server: Server, paused: list[float], **options: Any) -> OpenAIEmbedder:
    """An embedder that asks that server."""
    return OpenAIEmbedder(paused.append, "any-model", url=server.url, key=KEY, **({"width": 2} | options))


def test_texts_are_asked_in_batches_and_answered_in_order(server: Server) -> None:
    """More than one call for many; the answer's own order does not matter."""
    made = embedder(server, [])
    vectors = made.embed(["x" * (place + 1) for place in range(TEXTS_A_CALL + 1)])
    assert [array("b", vector).tolist() for vector in vectors[:3]] == [[127, 127], [127, 64], [127, 42]]
    assert [len(call["input"]) for call in server.asked] == [TEXTS_A_CALL, 1]
    assert server.asked[0]["path"] == "/v1/embeddings"
    assert server.asked[0]["authorization"] == f"Bearer {KEY}"
    assert made.name == "openai:any-model:2"


def test_a_long_text_is_embedded_in_windows_and_an_empty_one_is_no_error(server: Server) -> None:
    """Nothing is cut off: what comes last counts as well."""
    embedder(server, []).embed(["y" * (2 * WINDOW_CHARACTERS + 5), ""])
    assert [len(text) for text in server.asked[0]["input"]] == [WINDOW_CHARACTERS, WINDOW_CHARACTERS, 5, 1]


def test_what_passes_is_tried_again_and_the_key_is_in_no_error(server: Server) -> None:
    """Two failures and a success; three failures; one that asking again does not mend."""
    paused: list[float] = []
    server.failures = [503, 429]
    assert embedder(server, paused).embed(["a"])
    assert paused == [0.5, 1.0]
    for failures, asked in (([500] * 3, 3), ([401], 1)):
        server.failures, server.asked = list(failures), []
        with pytest.raises(EmbedderUnavailable) as failed:
            embedder(server, []).embed(["a"])
        assert KEY not in str(failed.value) and KEY not in repr(embedder(server, []))
        assert len(server.asked) == asked


def test_vectors_of_another_width_are_refused(server: Server) -> None:
    """The error says what to set."""
    server.width = 3
    with pytest.raises(EmbedderUnavailable, match="3 wide, not 2: set VERIDICAL_EMBED_DIM"):
        embedder(server, []).embed(["a"])


def test_the_environment_says_model_width_and_address(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known model has its own width, and is asked for fewer components where another is told."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    told = {"VERIDICAL_EMBED_BASE_URL": server.url, "VERIDICAL_EMBED_DIM": "2"}
    made = embedder_named("openai", never, told)
    assert made is not None and made.name == "openai:text-embedding-3-small:2"
    made.embed(["a"])
    assert (server.asked[-1]["dimensions"], server.asked[-1]["model"]) == (2, "text-embedding-3-small")
    for wrong in ({"VERIDICAL_EMBED_MODEL": "any-model"}, {"VERIDICAL_EMBED_DIM": "wide"}):
        with pytest.raises(ValueError, match="VERIDICAL_EMBED_DIM"):
            embedder_named("openai", never, wrong)


def test_a_key_travels_over_tls_only_and_has_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is sent."""
    with pytest.raises(ServiceMisused, match="clear text"):
        OpenAIEmbedder(never, url="http://embeddings.example/v1", key=KEY)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ServiceMisused, match=KEY_VARIABLE):
        embedder_named("openai", never, {})
