"""Envelopes, entries and configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_world import CLUSTER, CONFIGURATION, Scribe, altered

from veridical.log.canonical import Canonical, NotCanonical, decode, encode
from veridical.log.configuration import Configuration, Member, QuorumError, cluster_id, founding
from veridical.log.entry import COMMANDS_PER_ENVELOPE_LIMIT, CommandHead, Entry, Envelope, body_hash

HEADS = st.builds(
    CommandHead, st.binary(min_size=16, max_size=16), st.text(max_size=30), st.binary(min_size=32, max_size=32)
)
ENVELOPES = st.builds(
    Envelope,
    cluster=st.text(max_size=40),
    author=st.binary(min_size=32, max_size=32),
    issued_at_us=st.integers(0, (1 << 63) - 1),
    commands=st.lists(HEADS, min_size=1, max_size=5).map(tuple),
    on_behalf=st.text(max_size=20),
)


@given(ENVELOPES)
def test_an_envelope_comes_back_as_it_was(envelope: Envelope) -> None:
    assert Envelope.parse(envelope.raw) == envelope


@given(st.binary(max_size=200))
def test_parsing_anything_gives_an_envelope_or_a_clear_error(raw: bytes) -> None:
    with pytest.raises(NotCanonical):
        Envelope.parse(raw)


def _fields(**changes: Any) -> list[Canonical]:
    fields: dict[str, Any] = {
        "version": 1, "cluster": "c", "author": bytes(32), "time": 1, "for": "", "heads": [[bytes(16), "k", bytes(32)]]
    }  # fmt: skip
    return list((fields | changes).values())


@pytest.mark.parametrize(
    "fields",
    [
        _fields(version=2),
        _fields(author=bytes(31)),
        _fields(cluster="c" * 200),
        _fields(heads=[]),
        _fields(heads=[[bytes(16), "k", bytes(32)]] * (COMMANDS_PER_ENVELOPE_LIMIT + 1)),
        _fields(heads=[[bytes(15), "k", bytes(32)]]),
        _fields(heads=[[bytes(16), "k" * 200, bytes(32)]]),
        _fields(heads=[[bytes(16), "k", bytes(33)]]),
        _fields(heads=[[bytes(16), b"k", bytes(32)]]),
        _fields(heads=bytes(16)),
        [*_fields(), None],
        [],
    ],
)
def test_an_envelope_of_another_shape_is_refused(fields: list[Canonical]) -> None:
    with pytest.raises(NotCanonical):
        Envelope.parse(encode(fields))


def test_the_limit_of_commands_is_within_the_form() -> None:
    heads = [[bytes(16), "k", bytes(32)]] * COMMANDS_PER_ENVELOPE_LIMIT
    assert len(Envelope.parse(encode(_fields(heads=heads))).commands) == COMMANDS_PER_ENVELOPE_LIMIT


@pytest.mark.parametrize(
    "change",
    [
        {"index": 9}, {"epoch": 9}, {"time_us": 9}, {"prev_hash": b"\1" * 32}, {"envelope": b"e"}, {"signature": b"s"},
        {"events": b"v"}, {"hash": bytes(32)},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_the_hash_covers_every_field_but_the_bodies(change: dict[str, Any]) -> None:
    [entry] = Scribe().say("a fact")
    assert entry.is_intact
    assert not altered(entry, **change).is_intact
    assert altered(entry, bodies=(None,)).is_intact


def test_bytes_that_wander_from_one_field_to_the_next_change_the_hash() -> None:
    args = (bytes(32), 1, 1, 1)
    assert Entry.chain(*args, b"ab", b"c", b"", ()).hash != Entry.chain(*args, b"a", b"bc", b"", ()).hash


def test_the_salt_hides_what_the_body_was() -> None:
    assert body_hash(b"salt of 16 bytes" + b"guess") != body_hash(b"salt of 16 bites" + b"guess")


def test_a_configuration_entry_puts_its_configuration_in_force() -> None:
    [configured, elected] = Scribe().found()
    assert configured.configuration == replace(CONFIGURATION, epoch=1, index=1)
    assert configured.is_configuration
    assert elected.configuration is None
    assert not elected.is_configuration


def test_a_command_that_mentions_a_configuration_is_none() -> None:
    scribe = Scribe()
    [entry] = scribe.append(scribe.notary.elected(1, 5))
    envelope = Envelope.parse(entry.envelope)
    mention = replace(envelope, on_behalf="cluster.configured")
    assert altered(entry, envelope=mention.raw).configuration is None


NO_CONFIGURATIONS: list[Any] = [
    [],
    [[]],
    [[[], 1, 1]],
    [[[["id", "name", b"key", "host:1", True]], True, 1, 600]],
    [[[["id", "name", "key", "host:1", True]], 1, 1, 600]],
    [[[["id", "name", b"key", "host:1"]], 1, 1, 600]],
    [[3, 1, 1, 600]],
]


@pytest.mark.parametrize("events", NO_CONFIGURATIONS, ids=repr)
def test_a_configuration_entry_without_a_configuration_is_refused(events: Canonical) -> None:
    [configured, _] = Scribe().found()
    with pytest.raises(NotCanonical):
        _ = altered(configured, events=encode(events)).configuration


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_only_quorums_that_meet_are_accepted(count: int, write: int, recovery: int) -> None:
    members = tuple(Member(f"id{n}", f"n{n}", bytes(32), f"h:{n}") for n in range(count))
    safe = write + recovery > count and 2 * recovery > count and 1 <= write <= count and 1 <= recovery <= count
    if safe:
        assert Configuration(members, write, recovery).write_quorum == write
    else:
        with pytest.raises(QuorumError):
            Configuration(members, write, recovery)


@given(st.integers(1, 9), st.data())
def test_founding_chooses_the_smallest_safe_recovery_quorum(count: int, data: st.DataObject) -> None:
    members = [Member(f"id{n}", f"n{n}", bytes(32), f"h:{n}") for n in range(count)]
    write = data.draw(st.none() | st.integers(1, count))
    chosen = founding(members, write)
    with pytest.raises(QuorumError):
        replace(chosen, recovery_quorum=chosen.recovery_quorum - 1)


def test_learners_do_not_count() -> None:
    learner = Member("l", "l", bytes(32), "h:9", voting=False)
    configuration = founding([*CONFIGURATION.members, learner])
    assert configuration.write_quorum == 2
    assert "l" not in configuration.voters
    assert configuration.member("l") == learner
    assert configuration.member("nobody") is None


def test_two_members_cannot_share_an_id() -> None:
    with pytest.raises(QuorumError, match="share an id"):
        founding([Member("a", "one", bytes(32), "h:1"), Member("a", "two", bytes(32), "h:2")])


def test_a_configuration_comes_back_as_it_was() -> None:
    [members, write, recovery, ttl_ms] = decode(encode(CONFIGURATION.canonical()))
    assert Configuration.from_canonical(members, write, recovery, ttl_ms, (0, 0)) == CONFIGURATION


def test_the_cluster_is_named_by_its_founders_wherever_they_live() -> None:
    moved = founding([replace(member, endpoint="elsewhere:1") for member in CONFIGURATION.members])
    assert cluster_id("example", moved) == CLUSTER
    rekeyed = founding([replace(member, public_key=bytes(32)) for member in CONFIGURATION.members])
    assert cluster_id("example", rekeyed) != CLUSTER
    assert cluster_id("other", moved) != CLUSTER
