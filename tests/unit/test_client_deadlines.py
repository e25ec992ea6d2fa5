"""Many calls share few timers, and each of them still ends in time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from veridical.client.deadlines import TICK_S, Deadlines


@dataclass(eq=False)
class Item:
    deadline: float


@dataclass(eq=False)
class Timer:
    when: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The part of an event loop that tells the time, which passes as the test says."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, callback))
        return self.timers[-1]

    def pass_to(self, moment: float) -> None:
        """Let the time come, with every timer that is set until then."""
        while due := [timer for timer in self.live() if timer.when <= moment]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = timer.when
            timer.callback()
        self.now = moment

    def live(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.is_cancelled]


def watched() -> tuple[Loop, Deadlines[Item], list[Item]]:
    loop, late = Loop(), list[Item]()
    return loop, Deadlines[Item](cast(Any, loop), late.append), late


def test_each_ends_within_a_tick_of_its_deadline():
    """Never before it, and never much after; whichever was added first."""
    loop, deadlines, late = watched()
    items = [Item(105.0), Item(101.003), Item(101.0), Item(99.0)]
    for item in items:
        deadlines.add(item)
    ends: dict[float, float] = {}
    while len(late) < len(items):
        loop.pass_to(loop.now + 0.001)
        ends |= {item.deadline: loop.now for item in late if item.deadline not in ends}
    assert all(max(100.0, deadline) <= end <= max(100.0, deadline) + TICK_S + 0.002 for deadline, end in ends.items())


def test_a_thousand_calls_share_a_timer():
    """Deadlines lie close together, as time-outs are the same for most calls."""
    loop, deadlines, late = watched()
    for number in range(1000):
        deadlines.add(Item(105.0 + number / 1000))
    assert len(loop.live()) == 1
    loop.pass_to(107.0)
    assert len(late) == 1000
    assert loop.live() == []


def test_what_has_ended_is_held_no_longer():
    """It is never called late, and nothing is left of it once its timer has passed."""
    loop, deadlines, late = watched()
    item, other = Item(101.0), Item(102.0)
    deadlines.add(item)
    deadlines.add(other)
    deadlines.discard(item)
    loop.pass_to(101.5)
    assert late == []
    deadlines.discard(other)
    deadlines.discard(other)
    loop.pass_to(103.0)
    assert late == []
    assert loop.live() == []


def test_all_can_be_taken_back():
    """For the end of everything: who is left, and no timer."""
    loop, deadlines, late = watched()
    items = [Item(101.0), Item(102.0)]
    for item in items:
        deadlines.add(item)
    assert set(deadlines.take_all()) == set(items)
    assert loop.live() == []
    loop.pass_to(103.0)
    assert late == []
