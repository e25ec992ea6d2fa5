"""What the simulator says when a promise of the protocol is broken."""

from __future__ import annotations


class Violation(AssertionError):
    """A rule of PROTOCOL is broken. `rule` names the invariant; the text names both states."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule
