"""Calls under way: what waits to leave, what shares an envelope, and what is known of each when its time is up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..memory.errors import OutcomeUnknown, Unavailable, VeridicalError
from ..proto.submissions import Dispatch
from ..security.principal import Principal
from .answers import Answer
from .envelope import COMMANDS_LIMIT, ENVELOPE_BYTES_LIMIT, Command


@dataclass(slots=True, eq=False)
class Call:
    """Commands that go in one envelope, in order, and who waits for them. `deadline` is in the loop's time.

    `alone`: it shares its envelope with no other call. `delivered`: an earlier attempt may have arrived, and what
    became of it is not known. `dispatch` is the attempt under way, `failures` counts those before it.
    """

    commands: Sequence[Command]
    principal: Principal | None
    deadline: float
    size_bytes: int
    future: asyncio.Future[list[Answer]]
    alone: bool = False
    delivered: bool = False
    dispatch: Dispatch | None = None
    failures: int = 0
    last_error: VeridicalError | None = None

    @property
    def may_have_arrived(self) -> bool:
        """Whether a node may have its commands, for all that is known here."""
        return self.delivered or (self.dispatch is not None and self.dispatch.sent)

    def fail(self, error: Exception) -> None:
        """End it in an error, unless it has ended already."""
        if not self.future.done():
            self.future.set_exception(error)

    def expired(self, silent: Sequence[str]) -> VeridicalError:
        """The error of a call whose deadline has passed: what is known is said, and nothing else."""
        error: VeridicalError
        if self.may_have_arrived:
            error = OutcomeUnknown(self.commands[0].id.hex())
        elif isinstance(self.last_error, Unavailable):
            return self.last_error
        else:
            error = Unavailable(str(self.last_error or "no node took it in time"), silent)
        error.__cause__ = self.last_error
        return error

    def closed(self) -> VeridicalError:
        """The error of a call whose client is closed."""
        if self.may_have_arrived:
            return OutcomeUnknown(self.commands[0].id.hex(), "the client was closed")
        return Unavailable("the client was closed")


@dataclass(slots=True, eq=False)
class Batch:
    """Calls that share one envelope. `count` counts their commands, `departed_at` is when they left (loop time)."""

    principal: Principal | None
    calls: list[Call] = field(default_factory=list[Call])
    count: int = 0
    size_bytes: int = 0
    departed_at: float = 0.0

    def takes(self, call: Call) -> bool:
        """Whether the call fits in."""
        if not self.calls:
            return True
        return (
            call.principal is self.principal
            and not call.alone
            and not self.calls[0].alone
            and self.count + len(call.commands) <= COMMANDS_LIMIT
            and self.size_bytes + call.size_bytes <= ENVELOPE_BYTES_LIMIT
        )

    def add(self, call: Call) -> None:
        """Take the call in."""
        self.calls.append(call)
        self.count += len(call.commands)
        self.size_bytes += call.size_bytes

    @property
    def commands(self) -> list[Command]:
        """The commands of all calls, in order."""
        return [command for call in self.calls for command in call.commands]

    @property
    def deadline(self) -> float:
        """When nobody waits any more."""
        return max(call.deadline for call in self.calls)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits."""
        return any(not call.future.done() for call in self.calls)

    def mark_delivered(self) -> None:
        """It may have arrived, and what became of it is not known."""
        for call in self.calls:
            call.delivered = True


class WaitingCalls:
    """Calls that have not left yet, in the order in which they came. `since` when, in the loop's time."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self.since = 0.0
        self.commands = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def fill_an_envelope(self) -> bool:
        """Whether more would not go in."""
        return self.commands >= COMMANDS_LIMIT or self.size_bytes >= ENVELOPE_BYTES_LIMIT

    def add(self, call: Call, now: float) -> None:
        """One more waits."""
        if not self._calls:
            self.since = now
        self._calls.append(call)
        self.commands += len(call.commands)
        self.size_bytes += call.size_bytes

    def batch(self) -> Batch:
        """The next envelope: those that came first and go together. Who has given up is left out."""
        batch = Batch(self._calls[0].principal)
        while self._calls and batch.takes(self._calls[0]):
            call = self._calls.popleft()
            self.commands -= len(call.commands)
            self.size_bytes -= call.size_bytes
            if not call.future.done():
                batch.add(call)
        return batch
