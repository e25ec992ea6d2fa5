"""Verification: what a stranger can check, and what no forger gets past."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from log_world import (
    ALICE,
    CLUSTER,
    CONFIGURATION,
    MEMBERS,
    NAME,
    NODE_KEYS,
    START_US,
    Scribe,
    altered,
    rehashed,
    short_history,
)

from veridical.log import verify as verify_module
from veridical.log.canonical import encode
from veridical.log.configuration import Member, founding
from veridical.log.entry import Anchor, CommandHead, Entry, Envelope, body_hash
from veridical.log.errors import LogDamaged
from veridical.log.identifier import uuid7
from veridical.log.notary import Notary, SystemEntry
from veridical.log.seal import Seal
from veridical.log.verify import Verification, verify
from veridical.security.keys import KeyPair

MALLORY = KeyPair(b"m" * 32)


def _verified(scribe: Scribe) -> Verification:
    return verify(scribe.history, CLUSTER, NAME)


def _bad(scribe: Scribe, index: int, what: str) -> None:
    found = _verified(scribe)
    assert found.bad_index == index, found
    assert what in found.what
    assert not found.is_good


def test_a_history_verifies() -> None:
    scribe = short_history()
    found = _verified(scribe)
    assert found.is_good
    assert found.last == scribe.end
    assert (found.seals, found.unsealed, found.erased) == (5, 0, 0)
    assert found.configuration == replace(CONFIGURATION, epoch=1, index=1)


def test_an_empty_history_verifies() -> None:
    assert _verified(Scribe()) == Verification(Anchor(), 0, 0, 0, None)


def test_entries_after_the_last_seal_are_counted() -> None:
    scribe = short_history()
    scribe.append(scribe.command(["one"]), scribe.command(["two"]), sealed=False)
    assert _verified(scribe).unsealed == 2


def test_threads_find_the_same() -> None:
    scribe = short_history()
    with ThreadPoolExecutor(2) as executor:
        assert verify(scribe.history, CLUSTER, NAME, executor=executor) == _verified(scribe)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "SIGNATURES_PER_GROUP", 4)
    heard: list[int] = []
    scribe = short_history()
    assert verify(scribe.history, CLUSTER, NAME, progress=heard.append).is_good
    assert heard == [3, 5, 7]


@pytest.mark.parametrize("index", range(1, 8))
@pytest.mark.parametrize("field", ["prev_hash", "hash", "envelope", "signature", "events", "bodies"])
def test_a_flipped_byte_of_any_field_is_found_at_its_entry(index: int, field: str) -> None:
    scribe = short_history()
    entry = scribe.entries[index - 1]
    raw = getattr(entry, field)
    raw = raw[0] if field == "bodies" else raw
    for place in range(0, len(raw), 5):
        flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        scribe.entries[index - 1] = altered(
            entry, **{field: (flipped, *entry.bodies[1:]) if field == "bodies" else flipped}
        )
        _bad(scribe, index, "")


@pytest.mark.parametrize("change", [{"index": 4}, {"epoch": 2}, {"time_us": 1 << 60}], ids=str)
def test_a_changed_number_is_found_at_its_entry(change: dict[str, int]) -> None:
    scribe = short_history()
    scribe.entries[2] = altered(scribe.entries[2], **change)
    _bad(scribe, 3, "")


def test_a_missing_entry_is_found() -> None:
    scribe = short_history()
    del scribe.entries[3]
    _bad(scribe, 4, "missing")


def test_two_entries_that_changed_places_are_found() -> None:
    scribe = short_history()
    scribe.entries[2:4] = reversed(scribe.entries[2:4])
    _bad(scribe, 3, "missing")


def test_the_first_of_two_bad_entries_is_named_although_the_second_is_found_first() -> None:
    scribe = short_history()
    scribe.entries[4] = altered(scribe.entries[4], events=b"")
    _rewrite(scribe, 3, signature=bytes(64))
    _bad(scribe, 3, "author's signature")


# --- a forger who can compute, and rewrites all that follows ---


def _rewrite(scribe: Scribe, index: int, **changes: Any) -> None:
    """Change one entry and chain all that follow to it; the seals stay as they were."""
    scribe.entries[index - 1] = rehashed(scribe.entries[index - 1], **changes)
    for place in range(index, len(scribe.entries)):
        scribe.entries[place] = rehashed(scribe.entries[place], prev_hash=scribe.entries[place - 1].hash)


FORGERIES: list[tuple[dict[str, Any], int, str]] = [
    ({"events": encode([["verified", 0]])}, 4, "seal"),
    ({"time_us": START_US}, 4, "seal"),
    ({"signature": bytes(64)}, 3, "author's signature"),
    ({"events": b""}, 3, "events are malformed"),
    ({"events": encode([])}, 3, "not a list with one item"),
    ({"envelope": b""}, 3, "envelope is malformed"),
    ({"bodies": ()}, 3, "0 bodies for 1 commands"),
    ({"time_us": 1}, 3, "time 1 µs follows"),
    ({"epoch": 0}, 3, "epoch 0 follows"),
]


@pytest.mark.parametrize(("change", "index", "what"), FORGERIES)
def test_a_rewritten_history_does_not_verify(change: dict[str, Any], index: int, what: str) -> None:
    scribe = short_history()
    _rewrite(scribe, 3, **change)
    _bad(scribe, index, what)


def test_an_envelope_moved_to_another_place_is_found_by_the_seal() -> None:
    scribe = short_history()
    fields = ("envelope", "signature", "events", "bodies")
    copied = {field: getattr(scribe.entries[2], field) for field in fields}
    _rewrite(scribe, 5, **copied)
    _bad(scribe, 5, "seal is on another hash")


# --- seals ---


def _resealed(seal: Seal) -> Scribe:
    scribe = short_history()
    scribe.seals[seal.index] = seal
    return scribe


def test_a_seal_by_another_members_key_is_found() -> None:
    scribe = short_history()
    forged = Notary(CLUSTER, "node-1", NODE_KEYS["node-3"]).seal(1, 4, scribe.entries[3].hash)
    _bad(_resealed(forged), 4, "the seal's signature")


def test_a_seal_by_a_stranger_is_found() -> None:
    scribe = short_history()
    forged = Notary(CLUSTER, "mallory", MALLORY).seal(1, 4, scribe.entries[3].hash)
    _bad(_resealed(forged), 4, "never a member")


def test_a_seal_of_another_cluster_is_found() -> None:
    scribe = short_history()
    forged = Notary("other", "node-1", NODE_KEYS["node-1"]).seal(1, 4, scribe.entries[3].hash)
    _bad(_resealed(forged), 4, "the seal's signature")


def test_two_leaders_of_one_epoch_are_found() -> None:
    scribe = short_history()
    second = Notary(CLUSTER, "node-3", NODE_KEYS["node-3"]).seal(1, 4, scribe.entries[3].hash)
    _bad(_resealed(second), 4, "epoch 1 has two leaders")


def test_a_seal_of_an_epoch_before_the_entry_is_found() -> None:
    scribe = short_history()
    early = Notary(CLUSTER, "node-1", NODE_KEYS["node-1"]).seal(1, 6, scribe.entries[5].hash)
    _bad(_resealed(early), 6, "older than the entry")


def test_a_later_leader_may_seal_what_it_adopted() -> None:
    scribe = short_history()
    assert _verified(
        _resealed(Notary(CLUSTER, "node-2", NODE_KEYS["node-2"]).seal(2, 5, scribe.entries[4].hash))
    ).is_good


# --- the cluster's own entries ---


def test_a_history_begins_with_its_founding() -> None:
    scribe = Scribe()
    scribe.say("first")
    _bad(scribe, 1, "does not begin with its founding configuration")


def test_other_founders_are_another_cluster() -> None:
    scribe = Scribe()
    scribe.found(founding(MEMBERS[:2]))
    _bad(scribe, 1, "founding members")
    assert verify(short_history().history, CLUSTER, "other").bad_index == 1
    assert verify(short_history().history, "0" * 32, NAME).bad_index == 1


def test_members_are_only_named_by_members() -> None:
    scribe = short_history()
    intruder = Member("mallory", "m", MALLORY.public_key, "localhost:6666")
    draft = Notary(CLUSTER, "mallory", MALLORY).configured(founding([*MEMBERS, intruder]), scribe.end.time_us)
    scribe.append(draft)
    _bad(scribe, 8, "never a member's")


def test_a_members_key_never_changes() -> None:
    scribe = short_history()
    rekeyed = founding([replace(MEMBERS[0], public_key=MALLORY.public_key), *MEMBERS[1:]])
    scribe.append(scribe.notary.configured(rekeyed, scribe.end.time_us))
    _bad(scribe, 8, "another key than before")


def test_an_added_member_may_lead_and_a_removed_one_is_remembered() -> None:
    scribe = short_history()
    newcomer = KeyPair(b"4" * 32)
    member = Member("node-4", "n4", newcomer.public_key, "localhost:7404")
    scribe.append(scribe.notary.configured(founding([*MEMBERS, member]), scribe.end.time_us))
    scribe.notary, scribe.epoch = Notary(CLUSTER, "node-4", newcomer), 3
    scribe.append(scribe.notary.elected(3, scribe.end.time_us))
    scribe.append(scribe.notary.configured(founding(MEMBERS), scribe.end.time_us))
    scribe.say("after its removal")
    assert _verified(scribe).is_good


def test_an_election_is_signed_by_its_winner() -> None:
    scribe = short_history()
    scribe.append(Notary(CLUSTER, "node-1", NODE_KEYS["node-3"]).elected(2, scribe.end.time_us))
    _bad(scribe, 8, "winner did not sign")


def test_an_election_of_another_epoch_is_found() -> None:
    scribe = short_history()
    scribe.append(scribe.notary.elected(7, scribe.end.time_us))
    _bad(scribe, 8, "another epoch")


def test_an_epoch_won_twice_is_found() -> None:
    scribe = short_history()
    scribe.append(Notary(CLUSTER, "node-3", NODE_KEYS["node-3"]).elected(2, scribe.end.time_us))
    _bad(scribe, 8, "epoch 2 has two leaders")


def _draft(scribe: Scribe, *kinds: str, cluster: str = CLUSTER) -> SystemEntry:
    """Commands of Alice, of these kinds, signed for that cluster."""
    body, time_us = b"salt of 16 bytes", scribe.end.time_us
    heads = tuple(CommandHead(uuid7(time_us, bytes(8)), kind, body_hash(body)) for kind in kinds)
    envelope = Envelope(cluster, ALICE.public_key, time_us, heads)
    events = encode([[] for _ in kinds])
    return SystemEntry(time_us, envelope.raw, ALICE.sign(envelope.signed_bytes), events, (body,) * len(kinds))


def test_a_client_cannot_elect_or_configure() -> None:
    for kinds, what in (
        (["leader.elected"], "winner did not sign"),
        (["cluster.configured"], "not a configuration"),
        (["memory.write", "leader.elected"], "other commands too"),
        (["cluster.configured", "memory.write"], "other commands too"),
    ):
        scribe = short_history()
        scribe.append(_draft(scribe, *kinds))
        _bad(scribe, 8, what)


def test_an_envelope_for_another_cluster_is_found() -> None:
    scribe = short_history()
    scribe.append(_draft(scribe, "memory.write", cluster="other"))
    _bad(scribe, 8, "signed for cluster other")


def test_only_members_sign_on_behalf_of_others() -> None:
    scribe = short_history()
    scribe.append(scribe.command(["by a node"], NODE_KEYS["node-3"], on_behalf="anonymous"))
    assert _verified(scribe).is_good
    scribe.append(scribe.command(["by a client"], on_behalf="anonymous"))
    _bad(scribe, 9, "on behalf of 'anonymous'")


# --- erased bodies, damaged sources ---


def test_a_missing_body_is_bad_unless_it_was_erased() -> None:
    scribe = short_history()
    scribe.entries[3] = altered(scribe.entries[3], bodies=(scribe.entries[3].bodies[0], None))
    _bad(scribe, 4, "body 1 is missing")
    found = verify(scribe.history, CLUSTER, NAME, may_lack=lambda index, place: (index, place) == (4, 1))
    assert found.is_good
    assert found.erased == 1


def test_damage_met_on_the_way_is_a_finding() -> None:
    scribe = short_history()

    def damaged(index: int | None) -> Iterator[tuple[Entry, Seal | None]]:
        yield from scribe.history[:5]
        raise LogDamaged("log.db", index, "rotten")

    found = verify(damaged(6), CLUSTER, NAME)
    assert (found.bad_index, found.last.index) == (6, 5)
    assert "rotten" in found.what
    assert verify(damaged(None), CLUSTER, NAME).bad_index == 6
