"""Principals, ledgers and receipts in the file: kept over restarts, decided on, and guarded against hand edits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from projection_world import ALICE, BOB, CAROL, Folder, World

from veridical.memory import commands as c
from veridical.memory import rules
from veridical.memory import trust_commands as t
from veridical.memory.context import OperatorRights
from veridical.memory.machine import Command, Context, Outcome, decide_envelope, outcomes
from veridical.memory.principals import Reach, granted_scopes, is_guarded, reach
from veridical.memory.state import State, Workspace
from veridical.projection.answers import Filters
from veridical.projection.projection import Projection
from veridical.security.digests import DigestKey

EVERYTHING = (("*", ("read", "write", "review", "admin")),)


@pytest.fixture
def fold() -> Iterator[Folder]:
    """Makes projections, and closes them."""
    with Folder() as folder:
        yield folder


@pytest.fixture
def world() -> World:
    """A guarded history: Alice administers, Bob and Carol write for a team; one value was rejected, one readmitted."""
    world = World()
    world.say((t.ENROLL, t.EnrollBody(ALICE, "Alice", EVERYTHING)))
    for key, name in ((BOB, "Bob"), (CAROL, "Carol")):
        world.say((t.ENROLL, t.EnrollBody(key, name, (("team:*", ("read", "write")),))), author=ALICE)
    for subject in ("logs", "login"):
        id = world.write("wrong", subject, "is", "team:x", author=BOB)
        world.say((t.REJECT, t.ReviewBody(id, b"", "no")), author=ALICE)
    world.say((t.REVOKE_REJECTION, t.RevokeRejectionBody(id, "", "yes")), author=ALICE)
    world.write("a secret", "plans", "are", "user:alice", author=ALICE)
    return world


def decided(state: State, world: World, kind: str, body: c.Body, author: bytes | None) -> Outcome:
    """What would come of a command on that state."""
    id = (world.now_us // 1000).to_bytes(6, "big") + b"\x70\x00\x80" + bytes(7)
    command = Command(id, kind, c.encode_body(kind, body), author)
    items = decide_envelope(
        Workspace(state), [command], world.now_us, Context(DigestKey(bytes(32)), OperatorRights(), 1), world.last + 1
    )
    return outcomes(items, 1, world.last + 1)[0]


def test_the_guard_and_the_ledger_survive_a_restart(fold: Folder, world: World, tmp_path: Path) -> None:
    """A file that is opened again refuses whom it refused, and lets in what was readmitted."""
    path = tmp_path / "projection.db"
    fold(world.entries, *([1] * world.last), path=path).close()
    assert list(Projection.inspect(path)) == []
    projection = Projection.open(path)
    wrong = c.WriteBody("fact", "logs", "is", "team:x", "WRONG")
    right = c.WriteBody("fact", "login", "is", "team:x", "wrong")
    for state in (projection.state, projection.reader()):
        assert is_guarded(state)
        assert decided(state, world, c.WRITE, wrong, None).rule == rules.NOT_GRANTED
        assert decided(state, world, c.WRITE, wrong, CAROL).rule == rules.REJECTED_VALUE
        assert decided(state, world, c.WRITE, right, CAROL).code == "corroborated"
    projection.close()


def test_a_revocation_counts_in_the_next_batch(fold: Folder, world: World) -> None:
    """What the writer keeps in memory of principals does not outlive it."""
    projection = fold(world.entries)
    body = c.WriteBody("fact", "logs", "are", "team:x", "structured")
    assert decided(projection.state, world, c.WRITE, body, BOB).code == "asserted"
    world.say((t.REVOKE, t.RevokeBody(BOB, "left")), author=ALICE)
    projection.apply(world.entries)
    assert decided(projection.state, world, c.WRITE, body, BOB).rule == rules.NOT_GRANTED


def test_what_somebody_may_read_is_asked_of_the_reader(fold: Folder, world: World) -> None:
    """Its reach, and the scopes within it with their counts."""
    reader = fold(world.entries).reader()
    seen = reach(reader, BOB, OperatorRights())
    assert seen.patterns == ("team:*",)
    assert [tuple(row) for row in granted_scopes(reader.scopes(), seen)] == [("team:x", 2)]
    assert len(granted_scopes(reader.scopes(), reach(reader, ALICE, OperatorRights()))) == 2


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        ("UPDATE principal SET body = replace(body, 'team:', 'user:')", "principal"),
        ("DELETE FROM principal WHERE key = (SELECT max(key) FROM principal)", "bucket"),
        ("DELETE FROM rejection", "bucket"),
        ("INSERT INTO receipt VALUES (randomblob(16), randomblob(16))", "bucket"),
    ],
)
def test_a_hand_edit_is_found(fold: Folder, world: World, tmp_path: Path, edit: str, where: str) -> None:
    """Nobody grants themselves anything with an editor."""
    path = tmp_path / "projection.db"
    fold(world.entries, path=path).close()
    assert list(Projection.inspect(path)) == []
    connection = sqlite3.connect(path)
    assert connection.execute(edit).rowcount > 0
    connection.commit()
    connection.close()
    assert where in {finding.where for finding in Projection.inspect(path)}


SCOPES = ["global", "team:a", "team:a/x", "team:a0", "team:ab", "team:b/x", "user:a", "user:ä"]


@pytest.mark.parametrize(
    "patterns",
    [("team:a/**",), ("team:*",), ("*",), ("team:a",), ("team:a/**", "user:*"), ("user:a", "team:*"), ("group:*",), ()],
)
def test_a_reach_filters_every_read(fold: Folder, patterns: tuple[str, ...]) -> None:
    """Its patterns stand in the query: pages and recalls hold what it includes, all of it, and nothing else."""
    world = World()
    for scope in SCOPES:
        world.write("the same words", "subject", "is", scope)
    reader, filters = fold(world.entries).reader(), Filters(scopes=patterns)
    seen = {scope for scope in SCOPES if Reach(patterns).includes(scope)}
    assert {record.scope for record in reader.page(world.now_us, filters=filters).records} == seen
    recalled = reader.recall("same words", world.now_us, k=20, filters=filters)
    assert {hit.record.scope for hit in recalled.hits} == seen
    assert recalled.unknown_scopes == ()


def test_a_reach_of_very_many_scopes(fold: Folder) -> None:
    """More than can be named one by one: still found, still bounded."""
    world = World()
    world.write_many([c.WriteBody("fact", "s", "is", f"user:u{number}", "words") for number in range(200)])
    world.write("words", "s", "is", "team:x")
    recalled = fold(world.entries).reader().recall("words", world.now_us, k=500, filters=Filters(scopes=("user:*",)))
    assert len(recalled.hits) == 200
