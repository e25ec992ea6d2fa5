"""Profiles: which faults strike how often, on what cluster. Some mistakes only show under a diet of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..log.configuration import LEASE_TTL_MS
from ..replication.messages import ReadMode
from .world import MILLISECOND, SECOND

EVERY_MODE = (ReadMode.STRONG, ReadMode.QUORUM, ReadMode.LEASE, ReadMode.SESSION, ReadMode.LOCAL)
WITHOUT_LEASE = (ReadMode.STRONG, ReadMode.QUORUM, ReadMode.SESSION, ReadMode.LOCAL)

CRASHES = {
    "crash": 3, "crash between effects": 4, "power cut": 1, "torn write": 2, "lost projection": 1,
}  # fmt: skip
NETWORK = {
    "leader cut off": 3, "split": 2, "one-way partition": 3, "lossy network": 2, "doubling network": 1,
    "reordering network": 2,
    "delaying network": 2, "slow link": 1, "forged history": 1,
}  # fmt: skip
PAUSES = {"pause": 2, "leader paused beyond its lease": 3, "pause between effects": 2, "slow fold": 1}
DISKS = {
    "slow disk": 2,
    "stalled disk": 2,
    "full disk": 2,
    "bit rot": 2,
    "wiped disk": 1,
    "older disk": 1,
    "log older than its projection": 1,
    "full disk at a cut": 1,
}
CLOCKS = {"clock rate": 2, "wall clock step": 2}
ELECTIONS = {"election storm": 2, "transfer": 2}
MEMBERSHIP = {"member added": 1, "member removed": 1, "member added while it lags": 1}


@dataclass(frozen=True, slots=True)
class Profile:
    """`weights` says how often each fault is chosen; `pace_us` how long it takes until the next one.

    Clients read with the share `reading`, and then ask the node that they take for the leader with the share `loyalty`;
    so many of them as `readers` says never write.
    """

    name: str
    weights: Mapping[str, int]
    size: int = 3
    write_quorum: int | None = None
    first_fault_us: int = 1_500 * MILLISECOND
    chaos_us: int = 20 * SECOND
    pace_us: tuple[int, int] = (300 * MILLISECOND, 1_400 * MILLISECOND)
    rate_ppm: int = 10_000
    modes: tuple[ReadMode, ...] = EVERY_MODE
    clients: int = 6
    reading: float = 0.45
    loyalty: float = 0.4
    readers: int = 0
    drill: bool = False
    lease_ttl_ms: int = LEASE_TTL_MS
    settings: Mapping[str, int | bool] = field(default_factory=dict[str, int | bool])


EVERYTHING = CRASHES | NETWORK | PAUSES | DISKS | CLOCKS | ELECTIONS | MEMBERSHIP

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("everything", EVERYTHING),
        Profile("five", EVERYTHING, size=5),
        Profile("founding", CRASHES | NETWORK, first_fault_us=20 * MILLISECOND,
                pace_us=(30 * MILLISECOND, 1_000 * MILLISECOND)),
        Profile("crashes", CRASHES | {"transfer": 1, "lossy network": 1}),
        Profile("network", NETWORK | {"crash": 1, "transfer": 1}),
        Profile("disks", DISKS | {"crash": 2, "leader cut off": 1, "torn write": 1}),
        Profile("clocks", CLOCKS | PAUSES | {"leader cut off": 3, "one-way partition": 2}, rate_ppm=90_000),
        # One entry a round and leaders that come and go: old entries spread while the epoch's own one does not.
        Profile("storm", {"new leaders cut off": 12, "election storm": 2, "transfer": 1, "crash between effects": 1,
                          "one-way partition": 1, "lossy network": 1, "delaying network": 2, "slow fold": 2},
                pace_us=(400 * MILLISECOND, 1_200 * MILLISECOND), lease_ttl_ms=150, clients=9,
                settings={"append_bytes": 1, "heartbeat_us": 30_000, "election_jitter_us": 60_000}),
        # Candidates that meet each other, and acceptors that forget what they granted a moment ago.
        Profile("duels", {"crash after a grant": 5, "delaying network": 1, "leader cut off": 1},
                pace_us=(800 * MILLISECOND, 1_600 * MILLISECOND), rate_ppm=0, modes=WITHOUT_LEASE,
                settings={"election_jitter_us": 8_000}),
        # Elections while what a leader has sent is still on its way to a disk.
        Profile("slow grants", {"leader paused with writes under way": 6, "slow disk": 1, "transfer": 1},
                pace_us=(1_100 * MILLISECOND, 1_800 * MILLISECOND)),
        Profile("membership", MEMBERSHIP | {"wiped disk": 1, "crash": 2, "leader cut off": 2, "split": 1,
                                            "transfer": 1}),
        # Old members miss a change of the membership and try to lead.
        Profile("laggards", {"member added": 4, "old members miss a change": 5, "member removed": 3,
                             "leader cut off": 1, "crash": 1}),
        Profile("wide", NETWORK | CRASHES, size=4, write_quorum=2),
        # Clocks as far apart as is allowed, and elections as soon as a lease may have ended.
        Profile("leases", {"clocks apart": 7, "leader paused and cut off": 2, "slow link": 1, "leader cut off": 1,
                           "leader cut off in transfer": 6, "followers restart": 3},
                pace_us=(1_200 * MILLISECOND, 2_000 * MILLISECOND), rate_ppm=99_000,
                modes=(*6 * (ReadMode.LEASE,), ReadMode.STRONG, ReadMode.QUORUM), clients=9, readers=5, loyalty=0.8,
                settings={"election_jitter_us": 10_000, "probe_retry_us": 5_000}),
        Profile("wipes", {"wiped disk": 2, "wiped disk while another lags": 4, "older disk": 3, "leader cut off": 1,
                          "crash": 1},
                settings={"append_bytes": 1}),
        # Answers to a process that died reach the next one.
        Profile("echoes", {"restarts behind a slow link": 6, "leader cut off": 1, "transfer": 1},
                pace_us=(1_200 * MILLISECOND, 1_900 * MILLISECOND), modes=(ReadMode.QUORUM, ReadMode.STRONG),
                clients=9, readers=6, loyalty=0.1),
        # Two members that have been outvoted hold a change that nobody else ever saw.
        Profile("rifts", {"change that nobody takes over": 8, "leader removes itself apart": 2, "crash": 2,
                          "transfer": 1},
                size=4,
                pace_us=(1_800 * MILLISECOND, 2_600 * MILLISECOND),
                modes=(*4 * (ReadMode.QUORUM,), ReadMode.STRONG, ReadMode.SESSION), clients=9, readers=5, loyalty=0.1),
        Profile("suspended", CRASHES | {"machine suspended": 4, "leader cut off": 2}, modes=WITHOUT_LEASE),
        Profile("drill", CRASHES | NETWORK, chaos_us=13 * SECOND, drill=True),
    )
}  # fmt: skip


def profile_of(seed: int) -> Profile:
    """The profile that a seed runs under when none is named."""
    profiles = list(PROFILES.values())
    return profiles[seed % len(profiles)]
