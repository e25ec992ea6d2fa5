"""Was there an order? The search of Wing and Gong with Lowe's memo, over the history of one register.

A history is linearizable when its operations can be put in one order that respects real time (an operation that ended
before another began comes first) and in which every answer is the one that a single register would have given. The
search walks the history: it linearizes any operation that is not preceded by the end of another, remembers every pair
(set of linearized operations, value of the register) that it has seen, and turns back where it meets one again.

G. Lowe, "Testing for linearizability", 2017; J. Wing and C. Gong, "Testing and verifying concurrent objects", 1993.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one client: a write of `value`, or a read that returned `value`, between two true times.

    `ended_us` is `FOREVER` for a write whose answer never came: it may have happened at any time after it began.
    """

    is_write: bool
    value: str | None
    began_us: int
    ended_us: int = FOREVER


class _Event:
    """A place in the doubly linked list of beginnings and ends that the search takes operations out of."""

    __slots__ = ("after", "before", "end", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.end: _Event | None = None
        self.before: _Event = self
        self.after: _Event | None = None


def is_linearizable(history: Sequence[Operation], initial: str | None = None) -> bool:
    """Whether one register, starting at `initial`, could have given these answers."""
    head = _linked(history)
    seen: set[tuple[int, str | None]] = set()
    taken: list[tuple[_Event, str | None]] = []
    done, value, event = 0, initial, head.after
    while head.after is not None:
        assert event is not None, "an end always precedes the end of the list"
        if event.end is not None:
            operation = history[event.number]
            follows, fits = (operation.value, True) if operation.is_write else (value, operation.value == value)
            state = (done | 1 << event.number, follows)
            if fits and state not in seen:
                seen.add(state)
                taken.append((event, value))
                done, value = state
                _lift(event)
                event = head.after
            else:
                event = event.after
            continue
        if history[event.number].ended_us == FOREVER:
            return True  # all that is left are writes without an answer: they need not have happened
        if not taken:
            return False
        event, value = taken.pop()
        done &= ~(1 << event.number)
        _unlift(event)
        event = event.after
    return True


def _linked(history: Sequence[Operation]) -> _Event:
    moments: list[tuple[int, int, int]] = []
    for number, operation in enumerate(history):
        moments.append((operation.began_us, 0, number))
        moments.append((operation.ended_us, 1, number))
    begins: dict[int, _Event] = {}
    head = last = _Event(-1)
    for _, is_end, number in sorted(moments):
        event = _Event(number)
        if is_end:
            begins[number].end = event
        else:
            begins[number] = event
        event.before, last.after = last, event
        last = event
    return head


def _lift(begin: _Event) -> None:
    for event in (begin, begin.end):
        assert event is not None
        event.before.after = event.after
        if event.after is not None:
            event.after.before = event.before


def _unlift(begin: _Event) -> None:
    for event in (begin.end, begin):
        assert event is not None
        event.before.after = event
        if event.after is not None:
            event.after.before = event
