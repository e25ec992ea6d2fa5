"""What simulated clients say to simulated nodes, and what they hear back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..log.entry import Envelope, Position
from ..memory.machine import Outcome
from ..replication.messages import ReadMode


class Submission(NamedTuple):
    """A signed envelope on its way to the leader, its bodies beside it."""

    envelope: Envelope
    signature: bytes
    bodies: tuple[bytes, ...]

    @property
    def command_ids(self) -> tuple[bytes, ...]:
        """Ids of its commands, in order."""
        return tuple(head.id for head in self.envelope.commands)


@dataclass(frozen=True, slots=True)
class Query:
    """Read one record. `min_index` is the session's last seen index; `timeout_us` is a length, not a moment."""

    mode: ReadMode
    record_id: bytes
    timeout_us: int
    min_index: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """Committed and applied: one outcome a command; all of them stand in the log at or before `index`."""

    outcomes: tuple[Outcome, ...]
    index: int


@dataclass(frozen=True, slots=True)
class Value:
    """What a node answered from its state at `position`."""

    text: str | None
    position: Position
    member: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """This node does not lead; `leader` may. The request left no trace here."""

    leader: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node stopped leading with the request under way: it may or may not come to be."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A read that cannot keep its promise, and why."""

    reason: str


Reply = Written | Value | Elsewhere | Unknown | Unanswered
Answer = Callable[[Reply], None]
