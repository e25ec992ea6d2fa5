"""A small HTTP port for those who only watch: `/livez`, `/readyz` (`?sync` waits), `/metrics`. Nothing else is served.

It speaks just enough HTTP/1.1 for probes and Prometheus: one GET a connection, a bounded head, a bounded wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

from .addresses import split

HEAD_BYTES_LIMIT: Final = 8 << 10
HEAD_TIMEOUT_S: Final = 5.0
CONNECTIONS_LIMIT: Final = 64
SYNC_TIMEOUT_US: Final = 10_000_000

PLAIN: Final = "text/plain; charset=utf-8"
EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"


class Watched(Protocol):
    """The side of a node that probes look at (`node.runtime.Node`)."""

    @property
    def alive(self) -> bool:
        """See `Node.alive`."""
        ...

    async def ready(self, sync_timeout_us: int = 0) -> str:
        """See `Node.ready`."""
        ...


class Page(NamedTuple):
    """What is answered."""

    status: str
    body: bytes
    content_type: str = PLAIN


NOT_FOUND: Final = Page("404 Not Found", b"here are /livez, /readyz and /metrics\n")
NOT_ALLOWED: Final = Page("405 Method Not Allowed", b"GET only\n")
BAD_REQUEST: Final = Page("400 Bad Request", b"not a request\n")
BUSY: Final = Page("503 Service Unavailable", b"too many connections\n")


class Probes:
    """The HTTP server of one node. `exposition` makes the text of `/metrics`."""

    def __init__(self, node: Watched, exposition: Callable[[], bytes]) -> None:
        self._node = node
        self._exposition = exposition
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def start(self, address: str) -> int:
        """Listen at `address` (host:port; port 0 chooses one); returns the port."""
        host, port = split(address)
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_LIMIT)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            page = BUSY if self._connections > CONNECTIONS_LIMIT else await self._answered(reader)
            writer.write(_response(page))
            await writer.drain()
        except (ConnectionError, TimeoutError):
            pass  # whoever asked has gone
        finally:
            self._connections -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader) -> Page:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return BAD_REQUEST
        return await self._page(target) if method == "GET" else NOT_ALLOWED

    async def _page(self, target: str) -> Page:
        url = urlsplit(target)
        if url.path == "/livez":
            return Page("200 OK", b"ok\n") if self._node.alive else _failing("the loop or the disk does not answer")
        if url.path == "/readyz":
            sync = "sync" in parse_qs(url.query, keep_blank_values=True)
            unready = await self._node.ready(SYNC_TIMEOUT_US if sync else 0)
            return _failing(unready) if unready else Page("200 OK", b"ok\n")
        if url.path == "/metrics":
            return Page("200 OK", self._exposition(), EXPOSITION)
        return NOT_FOUND


def _failing(reason: str) -> Page:
    return Page("503 Service Unavailable", f"{reason}\n".encode())


def _response(page: Page) -> bytes:
    head = (
        f"HTTP/1.1 {page.status}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + page.body
