"""What the works are called in the figures: written here once, for those who measure and for those who judge."""

from __future__ import annotations

from scale import Scale, size

FAILOVER_MEDIAN = "kill -9 to next acknowledged write, s, median"
FAILOVER_WORST = "kill -9 to next acknowledged write, s, worst"
HANDOVER_MEDIAN = "SIGTERM, longest gap of a trial, ms, median"
HANDOVER_WORST = "SIGTERM, longest gap, ms"
REPLAY = "replay of the log, facts/s"
IDLE_CORE = "idle, % of a core a node"
IDLE_MEMORY = "idle, resident MB a node"
RECALL, RECALL_IN_ONE, LATTICE_RECALL = "recall", "recall in one", "lattice_recall"
QUERIES, P50, P99 = "q/s", "p50 ms", "p99 ms"


def singles(in_flight: int) -> str:
    """Facts a second, one a call."""
    return f"{in_flight} in flight, facts/s"


def latency(in_flight: int) -> str:
    """Half of the calls take no longer."""
    return f"{in_flight} in flight, p50 ms"


def bulk(scale: Scale) -> str:
    """Facts a second, many in a call."""
    return f"bulk of {scale.bulk}, facts/s"


def on_slow_disk(scale: Scale, work: str) -> str:
    """The same, with a slower fsync."""
    return f"fsync takes {scale.simulated_fsync_ms:g} ms longer: {work}"


def recall(facts: int, clients: int, under_writes: bool, figure: str) -> str:
    """Three-term questions through gRPC."""
    asked_by = f"{clients} client" + ("s" if clients > 1 else "")
    return f"recall at {size(facts)}, {asked_by}{', under writes' if under_writes else ''}, {figure}"


def meanwhile(facts: int) -> str:
    """What was written under recall."""
    return f"recall at {size(facts)}, facts/s written meanwhile"


def recall_in_process(scale: Scale) -> str:
    """The same questions without a network."""
    return f"recall at {size(scale.most_facts)}, in process, {P50}"


def loaded(scale: Scale) -> str:
    """How fast the facts came into that projection."""
    return f"facts decided and folded up to {size(scale.most_facts)}, facts/s"


def at_size(scale: Scale, work: str) -> str:
    """A rate of writing on a full store."""
    return f"at {size(scale.many_facts)}: {work}"


def over_empty(scale: Scale, work: str) -> str:
    """That rate over the one on an empty store."""
    return f"rate at {size(scale.many_facts)} over rate on empty, {work}"


def in_scopes(scale: Scale, embedder: str, work: str) -> str:
    """In a local memory whose facts are spread over fifty scopes."""
    return f"{size(scale.many_facts)} in 50 scopes, {embedder}: {work}"


def over(work: str) -> str:
    """A rate of writing on a full store over the one on an empty store."""
    return f"{work}, over empty"


def found(depth: int, embedder: str) -> str:
    """Share of what answers a question among the first so many hits."""
    return f"invented conversations, {embedder}: R@{depth}"


def idle_full(scale: Scale, figure: str) -> str:
    """What an idle node takes that holds facts."""
    return f"{figure}, at {size(scale.many_facts)}"
