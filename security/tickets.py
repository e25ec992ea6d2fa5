"""Tickets: how a reader shows who asks. Signed for one cluster and a few minutes, and shown with every question."""

from __future__ import annotations

from typing import Final, NamedTuple

from .keys import verify
from .principal import Principal

TICKET_TAG: Final = b"veridical/ticket/1\0"
LIFETIME_US: Final = 300_000_000
"""How far a ticket's time may be from the reader's of its clock, in both directions."""


class Ticket(NamedTuple):
    """`author` (public key, 32 bytes) asked something of a cluster at `issued_at_us`; `signature` has 64 bytes."""

    author: bytes
    issued_at_us: int
    signature: bytes

    def is_current(self, wall_us: int) -> bool:
        """Whether it is in force at that time."""
        return abs(wall_us - self.issued_at_us) <= LIFETIME_US

    def is_signed_for(self, cluster_id: str) -> bool:
        """Whether its author signed it, and for that cluster."""
        return verify(self.author, ticket_message(cluster_id, self.issued_at_us), self.signature)


def ticket_message(cluster_id: str, issued_at_us: int) -> bytes:
    """What the signature covers."""
    return TICKET_TAG + f"{cluster_id}\0{issued_at_us}".encode()


def signed_ticket(cluster_id: str, principal: Principal, wall_us: int) -> Ticket:
    """A ticket for that cluster, issued now."""
    return Ticket(principal.public_key, wall_us, principal.sign(ticket_message(cluster_id, wall_us)))
