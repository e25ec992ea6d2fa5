"""Tickets that questions carry: signed when they are first needed, and used again for a minute."""

from __future__ import annotations

from typing import Final

from ..proto.generated import ticket_pb2
from ..security.principal import Principal
from ..security.tickets import signed_ticket
from .ports import Clock

RENEWED_AFTER_US: Final = 60_000_000


class Tickets:
    """The tickets of one client, for one cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signed: dict[bytes, ticket_pb2.Ticket] = {}

    def ticket(self, principal: Principal, cluster_id: str) -> ticket_pb2.Ticket:
        """One that is good for minutes yet."""
        wall_us, known = self._clock.wall_us(), self._signed.get(principal.public_key)
        if known is None or not 0 <= wall_us - known.issued_at_us < RENEWED_AFTER_US:
            signed = signed_ticket(cluster_id, principal, wall_us)
            known = ticket_pb2.Ticket(
                author=signed.author, issued_at_us=signed.issued_at_us, signature=signed.signature
            )
            self._signed[principal.public_key] = known
        return known
