"""The fakes under the simulator: clocks that drift, links that misbehave, disks that forget."""

from __future__ import annotations

from typing import Any

import pytest

from veridical.log.entry import GENESIS_HASH, Entry
from veridical.log.seal import Seal
from veridical.replication.messages import HardState, Persist
from veridical.testing.clocks import NodeClock
from veridical.testing.disk import Disk, Watch, Writer
from veridical.testing.network import FAIR, Network, Weather
from veridical.testing.world import SECOND, World


def entries(count: int) -> list[Entry]:
    made: list[Entry] = []
    for index in range(1, count + 1):
        prev_hash = made[-1].hash if made else GENESIS_HASH
        made.append(Entry.chain(prev_hash, index, 1, index, b"", b"", b"", ()))
    return made


def seal(entry: Entry) -> Seal:
    return Seal(1, entry.index, entry.hash, "n1", b"")


class Listener:
    """Hears what a disk says."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.disk = Disk()
        self.heard: list[Any] = []
        watch = Watch(
            written=lambda write: None,
            done=lambda write: self.heard.append(write.token),
            full=lambda full: self.heard.append("full" if full else "room"),
            stuck=lambda: self.heard.append("stuck"),
            torn=lambda: self.heard.append("torn"),
        )
        self.writer = Writer(self.world, self.disk, self.world.stream("disk"), watch)


# --- world and clocks ---


def test_things_happen_in_order_of_time_and_then_of_planning() -> None:
    world, happened = World(1), list[str]()
    world.at(20, lambda: happened.append("late"))
    world.at(10, lambda: happened.append("first"))
    world.at(10, lambda: happened.append("second"))
    world.run(15)
    assert (happened, world.now_us) == (["first", "second"], 15)


def test_parts_of_a_world_choose_independently() -> None:
    assert World(1).stream("a").random() == World(1).stream("a").random()
    assert len({World(seed).stream(name).random() for seed in (1, 2) for name in ("a", "b")}) == 4


@pytest.mark.parametrize("rate_ppm", [-99_000, 0, 12_345, 99_000])
def test_a_clock_says_when_it_will_show_a_time(rate_ppm: int) -> None:
    world = World(1)
    clock = NodeClock(world, rate_ppm, elapsed_us=5 * SECOND)
    wanted_us = 7 * SECOND + 1
    world.run(clock.true_us(wanted_us) - 1)
    assert clock.elapsed_us() < wanted_us
    world.run(clock.true_us(wanted_us))
    assert clock.elapsed_us() >= wanted_us


def test_elapsed_time_goes_on_where_the_rate_changes_and_wall_time_may_step() -> None:
    world = World(1)
    clock = NodeClock(world, 50_000)
    world.run(SECOND)
    shown_us = clock.elapsed_us()
    clock.change_rate(-50_000)
    clock.wall_offset_us = -3600 * SECOND
    assert clock.elapsed_us() == shown_us
    world.run(2 * SECOND)
    assert clock.elapsed_us() == shown_us + 950_000


# --- network ---


def arrivals(weather: Weather, count: int = 200) -> list[int]:
    world = World(3)
    network, arrived = Network(world), list[int]()
    network.weather = weather

    def send(number: int) -> None:
        network.carry("a", "b", lambda: arrived.append(number))

    for number in range(count):
        send(number)
    world.run(10 * SECOND)
    return arrived


def test_a_fair_link_is_a_stream() -> None:
    assert arrivals(FAIR) == list(range(200))


def test_weather_loses_doubles_and_reorders() -> None:
    assert len(arrivals(Weather(loss=0.5))) < 150
    assert len(arrivals(Weather(duplication=0.5))) > 250
    reordered = arrivals(Weather(reordering=1.0))
    assert reordered != sorted(reordered)
    assert set(reordered) == set(range(200))


def test_a_partition_may_have_one_direction_only() -> None:
    world = World(1)
    network, arrived = Network(world), list[str]()
    network.weather = FAIR
    network.sever(["a"], ["b"])
    network.carry("a", "b", lambda: arrived.append("to b"))
    network.carry("b", "a", lambda: arrived.append("to a"))
    world.run(SECOND)
    network.mend()
    network.carry("a", "b", lambda: arrived.append("to b again"))
    world.run(2 * SECOND)
    assert arrived == ["to a", "to b again"]


# --- disk ---


def test_writes_end_in_order_and_only_then_are_durable() -> None:
    listener = Listener()
    first, second = entries(2)
    listener.writer.submit(Persist(1, HardState(4), None, (first,), (seal(first),)))
    listener.writer.submit(Persist(2, None, None, (second,), (seal(second),), 1))
    assert listener.disk.is_empty
    listener.world.run(SECOND)
    assert listener.heard == [1, 2]
    assert (listener.disk.last_index, listener.disk.commit_index) == (2, 1)
    assert listener.disk.hard_state == HardState(4)


def test_a_crash_keeps_a_prefix_of_what_was_under_way() -> None:
    """Any prefix, never a later write without an earlier one, and nobody was told of it."""
    kept: set[int] = set()
    for seed in range(30):
        listener = Listener(seed)
        for entry in entries(3):
            listener.writer.submit(Persist(entry.index, None, None, (entry,), ()))
        survivors = listener.writer.die()
        listener.world.run(SECOND)
        assert listener.heard == []
        assert [write.token for write in survivors] == list(range(1, listener.disk.last_index + 1))
        kept.add(listener.disk.last_index)
    assert kept == {0, 1, 2, 3}


def test_a_torn_write_is_rolled_back_whole() -> None:
    listener = Listener()
    listener.disk.tears = True
    listener.writer.submit(Persist(1, HardState(1), None, tuple(entries(2)), ()))
    listener.world.run(SECOND)
    assert listener.heard == ["torn"]
    assert listener.disk.is_empty


def test_a_full_disk_drops_what_it_has_not_begun_until_the_process_has_heard_it() -> None:
    listener = Listener()
    first, second = entries(2)
    listener.disk.is_full = True
    listener.writer.submit(Persist(1, None, None, (first,), ()))
    listener.writer.submit(Persist(2, None, None, (second,), ()))
    listener.world.run(SECOND)
    listener.disk.is_full = False
    listener.writer.wake()
    listener.world.run(2 * SECOND)
    assert listener.heard == ["full"]
    listener.writer.heard()
    listener.writer.submit(Persist(3, None, None, (first,), ()))
    listener.world.run(3 * SECOND)
    assert listener.heard == ["full", "room", 3]
    assert listener.disk.last_index == 1


def test_a_stalled_disk_goes_on_when_it_moves_again_or_the_watchdog_barks() -> None:
    listener = Listener()
    listener.disk.is_stalled = True
    listener.writer.submit(Persist(1, HardState(1)))
    listener.world.run(11 * SECOND)
    assert listener.heard == ["stuck"]
    listener.disk.is_stalled = False
    listener.writer.wake()
    listener.world.run(12 * SECOND)
    assert listener.heard == ["stuck", 1]


def test_a_cut_takes_seals_and_damage_with_it() -> None:
    disk = Disk()
    made = entries(3)
    disk.commit(Persist(1, None, None, tuple(made), tuple(map(seal, made))))
    disk.damaged = {1, 3}
    disk.commit(Persist(2, None, 2))
    assert (disk.last_index, set(disk.seals), disk.damaged) == (2, {1, 2}, {1})
    assert not disk.holds(1, made[0].hash)
    assert disk.holds(2, made[1].hash)


def test_reads_of_older_history_end_at_a_seal() -> None:
    disk = Disk()
    made = entries(5)
    disk.commit(Persist(1, None, None, tuple(made), (seal(made[1]), seal(made[3]))))
    assert [entry.index for entry in disk.read(1, 1)[0]] == [1, 2]
    assert [entry.index for entry in disk.read(2, 1 << 20)[0]] == [2, 3, 4]
    assert disk.read(5, 1 << 20) == ((), ())
