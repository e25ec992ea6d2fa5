"""The scope lattice: parents that lead somewhere, and what siblings know alike (MEMORY § 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, World, replayed

from veridical.memory import limits, rules
from veridical.memory.commands import WRITE
from veridical.memory.errors import Invalid
from veridical.memory.lattice import ScopeLattice, graduations, lattice_of
from veridical.memory.record import CANDIDATE, VERIFIED

LATTICE = ScopeLattice({"repo:a": "team:f", "repo:b": "team:f", "team:f": "global"})


@pytest.fixture
def world() -> World:
    """An open store."""
    return World()


def test_a_scope_resolves_upwards_specific_first() -> None:
    """Itself, its team, everybody; a scope without a parent is its own whole world."""
    assert LATTICE.resolve("repo:a") == ("repo:a", "team:f", "global")
    assert LATTICE.resolve(" REPO:A ") == ("repo:a", "team:f", "global")
    assert LATTICE.ancestors("repo:other") == ()
    assert LATTICE.parent("global") is None
    assert LATTICE.children("team:f") == ("repo:a", "repo:b")


@pytest.mark.parametrize(
    "parents",
    [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}, {"a": ""}, {"a": "*"}, {"A": "a"}],
)
def test_the_way_up_ends(parents: dict[str, str]) -> None:
    """A cycle is refused, and so is what is no scope."""
    with pytest.raises(Invalid):
        ScopeLattice(parents)


def test_the_way_up_is_bounded() -> None:
    """A recall looks into each ancestor."""
    chain = {f"s{n}": f"s{n + 1}" for n in range(limits.LATTICE_DEPTH_LIMIT)}
    assert len(ScopeLattice(chain).ancestors("s0")) == limits.LATTICE_DEPTH_LIMIT
    with pytest.raises(Invalid, match="more than"):
        ScopeLattice(chain | {"s": "s0"})


names = st.sampled_from(["a", "b", "c", "d", "e"])


@given(st.lists(st.tuples(names, names | st.just("")), max_size=12))
def test_no_sequence_of_placements_makes_a_cycle(placements: list[tuple[str, str]]) -> None:
    """Each is refused or leaves a lattice in which every way up ends; replicated, it is the same lattice."""
    world, expected = World(), ScopeLattice()
    for child, parent in placements:
        outcome = world.place(child, parent)
        try:
            expected = expected.with_parent(child, parent)
        except Invalid:
            assert outcome.rule == rules.LATTICE_CYCLE
    assert lattice_of(world.state) == expected
    assert lattice_of(replayed(world, with_bodies=False)) == expected
    assert all(scope not in expected.ancestors(scope) for scope in "abcde")


def test_a_placement_can_be_changed_and_taken_back(world: World) -> None:
    """One parent at a time."""
    assert world.place("repo:a", "team:f").code == "set"
    assert world.place("repo:a", "team:f").code == "unchanged"
    assert world.place("repo:a", "team:g").code == "set"
    assert lattice_of(world.state).parents == {"repo:a": "team:g"}
    assert world.place("repo:a", "").code == "set"
    assert lattice_of(world.state) == ScopeLattice()


def test_only_an_administrator_places_scopes(world: World) -> None:
    """Who inherits from whom concerns everybody."""
    world.guard(CAROL)
    world.enroll(ALICE, ("repo:*", "read write admin"), author=CAROL)
    assert world.place("repo:a", "team:f", author=ALICE).rule == rules.NOT_GRANTED
    assert world.place("repo:a", "team:f", author=CAROL).code == "set"


# --- graduation -----------------------------------------------------------------------------------------------------


def known(world: World, scope: str, text: str = "structured logs", verified: bool = True) -> bytes:
    """What a scope knows about logging."""
    id = world.write(text, "logging", "policy", scope=scope).record_id
    if verified:
        world.promote(id)
    return id


def lift(world: World, *children: str) -> list[str]:
    """Graduate to the team; what each write came to."""
    bodies = graduations(world.state.records.values(), "team:f", children or ("repo:a", "repo:b"))
    return [world.send(WRITE, body).code for body in bodies]


def test_what_siblings_have_verified_becomes_a_candidate_of_their_parent(world: World) -> None:
    """In whatever spelling; it names where it comes from, and has to earn its own trust."""
    origins = [known(world, "repo:a"), known(world, "repo:b", "Structured  LOGS")]
    assert lift(world) == ["asserted"]
    [lifted] = [record for record in world.state.records.values() if record.scope == "team:f"]
    assert (lifted.trust, lifted.confidence_ppm, lifted.support) == (CANDIDATE, 500_000, 1)
    assert lifted.provenance == tuple(f"record:{id.hex()}" for id in sorted(origins))


def test_lifting_again_adds_nothing(world: World) -> None:
    """Six passes without new evidence, and nothing has risen."""
    for scope in ("repo:a", "repo:b"):
        known(world, scope)
    assert [lift(world)[0] for _ in range(6)] == ["asserted", *["repeated"] * 5]
    assert {record.support for record in world.state.records.values()} == {1}


def test_what_one_scope_knows_is_not_general(world: World) -> None:
    """Nor what is only believed in the other, said differently there, or known in no sibling."""
    known(world, "repo:a")
    known(world, "repo:b", verified=False)
    known(world, "repo:c", "plain logs")
    known(world, "elsewhere")
    assert lift(world, "repo:a", "repo:b", "repo:c") == []
    with pytest.raises(Invalid):
        graduations([], "team:f", ["repo:a"], min_scopes=1)


def test_what_the_parent_has_verified_is_not_displaced(world: World) -> None:
    """What rises contends with it, for a reviewer."""
    id = world.write("no logs", "logging", "policy", scope="team:f", author=BOB).record_id
    world.promote(id)
    for scope in ("repo:a", "repo:b"):
        known(world, scope)
    assert lift(world) == ["conflicted"]
    assert (world.record(id).text, world.record(id).trust) == ("no logs", VERIFIED)


def test_what_the_parent_has_rejected_does_not_rise_again(world: World) -> None:
    """The ledger stands for lifted claims as for any other."""
    world.demote(world.write("structured logs", "logging", "policy", scope="team:f").record_id, "rejected")
    for scope in ("repo:a", "repo:b"):
        known(world, scope)
    assert lift(world) == ["refused"]
