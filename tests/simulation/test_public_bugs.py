"""Failures that users of other replicated systems reported in public, each as a scene over the simulator.

`docs/scenarios.md` names where each was reported. Every invariant of the simulator is checked all along, and at the end
of each scene everybody has to come to one state that explains what the clients saw.
"""

from __future__ import annotations

import random

import pytest

from veridical.memory import commands
from veridical.replication.messages import ReadMode, Role, RoleChanged, Transfer
from veridical.replication.replica import Replica
from veridical.testing.disk import WATCHDOG_US
from veridical.testing.faults import HOUR_US
from veridical.testing.process import Process
from veridical.testing.requests import Value, Written
from veridical.testing.scene import ELECTION_TIMEOUT_US, MILLISECOND, SECOND, Scene, narrated
from veridical.testing.workload import topic_id
from veridical.testing.world import Action

LEASE_US = 700 * MILLISECOND
"""Longer than the time to live of a lease with its margin."""


def roles_seen(scene: Scene, node: str, action: Action) -> set[Role]:
    """The roles that the processes of a node take while something happens."""
    seen: set[Role] = set()
    changed = scene.cluster.checks.role_changed

    def noted(process: Process, change: RoleChanged) -> None:
        if process.me == node:
            seen.add(change.role)
        changed(process, change)

    scene.cluster.checks.role_changed = noted
    action()
    scene.cluster.checks.role_changed = changed
    return seen


# --- leases and leaders -----------------------------------------------------------------------------------------------


def test_what_a_paused_leader_decided_by_itself_is_void_afterwards() -> None:
    """The upkeep of an old epoch (pruning, reinforcing) reaches the next leader late, and changes nothing there."""
    scene = Scene()
    id = topic_id(0)
    scene.submit(scene.leader.me, (commands.WRITE, commands.WriteBody("fact", "topic 0", "status", "simulation", "on")))
    scene.stop_clients()
    old = scene.leader
    epoch = old.role.epoch
    old.host.pause(5 * SECOND)
    successor = scene.new_leader(old)
    prune = (commands.PRUNE, commands.PruneBody(old.host.clock.wall_us(), 1, (id,), epoch))
    reinforce = (commands.REINFORCE, commands.ReinforceBody((id,), epoch))
    scene.wait(6 * SECOND)
    assert scene.leader is successor
    replies = scene.submit(successor.me, prune, reinforce)
    scene.until(SECOND, lambda: replies)
    assert isinstance(replies[0], Written)
    assert [outcome.rule for outcome in replies[0].outcomes] == ["past_epoch", "past_epoch"]
    assert scene.text(successor.me, id) == "on"
    now = scene.submit(successor.me, (commands.REINFORCE, commands.ReinforceBody((id,), successor.role.epoch)))
    scene.until(SECOND, lambda: now)
    assert isinstance(now[0], Written)
    assert now[0].outcomes[0].code == "reinforced"
    scene.end()


def test_a_disk_that_never_answers_costs_the_leadership_and_then_the_process() -> None:
    """fdatasync that hangs on the leader: another one leads within three election timeouts, and writes go on."""
    scene = Scene()
    old = scene.leader
    old.host.disk.is_stalled = True
    scene.new_leader(old)
    scene.progress()
    scene.demand(WATCHDOG_US + SECOND, lambda: old.is_dead, "a process with a hanging disk lives")
    scene.progress()
    scene.end()


def test_a_lease_does_not_outlast_a_pause() -> None:
    """The leader stands still for twice its lease; another one leads and writes. It answers no read from before."""
    scene = Scene()
    old = scene.leader
    scene.cut_off(old.me)
    old.host.pause(2 * LEASE_US)
    scene.new_leader(old)
    newer = scene.write_register("written meanwhile")
    scene.until(SECOND, lambda: newer)
    assert isinstance(newer[0], Written)
    scene.wait(2 * LEASE_US)
    for mode in (ReadMode.LEASE, ReadMode.STRONG):
        assert not isinstance(scene.read(old.me, mode), Value)
    scene.mend()
    scene.settle()
    assert isinstance(scene.read(old.me, ReadMode.STRONG), Value)
    scene.end()


@pytest.mark.parametrize("step_us", [HOUR_US, -HOUR_US])
def test_a_stepped_wall_clock_changes_no_leader(step_us: int) -> None:
    """By an hour, on the leader and on a follower: the same leader in the same epoch, and lease reads go on."""
    scene = Scene()
    leader, epoch = scene.leader, scene.epoch
    for host in (leader.host, scene.followers()[0]):
        host.clock.wall_offset_us = step_us
        scene.wait(3 * SECOND)
        assert isinstance(scene.read(leader.me, ReadMode.LEASE), Value)
        host.clock.wall_offset_us = 0
    assert (scene.leader, scene.epoch) == (leader, epoch)
    scene.end()


def test_a_transfer_to_a_node_that_is_cut_off_ends() -> None:
    """Under mixed load: within an election timeout the old leader serves again, and no read is older than a write."""
    scene = Scene(clients=8)
    leader, target = scene.leader, scene.followers()[0]
    scene.cut_off(target.id)
    scene.wait(200 * MILLISECOND)
    leader.feed(Transfer(target.id))
    scene.progress(ELECTION_TIMEOUT_US + SECOND)
    assert scene.leader is leader
    scene.demand(SECOND, lambda: leader.transfer_refusals, "the transfer has not ended")
    scene.end()


def test_a_target_that_is_far_behind_is_refused_with_its_lag() -> None:
    """Leadership is not handed to somebody who would first have to fetch a lot: writes go on all the time."""
    scene = Scene(settings={"transfer_lag_limit": 20})
    leader, target = scene.leader, scene.followers()[0]
    target.crash()
    for number in range(30):
        scene.write(f"value {number}")
    target.start()
    leader.feed(Transfer(target.id))
    assert leader.transfer_refusals
    lag, limit = (int(word) for word in leader.transfer_refusals[0].replace(",", "").split() if word.isdigit())
    assert lag >= 30
    assert limit == 20
    scene.progress(SECOND)
    scene.settle()
    leader.feed(Transfer(target.id))
    scene.demand(SECOND, lambda: scene.cluster.leader and scene.cluster.leader.me == target.id, "it did not take over")
    scene.end()


def test_an_outvoted_leader_answers_no_strong_read() -> None:
    """Cut off from both followers it answers no read that asks for more than its own state, whatever the others do."""
    scene = Scene()
    old = scene.leader
    scene.cut_off(old.me)
    scene.new_leader(old)
    replies = scene.write_register("newer")
    scene.until(SECOND, lambda: replies)
    assert isinstance(replies[0], Written)
    for mode in (ReadMode.STRONG, ReadMode.LEASE, ReadMode.QUORUM):
        assert not isinstance(scene.read(old.me, mode), Value)
    local = scene.read(old.me, ReadMode.LOCAL)
    assert isinstance(local, Value)
    assert local.position < scene.leader.host.fold.applied
    scene.end()


def test_a_fold_that_is_slow_makes_no_read_stale() -> None:
    """A follower that hears the leader all the time and folds late answers strong reads late, or not at all."""
    scene = Scene()
    slow = scene.followers()[0]
    slow.applies_slowly = True
    for number in range(20):
        scene.write_register(f"value {number}")
        scene.wait(20 * MILLISECOND)
        scene.read(slow.id, ReadMode.STRONG, timeout_us=300 * MILLISECOND)
        scene.read(slow.id, ReadMode.QUORUM, timeout_us=300 * MILLISECOND)
    scene.end()


def test_a_node_that_was_isolated_returns_without_an_election() -> None:
    """For a minute: it has raised no epoch meanwhile, and the leader stays who it was."""
    scene = Scene()
    leader, epoch = scene.leader, scene.epoch
    away = scene.followers()[0]
    scene.cut_off(away.id)
    scene.wait(60 * SECOND)
    assert away.disk.hard_state.promised_epoch == epoch
    scene.mend()
    scene.wait(5 * SECOND)
    assert (scene.leader, scene.epoch) == (leader, epoch)
    scene.end()


def test_a_node_of_an_older_epoch_helps_to_elect() -> None:
    """It was down while epochs went by. With the leader gone for good, it and the other one elect."""
    scene = Scene()
    away = scene.followers()[0]
    away.crash()
    for _ in range(3):
        leader = scene.leader
        leader.feed(Transfer(None))
        scene.new_leader(leader)
    gone = scene.leader
    assert away.disk.hard_state.promised_epoch < gone.role.epoch
    gone.host.crash()
    away.start()
    scene.new_leader(gone)
    scene.progress()
    scene.end()


def test_a_leader_that_restarts_alone_does_not_take_itself_for_one() -> None:
    """What it promised to itself is on its disk; it leads nobody before a quorum grants it a new epoch."""
    scene = Scene()
    host = scene.leader.host
    scene.cut_off(host.id)

    def restart() -> None:
        host.crash()
        host.start()
        scene.wait(10 * SECOND)

    assert Role.LEADER not in roles_seen(scene, host.id, restart)
    scene.end()


# --- disks and power --------------------------------------------------------------------------------------------------


def test_fifty_restarts_of_everybody_lose_nothing() -> None:
    """All stop at once and start in any order, with clients that write all the time."""
    scene, choices = Scene(), random.Random(5)
    for _ in range(50):
        scene.progress(6 * ELECTION_TIMEOUT_US)
        hosts = list(scene.cluster.hosts.values())
        for host in hosts:
            host.crash()
        for host in choices.sample(hosts, len(hosts)):
            scene.wait(choices.randint(0, 300) * MILLISECOND)
            host.start()
    scene.end()
    assert scene.cluster.checks.checked.counts["process runs"] == 153


def test_a_commit_index_beyond_the_log_is_a_hint() -> None:
    """What a follower knew to be committed is further than what its log has left: it starts, and is given the rest."""
    scene = Scene()
    for number in range(40):
        scene.write(f"value {number}")
    scene.stop_clients()
    host = scene.followers()[0]
    known = host.disk.commit_index
    host.crash()
    host.lose_projection()
    host.disk.go_back_to(known - 30, ())
    host.disk.commit_index = known
    host.start()
    scene.demand(5 * SECOND, lambda: host.disk.last_index >= known, "it is not given what it lacks")
    scene.settle()
    scene.end()


def test_an_idle_cluster_gives_a_shortened_log_what_it_lacks() -> None:
    """Nobody writes, and the follower's projection still knows all: its leader notices anyway that its log does not."""
    scene = Scene()
    for number in range(40):
        scene.write(f"value {number}")
    scene.stop_clients()
    host = scene.followers()[0]
    length = host.disk.last_index
    host.crash()
    host.disk.go_back_to(length - 30, scene.cluster.checks.history.entries)
    host.start()
    scene.demand(5 * SECOND, lambda: host.disk.last_index >= length, "it is not given what it lacks")
    scene.end()


def test_a_power_cut_right_after_an_answer_loses_nothing() -> None:
    """All machines lose power a thousandth of a second after somebody was told that it is written; twenty times."""
    scene = Scene(clients=2)
    for number in range(20):
        text = f"value {number}"
        scene.write(text)
        scene.wait(MILLISECOND)
        for host in scene.cluster.hosts.values():
            host.crash()
            host.clock.reboot(SECOND)
        for host in scene.cluster.hosts.values():
            host.start()
        scene.settle()
        assert scene.write(text).outcomes[0].code == "repeated"
    scene.end()


def test_a_lone_node_answers_after_its_disk() -> None:
    """With nobody else to ask there still is no answer before the write is down; a crash may fall between any two."""
    scene = Scene(size=1, clients=1)
    leader = scene.leader
    leader.host.disk.is_stalled = True
    replies = scene.submit(leader.me, narrated("on its way"))
    scene.wait(300 * MILLISECOND)
    assert not replies
    leader.host.disk.is_stalled = False
    leader.host.wake_disk()
    scene.demand(SECOND, lambda: replies, "it is not answered")
    for effects in range(1, 41):
        process = scene.leader
        process.fuse, process.fuse_pauses_us = effects, 0
        scene.demand(10 * SECOND, lambda process=process: process.is_dead, "the fuse is not burnt")
        process.host.start()
        scene.progress(3 * SECOND)
    scene.end()


def test_what_a_deposed_leader_had_alone_is_told_and_dropped_once() -> None:
    """Ten writes that nobody else took: the log is cut where the histories part, once, and says from where to where."""
    scene = Scene()
    old = scene.leader
    scene.cut_off(old.me)
    shared = old.host.disk.last_index
    for number in range(10):
        scene.submit(old.me, narrated(f"never committed {number}"))
        scene.wait(5 * MILLISECOND)
    scene.demand(SECOND, lambda: old.host.disk.last_index >= shared + 10, "it did not append")
    scene.new_leader(old)
    scene.progress()
    length = old.host.disk.last_index
    scene.mend()
    scene.settle()
    [(first, last)] = old.discarded
    assert shared - 10 <= first <= shared + 1
    assert last == length
    assert not old.is_dead
    scene.end()


def test_a_long_way_back_goes_on_where_it_was_interrupted() -> None:
    """Hundreds of entries over a slow link that breaks twice: what has arrived is not sent from the beginning again."""
    scene = Scene(clients=8)
    away = scene.followers()[0]
    away.crash()
    for number in range(300):
        scene.write(f"value {number} " + "and more " * 40)
    missing = scene.cluster.checks.history.length - away.disk.last_index
    sent = scene.appended_to(away.id)
    scene.network.slow_down(away.id, scene.others(away.id), 40 * MILLISECOND)
    away.start()
    for _ in range(2):
        before = away.disk.last_index
        scene.demand(20 * SECOND, lambda before=before: away.disk.last_index > before + 60, "it does not catch up")
        scene.cut_off(away.id)
        scene.wait(SECOND)
        scene.mend()
        scene.network.slow_down(away.id, scene.others(away.id), 40 * MILLISECOND)
    scene.settle()
    arrived = len(set(sent))
    assert arrived >= missing
    assert len(sent) < 1.5 * arrived
    scene.end()


# --- membership -------------------------------------------------------------------------------------------------------


def test_a_member_that_is_not_there_costs_no_quorum() -> None:
    """Added under an address where nobody is: it stays a learner, counts nowhere, and can be taken out again.

    Also while another member is down.
    """
    scene = Scene()
    voters = scene.cluster.configuration.voters
    scene.cluster.add_host("nobody")
    down = scene.followers()[0]
    down.crash()
    scene.operator.add("nobody")
    scene.demand(5 * SECOND, lambda: scene.cluster.configuration.member("nobody"), "it is not admitted")
    scene.demand(20 * SECOND, lambda: scene.operator.is_idle, "the operator does not give up")
    assert scene.cluster.configuration.voters == voters
    scene.progress()
    scene.operator.remove("nobody")
    scene.demand(5 * SECOND, lambda: scene.cluster.configuration.member("nobody") is None, "it cannot be taken out")
    del scene.cluster.hosts["nobody"]
    scene.end()


def test_all_nodes_know_the_same_members_whenever_they_restart() -> None:
    """Right after a change, one after the other: what holds is in the log, not in what each was told at its start."""
    scene = Scene()
    scene.cluster.add_host("new").start()
    scene.operator.add("new")
    scene.demand(10 * SECOND, lambda: "new" in scene.cluster.configuration.voters, "it is no voter")
    for host in list(scene.cluster.hosts.values()):
        host.crash()
        host.start()
        scene.progress(3 * ELECTION_TIMEOUT_US)
    scene.settle()
    known = {process.replica.status().configuration for process in scene.cluster.processes}
    assert known == {scene.cluster.configuration}
    assert len(scene.cluster.configuration.voters) == 4
    scene.end()


def test_a_rolling_restart_shrinks_nothing() -> None:
    """Each node is down for five seconds in turn: nobody is removed by itself, and writes go on."""
    scene = Scene()
    before = scene.cluster.configuration
    for host in list(scene.cluster.hosts.values()):
        host.crash()
        scene.progress()
        scene.wait(5 * SECOND)
        host.start()
        scene.settle()
    assert scene.cluster.configuration == before
    scene.end()


def test_a_mistake_in_the_core_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the state machine ends the run at once: no node goes on as if nothing had happened."""
    scene = Scene()

    def broken(*_: object) -> list[object]:
        raise KeyError("a node that nobody knows")

    monkeypatch.setattr(Replica, "step", broken)
    with pytest.raises(KeyError, match="nobody knows"):
        scene.wait(SECOND)
