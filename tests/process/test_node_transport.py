"""How soon a member that comes back is reached again, over real connections."""

import asyncio
import random
import time
from typing import Any

import grpc.aio
import pytest
from grpc_cluster import free_ports

from veridical.lease.messages import Holder
from veridical.node.server import ReplicationService
from veridical.node.transport import GrpcTransport, Identity
from veridical.proto.generated import replication_pb2_grpc
from veridical.replication.messages import Heartbeat, Message

pytestmark = pytest.mark.process

ABSENCE_S = 3.0
"""By then a sender that was refused again and again pauses for about a second, and gRPC for a quarter of one."""

RETURN_LIMIT_S = 0.2


class Listener:
    """The side of a node that takes messages."""

    node_id = "b"

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    def receive(self, sender: str, message: Message) -> None:
        """Note that something came."""
        self.heard.set()


async def served(listener: Any, endpoint: str) -> grpc.aio.Server:
    """A member that listens there."""
    server = grpc.aio.server()
    service = ReplicationService(listener, "test", lambda _: None)
    replication_pb2_grpc.add_ReplicationServicer_to_server(service, server)
    server.add_insecure_port(endpoint)
    await server.start()
    return server


async def heard_after(transport: GrpcTransport, listener: Listener) -> float:
    """Seconds until a message arrives, of many that are sent."""
    begun = time.monotonic()
    async with asyncio.timeout(10):
        while not listener.heard.is_set():
            transport.send("b", Heartbeat(1, Holder("a", "run"), 0, 0, 0))
            await asyncio.sleep(0.005)
    return time.monotonic() - begun


def test_a_member_that_dials_in_is_dialed_at_once():
    """Whatever pauses the failed attempts before have led to, in the transport and in gRPC."""

    async def trial() -> float:
        endpoint = f"127.0.0.1:{free_ports(1)[0]}"
        transport = GrpcTransport(lambda: None, random.Random(1))
        transport.attach(Identity("test", "a"))
        transport.addresses({"b": endpoint}, {})
        await asyncio.sleep(ABSENCE_S)
        listener = Listener()
        server = await served(listener, endpoint)
        transport.heard("b")
        try:
            return await heard_after(transport, listener)
        finally:
            await transport.close()
            await server.stop(None)

    taken = asyncio.run(trial())
    print(f"heard after s: {taken:.3f}")
    assert taken < RETURN_LIMIT_S
