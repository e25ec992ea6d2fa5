"""*ask-before-taking-part*: a member that starts on a disk asks the others how far they have seen it."""

from __future__ import annotations

import random

import pytest
from transcript_world import MEMBERS, WALL_US, PaperNotary

from veridical.lease.messages import Holder, Prepare
from veridical.log.configuration import Configuration, Member, founding
from veridical.replication.kernel import Restored
from veridical.replication.messages import (
    DiskFull,
    Effect,
    Found,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Input,
    Lost,
    Message,
    Persist,
    Persisted,
    Receive,
    SeenQuery,
    SeenReply,
    Send,
    Sighting,
    Tick,
)
from veridical.replication.replica import Replica, Settings
from veridical.replication.sightings import IDLE_US

FOUNDERS = founding([Member(id, id, id.encode(), f"{id}:1") for id in MEMBERS])
LEADER = Holder("b", "7")
PROMISED = 5
REACHED = 9
WAIT_US = 660_000


class Start:
    """Member `a` starts on a disk that has promised epoch 5 to `b` and must reach entry 9."""

    def __init__(self, restored: Restored | None = None) -> None:
        promise = HardState(PROMISED, LEADER)
        disk = restored or Restored(promise, REACHED, REACHED, configurations=(FOUNDERS,))
        self.now_us = 0
        self.replica = Replica(Holder("a", "1"), disk, Settings(), PaperNotary("a"), random.Random(0), 0)
        self.effects: list[Effect] = []

    def take(self, input: Input, after_us: int = 0) -> list[Message]:
        """What it says then; its disk does at once what it is asked for."""
        self.now_us += after_us
        effects = self.replica.step(input, self.now_us, WALL_US)
        self.effects += effects
        said = [effect.message for effect in effects if isinstance(effect, Send)]
        for effect in effects:
            if isinstance(effect, Persist):
                said += self.take(Persisted(effect.token))
        return said

    def answered(self, member: str, *seen: Sighting, known: Configuration = FOUNDERS) -> None:
        """A member answers the question that was asked first."""
        request = next(
            e.message.request for e in self.effects if isinstance(e, Send) and isinstance(e.message, SeenQuery)
        )
        self.take(Receive(member, SeenReply(request, seen, known)))

    @property
    def is_open(self) -> bool:
        """Whether it may take part, as far as the others tell."""
        return self.replica.kernel.sightings.is_open

    @property
    def written(self) -> list[tuple[Sighting, ...] | None]:
        """What its writes took along of what was seen."""
        return [effect.seen for effect in self.effects if isinstance(effect, Persist)]

    @property
    def lost(self) -> list[str]:
        """Why it is lost."""
        return [effect.reason for effect in self.effects if isinstance(effect, Lost)]


def test_it_takes_part_once_all_have_answered() -> None:
    start = Start()
    assert [type(message) for message in start.take(Tick())] == [SeenQuery, SeenQuery]
    start.answered("b", Sighting("a", PROMISED, REACHED))
    assert not start.is_open
    start.answered("c", Sighting("a", PROMISED - 1, REACHED + 40))
    assert (start.is_open, start.lost) == (True, [])


def test_it_waits_for_the_rest_no_longer_than_grants_may_live() -> None:
    """With R of them; those that are silent are asked again meanwhile."""
    start = Start()
    start.take(Tick())
    start.answered("b")
    start.take(Tick(), WAIT_US - 1)
    assert not start.is_open
    start.take(Tick(), 1)
    assert start.is_open
    alone = Start()
    asked = len(alone.take(Tick()))
    for _ in range(20):
        asked += len(alone.take(Tick(), WAIT_US))
    assert (alone.is_open, asked) == (False, 42)
    assert alone.replica.deadline_us > alone.now_us


def test_it_confirms_and_grants_nothing_before() -> None:
    """A heartbeat is answered without a renewal and without a confirmation; a candidate is refused."""
    start = Start()
    beat = Heartbeat(PROMISED, LEADER, 0, 77, 3)
    candidate = Prepare(1, PROMISED + 1, Holder("c", "2"), FOUNDERS)
    assert [m for m in start.take(Receive("b", beat)) if isinstance(m, HeartbeatReply)] == [
        HeartbeatReply(PROMISED, 0, 0, 0)
    ]
    [refusal] = [m for m in start.take(Receive("c", candidate), WAIT_US) if not isinstance(m, SeenQuery)]
    assert getattr(refusal, "reason", "") == "damaged"


@pytest.mark.parametrize("seen", [(PROMISED + 1, 0), (PROMISED, REACHED + 1)])
def test_a_disk_that_others_saw_farther_is_lost(seen: tuple[int, int]) -> None:
    """It says so once, and answers nobody any more."""
    start = Start()
    start.take(Tick())
    start.answered("b", Sighting("a", *seen), Sighting("c", 99, 99))
    assert len(start.lost) == 1
    assert f"epoch {seen[0]} with {seen[1]} acknowledged" in start.lost[0]
    start.answered("c", Sighting("a", *seen))
    assert not start.is_open
    assert start.take(Receive("b", Heartbeat(PROMISED + 2, LEADER, 0, 77, 3)), 2 * WAIT_US) == []
    assert len(start.lost) == 1


def test_what_it_promises_while_it_asks_hides_nothing() -> None:
    """What counts is what was found on the disk, not what came since."""
    start = Start()
    start.take(Tick())
    start.take(Receive("b", Heartbeat(PROMISED + 3, LEADER, 0, 77, 3)))
    start.answered("c", Sighting("a", PROMISED + 1, 0))
    assert start.lost


def test_a_heartbeat_that_tells_of_more_is_as_good_as_an_answer() -> None:
    """Also long after the start."""
    start = Start()
    start.take(Tick())
    for member in ("b", "c"):
        start.answered(member)
    told = Heartbeat(PROMISED, LEADER, 0, 77, 3, (Sighting("a", PROMISED, REACHED + 1),))
    start.take(Receive("b", told))
    assert start.lost


def test_an_empty_disk_asks_only_where_others_have_history() -> None:
    """Founders are empty for certain; who comes late to its founding may be known, and have forgotten it."""
    founder = Start(Restored())
    assert founder.take(Found(FOUNDERS)) == []
    assert founder.is_open
    late = Start(Restored())
    known = Configuration(FOUNDERS.members, 2, 2, 1, 1)
    assert [type(message) for message in late.take(Found(known))] == [SeenQuery, SeenQuery]
    late.answered("b", Sighting("a", 1, 2))
    assert late.lost


def test_a_damaged_node_rests() -> None:
    """It asks when it is started again, whole."""
    damaged = Start(Restored(HardState(PROMISED, LEADER), REACHED, REACHED, configurations=(FOUNDERS,), damaged=True))
    assert damaged.take(Tick()) == []
    assert damaged.replica.deadline_us > 1 << 61


def test_it_counts_in_the_newest_configuration_it_hears_of() -> None:
    """Members of its own may be gone for ever."""
    start = Start()
    start.take(Tick())
    alone = Configuration((FOUNDERS.members[0], FOUNDERS.members[1]), 2, 2, 3, 8)
    start.answered("b", known=alone)
    assert start.is_open


def test_what_was_seen_is_stored_with_any_write_or_by_itself() -> None:
    """And again where the disk was full."""
    start = Start()
    told = (Sighting("c", 4, 2), Sighting("a stranger", 1, 1))
    start.take(Receive("b", Heartbeat(PROMISED, LEADER, 0, 0, 0, told)))
    assert start.written == []
    assert start.replica.deadline_us <= IDLE_US
    start.take(Tick(), IDLE_US)
    assert start.written == [(Sighting("c", 4, 2),)]
    start.take(Receive("b", Heartbeat(PROMISED, LEADER, 0, 77, 0, told)))
    start.take(Receive("b", Heartbeat(PROMISED + 1, LEADER, 0, 77, 0, (Sighting("c", 4, 3),))))
    assert start.written == [(Sighting("c", 4, 2),), (Sighting("c", 4, 3),)]
    start.take(DiskFull(True))
    start.take(DiskFull(False))
    start.take(Tick(), IDLE_US)
    assert start.written[2:] == [(Sighting("c", 4, 3),)]
