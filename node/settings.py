"""What a node can be told: names, places, peers, timings and limits. One class for flags, files and environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..embedding.choice import checked_name
from ..log.entry import COMMAND_BYTES_LIMIT, COMMANDS_PER_ENVELOPE_LIMIT, ENVELOPE_BYTES_LIMIT
from ..replication.settings import Settings as CoreSettings
from .identity import Places

MILLISECOND_US = 1000
SECOND_US = 1_000_000


class Timings(BaseModel):
    """How long things take. `lease_ttl_ms` counts at founding only; afterwards the logged configuration says it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heartbeat_ms: int = Field(default=100, ge=5, le=10_000)
    lease_ttl_ms: int = Field(default=600, ge=20, le=60_000)
    election_jitter_ms: int = Field(default=200, ge=1, le=10_000)
    disk_timeout_ms: int = Field(default=10_000, ge=100)
    """A write that has not returned by then ends the process (*lease-follows-progress*)."""
    readmit_after_ms: int = Field(default=3000, ge=0, le=3_600_000)
    """How long a voter is silent before the leader asks whether its node came back without its data; 0: never."""
    linger_min_ms: float = Field(default=2, ge=0, le=100)
    linger_max_ms: float = Field(default=10, ge=0, le=1000)
    simulated_fsync_ms: float = Field(default=0, ge=0, le=1000)
    """For measurements: every durable write takes this much longer, as on a slower disk."""

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> Timings:
        if self.lease_ttl_ms < 3 * self.heartbeat_ms:
            raise ValueError("lease_ttl_ms must be at least three heartbeats")
        return self


class Limits(BaseModel):
    """Every queue and every size has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command_bytes: int = Field(default=COMMAND_BYTES_LIMIT, ge=1024, le=COMMAND_BYTES_LIMIT)
    envelope_bytes: int = Field(default=ENVELOPE_BYTES_LIMIT, ge=1024, le=ENVELOPE_BYTES_LIMIT)
    envelope_commands: int = Field(default=COMMANDS_PER_ENVELOPE_LIMIT, ge=1, le=COMMANDS_PER_ENVELOPE_LIMIT)
    waiting_commands: int = Field(default=20_000, ge=1)
    """Commands that a node has in hand, from arrival to answer; beyond, callers are asked to retry."""
    waiting_bytes: int = Field(default=64 << 20, ge=1 << 20)
    principal_commands_per_s: float = Field(default=0, ge=0)
    """What one principal may write in a second on average (`rates.py`), counted by the leader; 0: no bound. Whoever
    writes more is asked to retry later. Those without a key share one bound."""
    principal_bytes_per_s: float = Field(default=0, ge=0)
    batch_commands: int = Field(default=1024, ge=1)
    """Commands decided and replicated in one round."""
    batch_bytes: int = Field(default=4 << 20, ge=1 << 16)
    apply_lag_commands: int = Field(default=8000, ge=1)
    """No round begins while this many committed commands wait to be folded, here or on too many voters."""
    waiting_reads: int = Field(default=4096, ge=1)
    reader_threads: int = Field(default=2, ge=1, le=64)
    verifier_threads: int = Field(default=2, ge=1, le=64)
    tail_bytes: int = Field(default=16 << 20, ge=1 << 16)
    """How much of the newest log is kept in memory for followers and the fold."""
    disk_reserve_bytes: int = Field(default=64 << 20, ge=0)
    """Free space under which a node counts its disk as full."""


class Upkeep(BaseModel):
    """How a node looks after its own files, and compares its state with the others'."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    compare_s: float = Field(default=60, ge=0, le=86_400)
    """How often the state's digests are compared with every other member's; 0: only when asked."""
    scrub_rows_per_s: int = Field(default=500, ge=0, le=1_000_000)
    """How many rows and entries a second are looked at again; 0: only when asked. Whatever
    it says, at most a two-hundredth of a core is used, and no pass begins in the five minutes after another."""
    refetch_s: float = Field(default=5, gt=0, le=3600)
    """How long a node with a damaged log waits before it asks the others again for what it lacks."""


class Settings(BaseModel):
    """One node. `peers` names every first member, this one included, with its endpoint (host:port)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="n1", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    cluster: str = Field(default="veridical", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    data: Path | None = None
    """The data directory; None keeps everything in memory, and it ends with the process."""
    file: Path | None = None
    """For a memory in a program's own process, instead of `data`: the log's file, with all other files beside it."""
    endpoint: str = "127.0.0.1:7400"
    """Where the other members and clients reach this node."""
    peers: dict[str, str] = Field(default_factory=dict)
    write_quorum: int | None = None
    lease_reads: bool = False
    """Lease reads rest on clocks that run at about the same speed (PROTOCOL § 3); else they are strong reads."""
    external_lease: bool = False
    """Whether a lease source outside decides who may try to lead; `Node.may_try` passes on what it says."""
    embedder: str = ""
    """Who makes the vectors that recall goes by beside words: `lexical` (nobody), `hash`, `local` or `openai`, the
    same on all nodes. Empty: whoever made those that are there. Another one than that is refused; see
    `veridical reembed`."""
    runner_key: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """The public key of the store's own runner, the same for all nodes; empty: as `runner.RunnerKey` finds it."""
    timings: Timings = Timings()
    limits: Limits = Limits()
    upkeep: Upkeep = Upkeep()

    @model_validator(mode="after")
    def _name_is_a_peer(self) -> Settings:
        if self.peers and self.name not in self.peers:
            raise ValueError(f"peers must name this node too: {self.name} is not among {sorted(self.peers)}")
        return self

    @field_validator("embedder")
    @classmethod
    def _is_embedder(cls, name: str) -> str:
        return checked_name(name)

    @property
    def places(self) -> Places | None:
        """Where the files lie; None for a node without files."""
        if self.file is not None:
            return Places.beside(self.file)
        return None if self.data is None else Places.inside(self.data)

    @property
    def core(self) -> CoreSettings:
        """Timings and bounds as the replication core wants them."""
        timings, ttl_us = self.timings, self.timings.lease_ttl_ms * MILLISECOND_US
        return CoreSettings(
            heartbeat_us=timings.heartbeat_ms * MILLISECOND_US,
            election_jitter_us=timings.election_jitter_ms * MILLISECOND_US,
            retry_us=ttl_us // 4,
            candidacy_us=2 * ttl_us,
            transfer_us=ttl_us,
            rinse_us=ttl_us // 2,
            stall_us=ttl_us,
            append_bytes=self.limits.batch_bytes,
            tail_bytes=self.limits.tail_bytes,
            lease_reads=self.lease_reads,
            external_lease=self.external_lease,
        )
