"""Times and bounds of the core, in microseconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of PROTOCOL § 3. The time to live of the lease is not here: it is part of the logged configuration."""

    heartbeat_us: int = 100_000
    election_jitter_us: int = 200_000
    retry_us: int = 150_000
    probe_retry_us: int = 30_000
    candidacy_us: int = 1_200_000
    transfer_us: int = 600_000
    transfer_lag_limit: int = 10_000
    rinse_us: int = 300_000
    stall_us: int = 600_000
    append_bytes: int = 4 << 20
    tail_bytes: int = 16 << 20
    wall_skew_us: int = 60_000_000
    lease_reads: bool = False
    external_lease: bool = False

    @staticmethod
    def margin_us(ttl_us: int) -> int:
        """The drift margin: a tenth of the time to live, on both sides; it holds for clocks that differ by 9 %."""
        return ttl_us // 10
