"""A service with the interface of OpenAI on this machine. As real ones, it never answers the same text quite alike."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

import pytest

from veridical.embedding.static import local_embedder

KEY = "sk-secret-0123456789"
MODEL = "any-model"
WIDTH = 256
NAME = f"openai:{MODEL}:{WIDTH}"


class EmbeddingServer:
    """Its vectors are those of the model that ships with the product, each time a little different.

    Texts in `steady` get the same one always, texts that hold a word of `refused` get 400. `status` is what it answers
    with; while `gate` is closed, it is silent, and `knocked` when it is asked.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.status = 200
        self.refused: set[str] = set()
        self.steady: set[str] = set()
        self.knocked = Event()
        self.gate = Event()
        self.gate.set()
        self._calls = 0
        self._lock = Lock()
        self._model = local_embedder()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.knocked.set()
                outer.gate.wait(30)
                status, answer = outer.answer(question["input"])
                body = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # whoever asked has given up

            def log_message(self, format: str, *args: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        """A status, and what is said with it."""
        with self._lock:
            self._calls += 1
            self.asked.update(texts)
            wrong = any(word in text for text in texts for word in self.refused)
            status = 400 if wrong and self.status == 200 else self.status
            if status != 200:
                return status, {"error": f"no: {KEY}"}
            rows = [{"index": place, "embedding": self.vector(text)} for place, text in enumerate(texts)]
            return 200, {"data": rows}

    def vector(self, text: str) -> list[float]:
        """What it answers to one text now."""
        (vector,) = self._model.embed([text])
        shift = 0 if text in self.steady else self._calls
        return [
            component + 3 * ((shift * 7 + place) % 5 - 2)
            for place, component in enumerate(memoryview(vector).cast("b").tolist())
        ]

    def close(self) -> None:
        """Let go of everybody."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def embedding_server() -> Generator[EmbeddingServer]:
    """A server that the environment names, with a key, while this lasts."""
    server = EmbeddingServer()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("VERIDICAL_EMBED_BASE_URL", server.url)
        environment.setenv("VERIDICAL_EMBED_MODEL", MODEL)
        environment.setenv("VERIDICAL_EMBED_DIM", str(WIDTH))
        environment.setenv("OPENAI_API_KEY", KEY)
        environment.delenv("VERIDICAL_EMBEDDER", raising=False)
        try:
            yield server
        finally:
            server.close()
