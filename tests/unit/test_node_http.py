"""The small HTTP port: three pages, and short answers to everything else."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from veridical.node import http
from veridical.node.http import Probes


class Watched:
    def __init__(self) -> None:
        self.alive = True
        self.unready = ""
        self.waited_us = 0

    async def ready(self, sync_timeout_us: int = 0) -> str:
        self.waited_us = sync_timeout_us
        return self.unready


async def fetched(port: int, raw: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def watching(test: Callable[[Watched, Callable[[bytes], Awaitable[tuple[int, str]]]], Awaitable[None]]) -> None:
    async def run() -> None:
        node = Watched()
        probes = Probes(node, lambda: b"veridical_epoch 7\n")
        port = await probes.start("127.0.0.1:0")
        try:
            async with asyncio.timeout(10):
                await test(node, lambda raw: fetched(port, raw))
        finally:
            await probes.stop()

    asyncio.run(run())


def test_pages():
    """Alive, ready and measured."""

    async def test(_: Watched, fetch: Callable[[bytes], Awaitable[tuple[int, str]]]) -> None:
        assert await fetch(get("/livez")) == (200, "ok\n")
        assert await fetch(get("/readyz")) == (200, "ok\n")
        assert await fetch(get("/metrics")) == (200, "veridical_epoch 7\n")

    watching(test)


def test_being_alive_does_not_depend_on_being_ready():
    """A node that only lacks a quorum must not be restarted; the reason stands in the body."""

    async def test(node: Watched, fetch: Callable[[bytes], Awaitable[tuple[int, str]]]) -> None:
        node.unready = "no leader is known"
        assert await fetch(get("/livez")) == (200, "ok\n")
        assert await fetch(get("/readyz")) == (503, "no leader is known\n")
        node.alive = False
        assert (await fetch(get("/livez")))[0] == 503

    watching(test)


def test_sync_waits():
    """`?sync` hands its patience to the node."""

    async def test(node: Watched, fetch: Callable[[bytes], Awaitable[tuple[int, str]]]) -> None:
        await fetch(get("/readyz?sync"))
        assert node.waited_us == http.SYNC_TIMEOUT_US

    watching(test)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (get("/"), 404),
        (get("/livez/../secret"), 404),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\xff\xfe / HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"x" * http.HEAD_BYTES_LIMIT + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_everything_else_is_turned_away(raw: bytes, status: int):
    """Nothing else is served, and nothing breaks it."""

    async def test(_: Watched, fetch: Callable[[bytes], Awaitable[tuple[int, str]]]) -> None:
        assert (await fetch(raw))[0] == status

    watching(test)


def test_a_caller_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch):
    """An open connection costs a place for a bounded time."""
    monkeypatch.setattr(http, "HEAD_TIMEOUT_S", 0.01)

    async def test(_: Watched, fetch: Callable[[bytes], Awaitable[tuple[int, str]]]) -> None:
        with pytest.raises((ConnectionError, IndexError)):
            await fetch(b"GET /livez HT")

    watching(test)
