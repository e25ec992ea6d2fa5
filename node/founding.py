"""How a node without history finds its place: it founds a cluster with the others, or joins the one that is there.

Flags and files seed an empty directory only (PROTOCOL § 10). An empty node asks every configured peer. If any of them
has history, this node waits to be brought up to date. A cluster is founded only when *all* first members answer that
they are empty and name the same cluster, so that a wiped volume can never found a second history beside the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ..log.configuration import Configuration, Member, cluster_id, founding
from ..log.lineage import Ancestor
from ..memory.errors import VeridicalError
from ..security.digests import DigestKey
from .ports import HelloReply

SECOND_US = 1_000_000
ATTEMPT_PAUSE_S = 0.1
ATTEMPT_PAUSE_LIMIT_S = 1.0
HELLO_TIMEOUT_US = 2 * SECOND_US

Hello = Callable[[str, int], Awaitable[HelloReply]]


@dataclass(frozen=True, slots=True)
class Founded:
    """All first members are empty: this is their configuration, the id it gives the cluster, and its digest key."""

    configuration: Configuration
    cluster_id: str
    digest_secret: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """There is a history already, of this cluster; the node receives it from its leader."""

    cluster_id: str
    configuration: Configuration | None
    ancestors: tuple[Ancestor, ...] = ()


@dataclass(frozen=True, slots=True)
class Undecided:
    """Not yet; `reason` says for whom or for what this node waits, and is shown in its status."""

    reason: str


Verdict = Founded | Joined | Undecided


@dataclass(frozen=True, slots=True)
class Terms:
    """What a founder wants of a new cluster: W (None: the majority) and the time to live of its leases."""

    write_quorum: int | None
    lease_ttl_ms: int


def verdict(me: HelloReply, replies: Mapping[str, HelloReply | None], terms: Terms) -> Verdict:
    """What the answers of the configured peers (by name, without this node; None: no answer) mean for an empty node."""
    answers = [reply for reply in replies.values() if reply is not None]
    misplaced = _misplaced(me, replies)
    if misplaced:
        return Undecided(misplaced)
    if any(reply.has_history for reply in answers):
        return _joined([reply for reply in answers if reply.has_history])
    silent = sorted(name for name, reply in replies.items() if reply is None)
    if silent:
        return Undecided(f"waiting for {', '.join(silent)} to answer")
    return _founded([me, *answers], terms)


async def place(
    me: HelloReply,
    peers: Mapping[str, str],
    terms: Terms,
    hello: Hello,
    waiting: Callable[[str], None],
) -> Founded | Joined:
    """Ask the peers (endpoint by name, this node may be among them) until the verdict is in.

    `waiting` hears, at every attempt, why it is not.
    """
    others = {name: endpoint for name, endpoint in peers.items() if name != me.name}
    pause = ATTEMPT_PAUSE_S
    while True:
        replies = await asyncio.gather(*(_asked(hello, endpoint) for endpoint in others.values()))
        found = verdict(me, dict(zip(others, replies, strict=True)), terms)
        if not isinstance(found, Undecided):
            return found
        waiting(found.reason)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, ATTEMPT_PAUSE_LIMIT_S)


async def _asked(hello: Hello, endpoint: str) -> HelloReply | None:
    try:
        return await hello(endpoint, HELLO_TIMEOUT_US)
    except VeridicalError:
        return None


def _misplaced(me: HelloReply, replies: Mapping[str, HelloReply | None]) -> str:
    """Why an answer cannot be that of the peer that was asked; empty when all can."""
    seen = {me.node_id: me.name}
    for name, reply in replies.items():
        if reply is None:
            continue
        if reply.cluster != me.cluster:
            return f"{name} at {reply.endpoint} belongs to cluster {reply.cluster}, not {me.cluster}"
        if reply.name != name:
            return f"the endpoint of {name} is answered by {reply.name}"
        if reply.node_id in seen:
            return f"{name} and {seen[reply.node_id]} share the id {reply.node_id}: was a data directory copied?"
        seen[reply.node_id] = name
    return ""


def _joined(historic: list[HelloReply]) -> Verdict:
    ids = {reply.cluster_id for reply in historic if reply.cluster_id}
    if len(ids) > 1:
        return Undecided(f"the peers have different histories: {', '.join(sorted(ids))}")
    if not ids:
        return Undecided("the peers have history but do not know their cluster's id yet")
    known = [reply.configuration for reply in historic if reply.configuration is not None]
    newest = max(known, key=lambda configuration: configuration.version, default=None)
    ancestors = max((reply.ancestors for reply in historic), key=len)
    return Joined(ids.pop(), newest, ancestors)


def _founded(replies: list[HelloReply], terms: Terms) -> Founded:
    members = [Member(reply.node_id, reply.name, reply.public_key, reply.endpoint) for reply in replies]
    configuration = founding(members, terms.write_quorum, terms.lease_ttl_ms)
    id = cluster_id(replies[0].cluster, configuration)
    return Founded(configuration, id, DigestKey.from_shares(reply.share for reply in replies).secret)
