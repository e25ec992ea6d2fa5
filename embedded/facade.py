"""What `LocalMemory` and a `ReplicatedMemory` of this process have in common: the calls of one member of a company."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any
from weakref import finalize

from ..antientropy.standing import Standing
from ..client.blocking import BlockingMemory, Result, Work
from ..client.surface import AsyncMemory
from .company import Company, leave_later
from .member import Enrolment, Member, MemberMemory


class EmbeddedMemory(BlockingMemory):
    """A memory whose member is opened by its first call, and closed with the last object that uses it."""

    def __init__(self, timeout_s: float, options: dict[str, Any]) -> None:
        super().__init__(timeout_s, options.get("clock"), options.get("entropy"))
        given: dict[str, Any] = {"timeout_s": timeout_s, "clock": self._clock, "entropy": self._entropy}
        self._calls = MemberMemory(**options | given)
        self._end: finalize[[Company, str], Any] | None = None

    def look_after(self, *, run: bool, timeout_s: float | None = None) -> tuple[str, Standing]:
        """This member's name, and how its comparing, looking and repairing stand; with `run`, after doing all of it.

        Raises `Unavailable` when it cannot be done to its end.
        """

        def asked(memory: AsyncMemory, left: float) -> Coroutine[Any, Any, tuple[str, Standing]]:
            assert isinstance(memory, MemberMemory), "a memory of this process"
            return memory.look_after(run, left)

        return self._question(timeout_s, asked)

    def _join(self, company: Company, enrolment: Enrolment, *, shared: bool) -> None:
        """Become an object of that member; given up again by `_leave`, or when nobody refers to this object."""
        company.enrol(enrolment, shared=shared)
        self._end = finalize(self, leave_later, company, enrolment.owner)
        self._end.atexit = False  # an exit is a crash that nothing is lost in

    def _leave(self, *, hand_over: bool) -> None:
        end = self._end.detach() if self._end is not None else None
        if end is not None:
            _, _, (company, owner), _ = end
            company.leave(owner, hand_over=hand_over)

    def _submitted(self, company: Company, owner: str, work: Work[Result]) -> Future[Result]:
        def at_member(member: Member) -> Coroutine[Any, Any, Result]:
            return work(self._calls.at(member))

        return company.submit(owner, at_member)
