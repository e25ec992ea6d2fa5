"""The acceptor: what one member promises, to whom, and until when (PROTOCOL § 3).

A *promise* is durable and only grows: nothing of a lower epoch is written here any more. A *grant* is a promise with a
time: while it lasts no other candidate gets one, so that its holder may read on its lease. Times are this node's own
elapsed clock, read after the request arrived (*fresh-clock*): there is no flag here that a timer would have to clear.
"""

from __future__ import annotations

from ..log.configuration import Configuration
from .messages import Holder


class Acceptor:
    """Promises and grants of one member. The caller makes `promised_epoch` and `holder` durable before it replies."""

    def __init__(self, promised_epoch: int, holder: Holder | None, ttl_us: int, margin_us: int, now_us: int) -> None:
        self.promised_epoch = promised_epoch
        self.holder = holder
        self.ttl_us = ttl_us
        self.margin_us = margin_us
        self.granted_until_us = 0
        self.forgot_at_us = now_us if promised_epoch else None

    @property
    def waits_until_us(self) -> int:
        """Until when grants from before the restart may still be alive, 0 when there are none."""
        return 0 if self.forgot_at_us is None else self._amnesia_ends(self.forgot_at_us)

    def _amnesia_ends(self, forgot_at_us: int) -> int:
        """*restart-amnesia*: what was granted before the restart is forgotten, so let the longest of it run out.

        A node that restarts before it has a log learns only later how long that is.
        """
        return forgot_at_us + self.ttl_us + self.margin_us

    def adopt_ttl(self, ttl_us: int, margin_us: int) -> None:
        """Hold grants for the time to live that the configuration in force says."""
        self.ttl_us, self.margin_us = ttl_us, margin_us

    def free_at_us(self) -> int:
        """When the last grant will have run out, as far as is known now."""
        return max(self.granted_until_us, self.waits_until_us)

    def obstacle(self, candidate: Holder, theirs: Configuration, mine: Configuration, now_us: int) -> str:
        """Why `candidate` would get no new epoch now, in one word, or ""."""
        if candidate.node not in self.newer(theirs, mine).voters:
            return "member"
        if self.is_waiting(now_us) and candidate != self.holder:
            return "waiting"
        if self.is_held_by_another(candidate, now_us):
            return "held"
        return ""

    def newer(self, theirs: Configuration, mine: Configuration) -> Configuration:
        """The configuration that decides who may lead: the later of the candidate's and this member's."""
        return max(theirs, mine, key=lambda configuration: configuration.version)

    def is_waiting(self, now_us: int) -> bool:
        """Whether grants from before the restart may still be alive."""
        return now_us < self.waits_until_us

    def is_held_by_another(self, candidate: Holder, now_us: int) -> bool:
        """Whether another holder's grant has not run out yet."""
        return now_us < self.granted_until_us and candidate != self.holder

    def may_promise(self, epoch: int, candidate: Holder) -> bool:
        """Whether the epoch is new here, or already promised to exactly this run (*holder-is-a-run*)."""
        return epoch > self.promised_epoch or (epoch == self.promised_epoch and self.is_holder(candidate))

    def is_holder(self, candidate: Holder) -> bool:
        """Whether the promised epoch belongs to this very process run."""
        return candidate == self.holder

    def bind(self, epoch: int, holder: Holder, now_us: int) -> bool:
        """Promise `epoch` to `holder`; True when that is news that must be made durable before any reply."""
        news = (epoch, holder) != (self.promised_epoch, self.holder)
        self.promised_epoch, self.holder = epoch, holder
        if news:
            self.forgot_at_us = None
        self.renew(now_us)
        return news

    def renew(self, now_us: int) -> None:
        """Hold the grant for `ttl + drift margin` from this receipt (*lease-arithmetic*)."""
        self.granted_until_us = now_us + self.ttl_us + self.margin_us

    def release(self, epoch: int, holder: Holder) -> bool:
        """Let go of the grant, if it is exactly this one; True when it was."""
        if (epoch, holder) != (self.promised_epoch, self.holder):
            return False
        self.granted_until_us, self.forgot_at_us = 0, None
        return True
