"""Which nodes a verb means, and the ways to talk to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..client.environment import credentials, named_endpoints, principal, token, token_in
from ..memory.errors import Invalid
from .local import cluster_in
from .options import data_directory

if TYPE_CHECKING:
    from ..client import ConnectedMemory
    from ..proto.generated import admin_pb2_grpc
    from ..security.principal import Principal


class Target(NamedTuple):
    """The endpoints of the nodes to ask, and the data directory of the local cluster that they are, or None."""

    endpoints: list[str]
    data: Path | None


def target(data: Path | None, endpoint: Sequence[str] | None) -> Target:
    """The nodes to ask: those named, else those of the local cluster. Raises `Invalid`, also when both are given."""
    if data is not None and endpoint:
        raise Invalid("endpoint", "give --data or --endpoint, not both")
    named = list(endpoint or ())
    if data is None and not named:
        named = named_endpoints()
    if named:
        return Target([_checked(each) for each in named], None)
    directory = data_directory(data)
    return Target(cluster_in(directory).endpoints, directory)


def _checked(endpoint: str) -> str:
    from ..node.addresses import split

    try:
        split(endpoint)
    except ValueError as error:
        raise Invalid("endpoint", str(error)) from error
    return endpoint


def principal_of(file: Path) -> Principal:
    """The principal whose seed a file holds. Raises `KeyFileError`, also when others may read it."""
    from ..security.keys import load_seed
    from ..security.principal import Principal

    return Principal(load_seed(file))


@asynccontextmanager
async def admin(endpoint: str) -> AsyncGenerator[admin_pb2_grpc.AdminAsyncStub]:
    """The admin service of one node; what a call raises is raised as an error of `memory.errors`."""
    import grpc.aio

    from ..client.errors import error_of
    from ..proto.channel import open_channel
    from ..proto.generated import admin_pb2_grpc

    async with open_channel(endpoint, credentials()) as channel:
        try:
            yield admin_pb2_grpc.AdminStub(channel)
        except grpc.aio.AioRpcError as error:
            raise error_of(error, endpoint) from error


@contextmanager
def connected(
    data: Path | None,
    endpoint: Sequence[str] | None,
    timeout_s: float,
    read: str = "strong",
    key: Path | None = None,
    token_file: Path | None = None,
) -> Generator[ConnectedMemory]:
    """The memory that the nodes keep; every call on it ends within `timeout_s`, signed by the seed in `key`, if any.

    Where nobody signs, the bearer token in `token_file` or the environment asks."""
    from ..client import ConnectedMemory

    asked = target(data, endpoint).endpoints
    if key is not None and token_file is not None:
        raise Invalid("token-file", "give --key or --token-file, not both")
    shown = token() if token_file is None else token_in(token_file)
    signer = principal_of(key) if key is not None else principal() if token_file is None else None
    tls = credentials()
    with ConnectedMemory(
        asked, read_consistency=read, principal=signer, token=shown, timeout_s=timeout_s, credentials=tls
    ) as memory:
        yield memory
