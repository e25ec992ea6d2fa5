"""TLS of a node: files are read again while it runs, strangers are turned away, bad files change nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest

from veridical.node.config import ConfigError, Tls
from veridical.node.tls import Certificates, certified_node
from veridical.proto.channel import open_channel
from veridical.security.certificates import CLIENT, NODE, Pair, issue, joined, new_authority

NOW = datetime.fromtimestamp(1_800_000_000, UTC)
CALL = "/test/Who"


class Place:
    """Files of one holder, that can be replaced."""

    def __init__(self, folder: Path, pair: Pair, authorities: bytes) -> None:
        folder.mkdir()
        self.tls = Tls(certificate=folder / "c.pem", key=folder / "k.pem", authority=folder / "ca.pem")
        self.put(pair, authorities)

    def put(self, pair: Pair, authorities: bytes) -> None:
        """Replace them all."""
        for path, pem in ((self.tls.key, pair.key), (self.tls.certificate, pair.certificate)):
            path.write_bytes(pem)
            path.chmod(0o600)
        self.tls.authority.write_bytes(authorities)
        for path in (self.tls.key, self.tls.certificate, self.tls.authority):
            found = path.stat()
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000_000))


class Who(grpc.GenericRpcHandler):
    """Answers with the name of the node that asks."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """One method."""

        async def who(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return repr(certified_node(context.auth_context())).encode()

        return grpc.unary_unary_rpc_method_handler(who)


@asynccontextmanager
async def served(certificates: Certificates | None) -> AsyncGenerator[str]:
    """A server with these certificates; its endpoint."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Who(),))
    address = "127.0.0.1:0"
    if certificates is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, certificates.server())
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def asked(endpoint: str, pair: Pair | None, authorities: bytes, name: str = "") -> str:
    """Who that server says one is; or how the call failed."""
    key, certificate = (None, None) if pair is None else (pair.key, pair.certificate)
    async with open_channel(endpoint, grpc.ssl_channel_credentials(authorities, key, certificate), name) as channel:
        try:
            return cast(bytes, await channel.unary_unary(CALL)(b"", timeout=5)).decode()
        except grpc.aio.AioRpcError as error:
            return error.code().name


def loaded(place: Place, wall: datetime = NOW) -> Certificates:
    """Read at that time."""
    return Certificates(place.tls, lambda: int(wall.timestamp() * 1_000_000))


def now() -> datetime:
    """The real time: the handshake looks at it."""
    return datetime.now(UTC)


def test_who_is_let_in(tmp_path: Path) -> None:
    """Whoever shows a certificate of the authority; who that is, the handshake says."""
    authority, stranger = new_authority("c", now()), new_authority("c", now())
    ca = authority.certificate
    place = Place(tmp_path / "n1", issue(authority, NODE, "n1", ["127.0.0.1"], now()), ca)
    n2, alice = issue(authority, NODE, "n2", [], now()), issue(authority, CLIENT, "alice", [], now())
    expired = issue(authority, NODE, "n3", [], now() - timedelta(days=9), days=1)

    async def main() -> None:
        async with served(loaded(place, now())) as endpoint:
            assert await asked(endpoint, n2, ca) == "'n2'"
            assert await asked(endpoint, alice, ca) == "''"
            assert await asked(endpoint, n2, ca, name="n1") == "'n2'"
            refused = (
                (None, ca, ""),
                (issue(stranger, NODE, "n2", [], now()), ca, ""),
                (expired, ca, ""),
                (n2, stranger.certificate, ""),
                (n2, ca, "n2"),
            )
            for pair, authorities, name in refused:
                assert await asked(endpoint, pair, authorities, name) == "UNAVAILABLE"

    asyncio.run(main())


def test_without_tls_nobody_is_certified() -> None:
    """And nothing is asked for."""

    async def main() -> None:
        async with served(None) as endpoint, open_channel(endpoint) as channel:
            assert await channel.unary_unary(CALL)(b"", timeout=5) == b"None"

    asyncio.run(main())


def test_authorities_are_replaced_without_a_pause(tmp_path: Path) -> None:
    """The new one beside the old one, then new leaves, then the new one alone: somebody is always let in."""
    old, new = new_authority("c", now()), new_authority("c", now())
    leaf, both = issue(old, NODE, "n1", ["127.0.0.1"], now()), joined(new.certificate, old.certificate)
    place = Place(tmp_path / "n1", leaf, old.certificate)
    before, after = issue(old, CLIENT, "alice", [], now()), issue(new, CLIENT, "alice", [], now())

    async def main() -> None:
        certificates = loaded(place, now())
        async with served(certificates) as endpoint:
            assert await asked(endpoint, before, old.certificate) == "''"
            place.put(leaf, both)
            assert await asked(endpoint, before, old.certificate) == "''"
            assert await asked(endpoint, after, both) == "''"
            place.put(issue(new, NODE, "n1", ["127.0.0.1"], now()), both)
            assert await asked(endpoint, before, both) == "''"
            assert await asked(endpoint, after, new.certificate) == "''"
            place.put(issue(new, NODE, "n1", ["127.0.0.1"], now()), new.certificate)
            assert await asked(endpoint, before, both) == "UNAVAILABLE"
            assert await asked(endpoint, after, new.certificate) == "''"
        assert not certificates.problem

    asyncio.run(main())


def test_bad_files_leave_the_old_ones_in_force(tmp_path: Path) -> None:
    """And it is said why; good ones are taken again."""
    authority = new_authority("c", NOW)
    good = issue(authority, NODE, "n1", [], NOW, days=20)
    place = Place(tmp_path / "n1", good, authority.certificate)
    certificates = loaded(place)
    assert certificates.expiry_s == pytest.approx(20 * 86_400)
    newer = issue(authority, NODE, "n1", [], NOW, days=30)
    for pair, authorities, told in (
        (Pair(newer.certificate, good.key), authority.certificate, "key is not that"),
        (Pair(b"nonsense", good.key), authority.certificate, ""),
        (newer, new_authority("c", NOW).certificate, "none of the authorities"),
        (issue(authority, NODE, "n1", [], NOW - timedelta(days=9), days=1), authority.certificate, "has expired"),
    ):
        place.put(pair, authorities)
        assert certificates.expiry_s == pytest.approx(20 * 86_400)
        assert certificates.problem and told in certificates.problem
    place.tls.key.unlink()
    assert certificates.expiry_s == pytest.approx(20 * 86_400) and "No such file" in certificates.problem
    place.put(newer, authority.certificate)
    assert certificates.expiry_s == pytest.approx(30 * 86_400) and not certificates.problem


def test_a_node_does_not_start_with_bad_files(tmp_path: Path) -> None:
    """It says which, and a key that others may read is one."""
    authority = new_authority("c", NOW)
    place = Place(tmp_path / "n1", issue(authority, NODE, "n1", [], NOW), authority.certificate)
    loaded(place)
    with pytest.raises(ConfigError, match="expired"):
        loaded(place, NOW + timedelta(days=500))
    place.tls.key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        loaded(place)
