"""Who may try to lead: lease sources for the members of a cluster, under the names that fleets know them by."""

from ..lease.sources import InMemoryLeaseStore, LeaseSource, LeaseStoreDown, QuorumLease, SqliteLeaseStore

__all__ = ["InMemoryLeaseStore", "LeaseSource", "LeaseStoreDown", "QuorumLease", "SqliteLeaseStore"]
