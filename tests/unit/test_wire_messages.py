"""What members say to each other survives the wire unchanged, and what is no message of the protocol is refused."""

from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.lease.messages import Grant, Holder, Prepare, Probe, ProbeReply, Refusal, Release
from veridical.log.configuration import Configuration, Member
from veridical.log.entry import Entry, Position
from veridical.log.seal import Seal
from veridical.node import wire
from veridical.proto.generated import replication_pb2
from veridical.replication.messages import (
    Append,
    Appended,
    Fenced,
    Fetch,
    Fetched,
    Handover,
    Heartbeat,
    HeartbeatReply,
    Message,
    QuorumQuery,
    QuorumState,
    ReadIndexQuery,
    ReadIndexReply,
    SeenQuery,
    SeenReply,
    Sighting,
)

numbers = st.integers(0, 2**62)
names = st.text(min_size=1, max_size=20)
hashes = st.binary(min_size=32, max_size=32)
holders = st.builds(Holder, names, names)
positions = st.builds(Position, numbers, numbers)
bodies = st.lists(st.one_of(st.none(), st.binary(min_size=16, max_size=40)), max_size=4).map(tuple)
entries = st.builds(
    Entry.chain, hashes, numbers, numbers, numbers, st.binary(max_size=60), st.binary(max_size=64), st.binary(), bodies
)
some_entries = st.lists(entries, max_size=3).map(tuple)
seals = st.lists(st.builds(Seal, numbers, numbers, hashes, names, st.binary(max_size=64)), max_size=3).map(tuple)

sightings = st.lists(st.builds(Sighting, names, numbers, numbers), max_size=3).map(tuple)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    ids = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    members = tuple(Member(id, draw(names), draw(hashes), draw(names)) for id in ids)
    learner = Member("the learner", "late", bytes(32), "host:1", voting=False)
    majority = len(ids) // 2 + 1
    ttl_ms = draw(st.integers(20, 60_000))
    return Configuration((*members, learner), majority, majority, draw(numbers), draw(numbers), lease_ttl_ms=ttl_ms)


def every(kind: type, *strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Messages of that kind, with a strategy for each field: one left at its default might never be sent at all."""
    assert len(strategies) == len(fields(kind)), f"{kind.__name__} has fields that are not varied here"
    return st.builds(kind, *strategies)


MESSAGES: dict[type, st.SearchStrategy[Any]] = {
    Probe: every(Probe, numbers, holders, configurations()),
    ProbeReply: every(ProbeReply, numbers, st.booleans(), numbers, positions, numbers),
    Prepare: every(Prepare, numbers, numbers, holders, configurations(), numbers),
    Grant: every(Grant, numbers, numbers, positions, numbers, configurations(), numbers),
    Refusal: every(Refusal, numbers, numbers, numbers, names),
    Release: every(Release, numbers, holders),
    Append: every(Append, numbers, holders, numbers, numbers, hashes, some_entries, seals, numbers, numbers),
    Appended: every(
        Appended, numbers, numbers, st.booleans(), numbers, numbers, numbers, numbers, numbers, st.booleans()
    ),
    Heartbeat: every(Heartbeat, numbers, holders, numbers, numbers, numbers, sightings),
    HeartbeatReply: every(HeartbeatReply, numbers, numbers, numbers, numbers),
    Fenced: every(Fenced, numbers, numbers),
    Fetch: every(Fetch, numbers, holders, numbers, numbers, hashes),
    Fetched: every(Fetched, numbers, numbers, st.booleans(), some_entries, seals, numbers, numbers),
    Handover: every(Handover, numbers, holders),
    ReadIndexQuery: every(ReadIndexQuery, numbers),
    ReadIndexReply: every(ReadIndexReply, numbers, numbers, st.integers(-1, 2**62)),
    QuorumQuery: every(QuorumQuery, numbers),
    QuorumState: every(QuorumState, numbers, positions, positions, configurations()),
    SeenQuery: every(SeenQuery, numbers),
    SeenReply: every(SeenReply, numbers, sightings, configurations()),
}


def kinds_of(union: Any) -> set[type]:
    return {kind for part in get_args(union) for kind in (kinds_of(part) if get_args(part) else {part})}


def over_the_wire(message: Message) -> Message:
    raw = wire.parcel_of([message]).SerializeToString()
    (received,) = replication_pb2.Parcel.FromString(raw).messages
    return wire.decode(received)


def test_every_message_has_a_strategy_here():
    """A message that is added to the protocol fails this test until it is tested."""
    assert kinds_of(Message) == set(MESSAGES)


@given(st.one_of(*MESSAGES.values()))
def test_a_message_survives_the_wire(message: Message):
    """All fields come back, and so do the bodies, which entries leave out of their comparison."""
    received = over_the_wire(message)
    assert received == message
    sent_entries, came_entries = getattr(message, "entries", ()), getattr(received, "entries", ())
    assert [entry.bodies for entry in came_entries] == [entry.bodies for entry in sent_entries]


@given(entries)
def test_the_hash_of_an_entry_is_computed_by_its_receiver(entry: Entry):
    """Nobody's word is taken for a hash: whatever arrives is intact, or is another entry."""
    raw = wire.entry_to_wire(entry)
    raw.events += b"more"
    received = wire.entry_from_wire(raw)
    assert received.is_intact
    assert received.hash != entry.hash


def test_an_erased_body_is_told_from_an_empty_one():
    """Erasure is said in words: `erased` names the place, empty bytes alone mean an empty body."""
    entry = Entry.chain(bytes(32), 1, 1, 0, b"envelope", b"", b"", (b"", None, b"body"))
    assert wire.entry_from_wire(wire.entry_to_wire(entry)).bodies == (b"", None, b"body")


def a_heartbeat() -> replication_pb2.Message:
    return wire.encode(Heartbeat(1, Holder("n1", "r1"), 1, 1, 1))


def without_holder() -> replication_pb2.Message:
    raw = a_heartbeat()
    raw.heartbeat.leader.run = ""
    return raw


def with_an_epoch_beyond_all() -> replication_pb2.Message:
    raw = a_heartbeat()
    raw.heartbeat.epoch = wire.NUMBER_LIMIT + 1
    return raw


def with_an_entry_beyond_all() -> replication_pb2.Message:
    entry = Entry.chain(bytes(32), wire.NUMBER_LIMIT + 1, 1, 0, b"envelope", b"", b"", (b"",))
    return wire.encode(Append(1, Holder("n1", "r1"), 1, 1, bytes(32), (entry,), (), 1, 1))


def with_a_short_hash() -> replication_pb2.Message:
    raw = wire.encode(Fetch(1, Holder("n1", "r1"), 1, 1, bytes(32)))
    raw.fetch.prev_hash = b"short"
    return raw


def with_quorums_that_miss_each_other() -> replication_pb2.Message:
    members = tuple(Member(id, id, bytes(32), "host:1") for id in "abc")
    raw = wire.encode(Probe(1, Holder("a", "r"), Configuration(members, 2, 2)))
    raw.probe.configuration.recovery_quorum = 1
    return raw


def with_a_body_erased_that_is_not() -> replication_pb2.Message:
    entry = Entry.chain(bytes(32), 1, 1, 0, b"", b"", b"", (b"body",))
    raw = wire.encode(Fetched(1, 1, True, (entry,), (), 1, 1))
    raw.fetched.entries[0].erased.append(0)
    return raw


def with_too_many_bodies() -> replication_pb2.Message:
    entry = Entry.chain(bytes(32), 1, 1, 0, b"", b"", b"", (b"body",) * 257)
    return wire.encode(Fetched(1, 1, True, (entry,), (), 1, 1))


@pytest.mark.parametrize(
    "make",
    [
        replication_pb2.Message,
        without_holder,
        with_a_short_hash,
        with_an_epoch_beyond_all,
        with_an_entry_beyond_all,
        with_quorums_that_miss_each_other,
        with_a_body_erased_that_is_not,
        with_too_many_bodies,
    ],
)
def test_what_is_no_message_is_malformed(make: Any):
    """Each rule that holds for every message, broken once."""
    with pytest.raises(wire.Malformed):
        wire.decode(make())
