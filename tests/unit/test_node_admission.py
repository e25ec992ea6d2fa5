"""Who may come in, and when those who wait go together."""

from dataclasses import dataclass

import pytest

from veridical.memory.errors import Retry
from veridical.node.admission import Admission, Bounds, Gate

BOUNDS = Bounds(batch_commands=100, batch_bytes=10_000, linger_min_us=2_000, linger_max_us=10_000)


@dataclass
class Item:
    commands: int = 1
    size_bytes: int = 10


def admission(now_us: int = 0) -> Admission[Item]:
    return Admission(BOUNDS, now_us)


def add(queue: Admission[Item], count: int, now_us: int) -> None:
    for _ in range(count):
        queue.add(Item(), now_us)


def test_a_lone_caller_never_lingers() -> None:
    """Alone in flight, every submission is its own round, at once."""
    queue = admission()
    for now_us in range(0, 100_000, 1_000):
        queue.add(Item(), now_us)
        assert queue.due_us() == 0
        assert len(queue.take(now_us)) == 1
        queue.round_ended(now_us + 500)


def test_nobody_waiting_means_nothing_is_due() -> None:
    """An empty queue asks for no timer."""
    assert admission().due_us() is None


def test_a_round_waits_for_as_many_as_went_before() -> None:
    """After a round of 64 its 64 callers come back: the next round waits for them, and no longer."""
    queue = admission()
    add(queue, 64, 1_000)
    queue.take(1_000)
    queue.round_ended(5_000)
    add(queue, 63, 5_500)
    due_us = queue.due_us()
    assert due_us is not None and due_us > 5_500
    queue.add(Item(), 5_600)
    assert queue.due_us() == 0


def test_lingering_is_bounded_and_then_forgotten() -> None:
    """When fewer come back, the round goes after the longest linger, and the next one expects only as many."""
    queue = admission()
    add(queue, 64, 1_000)
    queue.take(1_000)
    queue.round_ended(5_000)
    queue.add(Item(), 5_000)
    due_us = queue.due_us()
    assert due_us is not None and 5_000 + BOUNDS.linger_min_us <= due_us <= 5_000 + BOUNDS.linger_max_us
    assert len(queue.take(due_us)) == 1
    queue.add(Item(), due_us + 1_000)
    assert queue.due_us() == 0


def test_a_full_batch_is_due_at_once_and_leaves_the_rest() -> None:
    """A round takes what fits its bounds, in order."""
    queue = admission()
    add(queue, 90, 0)
    queue.take(0)
    queue.round_ended(10)
    for commands in (60, 60, 60):
        queue.add(Item(commands), 20)
    assert queue.due_us() == 0
    assert [item.commands for item in queue.take(20)] == [60]
    assert (len(queue), queue.commands, queue.size_bytes) == (2, 120, 20)


def test_an_oversize_item_goes_alone() -> None:
    """An item larger than a round still gets one."""
    queue = admission()
    queue.add(Item(commands=500), 0)
    queue.add(Item(), 0)
    assert [item.commands for item in queue.take(0)] == [500]


def test_everything_can_be_taken_back() -> None:
    """When leadership ends, all that waits is handed back in order."""
    queue = admission()
    add(queue, 3, 0)
    assert len(queue.take_all()) == 3
    assert (len(queue), queue.commands, queue.size_bytes, queue.due_us()) == (0, 0, 0, None)


@pytest.mark.parametrize(("commands", "size"), [(11, 1), (1, 1_001)])
def test_the_gate_turns_away_what_does_not_fit(commands: int, size: int) -> None:
    """Over a bound in commands or bytes callers are asked to retry, with a hint."""
    gate = Gate(commands_limit=20, bytes_limit=2_000)
    gate.enter(10, 1_000, hint_s=0.25)
    with pytest.raises(Retry) as refusal:
        gate.enter(commands, size, hint_s=0.25)
    assert refusal.value.retry_after_s == 0.25
    gate.leave(10, 1_000)
    gate.enter(commands, size, hint_s=0.25)


def test_an_empty_house_takes_anything() -> None:
    """What is larger than the whole bound still gets in when nobody else is there."""
    gate = Gate(commands_limit=1, bytes_limit=1)
    gate.enter(256, 1 << 20, hint_s=0)
    assert not gate.empty.is_set()
    gate.leave(256, 1 << 20)
    assert gate.empty.is_set()
