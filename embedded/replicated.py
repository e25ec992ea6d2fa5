"""`ReplicatedMemory`: a memory in a cluster, in this process or, by `connect`, on nodes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

from ..client.blocking import BlockingMemory, Result, Work
from ..client.requests import Consistency, mode_of
from ..client.surface import TIMEOUT_S
from ..lease.sources import LeaseSource, QuorumLease
from ..memory.errors import Invalid
from .company import company_of
from .local import LocalMemory
from .member import Enrolment
from .places import member_path

if TYPE_CHECKING:
    from ..client import ConnectedMemory


class ReplicatedMemory(BlockingMemory):
    """One member of a cluster in this process, over the store of `memory`, which it takes over.

    All objects that share `leases` and `cluster_key` are one cluster, founded when one of them is first used by those
    that were made until then; `peers` may name them, and only says it. Every member is asked like the others: writes
    reach the leader, reads keep the promise of `read_consistency`. A store without a path lies under its cluster key
    and owner. `write_quorum` is how many members must hold a write, the majority unless it is given; 1 means that
    every election and every strong or quorum read needs all of them.
    """

    def __init__(
        self,
        memory: LocalMemory,
        *,
        leases: LeaseSource,
        cluster_key: str,
        owner: str,
        peers: Sequence[ReplicatedMemory] = (),
        write_quorum: int | None = None,
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> None:
        super().__init__(timeout_s, options.get("clock"), options.get("entropy"))
        mode_of(options.get("read_consistency", Consistency.LOCAL))
        self._company = company_of(leases, cluster_key)
        if any(peer._company is not self._company for peer in peers):
            raise Invalid("peers", f"must share the lease source and the cluster key {cluster_key}")
        file = member_path(cluster_key, owner) if memory.given_path is None else memory.path
        source = None if isinstance(leases, QuorumLease) else leases
        enrolment = Enrolment(cluster_key, owner, file, source, write_quorum)
        enrolment.settings([owner])  # says now what is wrong with the names
        memory.hand_over(f"{owner} of {cluster_key}")
        options |= {"timeout_s": timeout_s, "clock": self._clock, "entropy": self._entropy}
        self._company.enrol(enrolment, options)
        self._owner = owner

    @staticmethod
    def connect(endpoints: str | Sequence[str], **options: Any) -> ConnectedMemory:
        """A memory on the nodes at `endpoints` (host:port). Raises `Unavailable` when no node answers in time.

        Options: `read_consistency` (local, session, strong, quorum), `principal`, `timeout_s`, `max_staleness_s`,
        `credentials` (gRPC channel credentials, for clusters with TLS).
        """
        from ..client import ConnectedMemory

        return ConnectedMemory.connect(endpoints, **options)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Take this member out of service; the others go on while they are a quorum."""
        self._company.leave(self._owner)

    def _begin(self, work: Work[Result]) -> Future[Result]:
        return self._company.submit(self._owner, work)
