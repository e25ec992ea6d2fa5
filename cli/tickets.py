"""What shows a node that an operator asks: for histories and digests of a memory that is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..client.environment import principal

if TYPE_CHECKING:
    from ..proto.generated import ticket_pb2


def ticket(cluster_id: str) -> ticket_pb2.Ticket | None:
    """A ticket of this process's principal, or None where it has none. Raises `Invalid` for a seed that is none."""
    asker = principal()
    if asker is None:
        return None
    from ..node.system import SystemClock
    from ..proto.generated import ticket_pb2
    from ..security.tickets import signed_ticket

    return ticket_pb2.Ticket(**signed_ticket(cluster_id, asker, SystemClock().wall_us())._asdict())
