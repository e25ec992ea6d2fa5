"""Changes of membership at the leader: who is asked in, who may count, who goes (PROTOCOL § 10).

One change at a time, each an entry of the log, which is in force from the moment it is appended. While one is under way
no round of writing is: rounds are decided on the end of the log, and that has moved.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from ..log.configuration import Configuration, Member, QuorumError
from ..memory.errors import Invalid, NotLeader, Refused, Retry
from ..replication.membership import with_learner, with_quorum, with_voter, without
from ..replication.messages import Accepted, Declined, Reconfigure
from .driver import Driver
from .founding import HELLO_TIMEOUT_US
from .ports import HelloReply
from .rounds import Rounds

MEMBERSHIP: Final = "membership"
CATCHING_UP: Final = "catching_up"
"""The rule that refuses a new voter which lacks entries, or a change that too few of those who stay would confirm."""

_LAGGING: Final = "must catch up first"
_IN_FLIGHT: Final = "one change at a time"
_MINE: Final = -1
"""Tokens of changes are below zero, those of rounds above."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Take the node in that answers at this endpoint, as a learner."""

    endpoint: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Let this learner count, once it has caught up."""

    id: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take this member out."""

    id: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Ask for so many acknowledgements for each write (W)."""

    write_quorum: int


Change: TypeAlias = Admit | Promote | Remove | Resize

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.membership")


def newcomer(reply: HelloReply, endpoint: str, present: Configuration, cluster: str, cluster_id: str) -> Member:
    """The member that a node would be. Raises `Refused` when it belongs elsewhere, or its id to somebody else."""
    if reply.cluster != cluster:
        raise Refused(MEMBERSHIP, f"{endpoint} belongs to cluster {reply.cluster}, not {cluster}")
    known = present.member(reply.node_id)
    if known is None and reply.has_history and reply.cluster_id != cluster_id:
        raise Refused(MEMBERSHIP, f"{endpoint} has a history of its own; start it with an empty data directory")
    if known is not None and known.public_key != reply.public_key:
        raise Refused(MEMBERSHIP, f"{endpoint} says it is {known.name}, with another key")
    return Member(reply.node_id, reply.name, reply.public_key, endpoint)


def proposed(present: Configuration, change: Change, member: Member | None) -> Configuration:
    """The configuration that a change asks for; `member` is whom to admit. Raises `Invalid` for one that cannot be."""
    try:
        match change:
            case Admit():
                assert member is not None, "nobody to admit"
                return with_learner(present, member)
            case Promote(id):
                return with_voter(present, id)
            case Remove(id):
                return without(present, id)
            case Resize(write_quorum):
                return with_quorum(present, write_quorum)
    except QuorumError as error:
        raise Invalid("member", str(error)) from error


@dataclass(frozen=True, slots=True)
class MembershipPort:
    """What changes need of the node.

    The configuration in force, members' addresses, a way to ask who answers at one, and which cluster this is.
    """

    configuration: Callable[[], Configuration | None]
    endpoint: Callable[[str], str]
    hello: Callable[[str, int], Awaitable[HelloReply]]
    cluster: str
    cluster_id: str


class Membership:
    """Carries changes through at a node that leads. One at a time; further callers wait."""

    def __init__(self, driver: Driver, rounds: Rounds, port: MembershipPort) -> None:
        self._driver = driver
        self._rounds = rounds
        self._port = port
        self._turn = asyncio.Lock()
        self._token = 0
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._uncommitted: deque[tuple[int, asyncio.Future[int]]] = deque()

    async def change(self, change: Change) -> Configuration:
        """Make the change; returns the configuration in force once it is committed.

        A change that is made already changes nothing. Raises `NotLeader`; `Refused` (`membership`, `catching_up`);
        `Invalid` for nobody's id; `Unavailable` when nobody answers where somebody is to be admitted; `Retry` when it
        cannot be made now, or leadership ended meanwhile.
        """
        async with self._turn:
            member = await self._heard_of(change)
            await self._rounds.pause()
            try:
                return await self._put_in_force(change, member)
            finally:
                self._rounds.begin_anew()

    async def _heard_of(self, change: Change) -> Member | None:
        """Whom to admit; raises `Refused` for a voter-to-be that could not decide anything if it came to lead."""
        present = self._present()
        if isinstance(change, Admit):
            reply = await self._port.hello(change.endpoint, HELLO_TIMEOUT_US)
            return newcomer(reply, change.endpoint, present, self._port.cluster, self._port.cluster_id)
        if isinstance(change, Promote) and present.member(change.id) is not None:
            reply = await self._port.hello(self._port.endpoint(change.id), HELLO_TIMEOUT_US)
            if reply.node_id != change.id or not reply.holds_key:
                raise Refused(CATCHING_UP, f"{change.id} does not hold the cluster's digest key yet")
        return None

    def _present(self) -> Configuration:
        present = self._port.configuration()
        if present is None or not self._rounds.serves:
            raise NotLeader
        return present

    async def _put_in_force(self, change: Change, member: Member | None) -> Configuration:
        present = self._present()
        wanted = proposed(present, change, member)
        if wanted.canonical() == present.canonical():
            return present
        self._token += _MINE
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asked[self._token] = future
        self._driver.step(Reconfigure(self._token, wanted))
        await future
        _log.info("membership", change=str(change), members=[each.name for each in wanted.members])
        return wanted

    # --- what the core says ---

    def on_accepted(self, accepted: Accepted) -> None:
        """The change stands in the log."""
        future = self._asked.pop(accepted.token, None)
        if future is not None:
            self._uncommitted.append((accepted.last, future))

    def on_declined(self, declined: Declined) -> None:
        """The change may not be made, or not now."""
        future = self._asked.pop(declined.token, None)
        if future is not None and not future.done():
            future.set_exception(_objection(declined.reason))

    def on_committed(self, commit_index: int) -> None:
        """Everything up to there is committed."""
        while self._uncommitted and self._uncommitted[0][0] <= commit_index:
            index, future = self._uncommitted.popleft()
            if not future.done():
                future.set_result(index)

    def lose(self) -> None:
        """Leadership has ended."""
        lost = [*self._asked.values(), *(future for _, future in self._uncommitted)]
        self._asked.clear()
        self._uncommitted.clear()
        for future in lost:
            if not future.done():
                future.set_exception(Retry("leadership ended while the membership was changed: ask again"))


def _objection(reason: str) -> Exception:
    if reason == "leader":
        return NotLeader()
    if reason == "transfer" or reason.endswith(_IN_FLIGHT):
        return Retry(f"the membership cannot be changed now: {reason}")
    rule = CATCHING_UP if reason.endswith(_LAGGING) else MEMBERSHIP
    return Refused(rule, reason.removeprefix("configuration: "))
