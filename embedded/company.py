"""A cluster whose members are objects of one process: who they are, and the loop they share.

All objects that share a lease source and a cluster key are one cluster. It is founded when one of them is first used,
by those that were made until then. Later only a member that has its log already may come back: one member more is a
change of membership. When the last object is closed, the cluster is at rest, and may be opened again from its files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from ..client.blocking import Result
from ..memory.errors import Invalid, Unavailable
from .household import Household
from .member import Enrolment, Member
from .residence import CLOSE_TIMEOUT_S, Residence

AtMember = Callable[[Member], Coroutine[Any, Any, Result]]


@dataclass(slots=True)
class Seat:
    """A member, whether its node is open or not, and how many objects use it."""

    enrolment: Enrolment
    users: int = 1


class Company:
    """The members of one cluster in this process. Safe over threads."""

    def __init__(self, cluster_key: str) -> None:
        self._cluster_key = cluster_key
        self._lock = threading.RLock()
        self._seats: dict[str, Seat] = {}
        self._founders: frozenset[str] = frozenset()
        self._loop: Residence[Household] = Residence(self._household, _closed, CLOSE_TIMEOUT_S)

    # --- who is there ---

    def enrol(self, enrolment: Enrolment, *, shared: bool = False) -> None:
        """One more member; with `shared`, or one more object for a member. Raises `Invalid` when it cannot be one."""
        with self._lock:
            seat = self._seats.get(enrolment.owner)
            if seat is not None and shared:
                if enrolment.embedder not in ("", seat.enrolment.embedder):
                    raise Invalid(
                        "embedder", f"this memory is open already, with {seat.enrolment.embedder or 'its own'}"
                    )
                seat.users += 1
                return
            self._require_room_for(enrolment)
            self._seats[enrolment.owner] = Seat(enrolment)
            if self._loop.is_running:
                self._loop.submit(lambda household: household.opened(enrolment))

    def _require_room_for(self, enrolment: Enrolment) -> None:
        owner, members = enrolment.owner, ", ".join(self._founders)
        if owner in self._seats:
            raise Invalid("owner", f"{owner} is a member of {self._cluster_key} already")
        if self._founders and owner not in self._founders and not enrolment.has_log:
            raise Invalid("owner", f"{self._cluster_key} is in use already, by {members}; make all members first")
        if len(self._write_quorums | {enrolment.write_quorum} - {None}) > 1:
            raise Invalid("write_quorum", f"the members of {self._cluster_key} were given different ones")

    @property
    def _write_quorums(self) -> set[int | None]:
        return {seat.enrolment.write_quorum for seat in self._seats.values()} - {None}

    def leave(self, owner: str, *, hand_over: bool = True) -> None:
        """One object less. The last one of a member closes it, the last member ends the loop.

        With `hand_over`, a leader gives leadership and lease to another member first; without, it ends as in a crash.
        """
        with self._lock:
            seat = self._seats.get(owner)
            if seat is None:
                return
            seat.users -= 1
            if seat.users:
                return
            del self._seats[owner]
            is_last = not self._seats
            self._founders = frozenset() if is_last else self._founders
        if is_last:
            self._loop.wind_down()
        elif self._loop.is_running:
            self._loop.submit(lambda household: household.close(owner, hand_over)).result(CLOSE_TIMEOUT_S)

    # --- what they are asked ---

    def submit(self, owner: str, work: AtMember[Result]) -> Future[Result]:
        """Run `work` on the member of that owner; the first call opens all members. Raises `Unavailable`."""
        with self._lock:
            seat = self._seats.get(owner)
        if seat is None:
            raise Unavailable(f"{owner} of {self._cluster_key} was closed")

        async def at_member(household: Household) -> Result:
            return await work(await household.opened(seat.enrolment))

        return self._loop.submit(at_member)

    def _household(self) -> Household:
        with self._lock:
            enrolments = [seat.enrolment for seat in self._seats.values()]
            [*given] = self._write_quorums
            write_quorum = given[0] if given else None
            if write_quorum is not None and write_quorum > len(enrolments) and not any(e.has_log for e in enrolments):
                raise Invalid("write_quorum", f"{write_quorum} of {len(enrolments)} members")
            self._founders = frozenset(self._seats)
        return Household(enrolments, write_quorum)


async def _closed(household: Household) -> None:
    await household.close_all()


_companies: WeakValueDictionary[Hashable, Company] = WeakValueDictionary()
_companies_lock = threading.Lock()


def company_of(place: Hashable, cluster_key: str) -> Company:
    """The cluster of that key at `place`, a lease source or a file; a new one when there is none in this process."""
    with _companies_lock:
        company = _companies.get((place, cluster_key))
        if company is None:
            company = _companies[(place, cluster_key)] = Company(cluster_key)
        return company


# A child begins without companies: what is open belongs to its parent.
os.register_at_fork(after_in_child=_companies.clear)


def leave_later(company: Company, owner: str) -> None:
    """For an object that nobody refers to any more: on a thread, for it may be found out anywhere."""
    with suppress(RuntimeError):  # no more threads: the interpreter is ending
        threading.Thread(target=company.leave, args=(owner,), name="veridical-close", daemon=True).start()
