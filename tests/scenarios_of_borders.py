"""Nobody crosses the border of its grants: each verb, asked of what lies elsewhere, beside somebody who may.

Bob reads, writes and reviews in one scope. Whatever he asks, with whatever scope, wildcard, empty value, cursor or id,
no answer and no error says a word of what is held in the other one. The administrator asks the same and hears it, so
that a verb that never says anything proves nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Final

import pytest
from contract_of_memory import ADMIN, BOB, Guarded, fact
from scenarios_of_tokens import holding

from veridical.client.blocking import BlockingMemory
from veridical.memory import BEGINNING, Cursor, Principal, ScopeLattice, rules
from veridical.memory.errors import Refused, VeridicalError

HERE, THERE = "contract/border", "beyond"
SECRET, BARRED = "swordfish", "marlin"
VAULTS: Final = count()
LATER: Final = datetime(2099, 1, 1, tzinfo=UTC)
UNKNOWN_ID: Final = "00" * 16
LATTICE: Final = ScopeLattice({HERE: THERE})


@dataclass
class Border:
    """What lies on the other side: a record that was another once, one that waits, and a cursor right before it."""

    id: str
    waiting: str
    before: Cursor


Ask = Callable[[BlockingMemory, Border], object]

READS: Final[Mapping[str, Ask]] = {
    "get": lambda m, b: m.get(b.id),
    "get as of": lambda m, b: m.get(b.id, as_of=LATER),
    "get_many": lambda m, b: m.get_many([b.id, b.waiting, UNKNOWN_ID]),
    "history": lambda m, b: m.history(b.id),
    "recall": lambda m, _: m.recall(f"vault {SECRET}", k=50),
    "recall there": lambda m, _: m.recall("vault", scope=THERE, k=50),
    "recall both": lambda m, _: m.recall("vault", scope=[HERE, THERE], k=50),
    "recall as of": lambda m, _: m.recall(f"vault {SECRET}", as_of=LATER, k=50),
    "all": lambda m, _: [*m.all()],
    "all there": lambda m, _: [*m.all(scope=THERE)],
    "members_as_of": lambda m, _: m.members_as_of("is", value=SECRET),
    "members_as_of there": lambda m, _: m.members_as_of("is", scope=THERE),
    "lattice_recall": lambda m, _: m.lattice_recall("vault", scope=HERE, lattice=LATTICE, k=50),
    "scopes": lambda m, _: m.scopes(),
    "lattice": lambda m, _: m.lattice(),
    "review_queue": lambda m, _: m.review_queue(limit=100),
    "review_queue there": lambda m, _: m.review_queue(scope=THERE),
    "review_item": lambda m, b: m.review_item(b.waiting),
    "rejections": lambda m, b: m.rejections(b.id),
    "watch": lambda m, _: [*m.watch(BEGINNING, follow=False)],
    "watch there": lambda m, _: [*m.watch(BEGINNING, scope=THERE, follow=False)],
    "watch by id": lambda m, b: [*m.watch(BEGINNING, ids=[b.id], follow=False)],
    "watch from a cursor": lambda m, b: [*m.watch(b.before, follow=False)],
}  # fmt: skip
"""What tells the administrator of the other side."""

OF_NOTHING: Final[Mapping[str, Ask]] = {
    "every scope": lambda m, _: m.recall("vault", scope="*", k=50),
    "all of a kind": lambda m, _: m.recall("vault", scope="contract/**", k=50),
    "no scope": lambda m, _: m.recall("vault", scope="", k=50),
    "blank": lambda m, _: m.recall("vault", scope=" ", k=50),
    "no scopes": lambda m, _: m.recall("vault", scope=[], k=50),
    "look-alike": lambda m, _: m.recall("vault", scope=f"{HERE}/../{THERE}", k=50),
    "all of every scope": lambda m, _: [*m.all(scope="*")],
    "no words": lambda m, _: m.recall("", k=50),
    "no id": lambda m, _: m.get(""),
    "an id cut short": lambda m, b: m.get(b.id[:-2]),
    "watch every scope": lambda m, _: [*m.watch(BEGINNING, scope="*", follow=False)],
}
"""What could be taken for more than it says: whatever comes of it, it is nothing of the other side."""

WRITES: Final[Mapping[str, Ask]] = {
    "write": lambda m, _: m.write(fact("a new one", scope=THERE)),
    "corroborate": lambda m, b: m.corroborate(b.id),
    "contradict": lambda m, b: m.contradict(b.id, evidence="doc:9"),
    "promote": lambda m, b: m.promote(b.id),
    "demote": lambda m, b: m.demote(b.id),
    "annotate": lambda m, b: m.annotate(b.id, metadata={"a": 1}),
    "set_flags": lambda m, b: m.set_flags(b.id, volatile=True),
    "pin": lambda m, b: m.pin(b.id),
    "unpin": lambda m, b: m.unpin(b.id),
    "approve": lambda m, b: m.approve(b.id),
    "edit": lambda m, b: m.edit(b.id, SECRET, reason="x"),
    "correct": lambda m, b: m.correct(b.id, SECRET),
    "mark_fixed": lambda m, b: m.mark_fixed(b.id),
    "revoke_rejection": lambda m, b: m.revoke_rejection(b.id, BARRED, reason="x"),
    "set_scope_parent": lambda m, _: m.set_scope_parent(THERE, "above"),
    "set_multi_valued": lambda m, _: m.set_multi_valued(THERE, "likes"),
    "grant": lambda m, _: m.grant(BOB, THERE, "read"),
    "enroll": lambda m, _: m.enroll(Principal(b"\x7f" * 32), grants={THERE: ["read"]}),
    "issue_token": lambda m, _: m.issue_token(ADMIN),
    "reject": lambda m, b: m.reject(b.id, reason="x"),
    "forget": lambda m, b: m.forget(b.id),
    "erase": lambda m, b: m.erase(b.id, reason="x"),
}
"""What the administrator is not refused for want of a right, in this order."""


def crossing(guarded: Guarded) -> Border:
    """Something on each side, once for each store."""
    admin = guarded.admin
    admin.grant(BOB, HERE, "review")
    admin.write(fact("vault", "nothing of note", scope=HERE))
    admin.set_scope_parent(HERE, THERE)
    before = Cursor("", admin.last_seen[1])
    subject = f"vault {next(VAULTS)}"
    wrong = admin.reject(admin.write(fact(subject, BARRED, scope=THERE)).id, reason="seen")
    admin.write(fact(subject, f"the word is {SECRET}", scope=THERE))
    waiting = admin.write(fact(f"{SECRET} again", SECRET, scope=THERE))
    return Border(wrong.id, waiting.id, before)


def said(answer: object) -> bool:
    """Whether an answer says anything of the other side."""
    text = repr(answer)
    return re.search(rf"{SECRET}|{BARRED}|\b{THERE}\b", text) is not None


def told(memory: BlockingMemory, ask: Ask, border: Border) -> bool:
    """Whether that memory tells of the other side: in an answer, or in an error, where a scope that was asked for is
    no news."""
    try:
        return said(ask(memory, border))
    except VeridicalError as error:
        return any(word in str(error) for word in (SECRET, BARRED))


def rule_of(call: Callable[[], object]) -> str:
    """The rule that stands against a call, or nothing."""
    try:
        call()
    except Refused as refusal:
        return refusal.rule
    return ""


class Borders:
    """Asked of a guarded store: by key, and under a token of the same principal."""

    def test_no_question_crosses(self, guarded: Guarded) -> None:
        """Bob hears of his own side, and of nothing else; the administrator of both."""
        border = crossing(guarded)
        token = guarded.admin.issue_token(BOB).token
        with holding(guarded.admin, token) as held:
            for memory in (guarded.bob, held):
                assert {name for name, ask in {**READS, **OF_NOTHING}.items() if told(memory, ask, border)} == set()
                assert [record.scope for record in memory.recall("vault note", scope=HERE)] == [HERE]
        silent = {name for name, ask in READS.items() if not told(guarded.admin, ask, border)}
        assert silent == set()

    def test_no_command_crosses(self, guarded: Guarded) -> None:
        """Each is refused alike, whether or not such a record is there; the administrator lacks the right to none."""
        border = crossing(guarded)
        nowhere = Border(UNKNOWN_ID, UNKNOWN_ID, border.before)
        before = guarded.admin.history(border.id), guarded.admin.principals()
        for name, ask in WRITES.items():
            reasons: set[str] = set()
            for side in (border, nowhere):
                with pytest.raises(Refused) as refusal:
                    ask(guarded.bob, side)
                assert (name, refusal.value.rule) == (name, rules.NOT_GRANTED)
                reasons.add(refusal.value.reason)
            assert len(reasons) == 1
        assert (guarded.admin.history(border.id), guarded.admin.principals()) == before
        for name, ask in WRITES.items():
            assert (name, rule_of(lambda ask=ask: ask(guarded.admin, border))) != (name, rules.NOT_GRANTED)
