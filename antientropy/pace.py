"""How fast a background pass may go: so many rows a second, and never more than a small share of a core."""

from __future__ import annotations

from typing import Final

SECOND_US: Final = 1_000_000
CORE_SHARE_LIMIT: Final = 0.005
"""Whatever the rate says, a pass works at most this part of the time."""

SNAPSHOT_SHARE_LIMIT: Final = 0.1
"""The same while a snapshot is held, which the writer may take away when it is held for too long."""

ROWS_A_STEP_MIN: Final = 8
"""A step over nothing costs something too: it counts as so many rows."""


class Pace:
    """`rows_per_s` is the rate; 0 means that there is no hurry to be held back, and no pause at all."""

    def __init__(self, rows_per_s: int) -> None:
        self.rows_per_s = rows_per_s

    def pause_us(self, rows: int, took_us: int) -> int:
        """How long to rest after a step over so many rows that took so long."""
        if not self.rows_per_s:
            return 0
        due_us = max(rows, ROWS_A_STEP_MIN) * SECOND_US // self.rows_per_s
        return max(due_us, int(took_us / CORE_SHARE_LIMIT)) - took_us

    def pause_in_snapshot_us(self, took_us: int) -> int:
        """How long to rest after that much work of a step that goes on in the same snapshot."""
        return int(took_us / SNAPSHOT_SHARE_LIMIT) - took_us if self.rows_per_s else 0
