"""`ReplicatedMemory` in one process: the seed's snippet, and the scenarios in which its model failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from veridical.client.envelope import command_id
from veridical.client.system import SystemClock, SystemEntropy
from veridical.fleet import InMemoryLeaseStore, LeaseSource, LeaseStoreDown, QuorumLease, SqliteLeaseStore
from veridical.lease.sources import Claim
from veridical.memory import LocalMemory, MemoryRecord, ReplicatedMemory
from veridical.memory.errors import Invalid, OutcomeUnknown, Unavailable, VeridicalError

Make = Callable[..., ReplicatedMemory]
"""(leases, owner, **options)"""


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    """Makes members with stores of their own below the test's folder; closes them all."""
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "brain.db"))
    with ExitStack() as members:

        def made(leases: LeaseSource | None, owner: str, **options: Any) -> ReplicatedMemory:
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
        assert member.get(written.id, consistency="session") is not None
        for mode in ("strong", "quorum"):
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
    """It replaces nothing and is in no read; repeated under its id when the quorum is back, it has counted once."""
    leases = InMemoryLeaseStore()
    first, second = make(leases, "A"), make(leases, "B")
    river = first.write(fact("river", "flows north"))
    second.kill()
    id = command_id(SystemClock().wall_us(), SystemEntropy().bytes(8)).hex()
    for _ in range(3):
        with pytest.raises((OutcomeUnknown, Unavailable)):
            first.write(fact("river", "flows south"), command_id=id, timeout_s=0.2)
    assert [hit.text for hit in first.recall("river flows", consistency="local")] == ["flows north"]
    for mode in ("strong", "quorum"):
        with pytest.raises(Unavailable):
            first.recall("river flows", consistency=mode, timeout_s=0.2)
    second = make(leases, "B")
    eventually(lambda: first.write(fact("river", "flows south"), command_id=id, timeout_s=1))
    found = second.get(river.id, consistency="strong")
    assert found is not None
    assert (found.text, found.support_count, found.corrections_count) == ("flows south", 1, 1)


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


def leads(member: ReplicatedMemory) -> bool:
    """Whether this member says that it leads."""
    [status] = member.status().values()
    return status.serves


def test_who_names_its_peers_leads(make: Make) -> None:
    """In the seed's snippet the object called leader is one."""
    leases = InMemoryLeaseStore()
    followers = [make(leases, owner) for owner in "BC"]
    leader = make(leases, "A", peers=followers)
    followers[0].write(fact("x"))
    assert leads(leader)


def test_a_member_that_missed_writes_has_them_before_it_leads(make: Make) -> None:
    """C is away for two acknowledged writes, A dies, C comes back: nothing acknowledged is lost on any of them."""
    leases = InMemoryLeaseStore()
    members = {owner: make(leases, owner) for owner in "ABC"}
    members["A"].write(fact("before"))
    members["C"].close()
    eventually(lambda: members["A"].write(fact("still writing"), timeout_s=1))
    missed = [members["A"].write(fact(f"missed {number}")).id for number in range(2)]
    members["A"].kill()
    members["C"] = make(leases, "C")
    eventually(lambda: members["C"].write(fact("after"), timeout_s=1))
    for owner in "BC":
        for mode in ("strong", "quorum"):
            assert None not in members[owner].get_many(missed, consistency=mode)


def test_a_killed_leader_is_followed_by_another(make: Make) -> None:
    """A crash hands nothing over; the others take over by themselves, and what was forgotten stays forgotten."""
    leases = InMemoryLeaseStore()
    members = [make(leases, owner) for owner in "ABC"]
    gone = members[0].write(fact("secret plan"))
    kept = members[0].write(fact("public plan"))
    members[1].forget(gone.id)
    leader = next(filter(leads, members))
    leader.kill()
    with pytest.raises(Unavailable, match="closed"):
        leader.get(kept.id)
    for member in members:
        if member is not leader:
            eventually(lambda member=member: member.get(kept.id, timeout_s=1))
            assert member.get(gone.id) is None
            assert [hit.id for hit in member.recall("plan")] == [kept.id]


def test_a_cluster_at_rest_comes_back(make: Make) -> None:
    """All are closed, and made again over their files in another order: one history, the same facts."""
    leases = InMemoryLeaseStore()
    members = [make(leases, owner) for owner in "ABC"]
    written = members[2].write(fact("x"))
    for member in members:
        member.close()
    again = [make(leases, owner) for owner in "CAB"]
    for member in again:
        found = member.get(written.id, consistency="quorum")
        assert found is not None
        assert found.version == written.version


def test_a_cluster_without_a_lease_store(make: Make) -> None:
    """Members without a lease source are their own; whoever they name as peers is of their cluster."""
    one = make(None, "A")
    other = make(None, "B", peers=[one])
    assert one.get(other.write(fact("x")).id) is not None


class Breakable:
    """A lease source that can be made to fail, and that remembers who asked."""

    def __init__(self) -> None:
        self.store = InMemoryLeaseStore()
        self.down = False
        self.asked: list[str] = []

    def acquire(self, cluster_key: str, owner: str, ttl_us: int, now_us: int) -> Claim | None:
        """See `LeaseSource`."""
        self.asked.append(owner)
        if self.down:
            raise LeaseStoreDown("switched off")
        return self.store.acquire(cluster_key, owner, ttl_us, now_us)

    def release(self, cluster_key: str, owner: str) -> None:
        """See `LeaseSource`."""
        if self.down:
            raise LeaseStoreDown("switched off")
        self.store.release(cluster_key, owner)


def test_the_lease_store_goes_down(make: Make) -> None:
    """Reads go on in every mode, writes fail at once on every member and name it; when it is back, writes go on."""
    leases = Breakable()
    members = [make(leases, owner) for owner in "ABC"]
    written = members[0].write(fact("x"))
    leases.down = True
    for member in members:
        with pytest.raises(Unavailable) as error:
            member.write(fact("refused"))
        assert error.value.who == ("lease store",)
        for mode in ("strong", "quorum", "local"):
            assert member.get(written.id, consistency=mode) is not None
    leases.down = False
    assert [member.write(fact("again")).outcome for member in members] == ["asserted", "repeated", "repeated"]


def test_only_the_leader_takes_the_lease(make: Make) -> None:
    """Questions and reads on followers never ask for it, as long as there is no election."""
    leases = Breakable()
    members = [make(leases, owner) for owner in "ABC"]

    def asked_in_one_epoch() -> None:
        written = members[0].write(fact("x"))
        leader = next(filter(leads, members))
        assert all(member.get(written.id, consistency="strong") for member in members)
        leases.asked.clear()
        for _ in range(50):
            for member in members:
                member.status()
                assert member.get(written.id) is not None
        if members[0].write(fact("y")).epoch != written.epoch:
            raise Unavailable("the machine stood still for so long that another member was elected")
        assert set(leases.asked) == {leader.owner}

    eventually(asked_in_one_epoch)


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
