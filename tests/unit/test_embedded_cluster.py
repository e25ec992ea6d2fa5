"""`ReplicatedMemory` in one process: the seed's snippet, and the scenarios in which its model failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from veridical.fleet import InMemoryLeaseStore, LeaseSource, LeaseStoreDown, QuorumLease, SqliteLeaseStore
from veridical.lease.sources import Claim
from veridical.memory import LocalMemory, MemoryRecord, ReplicatedMemory
from veridical.memory.errors import Invalid, OutcomeUnknown, Unavailable, VeridicalError

Make = Callable[..., ReplicatedMemory]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    """Makes members with stores of their own below the test's folder; closes them all."""
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "brain.db"))
    with ExitStack() as members:

        def made(leases: LeaseSource, owner: str, **options: Any) -> ReplicatedMemory:
            options.setdefault("read_consistency", "strong")
            memory = ReplicatedMemory(LocalMemory(), leases=leases, cluster_key="brain", owner=owner, **options)
            return members.enter_context(memory)

        yield made


def fact(subject: str, text: str = "a value") -> MemoryRecord:
    """A record to write."""
    return MemoryRecord(subject=subject, predicate="is", text=text)


def eventually(call: Callable[[], object], seconds: float = 10.0) -> None:
    """Call until it does not fail, or the time is up."""
    end = time.monotonic() + seconds
    while True:
        try:
            call()
        except (VeridicalError, pytest.fail.Exception):
            assert time.monotonic() < end, "it did not happen in time"
        else:
            return


def test_the_seeds_snippet_runs(make: Make, tmp_path: Path) -> None:
    """A follower, then a leader that names it; the stores lie under cluster key and owner."""
    leases = InMemoryLeaseStore()
    follower = make(leases, "B")
    leader = make(leases, "A", peers=[follower], write_quorum=1)
    written = leader.write(fact("x"))
    found = follower.get(written.id)
    assert found is not None
    assert found.text == "a value"
    assert (tmp_path / "brain" / "A" / "brain.db").exists()
    assert (tmp_path / "brain" / "B" / "brain.db").exists()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "quorum"])
def test_every_lease_source_serves(make: Make, tmp_path: Path, kind: str) -> None:
    """Three members on each source: every one of them takes writes and answers in every mode."""
    sources = {
        "memory": InMemoryLeaseStore(),
        "sqlite": SqliteLeaseStore(tmp_path / "lease.db"),
        "quorum": QuorumLease(),
    }
    members = [make(sources[kind], owner) for owner in "ABC"]
    for place, member in enumerate(members):
        written = member.write(fact(f"fact {place}"))
        for mode in ("session", "strong", "quorum"):
            assert members[place - 1].get(written.id, consistency=mode) is not None


def test_the_leader_goes_and_nothing_is_lost(make: Make) -> None:
    """A member that is closed leaves a quorum, which has everything; then one more, and the last one says so."""
    leases = QuorumLease()
    members = {owner: make(leases, owner) for owner in "ABC"}
    ids = [members["A"].write(fact(f"fact {number}")).id for number in range(20)]
    leader = next(owner for owner in "ABC" for status in members[owner].status().values() if status.serves)
    members.pop(leader).close()
    one, other = members.values()
    eventually(lambda: one.write(fact("after"), timeout_s=1))
    assert all(record is not None for record in other.get_many(ids, consistency="quorum"))
    one.close()
    with pytest.raises(Unavailable):
        other.get(ids[0], consistency="quorum", timeout_s=0.5)
    with pytest.raises((Unavailable, OutcomeUnknown)):
        other.write(fact("alone"), timeout_s=0.5)
    assert other.get(ids[0], consistency="local") is not None


def test_a_write_without_its_quorum_is_seen_by_nobody(make: Make) -> None:
    """Invisible to every read, and it counts once when it comes through later under the same id."""
    leases = InMemoryLeaseStore()
    first, second = make(leases, "A"), make(leases, "B")
    before = first.write(fact("granite"))
    assert first.get(before.id, consistency="session") is not None
    second.close()
    with pytest.raises((OutcomeUnknown, Unavailable)):
        first.write(fact("lonely"), timeout_s=0.3)
    assert [record.id for record in first.recall("lonely granite", k=5, consistency="local")] == [before.id]


def test_forgotten_on_one_is_gone_on_all(make: Make) -> None:
    """A forgotten fact is absent everywhere at the same index, and stays so."""
    leases = QuorumLease()
    members = [make(leases, owner) for owner in "ABC"]
    written = members[0].write(fact("gone"))
    members[1].forget(written.id)
    assert [member.get(written.id) for member in members] == [None] * 3


def test_asking_who_leads_changes_nothing(make: Make) -> None:
    """Status is a question: the epoch stays."""
    leases = InMemoryLeaseStore()
    members = [make(leases, owner) for owner in "ABC"]
    epoch = members[0].write(fact("x")).epoch
    for _ in range(20):
        for member in members:
            member.status()
    assert members[0].write(fact("y")).epoch == epoch


def test_strong_reads_stay_strong_when_nobody_writes(make: Make) -> None:
    """Nothing happens for longer than the lease lasts; a strong read still is one, in the same epoch."""
    leases = InMemoryLeaseStore()
    members = [make(leases, owner) for owner in "ABC"]
    written = members[0].write(fact("x"))
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert members[1].get(written.id) is not None
    assert members[2].write(fact("y")).epoch == written.epoch


class Breakable:
    """A lease source that can be made to fail."""

    def __init__(self) -> None:
        self.store = InMemoryLeaseStore()
        self.down = False

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """See `LeaseSource`."""
        if self.down:
            raise LeaseStoreDown("switched off")
        return self.store.acquire(cluster_key, owner, ttl_us, now_us)

    def release(self, cluster_key: str, owner: str) -> None:
        """See `LeaseSource`."""
        if self.down:
            raise LeaseStoreDown("switched off")
        self.store.release(cluster_key, owner)


def test_the_lease_store_goes_down(make: Make) -> None:
    """Reads go on, writes fail fast and name it; when it is back, writes go on."""
    leases = Breakable()
    members = {owner: make(leases, owner) for owner in "ABC"}
    written = members["A"].write(fact("x"))
    leader = next(member for member in members.values() for status in member.status().values() if status.serves)
    leases.down = True

    def refused() -> None:
        with pytest.raises(Unavailable, match="lease store"):
            leader.write(fact("refused"), timeout_s=1)

    eventually(refused)
    assert leader.get(written.id, consistency="local") is not None
    leases.down = False
    eventually(lambda: leader.write(fact("again"), timeout_s=1))


def test_mistakes_are_said_at_once(make: Make) -> None:
    """Two members of one name, a store that is in use, strangers as peers, a latecomer."""
    leases = InMemoryLeaseStore()
    one = make(leases, "A")
    with pytest.raises(Invalid, match="member"):
        make(leases, "A")
    with pytest.raises(Invalid, match="share"):
        make(InMemoryLeaseStore(), "B", peers=[one])
    with pytest.raises(Invalid):
        make(leases, "no spaces, please")
    store = LocalMemory(":memory:")
    ReplicatedMemory(store, leases=InMemoryLeaseStore(), cluster_key="other", owner="A")
    with pytest.raises(Invalid, match="already"):
        ReplicatedMemory(store, leases=InMemoryLeaseStore(), cluster_key="third", owner="A")
    with pytest.raises(Invalid, match="ask that member"):
        store.get("0" * 32)
    one.write(fact("x"))
    with pytest.raises(Invalid, match="in use already"):
        make(leases, "C")
