"""The tenure: how long a leader may count on its lease, and whether it still hears its members (PROTOCOL § 3)."""

from __future__ import annotations

from collections.abc import Collection

from .quorum import quorum_value


class Tenure:
    """What the members confirmed to the holder of one epoch. All times are the leader's own clock.

    *lease-arithmetic*: a confirmation counts from the moment *before* the renewal was sent.
    """

    def __init__(self, me: str, ttl_us: int, margin_us: int, now_us: int) -> None:
        self.me = me
        self.ttl_us = ttl_us
        self.margin_us = margin_us
        self.renewed_at_us: dict[str, int] = {}
        self.heard_at_us: dict[str, int] = {}
        self.began_at_us = now_us
        self.is_dropped = False

    def renewed(self, member: str, sent_at_us: int) -> None:
        """`member` renewed on a message that was sent at `sent_at_us`."""
        self.renewed_at_us[member] = max(sent_at_us, self.renewed_at_us.get(member, 0))

    def heard(self, member: str, now_us: int) -> None:
        """Any answer in this epoch came from `member`."""
        self.heard_at_us[member] = now_us

    def drop(self) -> None:
        """No more lease reads in this epoch (*transfer-drops-the-lease*)."""
        self.is_dropped = True

    def valid_until_us(self, voters: Collection[str], quorum: int) -> int:
        """When the lease ends: `sent_at + ttl − margin` of the renewal that `quorum` voters confirmed; 0 if none."""
        if self.is_dropped:
            return 0
        sent_at_us = quorum_value(self.renewed_at_us, voters, quorum)
        return sent_at_us + self.ttl_us - self.margin_us if sent_at_us else 0

    def contact_lost_at_us(self, voters: Collection[str], quorum: int, timeout_us: int) -> int:
        """When *quorum-contact* is lost: the leader has then not heard `quorum` voters for the timeout."""
        others = quorum - (self.me in voters)
        if others <= 0:
            return 1 << 62
        heard = sorted([self.heard_at_us.get(voter, 0) for voter in voters if voter != self.me])
        return max(self.began_at_us, heard[-others]) + timeout_us
