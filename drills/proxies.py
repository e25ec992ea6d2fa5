"""Links between nodes that can be cut, one way or both: a proxy for each ordered pair, in this process.

Nodes are told the proxies' addresses as their peers'. A cut link holds what is sent over it, as a network holds what it
will send again; it goes on when it is mended, unless the other side has given up by then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 16
HOST: Final = "127.0.0.1"


class Link:
    """What one node sends to another, and the answers to it. `open` is cleared while it is cut."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.open = asyncio.Event()
        self.open.set()

    async def listen(self, port: int) -> None:
        """Take connections there."""
        self._server = await asyncio.start_server(self._accept, HOST, port)

    async def close(self) -> None:
        """Take none any more, and end those that there are."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.open.wait()
            there, back = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            writer.close()
            return
        ways = [asyncio.create_task(self._carry(reader, back)), asyncio.create_task(self._carry(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, back):
                end.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(CHUNK_BYTES):
                await self.open.wait()
                target.write(chunk)
                await target.drain()


class Links:
    """All links of a cluster: `ports[(source, target)]` is where the source reaches the target."""

    def __init__(self, ports: dict[tuple[str, str], int], target_ports: dict[str, int]) -> None:
        self._links = {pair: Link(target_ports[pair[1]]) for pair in ports}
        self._ports = ports

    async def listen(self) -> None:
        """Open them all."""
        for pair, link in self._links.items():
            await link.listen(self._ports[pair])

    async def close(self) -> None:
        """Close them all."""
        for link in self._links.values():
            await link.close()

    def reached_from(self, name: str) -> dict[str, str]:
        """Where that node reaches each of the others (host:port), by name."""
        return {target: f"{HOST}:{port}" for (source, target), port in self._ports.items() if source == name}

    def cut(self, name: str, hears: bool, speaks: bool) -> None:
        """Cut what others send to that node, unless it `hears`, and what it sends to them, unless it `speaks`."""
        for (source, target), link in self._links.items():
            if (target == name and not hears) or (source == name and not speaks):
                link.open.clear()

    def mend(self) -> None:
        """Join everything again."""
        for link in self._links.values():
            link.open.set()
