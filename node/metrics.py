"""What a node says about itself to Prometheus. Gauges are read when scraped, so that they cost nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .ports import NodeStatus

SECOND_US = 1_000_000
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Certificate(Protocol):
    """What is told of a certificate (`tls.Certificates`)."""

    @property
    def expiry_s(self) -> float:
        """How many seconds remain."""
        ...

    @property
    def problem(self) -> str:
        """Why newer files are not used."""
        ...


class Metrics:
    """One node's counters and histograms, in a registry of its own (several nodes may share a process)."""

    def __init__(
        self,
        status: Callable[[], NodeStatus],
        wal_bytes: Callable[[], int],
        lease_store_is_up: Callable[[], bool] = lambda: True,
    ) -> None:
        self.registry = CollectorRegistry()
        self.leader_changes = self._counter("leader_changes", "Times that another leader was seen.")
        self.signature_failures = self._counter("signature_failures", "Envelopes whose signature did not verify.")
        self.denied_commands = self._counter("denied_commands", "Commands of envelopes of which nothing was granted.")
        self.chain_mismatches = self._counter("chain_mismatch", "Appends refused since hash or seal did not fit.")
        self.dedup_hits = self._counter("dedup_hits", "Commands answered by their first outcome.")
        self.discarded_entries = self._counter("discarded_entries", "Entries never acknowledged that were cut.")
        self.admission_stalls = self._counter("admission_stalls", "Submissions turned away by a full queue.")
        self.rate_limited = self._counter("rate_limited", "Submissions turned away by the rate of one principal.")
        self.repairs = Counter("veridical_repairs", "Repairs made, by kind.", ["kind"], registry=self.registry)
        self.watchers = Gauge("veridical_watchers", "Consumers of the feed.", registry=self.registry)
        self.watch_lag = Gauge(
            "veridical_watch_lag_entries", "How far the slowest consumer is behind the fold.", registry=self.registry
        )
        self.erasures = self._counter("erasures", "Records of which nothing is left in any file of this node.")
        self.is_erasing = Gauge(
            "veridical_is_erasing", "1 while something erased may be left in a file.", registry=self.registry
        )
        self.unembedded = Gauge(
            "veridical_unembedded", "Records that wait for a service to make their vectors, as the leader last saw.",
            registry=self.registry,
        )  # fmt: skip
        self.embed_failures = self._counter("embed_failures", "Times that the service of vectors made none.")
        self.watched_changes = self._counter("watched_changes", "Changes told to consumers of the feed.")
        self.reads = Counter("veridical_read", "Reads, by mode and result.", ["mode", "result"], registry=self.registry)
        self.append_seconds = self._histogram("append_seconds", "From proposal to commit of a round.")
        self.fsync_seconds = self._histogram("fsync_seconds", "Durable transactions of the log.")
        self.apply_seconds = self._histogram("apply_seconds", "Transactions of the projection.")
        self.round_commands = Histogram(
            "veridical_round_commands",
            "Commands in one round.",
            registry=self.registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
        )
        lease_store = Gauge(
            "veridical_lease_store_up", "0 while a lease store outside is silent.", registry=self.registry
        )
        lease_store.set_function(lambda: float(lease_store_is_up()))
        self.registry.register(_StatusCollector(status, wal_bytes))

    def watch_certificate(self, certificate: Certificate) -> None:
        """Tell how long this node's certificate lasts, and whether newer files lie there that cannot be used."""
        expiry = Gauge(
            "veridical_cert_expiry_seconds", "What remains of this node's certificate.", registry=self.registry
        )
        expiry.set_function(lambda: certificate.expiry_s)
        refused = Gauge(
            "veridical_cert_refused", "1 while newer TLS files lie there that cannot be used.", registry=self.registry
        )
        refused.set_function(lambda: float(bool(certificate.problem)))

    def exposition(self) -> bytes:
        """The text of `/metrics`."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str) -> Counter:
        return Counter(f"veridical_{name}", help, registry=self.registry)

    def _histogram(self, name: str, help: str) -> Histogram:
        return Histogram(f"veridical_{name}", help, buckets=SECONDS, registry=self.registry)


class _StatusCollector(Collector):
    """Gauges made from one reading of the status; series that only a leader knows vanish with its leadership."""

    def __init__(self, status: Callable[[], NodeStatus], wal_bytes: Callable[[], int]) -> None:
        self._status = status
        self._wal_bytes = wal_bytes

    def describe(self) -> Iterator[Metric]:
        """Nothing ahead of time: the node may not have started when it registers."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The gauges of this moment."""
        status = self._status()
        for name, help, value in _gauges(status):
            yield GaugeMetricFamily(f"veridical_{name}", help, value=value)
        yield GaugeMetricFamily("veridical_wal_bytes", "Size of the write-ahead files.", value=self._wal_bytes())
        if status.role == "leader":
            yield from _leader_gauges(status)


def _gauges(status: NodeStatus) -> list[tuple[str, str, float]]:
    return [
        ("epoch", "The highest epoch this node knows.", status.epoch),
        ("is_leader", "1 while this node leads and serves.", float(status.role == "leader" and status.serves)),
        ("has_leader", "1 while this node knows a leader.", float(status.leader is not None)),
        ("ready", "1 while this node may be sent traffic.", float(status.ready)),
        ("commit_index", "Highest index known to be committed.", status.commit_index),
        ("applied_index", "Highest index that is folded.", status.applied_index),
        ("last_index", "Highest index in the log.", status.last_index),
        ("loop_lag_seconds", "How late the event loop's last timer was.", status.loop_lag_us / SECOND_US),
        ("log_bytes", "Size of the log's file.", status.log_bytes),
        ("disk_free_bytes", "Free bytes where the data directory lies.", status.disk_free_bytes),
    ]


def _leader_gauges(status: NodeStatus) -> Iterator[Metric]:
    lease = status.lease_remaining_us / SECOND_US
    yield GaugeMetricFamily("veridical_lease_remaining_seconds", "What remains of the lease.", value=lease)
    match = GaugeMetricFamily("veridical_follower_match_index", "How far a follower's log agrees.", labels=["peer"])
    for member in status.members:
        if member.match_index is not None:
            match.add_metric([member.name], member.match_index)
    yield match
