"""What the simulator says when a promise of the protocol is broken."""

from __future__ import annotations


class Violation(AssertionError):
    """A rule of PROTOCOL is broken. `rule` names the invariant; the text names both states."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


LIVENESS = frozenset({
    "a healed quorum makes progress",
    "a healthy cluster has a leader",
    "a healthy cluster settles",
    "a replica rests between ticks",
    "failover",
    "healed nodes converge",
    "lease-follows-progress",
    "probe-first",
    "quorum reads need no writes",
    "quorum-contact",
    "release",
    "transfer ends",
})  # fmt: skip
"""Rules that are broken by doing nothing, or too late, or too often; the others are broken by doing harm."""
