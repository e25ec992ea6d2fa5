"""The nodes of one company while they are open, on the loop that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import structlog

from ..memory.errors import VeridicalError
from ..node.inprocess import InProcessNetwork
from .member import Enrolment, Member

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.embedded")


class Household:
    """Members that are open. A member whose files cannot be had now is tried again whenever it is asked."""

    def __init__(self, enrolments: Iterable[Enrolment], write_quorum: int | None) -> None:
        self._network = InProcessNetwork()
        self._write_quorum = write_quorum
        self._members: dict[str, Member] = {}
        # Who named its peers was meant to lead: it is the first to ask for the lease.
        enrolled = sorted(enrolments, key=lambda enrolment: not enrolment.names_peers)
        self._owners = [enrolment.owner for enrolment in enrolled]
        for enrolment in enrolled:
            try:
                self._open(enrolment)
            except VeridicalError as error:
                _log.warning("a member cannot be opened", owner=enrolment.owner, reason=str(error))
        self._claiming = asyncio.create_task(self._claim_in_order(list(self._members.values())))

    async def opened(self, enrolment: Enrolment) -> Member:
        """The member, opened now if it is not open. Raises `Unavailable` when its files cannot be had."""
        member = self._members.get(enrolment.owner)
        if member is None:
            member = self._open(enrolment)
            member.keep_claim()
        return member

    async def close(self, owner: str, hand_over: bool) -> None:
        """Close one member."""
        member = self._members.pop(owner, None)
        if member is not None:
            await member.close(hand_over and bool(self._members), gives_back=hand_over)

    async def close_all(self) -> None:
        """Close everything; nobody is left to hand anything over to."""
        self._claiming.cancel()
        await asyncio.gather(*(self.close_last(owner) for owner in list(self._members)))
        await asyncio.get_running_loop().shutdown_default_executor()

    async def close_last(self, owner: str) -> None:
        """Close a member whose company is going too."""
        await self._members.pop(owner).close(False, gives_back=True)

    def _open(self, enrolment: Enrolment) -> Member:
        agreed = replace(enrolment, write_quorum=self._write_quorum)
        owners = self._owners if enrolment.owner in self._owners else [*self._owners, enrolment.owner]
        member = Member(agreed, owners, self._network, self._pass_gate)
        self._members[enrolment.owner] = member
        return member

    async def _claim_in_order(self, members: list[Member]) -> None:
        for place, member in enumerate(members):
            if place == 0:
                with suppress(VeridicalError):
                    await member.renew_claim()
            member.keep_claim()

    async def _pass_gate(self, asking: Member) -> None:
        """A write needs the lease's own store to answer: for whoever leads, or else for the member that is asked."""
        if not asking.needs_lease:
            return
        leader = next((member for member in self._members.values() if member.serves), asking)
        await leader.renew_claim()
