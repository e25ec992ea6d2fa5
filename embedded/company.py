"""A cluster whose members are objects of one process: who they are, and the loop they share.

All objects that share a lease source and a cluster key are one cluster. It is founded when one of them is first used,
by those that were made until then; nobody can join it later, for a member more or less is a change of membership.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from ..client.blocking import Result, Work
from ..lease.sources import LeaseSource
from ..memory.errors import Invalid, Unavailable
from ..node.inprocess import InProcessNetwork
from .member import Enrolment, Member
from .residence import CLOSE_TIMEOUT_S, Residence


class Company:
    """The members of one cluster in this process."""

    def __init__(self, cluster_key: str) -> None:
        self._cluster_key = cluster_key
        self._lock = threading.Lock()
        self._enrolled: dict[str, tuple[Enrolment, dict[str, Any]]] = {}
        self._is_founded = False
        self._gone: set[str] = set()
        self._loop: Residence[_Household] = Residence(self._found, _closed, CLOSE_TIMEOUT_S)

    def enrol(self, enrolment: Enrolment, options: dict[str, Any]) -> None:
        """One more member. Raises `Invalid` when the cluster is in use already, or the owner is."""
        with self._lock:
            if enrolment.owner in self._enrolled:
                raise Invalid("owner", f"{enrolment.owner} is a member of {self._cluster_key} already")
            if self._is_founded:
                members = ", ".join(self._enrolled)
                raise Invalid("owner", f"{self._cluster_key} is in use already, by {members}; make all members first")
            given = {one.write_quorum for one, _ in self._enrolled.values()} | {enrolment.write_quorum}
            if len(given - {None}) > 1:
                raise Invalid("write_quorum", f"the members of {self._cluster_key} were given different ones")
            self._enrolled[enrolment.owner] = (enrolment, options)

    def submit(self, owner: str, work: Work[Result]) -> Future[Result]:
        """Run `work` on the member of that owner."""

        def at_member(household: _Household) -> Coroutine[Any, Any, Result]:
            return work(household.member(owner))

        if owner in self._gone:
            raise Unavailable(f"{owner} of {self._cluster_key} was closed")
        return self._loop.submit(at_member)

    def leave(self, owner: str) -> None:
        """Close one member; the last one ends the loop. Those that stay go on while they are a quorum."""
        with self._lock:
            self._gone.add(owner)
            is_last = self._gone == set(self._enrolled)
        if is_last:
            self._loop.wind_down()
        elif self._loop.is_running:
            self._loop.submit(lambda household: household.close(owner)).result(CLOSE_TIMEOUT_S)

    def _found(self) -> _Household:
        with self._lock:
            self._is_founded = True
            [*quorums] = {one.write_quorum for one, _ in self._enrolled.values()} - {None}
            write_quorum = quorums[0] if quorums else None
            return _Household(self._enrolled, write_quorum, self._gone)


class _Household:
    """The members' nodes, on their loop."""

    def __init__(
        self, enrolled: dict[str, tuple[Enrolment, dict[str, Any]]], write_quorum: int | None, gone: set[str]
    ) -> None:
        network = InProcessNetwork()
        self._members: dict[str, Member] = {}
        for owner, (one, options) in enrolled.items():
            if owner not in gone:
                agreed = Enrolment(one.cluster, owner, one.file, one.source, write_quorum)
                self._members[owner] = Member(agreed, list(enrolled), network, **options)

    def member(self, owner: str) -> Member:
        member = self._members.get(owner)
        if member is None:
            raise Unavailable(f"{owner} was closed")
        return member

    async def close(self, owner: str) -> None:
        member = self._members.pop(owner, None)
        if member is not None:
            await member.close()

    async def close_all(self) -> None:
        for owner in list(self._members):
            await self.close(owner)


async def _closed(household: _Household) -> None:
    await household.close_all()


_companies: WeakKeyDictionary[LeaseSource, dict[str, Company]] = WeakKeyDictionary()
_companies_lock = threading.Lock()


def company_of(source: LeaseSource, cluster_key: str) -> Company:
    """The cluster of that key on that lease source; a new one when there is none."""
    with _companies_lock:
        return _companies.setdefault(source, {}).setdefault(cluster_key, Company(cluster_key))
