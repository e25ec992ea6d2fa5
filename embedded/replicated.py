"""`ReplicatedMemory`: a memory in a cluster, in this process or, by `connect`, on nodes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..client.blocking import Result, Work
from ..client.environment import ENDPOINTS_VARIABLE, connection_options, named_endpoints
from ..client.surface import TIMEOUT_S
from ..lease.sources import LeaseSource, QuorumLease
from ..memory.errors import Invalid
from .company import Company, company_of
from .facade import EmbeddedMemory
from .local import LocalMemory
from .member import Enrolment
from .places import member_path

if TYPE_CHECKING:
    from ..client import ConnectedMemory


class ReplicatedMemory(EmbeddedMemory):
    """One member of a cluster in this process, over the store of `memory`, which it takes over.

    All objects that share `leases` and `cluster_key` are one cluster, founded when one of them is first used by those
    that were made until then; later only a member that was closed may be made again, over its own file. Without
    `leases` the members are their own lease, and the cluster is that of `peers`. Who names `peers` is the first to try
    to lead. Every member is asked like the others: writes reach the leader, reads keep the promise of
    `read_consistency`. A store without a path lies under its cluster key and owner. `write_quorum` is how many members
    must hold a write, the majority unless it is given; with 1, every election and every strong or quorum read needs
    all of them. While the store of `leases` is down, reads go on and writes raise `Unavailable`, naming it.
    """

    def __init__(
        self,
        memory: LocalMemory,
        *,
        leases: LeaseSource | None = None,
        cluster_key: str,
        owner: str,
        peers: Sequence[ReplicatedMemory] = (),
        write_quorum: int | None = None,
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> None:
        super().__init__(timeout_s, options)
        self._owner = owner
        self._company = _company(leases, cluster_key, peers)
        if any(peer._company is not self._company for peer in peers):
            raise Invalid("peers", f"must share the lease source and the cluster key {cluster_key}")
        file = member_path(cluster_key, owner) if memory.given_path is None else memory.path
        source = None if isinstance(leases, QuorumLease) else leases
        enrolment = Enrolment(cluster_key, owner, file, source, write_quorum, bool(peers), memory.embedder)
        enrolment.settings([owner])  # says now what is wrong with the names
        memory.hand_over(f"{owner} of {cluster_key}")
        self._join(self._company, enrolment, shared=False)

    @staticmethod
    def connect(endpoints: str | Sequence[str], **options: Any) -> ConnectedMemory:
        """A memory on the nodes at `endpoints` (host:port). Raises `Unavailable` when no node answers in time.

        Options: `read_consistency` (local, session, strong, quorum), `principal`, `timeout_s`, `max_staleness_s`,
        `credentials` (gRPC channel credentials, for clusters with TLS), `token` (a bearer token, for reads).
        """
        from ..client import ConnectedMemory

        return ConnectedMemory.connect(endpoints, **options)

    @staticmethod
    def from_env() -> ConnectedMemory:
        """The memory on the nodes that `VERIDICAL_ENDPOINTS` names; opened by its first call. Raises `Invalid`.

        `VERIDICAL_READ_CONSISTENCY` (`session`), `VERIDICAL_TIMEOUT_S`, `VERIDICAL_PRINCIPAL_SEED` and
        `VERIDICAL_TOKEN` are its options.
        """
        from ..client import ConnectedMemory

        endpoints = named_endpoints()
        if not endpoints:
            raise Invalid(ENDPOINTS_VARIABLE, "is not set; name at least one node as host:port")
        return ConnectedMemory(endpoints, **connection_options())

    @property
    def owner(self) -> str:
        """The name of this member in its cluster."""
        return self._owner

    def close(self) -> None:
        """Take this member out of service, leadership handed over; the others go on while they are a quorum."""
        self._closings += 1
        self._leave(hand_over=True)

    def kill(self) -> None:
        """End this member as a crash would: nothing is handed over or given back. For drills."""
        self._closings += 1
        self._leave(hand_over=False)

    def _begin(self, work: Work[Result]) -> Future[Result]:
        return self._submitted(self._company, self._owner, work)


def _company(leases: LeaseSource | None, cluster_key: str, peers: Sequence[ReplicatedMemory]) -> Company:
    if leases is not None:
        return company_of(leases, cluster_key)
    return peers[0]._company if peers else Company(cluster_key)  # pyright: ignore[reportPrivateUsage]
