"""The exercises: what is done to a cluster under load, and what it owes its clients meanwhile.

What every exercise demands besides is checked for all alike (`run.held`): nothing acknowledged is lost or there twice,
no call outlives its time-out, every node ends with the same state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from .load import Writers, missing
from .site import Failed, Means, Site

SETTLED: Final = 50
"""Acknowledgements between two steps that show that the cluster works."""

LEADERLESS_S: Final = 3.0
"""How long writers may wait where the leader is lost: an election takes under a second on a machine with nothing else
to do."""

LED_S: Final = 1.5
"""How long where the leader stays, or hands over."""

PAUSE_S: Final = 5.0
CUT_S: Final = 4.0
FULL_S: Final = 3.0
HOUR_S: Final = 3600
OFF_S: Final = 2.0
"""For so long a clock is wrong: longer than a lease."""

Says = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Exercise:
    """`carry_out(site, writers, says)` breaks something and mends it; writers may wait for `gap_limit_s` at most.

    Exercises that take the same means share a cluster.
    """

    name: str
    about: str
    carry_out: Callable[[Site, Writers, Says], Awaitable[None]]
    gap_limit_s: float
    takes: Means = Means.NOTHING


async def _kill(site: Site, writers: Writers, says: Says) -> None:
    leader = await site.leader()
    await site.kill(leader)
    says(f"{leader} led, and was killed")
    await writers.acknowledge(SETTLED)
    says(f"{await site.leader()} leads")
    await site.start(leader)
    says(f"{leader} was started again")


async def _pause(site: Site, writers: Writers, says: Says) -> None:
    leader = await site.leader()
    await site.pause(leader)
    says(f"{leader} led, and was stopped where it was (SIGSTOP)")
    await asyncio.sleep(PAUSE_S)
    successor = await site.leader()
    await site.resume(leader)
    says(f"{successor} leads; {leader} goes on after {PAUSE_S:g} s (SIGCONT)")
    await writers.acknowledge(SETTLED)
    if await site.leader() == leader:
        raise Failed(f"{leader} leads again after a pause longer than its lease")


async def _partition(site: Site, writers: Writers, says: Says) -> None:
    for hears, speaks, how in (
        (False, False, "neither heard nor spoke"),
        (True, False, "heard and did not speak"),
        (False, True, "spoke and did not hear"),
    ):
        leader = await site.leader()
        await site.cut(leader, hears=hears, speaks=speaks)
        says(f"{leader} led, and {how} for {CUT_S:g} s")
        await asyncio.sleep(CUT_S)
        await writers.acknowledge(SETTLED)
        says(f"{await site.leader()} leads")
        await site.mend()
        await site.healthy()
        await writers.acknowledge(SETTLED)


async def _disk_full(site: Site, writers: Writers, says: Says) -> None:
    leader = await site.leader()
    await site.fill(leader)
    says(f"{leader} led, and has no room on its disk any more")
    await asyncio.sleep(FULL_S)
    await writers.acknowledge(SETTLED)
    says(f"{await site.leader()} leads")
    await site.empty(leader)
    says(f"{leader} has room again")


async def _bitrot(site: Site, writers: Writers, says: Says) -> None:
    follower = await _follower(site)
    await site.stop(follower)
    await writers.acknowledge(SETTLED)
    says(f"in the log of {follower} a byte was flipped: {await site.rot(follower)}")
    await site.start(follower)
    await writers.acknowledge(SETTLED)


async def _wipe(site: Site, writers: Writers, says: Says) -> None:
    follower = await _follower(site)
    await site.kill(follower)
    await site.wipe(follower)
    says(f"{follower} was killed, and lost its data")
    await writers.acknowledge(SETTLED)
    await site.start(follower)
    says(f"{follower} was started without data")
    await writers.acknowledge(SETTLED)


async def _rolling_restart(site: Site, writers: Writers, says: Says) -> None:
    for name in site.names:
        await site.stop(name)
        await site.start(name)
        await site.healthy()
        says(f"{name} was restarted")
        await writers.acknowledge(SETTLED)


async def _clock(site: Site, writers: Writers, says: Says) -> None:
    """No lease is judged by a wall clock: nobody else comes to lead, and no node answers with an older state."""
    leader, epoch = await site.leader(), await site.epoch()
    for name in (leader, await _follower(site)):
        for seconds in (HOUR_S, -HOUR_S):
            await site.step_clock(name, seconds)
            says(f"the wall clock of {name} was set {abs(seconds)} s {'ahead' if seconds > 0 else 'back'}")
            await asyncio.sleep(OFF_S)
            await writers.acknowledge(SETTLED)
            await _shown_by_all(site, writers)
            if (now := await site.epoch()) != epoch:
                raise Failed(f"the clock of {name} led to an election: epoch {now} after {epoch}")
        await site.step_clock(name, 0)
    says(f"{leader} leads in epoch {epoch} as before, the clocks are right again")


async def _shown_by_all(site: Site, writers: Writers) -> None:
    """Raises `Failed` when a node, asked strongly, lacks something that was acknowledged before it was asked."""
    for name, endpoint in zip(site.names, site.endpoints, strict=True):
        if lacking := await missing([endpoint], writers.account, "strong"):
            raise Failed(f"{name} lacks {len(lacking)} acknowledged facts, such as {lacking[0]}")


async def _follower(site: Site) -> str:
    leader = await site.leader()
    return next(name for name in reversed(site.names) if name != leader)


EXERCISES: Final[Mapping[str, Exercise]] = {
    exercise.name: exercise
    for exercise in (
        Exercise("kill", "the leader's process is killed", _kill, LEADERLESS_S),
        Exercise("pause", "the leader stands still for longer than its lease", _pause, LEADERLESS_S),
        Exercise("partition", "the leader is parted from the others, wholly and one way", _partition, LEADERLESS_S),
        Exercise("disk-full", "the leader's disk is full", _disk_full, LEADERLESS_S, Means.SMALL_DISKS),
        Exercise("bitrot", "a byte of a follower's log is not what was written", _bitrot, LED_S),
        Exercise("wipe", "a follower loses its disk", _wipe, LED_S),
        Exercise("rolling-restart", "every node is restarted, one after the other", _rolling_restart, LED_S),
        Exercise("clock", "a wall clock is an hour off, the leader's and then another's", _clock, LED_S, Means.CLOCKS),
    )
}
