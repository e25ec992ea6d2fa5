"""What must happen in a full run: every fault strikes and every named rule of the core fires at least once."""

from __future__ import annotations

from .profiles import PROFILES

EXPECTED_FAULTS = sorted({
    *(name for profile in PROFILES.values() for name in profile.weights),
    "messages lost", "messages doubled", "messages reordered", "messages delayed", "messages severed",
    "transfer done", "transfer refused or failed", "damaged entry refetched", "damage found while running",
    "watchdog ended a process", "membership: learner", "membership: voter", "membership: gone",
})  # fmt: skip

EXPECTED_RULES: tuple[str, ...] = ()
