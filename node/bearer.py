"""Bearer tokens as they arrive: out of a call's metadata, and only where nobody could read them on the way."""

from __future__ import annotations

from typing import Any, Final

import grpc.aio

from ..memory import rules
from ..memory.errors import Refused
from ..security.tokens import AUTHORIZATION, authorized
from .access import NOBODY, TOKEN_EXPOSED, Caller
from .questions import Ticketed, caller_of
from .tls import TRANSPORT

INSECURE: Final = b"insecure"
LOCAL_PEERS: Final = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:")

Context = grpc.aio.ServicerContext[Any, Any]


def caller_shown(request: Ticketed, context: Context) -> Caller:
    """Who asks for something to read: by the ticket in the request, or else by the token beside it."""
    caller = caller_of(request)
    return bearer_of(context) if caller is NOBODY else caller


def bearer_of(context: Context) -> Caller:
    """Who holds the token in a call's metadata; nobody without one.

    Raises `Refused` for what is no token, and for one that could be read on its way here.
    """
    shown = next((value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION), None)
    if shown is None:
        return NOBODY
    if not is_private(context.peer(), context.auth_context()):
        raise Refused(TOKEN_EXPOSED, "a bearer token is taken over TLS only, or from this machine")
    return bearer_shown(shown if isinstance(shown, str) else shown.decode(errors="replace"))


def bearer_shown(header: str) -> Caller:
    """The holder of the token that a header `authorization` shows, over whatever protocol. Raises `Refused`."""
    try:
        return Caller(token=authorized(header))
    except ValueError as error:
        raise Refused(rules.TOKEN_UNKNOWN, str(error)) from None


def is_private(peer: str, auth_context: Any) -> bool:
    """Whether nobody between that peer (as gRPC spells it) and this node can read what it sends."""
    transport = list(auth_context.get(TRANSPORT, ()))
    return (bool(transport) and transport != [INSECURE]) or peer.startswith(LOCAL_PEERS)
