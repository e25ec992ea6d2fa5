"""What bearer tokens open, and what ends them, through whatever door a memory has."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from contract_of_memory import ALICE, BOB, ELSEWHERE, HERE, Guarded, fact, refuses

from veridical.client.blocking import BlockingMemory
from veridical.client.surface import AsyncMemory
from veridical.memory import Principal, rules
from veridical.memory.errors import Conflict, Invalid, Refused
from veridical.memory.rules import REASONS
from veridical.node.rows import record_of
from veridical.proto.generated import memory_pb2
from veridical.security.tokens import BearerToken

SEEDS = count(150)
TIMEOUT_S = 10.0


def somebody(guarded: Guarded, scope: str = HERE) -> Principal:
    """A new principal who reads and writes in one scope."""
    found = Principal(bytes([next(SEEDS)]) * 32)
    guarded.admin.enroll(found, grants={scope: ["read", "write"]})
    return found


def shown(memory: BlockingMemory, token: BearerToken) -> set[str]:
    """The scopes of what the holder of that token recalls of a vault, over that memory's way to its nodes."""
    request = memory_pb2.ReadRequest(
        recall=memory_pb2.Recall(query="vault", k=50), mode=memory_pb2.READ_MODE_STRONG
    )  # fmt: skip

    async def ask(asynchronous: AsyncMemory) -> memory_pb2.ReadReply:
        deadline = asyncio.get_running_loop().time() + TIMEOUT_S
        return await asynchronous._route.ask(request, token, deadline)  # pyright: ignore[reportPrivateUsage]

    reply = memory._begin(ask).result()  # pyright: ignore[reportPrivateUsage]
    return {record.scope for hit in reply.hits.hits if (record := record_of(hit.row)) is not None}


def refused_by(memory: BlockingMemory, token: BearerToken) -> str:
    """The rule by which that token is turned away, whose words say no more than the rule does."""
    with pytest.raises(Refused) as refusal:
        shown(memory, token)
    assert refusal.value.reason == REASONS[refusal.value.rule]
    return refusal.value.rule


def ended(memory: BlockingMemory, token: BearerToken) -> str:
    """The rule by which a token is turned away in the end."""
    while True:
        try:
            shown(memory, token)
        except Refused as refusal:
            return refusal.rule


class Tokens:
    """Asked of a guarded store."""

    def test_a_token_is_worth_what_its_principal_is_granted(self, guarded: Guarded) -> None:
        """What lies elsewhere is not there; a right that is given or taken later counts at once."""
        for scope in (HERE, ELSEWHERE):
            guarded.alice.write(fact("vault", f"a secret in {scope}", scope=scope))
        reader = somebody(guarded)
        token = guarded.admin.issue_token(reader, label="a reader").token
        assert HERE in shown(guarded.admin, token) and ELSEWHERE not in shown(guarded.admin, token)
        guarded.admin.grant(reader, ELSEWHERE, "read")
        assert {HERE, ELSEWHERE} <= shown(guarded.admin, token)
        guarded.admin.ungrant(reader, "*", "read")
        with pytest.raises(Refused, match="not_granted"):
            shown(guarded.admin, token)

    def test_a_revoked_token_opens_nothing_more(self, guarded: Guarded) -> None:
        """Also where it was shown before; another one of the same principal goes on. Twice is once."""
        guarded.alice.write(fact("vault", "locked"))
        reader = somebody(guarded)
        first, second = (guarded.admin.issue_token(reader) for _ in range(2))
        assert shown(guarded.admin, first.token) == shown(guarded.admin, second.token) == {HERE}
        assert guarded.admin.revoke_token(first.id, reason="found in a repository").outcome == "token_revoked"
        assert refused_by(guarded.admin, first.token) == rules.TOKEN_REVOKED
        assert shown(guarded.admin, second.token) == {HERE}
        assert guarded.admin.revoke_token(first.id).outcome == "unchanged"

    def test_a_token_ends_with_its_time(self, guarded: Guarded) -> None:
        """A moment is over soon; an hour is not."""
        guarded.alice.write(fact("vault", "locked"))
        reader = somebody(guarded)
        short, long = guarded.admin.issue_token(reader, ttl_s=0.4), guarded.admin.issue_token(reader, ttl_s=3600)
        assert shown(guarded.admin, long.token) == {HERE}
        assert ended(guarded.admin, short.token) == rules.TOKEN_EXPIRED
        standing = {token.id: token.standing for token in guarded.admin.tokens()}
        assert (standing[short.id], standing[long.id]) == ("expired", "issued")

    def test_a_token_ends_with_its_key(self, guarded: Guarded) -> None:
        """Revoked or rotated: what stood for the old key stands for nobody."""
        revoked, rotated = somebody(guarded), somebody(guarded)
        tokens = [guarded.admin.issue_token(one).token for one in (revoked, rotated)]
        for token in tokens:
            shown(guarded.admin, token)
        guarded.admin.revoke(revoked, reason="left")
        guarded.admin.rotate(rotated, Principal(bytes([next(SEEDS)]) * 32))
        assert [refused_by(guarded.admin, token) for token in tokens] == [rules.TOKEN_ORPHANED] * 2

    def test_an_unknown_token_is_told_nothing(self, guarded: Guarded) -> None:
        """As if it had never been there; the right one beside it."""
        good = guarded.admin.issue_token(somebody(guarded)).token
        assert refused_by(guarded.admin, BearerToken.of(bytes(32))) == rules.TOKEN_UNKNOWN
        assert shown(guarded.admin, good) <= {HERE}

    def test_who_may_issue_list_and_revoke(self, guarded: Guarded) -> None:
        """Oneself for oneself, an administrator for everybody; of others' tokens one learns not even that they are."""
        for_alice = guarded.admin.issue_token(ALICE)
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.issue_token(ALICE))
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.revoke_token(for_alice.id))
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.revoke_token("00" * 16))
        refuses(guarded.admin, rules.TOKEN_UNKNOWN, lambda: guarded.admin.revoke_token("00" * 16))
        refuses(guarded.admin, rules.STRANGER, lambda: guarded.admin.issue_token(Principal(b"?" * 32)))
        own = guarded.bob.issue_token(label="Bob's own")
        assert own.principal == BOB.key_id
        listed = {token.id: token for token in guarded.bob.tokens()}
        assert (listed[own.id].label, listed[own.id].standing) == ("Bob's own", "issued")
        assert {token.principal for token in listed.values()} == {BOB.key_id}
        assert {own.id, for_alice.id} <= {token.id for token in guarded.admin.tokens()}
        assert guarded.bob.revoke_token(own.id).outcome == "token_revoked"
        assert {token.id: token.standing for token in guarded.bob.tokens()}[own.id] == "revoked"

    def test_a_secret_is_told_once(self, guarded: Guarded) -> None:
        """Neither the listing nor an error nor how it prints says it; it is recognised by its beginning."""
        issued = guarded.bob.issue_token(label="printed")
        assert issued.secret.startswith("vdt_") and len(issued.secret) == 68
        listing = "".join(token.model_dump_json() for token in guarded.admin.tokens())
        hidden = issued.secret.removeprefix("vdt_")
        assert issued.id in listing
        assert not any(hidden in text for text in (listing, repr(issued), str(issued.token)))
        with pytest.raises(Invalid) as error:
            guarded.bob.revoke_token(issued.secret)
        assert hidden not in str(error.value)

    def test_a_call_may_be_repeated(self, guarded: Guarded) -> None:
        """With its command id and its secret: one token. Another secret under that id is a conflict."""
        first = guarded.bob.issue_token(label="once")
        again = guarded.bob.issue_token(label="once", secret=first.token, command_id=first.done.command_id)
        assert (again.id, again.done.event) == (first.id, first.done.event)
        with pytest.raises(Conflict):
            guarded.bob.issue_token(label="once", command_id=first.done.command_id)
        refuses(guarded.admin, rules.TOKEN_KNOWN, lambda: guarded.bob.issue_token(secret=first.token))
