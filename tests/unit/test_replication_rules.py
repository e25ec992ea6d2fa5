"""Rules of the core that need a state which schedules of faults seldom or never come to."""

from __future__ import annotations

import random
from dataclasses import replace

from transcript_world import MEMBERS, WALL_US, PaperNotary, TranscriptWorld

from veridical.lease.messages import Grant, Holder, Release
from veridical.log.configuration import Configuration, Member, founding
from veridical.replication.kernel import Restored, first_request
from veridical.replication.messages import (
    Append,
    Appended,
    Declined,
    Effect,
    Heartbeat,
    HeartbeatReply,
    Message,
    Persist,
    Persisted,
    Receive,
    Reconfigure,
    SeenQuery,
    Send,
)
from veridical.replication.replica import Replica, Settings

FOUNDERS = founding([Member(id, id, id.encode(), f"{id}:1") for id in MEMBERS])
LEADER = Holder("a", "1")
ROUND = 3
STAMP_US = 77


def led_world() -> TranscriptWorld:
    """Three replicas; `a` leads epoch 1 and entries 1 and 2 are committed everywhere."""
    world = TranscriptWorld()
    for command in ("found", "wait 250", "tick a", "settle"):
        world.run(command)
    return world


def newcomer(restored: Restored) -> Replica:
    """A node `d` that starts with this."""
    return Replica(Holder("d", "1"), restored, Settings(), PaperNotary("d"), random.Random(0), 0)


def answers(replica: Replica, message: Message) -> list[Message]:
    """What the replica says to a message of the leader, once its disk has done what it asked for."""
    return _sent(replica, replica.step(Receive("a", message), 1, WALL_US))


def _sent(replica: Replica, effects: list[Effect]) -> list[Message]:
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    said: list[Message] = [message for message in sent if not isinstance(message, SeenQuery)]
    for effect in effects:
        if isinstance(effect, Persist):
            said += _sent(replica, replica.step(Persisted(effect.token), 2, WALL_US))
    return said


def test_a_node_without_a_configuration_renews_nothing() -> None:
    """*lease-arithmetic*: it does not know for how long it would have to hold the grant that the leader counts on."""
    beat = Heartbeat(1, LEADER, 0, STAMP_US, ROUND)
    assert answers(newcomer(Restored()), beat) == [HeartbeatReply(1, 0, ROUND, 0)]
    knows = newcomer(Restored(configurations=(FOUNDERS,)))
    assert answers(knows, beat) == [HeartbeatReply(1, STAMP_US, ROUND, 0)]


def test_a_node_that_misses_what_it_acknowledged_confirms_nothing() -> None:
    """*damage-is-not-truncation*: where entries are missing, promises may be missing too. Nor does it claim to have
    applied what its log lacks: a leader that nobody writes to would never send it.
    """
    shortened = newcomer(Restored(commit_index=5, applied_index=5, configurations=(FOUNDERS,)))
    assert answers(shortened, Heartbeat(1, LEADER, 5, STAMP_US, ROUND)) == [HeartbeatReply(1, 0, 0, 0)]


def test_the_time_to_live_of_leases_does_not_change() -> None:
    """Members that have not heard of it would hold their grants for less than the leader counts on."""
    world = led_world()
    present = world.replicas["a"].status().configuration
    assert present is not None
    effects = world.replicas["a"].step(Reconfigure(1, replace(present, lease_ttl_ms=900)), world.now_us, WALL_US)
    [declined] = [effect for effect in effects if isinstance(effect, Declined)]
    assert "time to live" in declined.reason


def test_a_leader_that_removes_itself_releases_its_epoch() -> None:
    """*release*: the others need not wait for its lease to end once the change is committed."""
    world = led_world()
    present = world.replicas["a"].status().configuration
    assert present is not None
    world.step("a", Reconfigure(1, Configuration(present.members[1:], 2, 2)))
    for kind in ("Append", "Appended"):
        world.deliver(kind)
        world.sync()
    world.deliver("Appended")
    assert world.replicas["a"].leadership is None
    assert [to for _, to, message in world.messages if isinstance(message, Release)] == ["b", "c"]


def test_only_what_was_compared_is_acknowledged() -> None:
    """*ack-what-matches*: an entry that somebody on the wire doubled does not stand for the one after it."""
    world = led_world()
    world.run("propose a fact")
    [append] = [message for _, to, message in world.messages if to == "b" and isinstance(message, Append)]
    world.messages.clear()
    [entry] = append.entries
    doubled = replace(append, prev_index=2, entries=(entry, entry))
    b = world.replicas["b"]
    assert answers(b, append)
    [again] = answers(b, doubled)
    assert isinstance(again, Appended)
    assert again.match == entry.index
    assert b.follower.match_index == entry.index


def test_requests_of_two_runs_have_no_number_in_common() -> None:
    """An answer to a request of the run before must not pass for one to a request of this run."""
    numbers = {first_request(f"run {run}") for run in range(1000)}
    assert len(numbers) == 1000
    assert max(numbers) < 1 << 61


def test_a_grant_to_the_run_before_is_not_counted() -> None:
    """*holder-is-a-run*: only grants that answer a request of this candidacy count."""
    world = TranscriptWorld()
    for command in ("found", "wait 250", "tick a", "deliver Probe", "deliver ProbeReply"):
        world.run(command)
    a = world.replicas["a"]
    assert a.candidacy is not None
    assert a.candidacy.phase == "prepare"
    stale = Grant(first_request("another run") + 1, 1, a.last, 0, FOUNDERS, WALL_US)
    a.step(Receive("b", stale), world.now_us, WALL_US)
    assert "b" not in a.candidacy.grants
