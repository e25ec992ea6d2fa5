"""Principals: who may do what once anybody is enrolled, and that nothing else happens (MEMORY § 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_world import ALICE, BOB, CAROL, HOUR_US, World, replayed, uuid7

from veridical.memory import limits, rules
from veridical.memory.commands import REINFORCE, WRITE, ReinforceBody, WriteBody, encode_body
from veridical.memory.context import OperatorRights
from veridical.memory.errors import Invalid, Refused
from veridical.memory.keys import make_key, record_id
from veridical.memory.machine import Command, Outcome, is_denied
from veridical.memory.principals import REVOKED, ROTATED, Principal, is_guarded, reach
from veridical.memory.record import ORIGIN
from veridical.memory.trust_commands import ENROLL, ROTATE, EnrollBody, RotateBody
from veridical.security.principal import Principal as Signer

DANA = b"d" * 32
NEW = Signer(b"n" * 32)


@pytest.fixture
def world() -> World:
    """A store that nobody guards yet."""
    return World()


@pytest.fixture
def guarded() -> World:
    """Carol administers; Alice writes in one team; Bob reads everything."""
    world = World()
    world.guard(CAROL)
    world.enroll(ALICE, ("team:a/**", "read write"), author=CAROL)
    world.enroll(BOB, ("*", "read"), author=CAROL)
    return world


def known(world: World, key: bytes) -> Principal:
    """The row of that key, which must be there."""
    principal = world.state.principal(key)
    assert principal is not None
    return principal


# --- before anybody is enrolled -------------------------------------------------------------------------------------


def test_whoever_opened_the_store_is_its_operator(world: World) -> None:
    """Everything is allowed, by anybody, while nobody is enrolled."""
    id = world.write("JWT", author=ALICE).record_id
    assert world.promote(id).code == "promoted"
    assert not is_guarded(world.state)
    assert reach(world.state, None, OperatorRights()).patterns == ("*",)


def test_the_first_principal_is_an_administrator(world: World) -> None:
    """Otherwise nobody could ever enroll another."""
    outcome = world.enroll(ALICE, ("*", "read write review"))
    assert (outcome.code, outcome.rule) == ("refused", rules.FIRST_ADMINISTRATOR)
    assert world.enroll(ALICE, ("team:*", "admin")).rule == rules.FIRST_ADMINISTRATOR
    assert not is_guarded(world.state)
    assert world.enroll(ALICE, ("*", "admin")).code == "enrolled"
    assert is_guarded(world.state)


# --- once somebody is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", [None, DANA, b"anybody who signs, but unknown..."[:32]])
def test_a_stranger_changes_nothing(guarded: World, author: bytes | None) -> None:
    """Neither anonymous nor signed by a key that nobody enrolled, whatever the verb."""
    id = guarded.write("JWT", scope="team:a", author=ALICE).record_id
    before, outcomes = guarded.state.buckets(), len(guarded.state.outcomes)
    refusals = [
        guarded.write("x", scope="team:a", author=author), guarded.corroborate(id, author=author),
        guarded.contradict(id, author=author), guarded.promote(id, author=author), guarded.demote(id, author=author),
        guarded.annotate(id, author=author), guarded.pin(id, author=author), guarded.forget(id, author=author),
        guarded.declare("*", "likes", author=author), guarded.prune(id, author=author),
        guarded.enroll(DANA, ("*", "admin"), author=author), guarded.revoke(CAROL, author=author),
        guarded.give(DANA, "*", "read", author=author), guarded.take(CAROL, "*", "read", author=author),
        guarded.rotate(CAROL, NEW, author=author),
    ]  # fmt: skip
    assert {(outcome.code, outcome.rule) for outcome in refusals} == {("refused", rules.NOT_GRANTED)}
    assert guarded.state.buckets() == before
    assert len(guarded.state.outcomes) == outcomes


def test_what_is_not_granted_leaves_no_outcome_behind(guarded: World) -> None:
    """It is no event: after the grant the same command, sent again, is decided anew."""
    id = uuid7(guarded.now_us, 7)
    command = Command(id, WRITE, encode_body(WRITE, WriteBody("fact", "a", "b", "user:dana", "c")), ALICE)
    assert guarded.envelope([command])[0].rule == rules.NOT_GRANTED
    assert is_denied(guarded.log[-1].items)
    guarded.give(ALICE, "user:dana", "write", author=CAROL)
    assert guarded.envelope([command])[0].code == "asserted"


def test_a_principal_writes_where_it_may(guarded: World) -> None:
    """The scope pattern decides, for every verb on every record."""
    id = guarded.write("JWT", scope="team:a/x", author=ALICE).record_id
    assert guarded.record(id).author == ALICE.hex()
    assert guarded.write("JWT", scope="team:ab", author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.pin(id, author=ALICE).code == "pinned"
    assert guarded.pin(id, author=BOB).rule == rules.NOT_GRANTED
    assert guarded.promote(id, author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.promote(id, author=CAROL).code == "promoted"


def test_nobody_learns_what_is_there_by_guessing_ids(guarded: World) -> None:
    """Ids are hashes of names: for whoever may not write there, what exists and what does not are one answer."""
    there = guarded.write("1", "dana", "owes", scope="user:dana", author=CAROL).record_id
    nowhere = record_id(make_key("dana", "earns", "user:dana"))
    answers = [guarded.pin(id, author=ALICE)._replace(record_id=b"", version=ORIGIN) for id in (there, nowhere)]
    assert answers[0] == answers[1]
    assert answers[0].rule == rules.NOT_GRANTED
    own = guarded.write("1", scope="team:a", author=ALICE).record_id
    guarded.forget(own, author=ALICE)
    assert guarded.pin(own, author=ALICE).rule == rules.UNKNOWN_RECORD


def test_each_command_of_an_envelope_is_asked_for_itself(guarded: World) -> None:
    """What is granted happens, what is not does not."""
    commands = [
        Command(uuid7(guarded.now_us, n), WRITE, encode_body(WRITE, WriteBody("fact", "a", "b", scope, "c")), ALICE)
        for n, scope in enumerate(["team:a", "team:b"])
    ]
    assert [outcome.code for outcome in guarded.envelope(commands)] == ["asserted", "refused"]
    assert not is_denied(guarded.log[-1].items)


def test_the_guard_survives_a_restart(guarded: World) -> None:
    """It is state like any other: folding the log again gives the same principals."""
    again = replayed(guarded)
    assert is_guarded(again)
    assert again.principals == guarded.state.principals
    assert again.state_digest() == guarded.state.state_digest()


def test_upkeep_of_nothing_is_no_matter(guarded: World) -> None:
    """A prune or reinforcement that finds nothing is an event like any other."""
    assert guarded.prune(author=ALICE).code == "pruned"
    assert guarded.send(REINFORCE, ReinforceBody(()), BOB).code == "reinforced"


def test_garbage_of_a_stranger_is_not_even_malformed(guarded: World) -> None:
    """Who may do nothing cannot fill history with refusals."""
    command = Command(uuid7(guarded.now_us, 1), WRITE, b"garbage", DANA)
    assert guarded.envelope([command])[0].rule == rules.NOT_GRANTED


# --- enrolling, revoking, rotating ----------------------------------------------------------------------------------


def test_a_key_is_enrolled_once(guarded: World) -> None:
    """Neither again, nor after it was revoked or rotated away."""
    assert guarded.enroll(ALICE, ("*", "read"), author=CAROL).rule == rules.KNOWN_KEY
    guarded.revoke(ALICE, author=CAROL)
    assert guarded.enroll(ALICE, ("*", "read"), author=CAROL).rule == rules.KNOWN_KEY


def test_a_revoked_key_is_refused(guarded: World) -> None:
    """From the next command on; it holds nothing and cannot be given anything."""
    guarded.write("JWT", scope="team:a", author=ALICE)
    assert guarded.revoke(ALICE, author=CAROL).code == "revoked"
    assert guarded.write("more", scope="team:a", author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.give(ALICE, "*", "read", author=CAROL).rule == rules.STRANGER
    assert (known(guarded, ALICE).standing, known(guarded, ALICE).grants) == (REVOKED, ())
    assert guarded.revoke(ALICE, author=CAROL).rule == rules.STRANGER


def test_a_rotated_key_hands_everything_to_its_successor(guarded: World) -> None:
    """Grants, name and identity: the same person may go on amending what is its own."""
    id = guarded.write("JWT", scope="team:a", author=ALICE).record_id
    guarded.promote(id, author=CAROL)
    assert guarded.rotate(ALICE, NEW, author=ALICE).code == "rotated"
    assert known(guarded, ALICE).standing == ROTATED
    assert guarded.write("x", scope="team:a", author=ALICE).rule == rules.NOT_GRANTED
    assert known(guarded, NEW.public_key).identity == ALICE
    assert guarded.write("JWT", scope="team:a", author=NEW.public_key).code == "repeated"
    assert guarded.record(id).support == 1
    assert guarded.write("cookies", scope="team:a", author=NEW.public_key).code == "superseded"


def test_a_rotation_needs_the_new_keys_consent(guarded: World) -> None:
    """Nobody becomes somebody else by naming their key."""
    body = RotateBody(ALICE, NEW.public_key, Signer(b"m" * 32).sign(b"whatever"))
    assert guarded.send(ROTATE, body, ALICE).rule == rules.WRONG_PROOF
    assert guarded.rotate(ALICE, NEW, author=BOB).rule == rules.NOT_GRANTED
    assert guarded.rotate(ALICE, NEW, author=CAROL).code == "rotated"
    assert guarded.rotate(BOB, NEW, author=BOB).rule == rules.KNOWN_KEY


def test_somebody_always_administers(guarded: World) -> None:
    """The last administrator stays, until there is another."""
    assert guarded.revoke(CAROL, author=CAROL).rule == rules.LAST_ADMINISTRATOR
    assert guarded.take(CAROL, "*", "admin", author=CAROL).rule == rules.LAST_ADMINISTRATOR
    guarded.give(BOB, "*", "admin", author=CAROL)
    assert guarded.revoke(CAROL, author=BOB).code == "revoked"
    assert guarded.rotate(BOB, NEW, author=BOB).code == "rotated"
    assert guarded.revoke(NEW.public_key, author=NEW.public_key).rule == rules.LAST_ADMINISTRATOR


# --- giving and taking ----------------------------------------------------------------------------------------------


def test_a_scoped_administrator_gives_rights_within_its_pattern(guarded: World) -> None:
    """And enrolls nobody: that is for those who administer everything."""
    guarded.give(ALICE, "team:a/**", "admin", author=CAROL)
    assert guarded.give(BOB, "team:a/x", "write review", author=ALICE).code == "granted"
    assert guarded.give(BOB, "team:*", "write", author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.give(BOB, "team:a", "write", author=BOB).rule == rules.NOT_GRANTED
    assert guarded.enroll(DANA, ("team:a", "read"), author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.write("JWT", scope="team:a/x", author=BOB).code == "asserted"


def test_what_is_taken_is_gone_in_the_whole_pattern(guarded: World) -> None:
    """Also where it was given by a narrower one; where a broader one still gives it, that is said."""
    guarded.give(ALICE, "team:a/x", "write", author=CAROL)
    assert guarded.take(ALICE, "team:a/x", "write", author=CAROL).rule == rules.BROADER_GRANT
    assert guarded.take(ALICE, "team:*", "write", author=CAROL).code == "taken"
    assert guarded.write("JWT", scope="team:a/x", author=ALICE).rule == rules.NOT_GRANTED
    assert guarded.take(ALICE, "team:*", "write", author=CAROL).code == "unchanged"
    assert guarded.give(ALICE, "team:a/**", "read", author=CAROL).code == "unchanged"
    assert reach(guarded.state, ALICE, OperatorRights()).patterns == ("team:a/**",)


def test_grants_of_one_principal_are_bounded(guarded: World) -> None:
    """Every command asks them."""
    answers = [guarded.give(BOB, f"user:u{n}", "write", author=CAROL) for n in range(limits.GRANTS_LIMIT)]
    assert answers[-2].code == "granted"
    assert answers[-1].rule == rules.GRANTS_FULL
    with pytest.raises(Invalid):
        guarded.enroll(DANA, *[(f"user:u{n}", "read") for n in range(limits.GRANTS_LIMIT + 1)], author=CAROL)


@pytest.mark.parametrize("rights", [(), ("read", "read"), ("fly",), "read", (5,)])
def test_rights_are_six_names(rights: Any) -> None:
    """Anything else is invalid, and named."""
    with pytest.raises(Invalid, match="rights"):
        encode_body(ENROLL, EnrollBody(ALICE, "x", (("*", rights),)))


# --- reading --------------------------------------------------------------------------------------------------------


def test_asking_for_more_than_is_granted_is_refused(guarded: World) -> None:
    """Never narrowed in silence; naming no scope means everything that is granted."""
    seen = reach(guarded.state, ALICE, OperatorRights())
    assert seen.asked(None).patterns == ("team:a/**",)
    assert seen.asked(["TEAM:A/x "]).patterns == ("team:a/x",)
    with pytest.raises(Refused, match="team:b") as refusal:
        seen.asked(["team:a", "team:b"])
    assert refusal.value.rule == rules.NOT_GRANTED
    assert seen.asked(["team:a/x"]).includes("team:a/x")
    assert not seen.asked(["team:a/x"]).includes("team:a")


@pytest.mark.parametrize("key", [None, DANA])
def test_a_stranger_reads_nothing(guarded: World, key: bytes | None) -> None:
    """No scope is in its reach."""
    seen = reach(guarded.state, key, OperatorRights())
    assert seen.patterns == ()
    with pytest.raises(Refused):
        seen.asked(["global"])


# --- any history ----------------------------------------------------------------------------------------------------

KEYS = [ALICE, BOB, CAROL, DANA]
steps = st.one_of(
    st.tuples(st.just("enroll"), st.sampled_from(KEYS), st.sampled_from(["*", "team:*", "team:a"])),
    st.tuples(st.just("give"), st.sampled_from(KEYS), st.sampled_from(["*", "team:*", "team:a"])),
    st.tuples(st.just("take"), st.sampled_from(KEYS), st.sampled_from(["*", "team:*", "team:a"])),
    st.tuples(st.just("revoke"), st.sampled_from(KEYS), st.just("")),
    st.tuples(st.just("write"), st.sampled_from(KEYS), st.sampled_from(["team:a", "user:x"])),
)


def carry_out(world: World, verb: str, key: bytes, where: str, rights: str, author: bytes | None) -> Outcome:
    """One step of a history."""
    match verb:
        case "enroll":
            return world.enroll(key, (where, rights), author=author)
        case "revoke":
            return world.revoke(key, author=author)
        case "write":
            return world.write("JWT", scope=where, author=author)
        case _:
            return getattr(world, verb)(key, where, rights, author=author)


RIGHT_SETS = ["read write admin", "write", "read review vouch attest"]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(steps, st.sampled_from([None, *KEYS]), st.sampled_from(RIGHT_SETS)), max_size=25))
def test_nothing_happens_that_is_not_granted(history: list[Any]) -> None:
    """Once guarded a store stays so, always has an administrator, and changes by granted commands only."""
    world = World()
    for (verb, key, where), author, rights in history:
        guarded, before = is_guarded(world.state), world.state.buckets()
        needed = "write" if verb == "write" else "admin"
        may = reach(world.state, author, OperatorRights(), needed)
        outcome = carry_out(world, verb, key, where, rights, author)
        if guarded and not may.patterns:
            assert outcome.rule == rules.NOT_GRANTED
        if outcome.rule == rules.NOT_GRANTED:
            assert world.state.buckets() == before
        if verb == "write":
            assert (outcome.rule == rules.NOT_GRANTED) != may.includes(where)
        assert is_guarded(world.state) >= guarded
        if is_guarded(world.state):
            assert any(reach(world.state, key, OperatorRights(), "admin").includes("*") for key in KEYS)
    assert replayed(world).state_digest() == world.state.state_digest()
    assert replayed(world, with_bodies=False).settings == world.state.settings


def test_time_passes_whatever_is_denied(guarded: World) -> None:
    """A refused command is no way to stop the clock, nor to move it back."""
    guarded.wait(HOUR_US)
    guarded.write("x", author=None)
    assert guarded.state.time_us() == guarded.now_us
