"""Who may try to lead: lease sources for the members of a cluster, under the names that fleets know them by."""

from ..lease.etcd import EtcdLeaseStore, EtcdTls
from ..lease.sources import InMemoryLeaseStore, LeaseSource, LeaseStoreDown, QuorumLease, SqliteLeaseStore

__all__ = [
    "EtcdLeaseStore", "EtcdTls", "InMemoryLeaseStore", "LeaseSource", "LeaseStoreDown", "QuorumLease",
    "SqliteLeaseStore",
]  # fmt: skip
