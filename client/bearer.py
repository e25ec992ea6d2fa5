"""Bearer tokens on their way to a node: in the metadata of each call, and never in clear beyond this machine."""

from __future__ import annotations

from typing import TypeAlias

from ..memory.errors import Invalid
from ..proto.addresses import is_loopback
from ..security.principal import Principal
from ..security.tokens import BearerToken, authorization

Asking: TypeAlias = Principal | BearerToken
"""Who asks: a principal that signs, or whoever holds a token."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]


def token_of(token: str | BearerToken | None) -> BearerToken | None:
    """The token that was given. Raises `Invalid`, which does not repeat it."""
    if token is None or isinstance(token, BearerToken):
        return token
    try:
        return BearerToken(token.strip())
    except ValueError as error:
        raise Invalid("token", str(error)) from None


def metadata_of(asking: Asking | None, endpoint: str, is_encrypted: bool) -> Metadata:
    """What goes with a call to that endpoint. Raises `Invalid` where the token could be read on the way."""
    if not isinstance(asking, BearerToken):
        return ()
    if not is_encrypted and not is_loopback(endpoint):
        raise Invalid("token", f"is sent over TLS only, and {endpoint} is on another machine: give credentials")
    return (authorization(asking),)
