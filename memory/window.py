"""The command window: what makes a command happen once, however often it is sent (PROTOCOL § 6, *exactly once*).

Ids are forgotten by their own time, never by chance: an id older than the window's start is refused, so that forgetting
it cannot make it run again. The start moves with log time, and faster when the window is full; it never moves back. To
bound the count without asking a store for the oldest ids, arrivals are counted in segments: dropping the oldest segment
moves the start to the log time at which that segment was full.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .lifecycle import DAY_US

WINDOW_DEFAULT_US: Final = 7 * DAY_US
WINDOW_COUNT_DEFAULT: Final = 1_000_000
AHEAD_US_LIMIT: Final = 300_000_000
SEGMENTS: Final = 16

_STEP_US: Final = 60_000_000  # the start moves in whole minutes, so that stores drop old ids once a minute


class Window(NamedTuple):
    """The command window: ids of before `start_us` are forgotten and never executed again.

    `segments` are `(closed_at_us, ids)` in order of arrival, the last one open; they bound the window in count.
    """

    start_us: int = 0
    segments: tuple[tuple[int, int], ...] = ()


def command_time_us(id: bytes) -> int | None:
    """When a command id says it was made, or None when it is no UUID of version 7."""
    if len(id) != 16 or id[6] >> 4 != 7 or id[8] >> 6 != 2:
        return None
    return int.from_bytes(id[:6], "big") * 1000


def first_id(start_us: int) -> bytes:
    """The smallest id that a window starting then still remembers: a store drops all ids below it."""
    return (-(-start_us // 1000)).to_bytes(6, "big") + bytes(10)


def advanced(window: Window, time_us: int, arrivals: int, span_us: int, count_limit: int) -> Window:
    """The window after an entry of that time in which so many ids were seen for the first time."""
    start_us = max(window.start_us, (time_us - span_us) // _STEP_US * _STEP_US)
    *closed, (_, filling) = window.segments or ((0, 0),)
    closed = [segment for segment in closed if segment[0] >= start_us]
    filling += arrivals
    if filling >= max(1, count_limit // SEGMENTS):
        closed.append((time_us, filling))
        filling = 0
    remembered = filling + sum(count for _, count in closed)
    while remembered > count_limit and closed:
        full_at_us, count = closed.pop(0)
        start_us = max(start_us, full_at_us)
        remembered -= count
    return Window(start_us, (*closed, (0, filling)))
