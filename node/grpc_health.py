"""`grpc.health.v1`: what orchestrators ask a node by gRPC is what `/readyz` says by HTTP."""
# ruff: noqa: N802 - gRPC names methods as the .proto files do

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

HEALTH: Final = "grpc.health.v1.Health"
HEALTH_PERIOD_S: Final = 0.5

Context = grpc.aio.ServicerContext[Any, Any]


class Watched(Protocol):
    """The side of a node that is asked."""

    async def ready(self, sync_timeout_us: int = 0) -> str:
        """See `Node.ready`."""
        ...


class HealthService(health_pb2_grpc.HealthServicer):
    """`grpc.health.v1.Health`: serving is what `/readyz` calls ready."""

    def __init__(self, node: Watched, services: Sequence[str]) -> None:
        self._node = node
        self._services = services

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        """The state of the whole node, or of one of its services."""
        if request.service and request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service!r} here")
        return health_pb2.HealthCheckResponse(status=await self._state())

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The state, and from then on every change of it."""
        told = None
        while True:
            known = not request.service or request.service in self._services
            state = await self._state() if known else health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            if state != told:
                told = state
                yield health_pb2.HealthCheckResponse(status=state)
            await asyncio.sleep(HEALTH_PERIOD_S)

    async def _state(self) -> health_pb2.HealthCheckResponse.ServingStatus:
        unready = await self._node.ready()
        response = health_pb2.HealthCheckResponse
        return response.NOT_SERVING if unready else response.SERVING


def serve_health(node: Watched, services: Sequence[str], server: grpc.aio.Server) -> None:
    """Answer for the node as a whole and for each of its services."""
    add = cast(Callable[[Any, grpc.aio.Server], None], health_pb2_grpc.add_HealthServicer_to_server)
    add(HealthService(node, services), server)
