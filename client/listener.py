"""Listening to the change feed of a cluster: at whichever node answers, and elsewhere once that one falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final, TypeAlias, cast

import grpc.aio

from ..memory.errors import Unavailable
from ..proto.generated import memory_pb2
from ..security.principal import Principal
from .bearer import Asking, metadata_of
from .directory import Directory
from .errors import error_of
from .tickets import Tickets

SILENCE_S: Final = 3.0
"""A node says something every second: one that has said nothing for so long is listened to no more."""

STALE_US: Final = 5_000_000
"""A node whose state may be older than this is left for another one: it may be cut off, and know of nothing new."""


Call: TypeAlias = grpc.aio.UnaryStreamCall[memory_pb2.WatchRequest, memory_pb2.WatchReply]


class Listener:
    """The way to the feeds of a cluster's nodes. Belongs to one loop."""

    def __init__(self, directory: Directory, tickets: Tickets) -> None:
        self._directory = directory
        self._tickets = tickets

    async def watch(
        self, request: memory_pb2.WatchRequest, asking: Asking | None
    ) -> AsyncGenerator[memory_pb2.WatchReply]:
        """See `Watched`. Raises `Unavailable`, naming the node, when it says nothing."""
        directory = self._directory
        if isinstance(asking, Principal) or not directory.is_known:
            await directory.refresh()
        if isinstance(asking, Principal):
            if not directory.cluster_id:
                raise Unavailable("no node answers", directory.silent())
            request.ticket.CopyFrom(self._tickets.ticket(asking, directory.cluster_id))
        endpoint = directory.endpoints()[0]
        shown = metadata_of(asking, endpoint, directory.is_encrypted)
        call = directory.connection(endpoint).memory.Watch(request, metadata=shown)
        try:
            while (reply := await _heard(call, endpoint)) is not None:
                directory.answered(endpoint)
                yield reply
                if _is_stale(reply) and len(directory.endpoints()) > 1:
                    break
        except grpc.aio.AioRpcError as error:
            directory.failed(endpoint)
            raise error_of(error, endpoint) from error
        except Unavailable:
            directory.failed(endpoint)
            raise
        finally:
            call.cancel()
        directory.failed(endpoint)  # it ends, or knows of nothing new: the others first


async def _heard(call: Call, endpoint: str) -> memory_pb2.WatchReply | None:
    """The next reply, or None at the end of the stream."""
    try:
        async with asyncio.timeout(SILENCE_S):
            reply = await call.read()
    except TimeoutError:
        raise Unavailable("it says nothing", (endpoint,)) from None
    return None if reply is grpc.aio.EOF else cast(memory_pb2.WatchReply, reply)


def _is_stale(reply: memory_pb2.WatchReply) -> bool:
    return not reply.HasField("age_us") or reply.age_us > STALE_US
