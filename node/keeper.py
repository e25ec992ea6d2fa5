"""A member's claim on an external lease source: taken by who leads or wants to, kept while it does, given back after.

A source decides only who may try (PROTOCOL § 3). Asking who leads never touches it. While its store is down, whoever
leads goes on answering reads, and writes are refused at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from ..lease.sources import Claim, LeaseSource
from ..memory.errors import Unavailable
from .ports import NodeStatus
from .system import Clock

LEASE_STORE: Final = "lease store"
SECOND_US: Final = 1_000_000
RENEWALS_PER_TTL: Final = 3
LOOKS_PER_TTL: Final = 12
PATIENCE_TTLS: Final = 6
"""Who has a claim for so long and leads nothing gives it back, for another member to try."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.lease")


class Keeper:
    """Keeps the claim of `owner`. Belongs to one loop; the source, which may block, is asked on threads."""

    def __init__(
        self,
        source: LeaseSource,
        cluster_key: str,
        owner: str,
        ttl_us: int,
        clock: Clock,
        status: Callable[[], NodeStatus],
        may_try: Callable[[int, int], None],
    ) -> None:
        self._source = source
        self._cluster_key = cluster_key
        self._owner = owner
        self._ttl_us = ttl_us
        self._clock = clock
        self._status = status
        self._may_try = may_try
        self._claim: Claim | None = None
        self._idle_since_us = clock.elapsed_us()
        self._asking: asyncio.Task[Claim | None] | None = None
        self._down = False

    @property
    def is_down(self) -> bool:
        """Whether the source did not answer when it was asked last."""
        return self._down

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            leads = await self.turn()
            looks = RENEWALS_PER_TTL if leads else LOOKS_PER_TTL
            await asyncio.sleep(self._ttl_us / looks / SECOND_US)

    async def turn(self) -> bool:
        """Look once: take, renew or give back. Whether this member leads."""
        status, now_us = self._status(), self._clock.elapsed_us()
        if status.serves:
            self._idle_since_us = now_us
            await self._tried_to_renew()
        elif self._follows(status) or self._waited_in_vain(now_us):
            await self.release()
        elif self._claim is not None or not status.condition:
            await self._tried_to_renew()
        return status.serves

    async def renewed(self) -> Claim | None:
        """Take or renew the claim now; None while another member has it. Raises `Unavailable` when the store is down.

        Callers that come while the source is being asked share its answer.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._asked())
        return await asyncio.shield(self._asking)

    async def release(self) -> None:
        """Give the claim back, if there is one."""
        claim, self._claim = self._claim, None
        if claim is None:
            return
        self._may_try(claim.token, 0)
        try:
            await asyncio.to_thread(self._source.release, self._cluster_key, self._owner)
        except Exception as error:  # noqa: BLE001 (a claim that cannot be given back runs out by itself)
            self._note_down(str(error))

    def _follows(self, status: NodeStatus) -> bool:
        """Whether another member leads, and was heard of lately."""
        contacts = [member.last_contact_us for member in status.members if member.id == status.leader]
        return any(contact_us is not None and contact_us <= self._ttl_us for contact_us in contacts)

    def _waited_in_vain(self, now_us: int) -> bool:
        if self._claim is None:
            self._idle_since_us = now_us
        return now_us - self._idle_since_us > PATIENCE_TTLS * self._ttl_us

    async def _tried_to_renew(self) -> None:
        try:
            await self.renewed()
        except Unavailable as error:
            self._note_down(error.reason)

    async def _asked(self) -> Claim | None:
        now_us = self._clock.elapsed_us()
        try:
            claim = await asyncio.to_thread(self._source.acquire, self._cluster_key, self._owner, self._ttl_us, now_us)
        except Exception as error:  # whatever a source raises, it did not answer
            raise Unavailable(f"the lease store does not answer: {error}", (LEASE_STORE,)) from error
        self._down, self._claim = False, claim
        if claim is not None:
            self._may_try(claim.token, claim.until_us)
        return claim

    def _note_down(self, reason: str) -> None:
        if not self._down:
            _log.warning("the lease store is down", cluster=self._cluster_key, reason=reason)
        self._down = True
