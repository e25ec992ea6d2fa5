"""Errors, split by what the caller can do. Each carries data; a node maps each to one status code of the wire.

Retry           try again here, after `retry_after_s`
NotLeader       try again at `leader`
OutcomeUnknown  ask again with the same command id: it may have happened
Refused         a rule stands against it: `rule` says which
Invalid         the request itself is wrong; `TooLarge` says by how much
Conflict        the command id was used for another command
Unavailable     too few nodes answered: `who` did not
Compacted       the history before `first_index` is not held here any more: begin there, or ask for the state
HistoryChanged  the cursor is of another history than `history`: begin anew
Bug             a broken invariant: report it
"""

from __future__ import annotations

from collections.abc import Sequence


class VeridicalError(Exception):
    """The root of all errors that this product raises on purpose."""


class Retry(VeridicalError):
    """Nothing happened, and the same call may succeed here. Wait `retry_after_s` seconds before it."""

    def __init__(self, reason: str, retry_after_s: float = 0.05) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class NotLeader(VeridicalError):
    """Nothing happened: this node does not lead. `leader` is the endpoint to ask, or None while nobody is known to."""

    def __init__(self, leader: str | None = None) -> None:
        super().__init__(f"not the leader; the leader is {leader or 'not known'}")
        self.leader = leader


class OutcomeUnknown(VeridicalError):
    """The command may or may not have happened. Send it again with the same `command_id` (hex) to learn which."""

    def __init__(self, command_id: str, reason: str = "no answer in time") -> None:
        super().__init__(f"outcome of command {command_id} is unknown: {reason}")
        self.command_id = command_id
        self.reason = reason


class Refused(VeridicalError):
    """A rule stands against the command; repeating it changes nothing. `rule` is a name, `reason` a sentence."""

    def __init__(self, rule: str, reason: str = "") -> None:
        super().__init__(f"{rule}: {reason}" if reason else rule)
        self.rule = rule
        self.reason = reason


class Invalid(VeridicalError, ValueError):
    """The request is wrong in itself: correct it. `field` names what is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class TooLarge(Invalid):
    """`field` is over its limit: `size` and `limit` in the same unit. Nothing was shortened, nothing was stored."""

    def __init__(self, field: str, size: int, limit: int, unit: str = "bytes") -> None:
        super().__init__(field, f"{size} {unit} exceed the limit of {limit}")
        self.size = size
        self.limit = limit
        self.unit = unit


class Conflict(VeridicalError):
    """The command id was already used for another command; make a new id."""

    def __init__(self, command_id: str) -> None:
        super().__init__(f"command id {command_id} was used for another command")
        self.command_id = command_id


class Unavailable(VeridicalError):
    """The promise of the call could not be kept in time. `who` names the members that did not answer."""

    def __init__(self, reason: str, who: Sequence[str] = ()) -> None:
        silent = f" (no answer from {', '.join(who)})" if who else ""
        super().__init__(reason + silent)
        self.reason = reason
        self.who = tuple(who)


class Compacted(VeridicalError):
    """The log of this node begins at `first_index`, behind where a feed was to begin: go on there, and read what is
    held for what lies before it. Another node may hold more.
    """

    def __init__(self, first_index: int) -> None:
        super().__init__(f"this node's log begins at entry {first_index}")
        self.first_index = first_index


class HistoryChanged(VeridicalError):
    """The cursor belongs to another history; what is here now is `history`. Nothing that was seen need be true here:
    begin anew.
    """

    def __init__(self, history: str) -> None:
        super().__init__(f"the cursor is of another history; this one is {history}")
        self.history = history


class Bug(VeridicalError):
    """An invariant is broken, or history holds something that this version cannot read. The node stops."""
