"""Bearer tokens at three real nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from contract_of_memory import ADMIN, BOB, Guarded
from doors import NetworkDoor
from grpc_cluster import eventually
from scenarios_of_borders import Borders
from scenarios_of_tokens import Claims, Tokens

from veridical.client.errors import error_of
from veridical.memory.errors import Refused
from veridical.proto.channel import open_channel
from veridical.proto.generated import admin_pb2, admin_pb2_grpc

pytestmark = pytest.mark.process


class TestTokensOfNodes(NetworkDoor, Tokens, Claims, Borders):
    """In the metadata of calls; a node that cannot answer itself passes the token on."""


class TestWhatATokenReachesOfANode(NetworkDoor):
    """The administrative service, asked as any gRPC client would."""

    def test_history_is_exported_under_a_token_of_an_administrator_alone(self, guarded: Guarded) -> None:
        """And digests; another's, a revoked one, one that is none, and no token at all are told the rule."""
        issued, of_bob = guarded.admin.issue_token(ADMIN), guarded.admin.issue_token(BOB)
        for ask in (_exported, _digests):
            in_the_end(guarded, ask, issued.secret, "told")
            in_the_end(guarded, ask, of_bob.secret, "not_granted")
            assert asked(guarded, ask, None) == "not_granted"
            assert asked(guarded, ask, "vdt_") == "token_unknown"
        guarded.admin.revoke_token(issued.id)
        for ask in (_exported, _digests):
            in_the_end(guarded, ask, issued.secret, "token_revoked")

    def test_a_token_moves_no_leadership(self, guarded: Guarded) -> None:
        """Not even an administrator's, with which the members' digests are read."""
        issued = guarded.admin.issue_token(ADMIN)
        in_the_end(guarded, _digests, issued.secret, "told")
        assert asked(guarded, _transferred, issued.secret) == "not_granted"


Shown = tuple[tuple[str, str], ...]
Ask = Callable[[Any, Shown], Awaitable[int]]


async def _exported(admin: admin_pb2_grpc.AdminAsyncStub, shown: Shown) -> int:
    return sum([len(reply.entries) async for reply in admin.Export(admin_pb2.ExportRequest(first=1), metadata=shown)])


async def _digests(admin: admin_pb2_grpc.AdminAsyncStub, shown: Shown) -> int:
    return len((await admin.Buckets(admin_pb2.BucketsRequest(), metadata=shown)).digests)


async def _transferred(admin: admin_pb2_grpc.AdminAsyncStub, shown: Shown) -> int:
    return len((await admin.Transfer(admin_pb2.TransferRequest(), metadata=shown)).reason)


def in_the_end(guarded: Guarded, ask: Ask, token: str, answer: str) -> None:
    """That is what the node answers once it has folded what was said of the token."""
    assert eventually(lambda: asked(guarded, ask, token) == answer or None)


def asked(guarded: Guarded, ask: Ask, token: str | None) -> str:
    """Whether a node tells whoever shows that token anything, or the rule by which it tells nothing."""
    (endpoint, *_) = guarded.admin.status()
    shown = () if token is None else (("authorization", f"Bearer {token}"),)

    async def work() -> str:
        async with open_channel(endpoint) as channel, asyncio.timeout(20):
            try:
                return "told" if await ask(admin_pb2_grpc.AdminStub(channel), shown) else "nothing"
            except grpc.aio.AioRpcError as error:
                failure = error_of(error, endpoint)
                return failure.rule if isinstance(failure, Refused) else repr(failure)

    return asyncio.run(work())
