"""Changes of membership, asked of whoever leads, again and again until they are made or time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..memory.errors import NotLeader, Refused, Retry, Unavailable
from .survey import MemberRow, Survey, surveyed

if TYPE_CHECKING:
    from ..proto.generated import admin_pb2

PAUSE_S: Final = 0.2
ASK_TIMEOUT_S: Final = 10
CATCHING_UP: Final = "catching_up"
SECOND_US: Final = 1_000_000

Says = Callable[[str], None]


async def changed(
    endpoints: Sequence[str], wanted: admin_pb2.ChangeMembersRequest, timeout_s: float, says: Says
) -> Survey:
    """Have the change made; returns the cluster as it is then. `says` hears what it waits for.

    Raises `Refused`, `Invalid`; `Unavailable` when it is not made in time, saying what stood against it.
    """
    reason = "no leader answers"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                survey = await surveyed(endpoints)
                try:
                    await _asked(survey, wanted)
                    return await surveyed([member.endpoint for member in survey.members] or endpoints)
                except (NotLeader, Retry, Unavailable) as error:
                    reason = str(error)
                except Refused as refusal:
                    if refusal.rule != CATCHING_UP:
                        raise
                    reason = refusal.reason
                says(_waits(survey, reason))
                await asyncio.sleep(PAUSE_S)
    except TimeoutError as error:
        raise Unavailable(f"not changed within {timeout_s:g} s: {reason}") from error


async def _asked(survey: Survey, wanted: admin_pb2.ChangeMembersRequest) -> None:
    from .target import admin
    from .tickets import ticket

    if survey.leader is None:
        raise NotLeader
    wanted.timeout_us = ASK_TIMEOUT_S * SECOND_US
    shown = ticket(survey.cluster_id)
    if shown is not None:
        wanted.ticket.CopyFrom(shown)
    async with admin(survey.leader.endpoint) as stub:
        await stub.ChangeMembers(wanted, timeout=ASK_TIMEOUT_S + 1)


def _waits(survey: Survey, reason: str) -> str:
    """What is waited for, with how far behind whoever catches up is."""
    lags = [f"{member.name} is {member.lag} entries behind" for member in survey.members if _is_learner(member)]
    return "; ".join(lags) or reason


def _is_learner(member: MemberRow) -> bool:
    return not member.voting and member.lag is not None
