"""How a node without history finds its place (PROTOCOL § 10, *founding*)."""

import asyncio
from dataclasses import replace

from veridical.log.configuration import Member, cluster_id, founding
from veridical.memory.errors import Unavailable
from veridical.node.founding import Founded, Joined, Terms, Undecided, place, verdict
from veridical.node.ports import HelloReply

TERMS = Terms(write_quorum=None, lease_ttl_ms=600)


def reply(name: str, cluster: str = "test", history: str = "", id: str = "") -> HelloReply:
    key, share = name.encode().ljust(32), b"share" + name.encode().ljust(27)
    return HelloReply(
        id or f"id-{name}", name, cluster, key, f"{name}:7400", bool(history), history, b"" if history else share
    )


def test_all_empty_found_a_cluster_together() -> None:
    """Every first member comes to the same configuration, the same cluster id and the same digest key."""
    replies = {name: reply(name) for name in ("n1", "n2", "n3")}
    founded = [
        verdict(replies[me], {name: other for name, other in replies.items() if name != me}, TERMS) for me in replies
    ]
    first = founded[0]
    assert isinstance(first, Founded)
    assert founded == [first, first, first]
    assert [member.name for member in first.configuration.members] == ["n1", "n2", "n3"]
    assert (first.configuration.write_quorum, first.configuration.recovery_quorum) == (2, 2)
    assert first.cluster_id == cluster_id("test", first.configuration)
    assert len(first.digest_secret) == 32


def test_a_cluster_of_one_founds_itself() -> None:
    """Without peers there is nobody to wait for."""
    assert isinstance(verdict(reply("n1"), {}, TERMS), Founded)


def test_one_silent_peer_keeps_a_cluster_from_being_founded() -> None:
    """Only all first members together may found: the silent one could have history."""
    undecided = verdict(reply("n1"), {"n2": reply("n2"), "n3": None}, TERMS)
    assert undecided == Undecided("waiting for n3 to answer")


def test_history_anywhere_is_joined_although_others_are_silent() -> None:
    """A wiped volume can never found a second history beside the first."""
    joined = verdict(reply("n1"), {"n2": reply("n2", history="c" * 32), "n3": None}, TERMS)
    assert joined == Joined("c" * 32, None)


def test_the_newest_configuration_is_taken_from_those_with_history() -> None:
    """Peers may know configurations of different age."""
    older = founding([Member("id-n2", "n2", bytes(32), "n2:7400")])
    historic = reply("n2", history="c" * 32)
    known = replace(historic, configuration=older)
    assert verdict(reply("n1"), {"n2": known, "n3": reply("n3", history="c" * 32)}, TERMS) == Joined("c" * 32, older)


def test_different_histories_are_not_joined() -> None:
    """Somebody has to say which one is right."""
    undecided = verdict(reply("n1"), {"n2": reply("n2", history="a"), "n3": reply("n3", history="b")}, TERMS)
    assert undecided == Undecided("the peers have different histories: a, b")


def test_misplaced_peers_are_named() -> None:
    """A wrong cluster, a wrong endpoint and a copied directory each say what is wrong."""
    cases: list[tuple[HelloReply, str]] = [
        (reply("n2", cluster="other"), "n2 at n2:7400 belongs to cluster other, not test"),
        (reply("n3"), "the endpoint of n2 is answered by n3"),
        (reply("n2", id="id-n1"), "n2 and n1 share the id id-n1: was a data directory copied?"),
    ]
    for answer, reason in cases:
        assert verdict(reply("n1"), {"n2": answer}, TERMS) == Undecided(reason)


def test_a_node_asks_until_the_verdict_is_in() -> None:
    """Any start order: a peer that is not there yet is asked again, and the reason for waiting is told."""
    attempts: list[str] = []
    reasons: list[str] = []

    async def hello(endpoint: str, timeout_us: int) -> HelloReply:
        assert timeout_us > 0
        attempts.append(endpoint)
        if attempts.count(endpoint) < 2:
            raise Unavailable("not there yet", (endpoint,))
        return reply(endpoint.split(":", maxsplit=1)[0])

    peers = {name: f"{name}:7400" for name in ("n1", "n2")}
    found = asyncio.run(place(reply("n1"), peers, TERMS, hello, reasons.append))
    assert isinstance(found, Founded)
    assert attempts == ["n2:7400", "n2:7400"]
    assert reasons == ["waiting for n2 to answer"]
