"""What must happen in a full run: every fault strikes, every named rule of the core fires, every check has work."""

from __future__ import annotations

from .profiles import PROFILES

EXPECTED_FAULTS = sorted({
    *(name for profile in PROFILES.values() for name in profile.weights),
    "messages lost", "messages doubled", "messages reordered", "messages delayed", "messages severed",
    "messages forged", "transfer done", "transfer refused or failed", "damaged entry refetched",
    "damage found while running", "older disk noticed",
    "watchdog ended a process", "membership: learner", "membership: voter", "membership: gone",
})  # fmt: skip

EXPECTED_CHECKS = (
    "bodies destroyed",
    "bodies looked for",
    "derived values held",
    "reads behind an erasure",
    "records erased",
    "states compared",
    "states without their texts",
    "values fallen with their source",
)

# A candidate outside of the configuration is turned away by probes already: "refused-member" may or may not fire.
EXPECTED_RULES = (
    "adopt-the-best",
    "ask-before-taking-part",
    "chain-check",
    "configuration-of-the-highest",
    "cut-uncommitted-only",
    "damage-is-not-truncation",
    "decided-in-another-epoch",
    "disk-full",
    "drop-grant",
    "fence",
    "founding",
    "handover",
    "late-completion",
    "late-fetch",
    "late-reply",
    "leader-elected",
    "lease-follows-progress",
    "older-disk",
    "overlapping-change",
    "prefix-check",
    "probe-first",
    "promise-before-append",
    "promise-before-grant",
    "quorum-contact",
    "quorum-read",
    "read-index",
    "refused-damaged",
    "refused-epoch",
    "refused-founding",
    "refused-held",
    "refused-waiting",
    "release",
    "rinse",
    "seal-check",
    "search-by-hash",
    "transfer-drops-the-lease",
)
