"""Reputation of authors, beliefs of other stores, and failures that were fixed (MEMORY § 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, DAY_US, World, replayed

from veridical.memory import rules
from veridical.memory.commands import WRITE
from veridical.memory.errors import Invalid
from veridical.memory.importing import imported_belief
from veridical.memory.principals import Principal
from veridical.memory.record import CANDIDATE, VERIFIED
from veridical.memory.reputation import AuthorTrust
from veridical.memory.view import MemoryRecord
from veridical.security.principal import Principal as Signer


@pytest.fixture
def world() -> World:
    """An open store: its operator reviews."""
    return World()


def claims(world: World, count: int) -> list[bytes]:
    """So many facts of Alice."""
    return [world.write("so it is", f"topic {number}", author=ALICE).record_id for number in range(count)]


def seen(world: World, id: bytes) -> MemoryRecord:
    """A record as callers see it."""
    return MemoryRecord.from_record(world.record(id), world.now_us)


# --- reputation -----------------------------------------------------------------------------------------------------


def test_a_new_author_is_neutral(world: World) -> None:
    """Neither trusted nor distrusted."""
    assert AuthorTrust.of(world.state, ALICE) == AuthorTrust(ALICE.hex(), 0, 0, 500_000, 2)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_rate_is_between_nothing_and_everything(kept: int, lost: int) -> None:
    """More kept claims never lower it, more lost ones never raise it; one mistake distrusts nobody."""
    here = Principal(ALICE, ALICE, kept=kept, lost=lost)
    assert 0 < here.reputation_ppm < 1_000_000
    assert here._replace(kept=kept + 1).reputation_ppm >= here.reputation_ppm
    assert here._replace(lost=lost + 1).reputation_ppm <= here.reputation_ppm
    assert not Principal(ALICE, ALICE, lost=1).is_distrusted


def test_it_follows_what_becomes_of_claims(world: World) -> None:
    """Verified, doubted, rejected, and the rejection revoked: each claim counts where it stands."""
    first, second = claims(world, 2)
    steps = [
        (lambda: world.promote(first), (1, 0)),
        (lambda: world.promote(first), (1, 0)),
        (lambda: world.demote(first), (0, 0)),
        (lambda: world.demote(second), (0, 1)),
        (lambda: world.revoke_rejection(second), (0, 0)),
        (lambda: world.promote(second), (1, 0)),
        (lambda: world.demote(second, "rejected"), (0, 1)),
    ]
    for step, counts in steps:
        step()
        trust = AuthorTrust.of(world.state, ALICE)
        assert (trust.kept, trust.lost) == counts
    assert replayed(world, with_bodies=False).principals == world.state.principals


def test_repeating_oneself_earns_nothing(world: World) -> None:
    """Neither writing nor corroborating does; it takes somebody who finds out."""
    [id] = claims(world, 1)
    for _ in range(10):
        world.write("so it is", "topic 0", author=ALICE)
    world.corroborate(id, author=ALICE)
    assert AuthorTrust.of(world.state, ALICE).rate_ppm == 500_000
    assert world.state.principals == {}


def test_anonymous_authors_have_none(world: World) -> None:
    """There is nobody to count for."""
    world.promote(world.write("JWT").record_id)
    assert world.state.principals == {}


def test_it_stays_with_the_person_when_the_key_is_rotated(world: World) -> None:
    """A new key is no new start."""
    world.guard(CAROL)
    world.enroll(ALICE, ("*", "read write"), author=CAROL)
    for id in claims(world, 2):
        world.reject(id, author=CAROL)
    successor = Signer(b"n" * 32)
    world.rotate(ALICE, successor, author=ALICE)
    assert AuthorTrust.of(world.state, successor.public_key).principals_needed == 3
    world.reject(world.write("wrong again", author=successor.public_key).record_id, author=CAROL)
    assert AuthorTrust.of(world.state, ALICE).lost == 3


# --- import ---------------------------------------------------------------------------------------------------------


def test_a_peers_belief_enters_as_a_candidate(world: World) -> None:
    """However sure the peer was; what it was sure of is named as ignored."""
    peer = World()
    id = peer.write("JWT", author=ALICE, metadata='{"a":1}').record_id
    peer.write("JWT", author=BOB)
    peer.promote(id)
    outcome = world.send(WRITE, imported_belief(seen(peer, id), "lab"))
    record = world.record(outcome.record_id)
    assert (record.trust, record.confidence_ppm, record.support, record.author) == (CANDIDATE, 500_000, 1, "")
    assert (record.metadata, record.source) == ('{"a":1}', "import:lab")
    assert set(outcome.ignored) == {"trust", "epistemic_confidence", "support_count", "author"}
    assert world.send(WRITE, imported_belief(seen(peer, id), "lab")).code == "repeated"


def test_an_import_displaces_nothing_verified(world: World) -> None:
    """It contends; and what was rejected here stays out."""
    peer = World()
    id = peer.write("cookies", author=ALICE).record_id
    world.promote(world.write("JWT").record_id)
    assert world.send(WRITE, imported_belief(seen(peer, id), "lab")).code == "conflicted"
    other = world.write("cookies", scope="repo:b").record_id
    world.demote(other, "rejected")
    assert world.send(WRITE, imported_belief(seen(peer, id), "lab", "repo:B")).rule == rules.REJECTED_VALUE


def test_what_the_peer_rejected_is_not_imported(world: World) -> None:
    """Nor does it come from nowhere."""
    id = world.write("JWT").record_id
    with pytest.raises(Invalid, match="peer"):
        imported_belief(seen(world, id), " ")
    world.demote(id, "rejected")
    with pytest.raises(Invalid, match="rejected"):
        imported_belief(seen(world, id), "lab")


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_fixed_failure_is_verified_and_kept(world: World) -> None:
    """It does not fade, and saying it again changes nothing of that."""
    id = world.write("overflow at 320 px", "card", "fails", kind="failure").record_id
    assert world.mark_fixed(id).code == "fixed"
    record = world.record(id)
    assert (record.trust, record.pinned) == (VERIFIED, True)
    assert world.mark_fixed(id).code == "unchanged"
    world.wait(400 * DAY_US)
    assert world.prune(id).count == 0


def test_nothing_else_is_confirmed_that_way(world: World) -> None:
    """A fact does not become true by being called fixed, nor a rejected failure."""
    fact = world.write("JWT").record_id
    assert world.mark_fixed(fact).rule == rules.OTHER_KIND
    failure = world.write("overflow", "card", "fails", kind="failure").record_id
    world.demote(failure, "rejected")
    assert world.mark_fixed(failure).rule == rules.STANDING_REJECTION


@pytest.mark.parametrize(
    ("kind", "predicate", "scope", "is_kept_out"),
    [
        ("failure", "fails", "repo:app", False),
        ("fact", "FAILS", "repo:app", True),
        ("design_rule", "design_rule", "repo:app", False),
        ("schema", "design_rule", "repo:app", True),
        ("skill", "tool", "repo:app", False),
        ("fact", "author_trust", "repo:app", True),
        ("failure", "fails", "meta:authors", True),
    ],
)
def test_reserved_predicates_are_for_records_of_their_kind(
    world: World, kind: str, predicate: str, scope: str, is_kept_out: bool
) -> None:
    """A fact cannot pose as what the product has learned, and nobody writes reputations."""
    outcome = world.write("x", "subject", predicate, scope, kind=kind)
    assert (outcome.rule == rules.RESERVED_KEY) == is_kept_out
