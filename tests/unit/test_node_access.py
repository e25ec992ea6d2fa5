"""Who asks: tickets that hold, and those that do not; and a store in which nobody has to show one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from memory_world import World
from node_cluster import CLOCK, cluster, enrolment, read, signed, write_command

from veridical.client.tickets import RENEWED_AFTER_US, Tickets
from veridical.memory.context import ADMIN, READ
from veridical.memory.errors import Invalid, Refused
from veridical.memory.principals import Reach
from veridical.node import access as access_module
from veridical.node.access import EVERYTHING, NOBODY, Access, Caller
from veridical.node.ports import ReadRequest, Verb
from veridical.node.questions import read_request_from_wire, read_request_to_wire
from veridical.projection.answers import Filters
from veridical.replication.messages import ReadMode
from veridical.security.principal import Principal
from veridical.security.tickets import LIFETIME_US, Ticket, signed_ticket

CLUSTER, ELSEWHERE = "c" * 32, "d" * 32
ADMINISTRATOR, READER, STRANGER = (Principal(bytes([number]) * 32) for number in (1, 2, 3))
MINUTE_US = 60_000_000


@dataclass
class FixedClock:
    """A wall that stands still until it is moved."""

    now_us: int = 1_700_000_000_000_000

    def elapsed_us(self) -> int:
        return self.now_us

    def wall_us(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def access(clock: FixedClock) -> Access:
    return Access(CLUSTER, clock)


@pytest.fixture
def guarded() -> World:
    """An administrator, and a reader of one team."""
    world = World()
    world.guard(ADMINISTRATOR.public_key)
    world.enroll(READER.public_key, ("team:a/**", "read"), author=ADMINISTRATOR.public_key)
    return world


def ticket_of(principal: Principal, clock: FixedClock, cluster_id: str = CLUSTER) -> Caller:
    return Caller(ticket=signed_ticket(cluster_id, principal, clock.wall_us()))


def test_an_open_store_looks_at_nothing(access: Access, clock: FixedClock) -> None:
    """Neither at who asks nor at what is shown."""
    forged = Caller(ticket=Ticket(bytes(32), 0, bytes(64)))
    for caller in (NOBODY, forged, ticket_of(STRANGER, clock)):
        assert access.reach(World().state, caller, ADMIN) == EVERYTHING


def test_a_ticket_is_worth_what_its_author_is_granted(access: Access, clock: FixedClock, guarded: World) -> None:
    """As is a key that is believed; another right than the one granted is none."""
    for caller in (ticket_of(READER, clock), Caller(READER.public_key)):
        assert access.reach(guarded.state, caller, READ) == Reach(("team:a/**",))
        with pytest.raises(Refused, match="not_granted"):
            access.reach(guarded.state, caller, ADMIN)
        with pytest.raises(Refused, match="not_granted"):
            access.require_everywhere(guarded.state, caller, READ)
    access.require_everywhere(guarded.state, ticket_of(ADMINISTRATOR, clock), READ)


def test_strangers_and_nobody_see_nothing(access: Access, clock: FixedClock, guarded: World) -> None:
    """Also with a good signature, and with a key that was rotated or revoked."""
    guarded.rotate(READER.public_key, STRANGER, author=READER.public_key)
    assert access.reach(guarded.state, ticket_of(STRANGER, clock), READ) == Reach(("team:a/**",))
    for caller in (NOBODY, ticket_of(READER, clock), Caller(READER.public_key)):
        with pytest.raises(Refused, match="not_granted"):
            access.reach(guarded.state, caller, READ)


def test_a_forged_ticket_is_said_to_be_one(access: Access, clock: FixedClock, guarded: World) -> None:
    """Another's name, another cluster, another time, another signature; the right one beside them."""
    good = signed_ticket(CLUSTER, ADMINISTRATOR, clock.wall_us())
    forged = [
        signed_ticket(CLUSTER, STRANGER, clock.wall_us())._replace(author=ADMINISTRATOR.public_key),
        signed_ticket(ELSEWHERE, ADMINISTRATOR, clock.wall_us()),
        good._replace(issued_at_us=good.issued_at_us + 1),
        good._replace(signature=bytes(64)),
        good._replace(signature=b""),
        good._replace(author=b"short"),
    ]
    for ticket in forged:
        with pytest.raises(Refused, match=r"^ticket: it is not signed"):
            access.reach(guarded.state, Caller(ticket=ticket), READ)
    assert access.reach(guarded.state, Caller(ticket=good), READ) == EVERYTHING


def test_a_ticket_runs_out(access: Access, clock: FixedClock, guarded: World) -> None:
    """After five minutes, also one that was verified before; and none is taken from a clock that is far ahead."""
    caller = ticket_of(ADMINISTRATOR, clock)
    clock.now_us += LIFETIME_US
    assert access.reach(guarded.state, caller, READ) == EVERYTHING
    clock.now_us += 1
    with pytest.raises(Refused, match=r"^ticket: it was issued 300 s ago"):
        access.reach(guarded.state, caller, READ)
    ahead = ticket_of(ADMINISTRATOR, FixedClock(clock.now_us + LIFETIME_US + 1))
    with pytest.raises(Refused, match=r"^ticket"):
        access.reach(guarded.state, ahead, READ)


def test_what_is_remembered_is_bounded(
    access: Access, clock: FixedClock, guarded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that signs a ticket for each question fills no memory."""
    monkeypatch.setattr(access_module, "KNOWN_TICKETS_LIMIT", 4)
    for _ in range(20):
        clock.now_us += 1
        assert access.reach(guarded.state, ticket_of(ADMINISTRATOR, clock), READ) == EVERYTHING
        assert 1 <= len(access._verified) <= 4  # pyright: ignore[reportPrivateUsage]


def test_a_client_signs_one_ticket_a_minute(clock: FixedClock) -> None:
    """And another one when its clock was set back."""
    tickets = Tickets(clock)
    first = tickets.ticket(READER, CLUSTER)
    clock.now_us += RENEWED_AFTER_US - 1
    assert tickets.ticket(READER, CLUSTER) is first
    clock.now_us += 1
    second = tickets.ticket(READER, CLUSTER)
    assert second.issued_at_us == clock.now_us
    clock.now_us -= MINUTE_US
    assert tickets.ticket(READER, CLUSTER) is not second
    raw = Ticket(second.author, second.issued_at_us, second.signature)
    assert raw.is_signed_for(CLUSTER)
    assert not raw.is_signed_for(ELSEWHERE)


def test_a_read_that_is_passed_on_takes_its_ticket_along(clock: FixedClock) -> None:
    """Between nodes as from the client; a key that was believed in one process is no proof in another."""
    request = ReadRequest(Verb.SCOPES, {}, ReadMode.STRONG, 1_000, caller=ticket_of(READER, clock), forwarded=True)
    assert read_request_from_wire(read_request_to_wire(request)) == request
    believed = replace(request, caller=Caller(READER.public_key))
    assert read_request_from_wire(read_request_to_wire(believed)).caller == NOBODY


def test_members_answer_each_others_readers_within_their_grants(tmp_path: Path) -> None:
    """Whichever node is asked, and in whatever mode: what answers is a state, and the grants that it holds."""

    async def play() -> None:
        async with cluster(tmp_path) as running:
            leader = await running.leader()
            cluster_id = leader.status().cluster_id
            first = [enrolment(ADMINISTRATOR)]
            await leader.submit(signed(ADMINISTRATOR, cluster_id, first))
            then = [
                enrolment(READER, ("team:a", ("read",))),
                *(write_command("sky", "is blue", scope=scope) for scope in ("team:a", "team:b")),
            ]
            await leader.submit(signed(ADMINISTRATOR, cluster_id, then))
            denied = await running.followers()[0].submit_anonymous([write_command("sky", "is red")], 5_000_000)
            assert [(outcome.code, outcome.rule) for outcome in denied.outcomes] == [("refused", "not_granted")]
            assert denied.index == 0
            await running.level()
            by_ticket = Caller(ticket=signed_ticket(cluster_id, READER, CLOCK.wall_us()))
            for node in running.nodes.values():
                for mode in (ReadMode.LOCAL, ReadMode.STRONG, ReadMode.QUORUM):
                    reply = await read(node, Verb.RECALL, mode, query="sky", caller=by_ticket)
                    assert [hit.record.scope for hit in reply.value.hits] == ["team:a"]
                    assert reply.scopes == ("team:a",)
                    with pytest.raises(Refused, match="not_granted"):
                        await read(node, Verb.RECALL, mode, query="sky")
                with pytest.raises(Invalid):
                    await read(node, Verb.RECALL, query="sky", filters=Filters(("team:a/**",)), caller=by_ticket)
                with pytest.raises(Refused, match="not_granted"):
                    await node.require_everywhere(by_ticket, ADMIN)
                await node.require_everywhere(Caller(ADMINISTRATOR.public_key), ADMIN)

    asyncio.run(play())
