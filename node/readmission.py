"""A node that lost its disk comes back as a new member, by itself (*lost-disk-is-a-new-member*, PROTOCOL § 5).

What such a node has forgotten - promises, acknowledgements - does not come back by copying a log to it, so that it may
not go on under its old id. It starts empty, with a new id and key, under the name and at the address of the old member,
and receives nothing. The leader notices that the old one is silent, asks at its address who is there, and replaces it
in three steps, each an entry of the log: the new one in as a learner; a voter, once it has caught up; the old one out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

import structlog

from ..log.configuration import Configuration, Member
from ..memory.errors import VeridicalError
from .membership import Admit, Change, Promote, Remove
from .ports import HelloReply
from .system import Clock

PERIOD_S: Final = 0.5
HELLO_TIMEOUT_US: Final = 1_000_000

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.readmission")


def is_reborn(lost: Member, reply: HelloReply, cluster: str) -> bool:
    """Whether who answers at a lost member's address is that node without its data: same name, new id, no history."""
    same = (reply.cluster, reply.name) == (cluster, lost.name)
    return same and reply.node_id != lost.id and not reply.has_history


def replacing(configuration: Configuration, lost: Member, live: Collection[str]) -> Change | None:
    """The next step in the replacement of a silent member by one of its name that speaks; None while there is none."""
    heirs = [each for each in configuration.members if each.name == lost.name and each.id in live]
    if not heirs:
        return None
    return Remove(lost.id) if heirs[0].voting or not lost.voting else Promote(heirs[0].id)


@dataclass(frozen=True, slots=True)
class ReadmissionPort:
    """What the watch needs of the node.

    The configuration while this node leads (else None); members that spoke within so many microseconds; a member's
    address; who answers at one; and the way to change the membership.
    """

    led: Callable[[], Configuration | None]
    live: Callable[[int], Collection[str]]
    endpoint: Callable[[str], str]
    hello: Callable[[str, int], Awaitable[HelloReply]]
    change: Callable[[Change], Awaitable[object]]


class Readmission:
    """Looks after members that have been silent for `after_us`, while this node leads."""

    def __init__(self, cluster: str, after_us: int, clock: Clock, port: ReadmissionPort) -> None:
        self._cluster = cluster
        self._after_us = after_us
        self._clock = clock
        self._port = port
        self._leads_since_us: int | None = None

    async def watch(self) -> None:
        """For as long as the node runs."""
        while True:
            await asyncio.sleep(PERIOD_S)
            for lost in self.silent():
                await self.look_after(lost)

    def silent(self) -> list[Member]:
        """Members that have said nothing for so long. A leader that is new has not listened for that long yet."""
        configuration, now_us = self._port.led(), self._clock.elapsed_us()
        if configuration is None:
            self._leads_since_us = None
            return []
        if self._leads_since_us is None:
            self._leads_since_us = now_us
        if now_us - self._leads_since_us < self._after_us:
            return []
        live = self._port.live(self._after_us)
        return [member for member in configuration.members if member.id not in live]

    async def look_after(self, lost: Member) -> None:
        """Take the next step in the replacement of a silent member, if its node has come back without its data."""
        configuration = self._port.led()
        if configuration is None:
            return
        try:
            step = replacing(configuration, lost, self._port.live(self._after_us)) or await self._admission(lost)
            if step is not None:
                await self._port.change(step)
                _log.warning("a member that lost its data is replaced", member=lost.name, lost=lost.id, step=str(step))
        except VeridicalError as error:
            _log.info("a lost member is not replaced yet", member=lost.name, reason=str(error))

    async def _admission(self, lost: Member) -> Admit | None:
        endpoint = self._port.endpoint(lost.id)
        reply = await self._port.hello(endpoint, HELLO_TIMEOUT_US)
        return Admit(endpoint) if is_reborn(lost, reply, self._cluster) else None
