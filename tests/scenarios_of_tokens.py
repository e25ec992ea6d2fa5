"""What bearer tokens open, and what ends them, through whatever door a memory has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from copy import copy
from itertools import count

import pytest
from contract_of_memory import ADMIN, ALICE, BOB, ELSEWHERE, HERE, Guarded, fact, refuses

from veridical.client import ConnectedMemory
from veridical.client.blocking import BlockingMemory, Result, Work
from veridical.client.blocking_watch import BlockingChanges
from veridical.client.surface import AsyncMemory
from veridical.memory import BEGINNING, MemoryRecord, Principal, Trust, rules
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


def first_watched(memory: BlockingMemory) -> BlockingChanges:
    """A feed of which something was told already, at a node that knows the token by now."""
    while True:
        try:
            changes = memory.watch(BEGINNING)
        except Refused as refusal:
            if refusal.rule != rules.TOKEN_UNKNOWN:
                raise
        else:
            assert next(changes).scope == HERE
            return changes


class Held(BlockingMemory):
    """A memory of this process as the holder of a token has it, over the way of another one."""

    def __init__(self, memory: BlockingMemory, token: BearerToken) -> None:
        super().__init__(TIMEOUT_S, None, None)
        self._memory = memory
        self._token = token

    def close(self) -> None:
        """The other one goes on."""

    def _begin(self, work: Work[Result]) -> Future[Result]:
        async def held(memory: AsyncMemory) -> Result:
            other = copy(memory)
            other._principal = None  # pyright: ignore[reportPrivateUsage] - as if it had been opened with the token
            other._asking = self._token  # pyright: ignore[reportPrivateUsage]
            return await work(other)

        return self._memory._begin(held)


def holding(memory: BlockingMemory, token: BearerToken) -> BlockingMemory:
    """What the holder of a token opens at the same door."""
    endpoints: Sequence[str] | None = getattr(memory, "_endpoints", None)
    if endpoints is None:
        return Held(memory, token)
    return ConnectedMemory(endpoints, token=token.reveal(), read_consistency="strong", timeout_s=TIMEOUT_S)


def raised(found: Sequence[MemoryRecord | Refused]) -> None:
    """Raise the refusal among what became of many records."""
    for one in found:
        if isinstance(one, Refused):
            raise one


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

    def test_a_revocation_ends_a_feed_that_is_open(self, guarded: Guarded) -> None:
        """What was told before stays told; the next page is looked up anew."""
        guarded.alice.write(fact("vault", "watched"))
        issued = guarded.admin.issue_token(somebody(guarded))
        with holding(guarded.admin, issued.token) as held:
            changes = first_watched(held)
            guarded.admin.revoke_token(issued.id)
            with changes, pytest.raises(Refused, match="token_revoked"):
                assert {change.scope for change in changes} == {HERE}

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


class Claims:
    """What is written under a token, asked of a guarded store."""

    def test_a_claim_is_a_candidate_in_nobodys_name(self, guarded: Guarded) -> None:
        """One voice, whatever it cites and however many tokens there are; bounded by what the principal may write."""
        writer = somebody(guarded)
        id = ""
        for number in range(2):
            with holding(guarded.admin, guarded.admin.issue_token(writer).token) as held:
                id = held.write(fact("claim", "said under a token", source=f"doc:{number}")).id
                refuses(guarded.admin, rules.NOT_GRANTED, lambda held=held: held.write(fact("x", scope=ELSEWHERE)))
        found = guarded.admin.get(id)
        assert found is not None
        told = (found.trust, found.author, found.support_count, found.text)
        assert told == (Trust.CANDIDATE, "", 1, "said under a token")
        item = guarded.admin.review_item(id)
        assert item is not None
        assert (item.supporters, item.confirmed_by) == (0, 0)

    def test_claims_verify_nothing(self, guarded: Guarded) -> None:
        """Three holders of tokens of three principals say so; the same from two of them, signed, is verified."""
        people = [somebody(guarded) for _ in range(3)]
        id = ""
        for one in people:
            with holding(guarded.admin, guarded.admin.issue_token(one).token) as held:
                id = held.write(fact("chorus", "all say so")).id
        found = guarded.admin.get(id)
        assert found is not None
        assert (found.trust, found.support_count) == (Trust.CANDIDATE, 3)
        for one in people[:2]:
            guarded.admin.remember_signed(one, subject="chorus", predicate="is", scope=HERE, text="all say so")
        found = guarded.admin.get(id)
        assert found is not None
        assert found.trust is Trust.VERIFIED

    def test_a_claim_against_what_is_verified_waits(self, guarded: Guarded) -> None:
        """It takes no verified value's place, nor amends it."""
        id = guarded.admin.approve(guarded.alice.write(fact("bridge", "open")).id).id
        with holding(guarded.admin, guarded.admin.issue_token(ALICE).token) as held:
            assert held.write(fact("bridge", "shut")).outcome == "conflicted"
            held.write(fact("bridge", "open", metadata={"note": "mine"}))
        found = guarded.admin.get(id)
        assert found is not None
        assert (found.text, found.trust, found.metadata.get("note")) == ("open", Trust.VERIFIED, None)

    def test_a_token_states_and_does_nothing_else(self, guarded: Guarded) -> None:
        """Not even an administrator's; the same is done with the administrator's key."""
        id = guarded.alice.write(fact("gate", "shut")).id
        other = Principal(bytes([next(SEEDS)]) * 32)
        token = guarded.admin.issue_token(ADMIN).token
        with holding(guarded.admin, token) as held:
            calls: list[Callable[[], object]] = [
                lambda: held.approve(id), lambda: held.promote(id), lambda: held.corroborate(id),
                lambda: held.contradict(id, evidence="doc:1"), lambda: held.forget(id), lambda: held.pin(id),
                lambda: held.erase(id, reason="x"), lambda: held.correct(id, "open"), lambda: held.withdraw(id),
                lambda: held.enroll(other, grants={HERE: ["write"]}), lambda: held.revoke(BOB, reason="x"),
                lambda: held.grant(BOB, ELSEWHERE, "write"), lambda: held.ungrant(BOB, ELSEWHERE, "write"),
                lambda: held.issue_token(BOB), lambda: held.revoke_token(token.id.hex()),
                lambda: held.set_scope_parent(HERE, ELSEWHERE), lambda: held.rotate(BOB, other),
                lambda: raised(held.write_vouched([fact("gate", "open")], "eve")),
            ]  # fmt: skip
            for call in calls:
                refuses(guarded.admin, rules.TOKEN_CLAIMS_ONLY, call, id)
        assert guarded.admin.approve(id).trust is Trust.VERIFIED

    def test_a_claim_needs_a_token_that_is_in_force(self, guarded: Guarded) -> None:
        """Not one that is unknown, or of somebody who may only read; revoked, it ends in an open session."""
        writer, reader = somebody(guarded), Principal(bytes([next(SEEDS)]) * 32)
        guarded.admin.enroll(reader, grants={HERE: "read"})
        issued, read_only = guarded.admin.issue_token(writer), guarded.admin.issue_token(reader)
        for token, rule in ((read_only.token, rules.NOT_GRANTED), (BearerToken.of(bytes(32)), rules.TOKEN_UNKNOWN)):
            with holding(guarded.admin, token) as held:
                refuses(guarded.admin, rule, lambda held=held: held.write(fact("door", "ajar")))
        with holding(guarded.admin, issued.token) as held:
            assert held.write(fact("door", "open")).trust is Trust.CANDIDATE
            guarded.admin.revoke_token(issued.id)
            refuses(guarded.admin, rules.TOKEN_REVOKED, lambda: held.write(fact("door", "shut")))
