"""Who asks, and what may be answered: the one place that every read of a node passes (MEMORY § 6).

A caller in this process is believed: whoever runs the store's code holds its files. Over a network a ticket
or a bearer token says who asks. In a store without principals neither is looked at, and all is answered.
"""

from __future__ import annotations

from typing import Final

from ..log.value import value
from ..memory import rules
from ..memory.context import OperatorRights
from ..memory.errors import Refused
from ..memory.grants import is_administrator
from ..memory.principals import Reach, enrolled, is_guarded, reach
from ..memory.scope import EVERY_SCOPE
from ..memory.state import State
from ..memory.tokens import bearer
from ..security.tickets import LIFETIME_US, Ticket
from ..security.tokens import BearerToken
from .system import Clock

TICKET: Final = "ticket"
TOKEN_EXPOSED: Final = "token_exposed"
KNOWN_TICKETS_LIMIT: Final = 4096
EVERYTHING: Final = Reach((EVERY_SCOPE,))
OPERATOR: Final = OperatorRights()
SECOND_US: Final = 1_000_000


@value()
class Caller:
    """Who asks, or nobody known: by a key that is believed (32 bytes), a ticket, or a bearer token.

    The last two are checked where the answer depends on them, a token against the state that is read.
    """

    key: bytes | None = None
    ticket: Ticket | None = None
    token: BearerToken | None = None


NOBODY: Final = Caller()


class Access:
    """What callers may see. From any thread; tickets that were verified are remembered."""

    def __init__(self, cluster_id: str, clock: Clock) -> None:
        self._cluster_id = cluster_id
        self._clock = clock
        self._verified: set[Ticket] = set()

    def reach(self, state: State, caller: Caller, right: str) -> Reach:
        """Where the caller holds that right. Raises `Refused` when that is nowhere, or for a ticket that is none."""
        if not is_guarded(state):
            return EVERYTHING
        seen = reach(state, self._key(state, caller), OPERATOR, right)
        if not seen.patterns:
            raise Refused(rules.NOT_GRANTED, f"the right to {right} is granted to this caller in no scope")
        return seen

    def own_key(self, state: State, caller: Caller) -> bytes | None:
        """The only key of which that caller may know what is known; None for an administrator, who may know of all.

        Raises `Refused` for a caller who is not enrolled, and for a ticket that is none.
        """
        if not is_guarded(state):
            return None
        principal = enrolled(state, self._key(state, caller))
        if principal is None:
            raise Refused(rules.NOT_GRANTED, "this caller is not enrolled")
        return None if is_administrator(principal.grants) else principal.key

    def identified(self, state: State, caller: Caller) -> Caller:
        """The caller by key, for what goes on longer than a ticket is good. Raises `Refused` for one that is none.

        A token stays one: it is looked up for each page, and ends the stream once it is revoked.
        """
        return Caller(self._key(state, caller)) if caller.ticket is not None and is_guarded(state) else caller

    def require_everywhere(self, state: State, caller: Caller, right: str) -> None:
        """Raises `Refused` unless the caller holds that right in every scope."""
        require_all(self.reach(state, caller, right), right)

    def _key(self, state: State, caller: Caller) -> bytes | None:
        if caller.token is not None:
            return bearer(state, caller.token.digest, self._clock.wall_us())
        ticket = caller.ticket
        if ticket is None:
            return caller.key
        wall_us = self._clock.wall_us()
        if not ticket.is_current(wall_us):
            off_s = (wall_us - ticket.issued_at_us) // SECOND_US
            reason = (
                f"it was issued {off_s} s ago by this node's clock; more than {LIFETIME_US // SECOND_US} are too many"
            )
            raise Refused(TICKET, reason)
        if ticket not in self._verified:
            self._verify(ticket)
        return ticket.author

    def _verify(self, ticket: Ticket) -> None:
        if not ticket.is_signed_for(self._cluster_id):
            raise Refused(TICKET, "it is not signed by the key that it names, for this cluster")
        if len(self._verified) >= KNOWN_TICKETS_LIMIT:
            self._verified = set()
        self._verified.add(ticket)


def is_all(seen: Reach) -> bool:
    """Whether it spans every scope there could be."""
    return EVERY_SCOPE in seen.patterns


def require_all(seen: Reach, right: str) -> None:
    """Raises `Refused` for a reach that leaves a scope out: what is asked for is about all of them."""
    if not is_all(seen):
        raise Refused(rules.NOT_GRANTED, f"this needs the right to {right} in every scope")
