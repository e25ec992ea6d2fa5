"""What waits for a slow peer is bounded, and what matters most goes first."""

from veridical.lease.messages import Holder
from veridical.log.entry import Entry
from veridical.node.transport import (
    OUTBOX_BYTES_LIMIT,
    OUTBOX_MESSAGES_LIMIT,
    PARCEL_BYTES_LIMIT,
    Outbox,
    weight_of,
)
from veridical.replication.messages import Append, Heartbeat, Message

HOLDER = Holder("n1", "run")


def heartbeat(stamp_us: int) -> Heartbeat:
    return Heartbeat(1, HOLDER, 0, stamp_us, 0)


def append(round: int, size: int) -> Append:
    entry = Entry.chain(bytes(32), round, 1, 0, b"", b"", b"", (bytes(size),))
    return Append(1, HOLDER, round, 0, bytes(32), (entry,), (), 0, 0)


def outbox_of(*messages: Message) -> Outbox:
    outbox = Outbox()
    for message in messages:
        outbox.put(message)
    return outbox


def test_a_heartbeat_does_not_wait_behind_entries():
    """Two lanes: the small one is emptied first."""
    outbox = outbox_of(append(1, 100), heartbeat(1), append(2, 100), heartbeat(2))
    assert outbox.take() == [heartbeat(1), heartbeat(2), append(1, 100), append(2, 100)]


def test_a_parcel_is_closed_when_it_is_full():
    """One large message goes alone; the next ones wait for the next parcel."""
    large = PARCEL_BYTES_LIMIT
    outbox = outbox_of(append(1, large), append(2, large), append(3, 10))
    assert [outbox.take(), outbox.take(), outbox.take()] == [[append(1, large)], [append(2, large)], [append(3, 10)]]
    assert len(outbox) == 0


def test_too_many_messages_drop_the_oldest():
    """The newest heartbeat is the one that still matters."""
    outbox = outbox_of(*(heartbeat(number) for number in range(OUTBOX_MESSAGES_LIMIT + 5)))
    taken = outbox.take()
    assert len(taken) == OUTBOX_MESSAGES_LIMIT
    assert taken[-1] == heartbeat(OUTBOX_MESSAGES_LIMIT + 4)
    assert outbox.dropped == 5


def test_too_many_bytes_drop_entries_and_no_heartbeat():
    """A peer that reads nothing costs a fixed amount of memory."""
    size = OUTBOX_BYTES_LIMIT // 4
    outbox = outbox_of(heartbeat(1), *(append(number, size) for number in range(9)), heartbeat(2))
    assert outbox.dropped > 0
    kept: list[Message] = []
    while len(outbox):
        kept += outbox.take()
    assert sum(map(weight_of, kept)) <= OUTBOX_BYTES_LIMIT
    assert kept[:2] == [heartbeat(1), heartbeat(2)]
    assert kept[-1] == append(8, size)


def test_one_message_over_the_limit_is_still_sent():
    """A limit of the queue is no limit of a message."""
    message = append(1, OUTBOX_BYTES_LIMIT + 1)
    assert outbox_of(message).take() == [message]
