"""What a leader knows of one follower: how far its log is known to be equal, and what is in flight to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """`match` is what counts. Between `low` (known equal) and `high` (may differ behind it) equality is searched for.

    `round` is the append in flight, 0 for none.
    """

    low: int
    high: int
    match: int = 0
    round: int = 0
    sent_at_us: int = 0
    reading: bool = False
    applied_index: int = 0
    commit_sent: int = 0

    @property
    def is_found(self) -> bool:
        """Whether the end of the common prefix is known."""
        return self.low >= self.high

    @property
    def probe_index(self) -> int:
        """Where to build the next append on: the common end, or the middle of where it may be."""
        return self.low if self.is_found else (self.low + self.high + 1) // 2

    def matched(self, up_to: int) -> None:
        """The logs are equal up to `up_to`."""
        self.low = max(self.low, up_to)
        self.high = max(self.high, self.low)

    def differed(self, at: int, commit_index: int, last_index: int) -> None:
        """The logs differ at `at`; the follower has `commit_index` for certain and ends at `last_index`."""
        known_equal = self.low if self.low < at else 0  # where the search began was a guess
        self.low = max(known_equal, min(commit_index, at - 1))
        self.high = max(self.low, min(at - 1, last_index))

    def agree_from(self, index: int) -> None:
        """Give up the search and start behind `index`, which is committed there and so equal."""
        self.low = self.high = index

    def answered(self, round: int) -> None:
        """The append of that round was answered, or an older one was."""
        if round >= self.round:
            self.round = 0
