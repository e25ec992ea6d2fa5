"""Whoever may not, or brings what does not count: refused by the name of the rule, recorded, and nothing is changed.

One table, asked at every door of one guarded store; beside every refusal stands the call as it is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest
from contract_of_memory import (
    DAY_US,
    ELSEWHERE,
    GRADER_SEED,
    HERE,
    STRANGER_SEED,
    Guarded,
    Impostor,
    fact,
    new_id,
    receipt_for,
)

from veridical.client.blocking import BlockingMemory
from veridical.client.envelope import command_id
from veridical.client.system import SystemClock, SystemEntropy
from veridical.memory import MemoryRecord, Principal, rules
from veridical.memory.errors import Conflict, Refused
from veridical.memory.view import RecordVersion
from veridical.security.keys import KeyPair
from veridical.verdict import GateReceipt, Runner, Verdict

SIGNATURE = "signature"
"""The rule of an envelope that its author did not sign."""

FOR_THE_OPERATOR = (SIGNATURE, rules.NOT_GRANTED)
"""What is not authenticated or not granted is in no history: the node logs and counts it (`test_node_rounds.py`,
`test_node_verifier.py`). All other refusals are entries of the log."""

KEYS = iter(range(40, 250))
GRADER = Runner(KeyPair(GRADER_SEED))
CLOCK = SystemClock()

Act: TypeAlias = Callable[[], object]


class Scene(NamedTuple):
    """A guarded store, a record of Alice's in it, and the id that the command is to have."""

    those: Guarded
    record: MemoryRecord
    command: str

    @property
    def made(self) -> RecordVersion:
        """The event that made the record."""
        assert self.record.version is not None
        return self.record.version

    def enrolled(self, *rights: str) -> Principal:
        """Somebody new, who may write, and whatever else."""
        somebody = Principal(bytes([next(KEYS)]) * 32)
        self.those.admin.enroll(somebody, grants={"*": ["read", "write", *rights]})
        return somebody

    def says(self, author: Principal, command: str = "") -> Act:
        """That author states what the record says, signed, over a connection of Alice's."""
        return lambda: self.those.alice.remember_signed(
            author, subject=self.record.subject, predicate="is", scope=HERE, text="a value",
            command_id=command or self.command,
        )  # fmt: skip

    def attests(self, receipt: GateReceipt) -> Act:
        """Alice brings that receipt to the record."""
        return lambda: self.those.alice.attest(self.record.id, receipt, command_id=self.command)

    def state(self) -> list[object]:
        """All that a refused command could have changed."""
        admin, id = self.those.admin, self.record.id
        found, item = admin.get(id), admin.review_item(id)
        return [
            None if found is None else found.model_dump(exclude={"retrieval_strength"}),
            None if item is None else item.model_dump(exclude={"record"}),
            admin.history(id), admin.rejections(id), admin.principals(), admin.lattice().parents, admin.scopes(),
        ]  # fmt: skip


Prepared: TypeAlias = Callable[[Scene], Act]


def _good(scene: Scene) -> Act:
    return scene.attests(receipt_for(scene.record, GRADER))


def _revoked(scene: Scene) -> Act:
    somebody = scene.enrolled()
    scene.those.admin.revoke(somebody, reason="the key was lost")
    return scene.says(somebody)


def _rotated(which: int) -> Prepared:
    def prepared(scene: Scene) -> Act:
        keys = scene.enrolled(), Principal(bytes([next(KEYS)]) * 32)
        scene.those.admin.rotate(*keys)
        return scene.says(keys[which])

    return prepared


def _spent(scene: Scene) -> Act:
    receipt = receipt_for(scene.record, GRADER)
    other = scene.those.alice.write(fact(scene.record.subject, scope=ELSEWHERE))
    scene.those.alice.attest(other.id, receipt)
    return scene.attests(receipt)


def _of_a_grader(in_force: bool) -> Prepared:
    def prepared(scene: Scene) -> Act:
        grader = scene.enrolled("attest")
        if not in_force:
            scene.those.admin.ungrant(grader, "*", "attest")
        return scene.attests(receipt_for(scene.record, Runner(KeyPair(grader.seed))))

    return prepared


def _issued(ahead_us: int) -> Prepared:
    runner = Runner(KeyPair(GRADER_SEED), lambda: CLOCK.wall_us() + ahead_us)
    return lambda scene: scene.attests(receipt_for(scene.record, runner))


def _rejected(scene: Scene) -> Act:
    scene.those.admin.reject(scene.record.id, reason="it is not so")
    return lambda: scene.those.alice.write(fact(scene.record.subject), command_id=scene.command)


def _made(ahead_us: int) -> Prepared:
    made = command_id(CLOCK.wall_us() + ahead_us, SystemEntropy().bytes(8)).hex()
    return lambda scene: scene.says(scene.enrolled(), made)


VERBS: dict[str, Callable[[BlockingMemory, Scene], object]] = {
    "approve": lambda memory, scene: memory.approve(scene.record.id, command_id=scene.command),
    "promote": lambda memory, scene: memory.promote(scene.record.id, command_id=scene.command),
    "reject": lambda memory, scene: memory.reject(scene.record.id, command_id=scene.command),
    "demote": lambda memory, scene: memory.demote(scene.record.id, command_id=scene.command),
    "edit": lambda memory, scene: memory.edit(scene.record.id, "better", command_id=scene.command),
    "revoke a rejection": lambda memory, scene: memory.revoke_rejection(
        scene.record.id, "other", reason="why not", command_id=scene.command
    ),
    "undo": lambda memory, scene: memory.undo(scene.record.id, scene.made, reason="mine", command_id=scene.command),
    "erase": lambda memory, scene: memory.erase(scene.record.id, reason="mine", command_id=scene.command),
}
"""What takes a right that Alice does not have."""


def _by(who: str, verb: str) -> Prepared:
    return lambda scene: lambda: VERBS[verb](getattr(scene.those, who), scene)


CASES: dict[str, tuple[str, Prepared, Prepared]] = {
    "a wrong signature": (
        SIGNATURE, lambda scene: scene.says(Impostor(scene.enrolled())), lambda scene: scene.says(scene.enrolled()),
    ),
    "an unknown key": (
        rules.NOT_GRANTED, lambda scene: scene.says(Principal(b"u" * 32)), lambda scene: scene.says(scene.enrolled()),
    ),
    "a revoked key": (rules.NOT_GRANTED, _revoked, lambda scene: scene.says(scene.enrolled())),
    "a key that was rotated": (rules.NOT_GRANTED, _rotated(0), _rotated(1)),
    "an id of another time": (rules.ID_TOO_FAR_AHEAD, _made(86_400 * 1_000_000), _made(-1_000_000)),
    "a rejected value": (
        rules.REJECTED_VALUE, _rejected,
        lambda scene: lambda: scene.those.alice.write(fact(scene.record.subject, "other"), command_id=scene.command),
    ),
    "a receipt that is forged": (
        rules.RECEIPT_FORGED,
        lambda scene: scene.attests(receipt_for(scene.record, GRADER).model_copy(update={"signature": "0" * 128})),
        _good,
    ),
    "a pass over a run that failed": (
        rules.RECEIPT_EMPTY,
        lambda scene: scene.attests(
            receipt_for(scene.record, GRADER, Verdict.FAIL).model_copy(update={"verdict": Verdict.PASS})
        ),
        _good,
    ),
    "a receipt of a stranger": (
        rules.RECEIPT_STRANGER,
        lambda scene: scene.attests(receipt_for(scene.record, Runner(KeyPair(STRANGER_SEED)))), _good,
    ),
    "a receipt of who may attest no longer": (rules.RECEIPT_STRANGER, _of_a_grader(False), _of_a_grader(True)),
    "an expired receipt": (rules.RECEIPT_EXPIRED, _issued(-400 * DAY_US), _issued(-DAY_US)),
    "a receipt of the future": (rules.RECEIPT_EXPIRED, _issued(2 * DAY_US), _issued(0)),
    "a receipt about another text": (
        rules.RECEIPT_OTHER_CLAIM, lambda scene: scene.attests(receipt_for(scene.record, GRADER, text="another")),
        _good,
    ),
    "a receipt about another scope": (
        rules.RECEIPT_OTHER_SCOPE, lambda scene: scene.attests(receipt_for(scene.record, GRADER, scope=ELSEWHERE)),
        lambda scene: scene.attests(receipt_for(scene.record, GRADER, scope=HERE)),
    ),
    "a receipt that was used": (rules.RECEIPT_SPENT, _spent, _good),
    **{f"{verb} without the right": (rules.NOT_GRANTED, _by("alice", verb), _by("admin", verb)) for verb in VERBS},
}  # fmt: skip


class Refusals:
    """Refused with the rule's name, recorded, nothing changed."""

    @pytest.mark.parametrize("name", CASES)
    def test_it_is_refused_recorded_and_changes_nothing(self, guarded: Guarded, name: str) -> None:
        """Neither the record, nor what is remembered of it, nor who may what. Sent again, it is refused the same."""
        rule, wrong, right = CASES[name]
        scene = Scene(guarded, guarded.alice.write(fact(f"refused {name}")), new_id())
        act = wrong(scene)
        before = scene.state()
        guarded.alice.scopes()
        position = guarded.alice.last_seen
        for _ in range(2):
            with pytest.raises(Refused) as refusal:
                act()
            assert refusal.value.rule == rule, refusal.value
        assert (guarded.alice.last_seen > position) == (rule not in FOR_THE_OPERATOR)
        assert scene.state() == before
        right(Scene(guarded, guarded.alice.write(fact(f"allowed {name}")), new_id()))()

    def test_a_command_is_done_once_and_its_id_serves_for_nothing_else(self, guarded: Guarded) -> None:
        """Said again it is answered as the first time; with another content, or by somebody else, it is a conflict."""
        scene = Scene(guarded, guarded.alice.write(fact("a replayed command")), new_id())
        somebody, other = scene.enrolled(), scene.enrolled()
        scene.says(somebody)()
        before = scene.state()
        scene.says(somebody)()
        for thief in (
            scene.says(other),
            lambda: guarded.alice.write(fact("a replayed command", "another"), command_id=scene.command),
        ):
            with pytest.raises(Conflict):
                thief()
        assert scene.state() == before
        scene.says(other, new_id())()
        assert scene.state() != before

    def test_a_refusal_is_remembered_like_any_outcome(self, guarded: Guarded) -> None:
        """By its id it is refused still when the rule no longer stands; a new command is not."""
        scene = Scene(guarded, guarded.alice.write(fact("a refusal")), new_id())
        act = _rejected(scene)
        with pytest.raises(Refused):
            act()
        guarded.admin.revoke_rejection(scene.record.id, reason="it is so after all")
        with pytest.raises(Refused, match=rules.REJECTED_VALUE):
            act()
        guarded.alice.write(fact("a refusal"), command_id=new_id())
