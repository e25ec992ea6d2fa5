"""Holding an exercise: load before, during and after it, and the account that is settled at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..memory.errors import VeridicalError
from .exercises import SETTLED, Exercise
from .load import Account, Writers, missing
from .site import Failed, Site, Unsuited

HELD: Final = "held"
FAILED: Final = "failed"
NOT_HELD: Final = "not held"
LOST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that was done or seen, so many seconds after the exercise began."""

    at_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an exercise. `state` is held, failed or not held; `reason` says why it is not the first.

    `gap_s` is the longest time between two acknowledgements, `overdue` how many calls outlived their time-out, `lost`
    which acknowledged facts are gone, altered or there twice, `differing` which nodes ended with another state.
    """

    name: str
    about: str
    state: str
    reason: str
    took_s: float
    moments: tuple[Moment, ...] = ()
    acknowledged: int = 0
    gap_s: float = 0.0
    gap_limit_s: float = 0.0
    errors: tuple[tuple[str, int], ...] = ()
    overdue: int = 0
    lost: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()


async def held(exercise: Exercise, site: Site, mark: str, says: Callable[[str], None], writers: int = 8) -> Result:
    """Hold one exercise; never raises for what goes wrong in it, so that all of a drill can be held.

    `mark` begins the subjects that are written: no two drills of one cluster share one.
    """
    now = asyncio.get_running_loop().time
    begun = now()
    moments: list[Moment] = []

    def tell(what: str) -> None:
        moments.append(Moment(round(now() - begun, 3), what))
        says(what)

    load = Writers(site.endpoints, writers, prefix=f"{mark} {exercise.name}")
    reason, state, gap_s = "", HELD, 0.0
    lost: list[str] = []
    differing: list[str] = []
    try:
        await site.healthy()
        async with load:
            await load.acknowledge(SETTLED)
            since = now()
            await exercise.carry_out(site, load, tell)
            await site.healthy()
            await load.acknowledge(SETTLED)
            gap_s = load.account.longest_gap_s(since, now())
        tell("every node is ready")
        lost = await missing(site.endpoints, load.account, "strong")
        differing = list(await site.differences())
        reason = objection(exercise, load.account, gap_s, lost, differing)
    except Unsuited as error:
        state, reason = NOT_HELD, str(error)
    except (Failed, VeridicalError, TimeoutError) as error:
        reason = str(error) or "no acknowledgement in time"
    if reason and state == HELD:
        state = FAILED
    account = load.account
    return Result(
        exercise.name, exercise.about, state, reason, round(now() - begun, 3), tuple(moments),
        len(account.acknowledged), round(gap_s, 3), exercise.gap_limit_s, tuple(sorted(account.errors.items())),
        len(account.overdue_s), tuple(lost), tuple(differing),
    )  # fmt: skip


def objection(exercise: Exercise, account: Account, gap_s: float, lost: list[str], differing: list[str]) -> str:
    """What the cluster did not keep; empty when it kept everything."""
    if lost:
        return f"{len(lost)} acknowledged facts are not there as they were written: {', '.join(lost[:LOST_SHOWN])}"
    if differing:
        return f"the state differs on {', '.join(differing)}"
    if account.overdue_s:
        return f"{len(account.overdue_s)} calls outlived their time-out, the longest by {max(account.overdue_s):.2f} s"
    if gap_s > exercise.gap_limit_s:
        return f"nothing was acknowledged for {gap_s:.2f} s, over {exercise.gap_limit_s:g}"
    return ""
