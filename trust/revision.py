"""Contraction: a rule that did not hold is weakened, narrowed or given up, and what rested on it says so.

Revision only ever lowers trust or narrows what is claimed. A rule that changes its words is a candidate again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from ..memory.errors import Invalid, Refused
from ..memory.limits import DERIVED_FROM_LIMIT
from ..memory.rules import NOT_GRANTED, NOT_YOURS, REASONS, UNKNOWN_RECORD
from ..memory.text import value_key
from ..memory.view import MemoryKind, MemoryRecord, Trust
from .clusters import schema_text, shown
from .design import DesignRule, rule_of, rule_record, schema_record, strings_of
from .ports import TrustedMemory

SPLIT_AFTER: Final = 2
EXCEPTIONS_LIMIT: Final = 8
"""A rule with more exceptions than that is none: from then on it is only contradicted."""

PENDING: Final = "counterexamples"
ABSORBED: Final = "absorbed"


class Action(StrEnum):
    """What became of a rule. `unchanged`: this counterexample had counted before."""

    WEAKENED = "weakened"
    SPLIT = "split"
    REJECTED = "rejected"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Revision:
    """What a counterexample did to a rule. `rule` is what is held under its key afterwards.

    `narrowed` and `exception` are there after a split. Where others have verified the rule and the caller may not
    demote it, `narrowed` waits beside it for a reviewer, and the action is `weakened`.
    """

    action: Action
    rule_id: str
    rule: MemoryRecord
    narrowed: MemoryRecord | None = None
    exception: MemoryRecord | None = None
    schemas: tuple[MemoryRecord, ...] = ()


def revise_with_counterexample(
    mem: TrustedMemory, rule: MemoryRecord, counterexample: MemoryRecord | str, split_after: int = SPLIT_AFTER
) -> Revision:
    """Hold a failure against a rule that should have prevented it.

    It is recorded, and the rule contradicted; with `split_after` of them the rule is narrowed by what they have in
    common, and they become a rule of their own. Each counterexample counts once. Raises `Refused` for a rule that is
    not held.
    """
    if split_after < 1:
        raise Invalid("split_after", f"{split_after} is less than 1")
    held = mem.get(rule.id)
    if held is None:
        raise Refused(UNKNOWN_RECORD, REASONS[UNKNOWN_RECORD])
    if held.trust == Trust.REJECTED:
        return Revision(Action.REJECTED, held.id, held)
    against = _recorded(mem, held, counterexample)
    pending = strings_of(held, PENDING)
    if against.id in (*pending, *strings_of(held, ABSORBED)):
        return Revision(Action.UNCHANGED, held.id, held)
    pending.append(against.id)
    if len(pending) >= split_after and len(rule_of(held).exceptions) + len(pending) <= EXCEPTIONS_LIMIT:
        revision = _split(mem, held, pending)
        if revision is not None:
            return revision
    _allowed(lambda: mem.annotate(held.id, detail={PENDING: pending}))
    return _contradicted(mem, held, against)


def propagate_revision(mem: TrustedMemory, rule_id: str) -> list[MemoryRecord]:
    """Word anew every schema above a rule that has changed, up to the top; returns those that changed.

    One that is left with fewer than two members is forgotten. What is verified is a candidate again.
    """
    changed: list[MemoryRecord] = []
    pending, seen = [rule_id], {rule_id}
    while pending:
        below = pending.pop(0)
        for schema in _resting_on(mem, below):
            if schema.id in seen:
                continue
            seen.add(schema.id)
            revised = _reworded(mem, schema)
            if revised is not None:
                changed.append(revised)
                pending.append(schema.id)
    return changed


def renew_schemas(mem: TrustedMemory, scope: str) -> list[MemoryRecord]:
    """Word anew the schemas of a scope that have lost a member, and those above them; returns those that changed."""
    changed: list[MemoryRecord] = []
    for schema in list(mem.all(scope=scope, kind=MemoryKind.SCHEMA)):
        members = strings_of(schema, "members")
        if schema.trust != Trust.REJECTED and len(_living(mem, members)) < len(members):
            revised = _reworded(mem, schema)
            changed += [revised, *propagate_revision(mem, schema.id)] if revised is not None else []
    return changed


# --- how --------------------------------------------------------------------------------------------------------------


def _recorded(mem: TrustedMemory, rule: MemoryRecord, counterexample: MemoryRecord | str) -> MemoryRecord:
    """The counterexample as a record: that of the failure ledger, or one of its own."""
    if isinstance(counterexample, MemoryRecord) and counterexample.id:
        held = mem.get(counterexample.id)
        if held is not None:
            return held
    text = counterexample if isinstance(counterexample, str) else counterexample.text
    digest = sha256(value_key(text).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return mem.write(
        MemoryRecord(
            kind=MemoryKind.FAILURE,
            subject=f"counterexample {digest}",
            predicate="fails",
            text=text,
            scope=rule.scope,
            detail={"kind": rule_of(rule).covers_kind},
        )
    )


def _contradicted(mem: TrustedMemory, rule: MemoryRecord, against: MemoryRecord) -> Revision:
    after = mem.contradict(
        rule.id, evidence=f"record:{against.id}", reason=f"it did not prevent: {shown(against.text)}"
    )
    action = Action.REJECTED if after.trust == Trust.REJECTED else Action.WEAKENED
    schemas = propagate_revision(mem, rule.id) if action is Action.REJECTED else []
    return Revision(action, rule.id, after, schemas=tuple(schemas))


def _split(mem: TrustedMemory, held: MemoryRecord, pending: list[str]) -> Revision | None:
    """Narrow a rule by its counterexamples, and make these one; None when the memory does not take the narrowed one."""
    counterexamples = [record for record in mem.get_many(pending) if record is not None]
    rule = rule_of(held)
    conditions = tuple(dict.fromkeys(shown(record.text) for record in counterexamples))
    narrowed = DesignRule(rule.condition, rule.action, rule.covers_kind, (*rule.exceptions, *conditions))
    _made_candidate(mem, held)
    record = rule_record(narrowed, subject=held.subject, scope=held.scope, derived_from=held.derived_from)
    absorbed = [*strings_of(held, ABSORBED), *pending]
    detail = {**held.detail, **narrowed.detail(), ABSORBED: absorbed}
    detail.pop(PENDING, None)
    record = record.model_copy(update={"detail": detail, "kind": held.kind, "predicate": held.predicate})
    try:
        written = mem.write(record)
    except Refused as refusal:
        if refusal.rule == NOT_GRANTED:
            raise
        return None
    exception = _exception(mem, held, rule, conditions, pending)
    if written.outcome == "conflicted":
        revision = _contradicted(mem, held, counterexamples[-1])
        return Revision(revision.action, held.id, revision.rule, written, exception)
    schemas = propagate_revision(mem, held.id)
    return Revision(Action.SPLIT, held.id, written, written, exception, tuple(schemas))


def _exception(
    mem: TrustedMemory, held: MemoryRecord, rule: DesignRule, conditions: Sequence[str], against: Sequence[str]
) -> MemoryRecord:
    """The rule for where the rule does not hold, resting on the counterexamples."""
    subject = f"{held.subject} exception {len(rule.exceptions) + len(conditions)}"
    exception = DesignRule(", or when ".join(conditions), f"do not rely on this: {rule.action}", rule.covers_kind)
    record = rule_record(exception, subject=subject, scope=held.scope, derived_from=against[:DERIVED_FROM_LIMIT])
    return mem.write(record.model_copy(update={"detail": record.detail | {"exception_to": held.id}}))


def _resting_on(mem: TrustedMemory, id: str) -> list[MemoryRecord]:
    """The schemas above a record, also those that it has left by now."""
    return [
        schema
        for schema in mem.all(kind=MemoryKind.SCHEMA)
        if schema.trust != Trust.REJECTED and id in (*schema.derived_from, *strings_of(schema, "members"))
    ]


def _reworded(mem: TrustedMemory, schema: MemoryRecord) -> MemoryRecord | None:
    """The schema over what is left of its members, or as it was when it was forgotten; None if it says the same."""
    members = _living(mem, (*schema.derived_from, *strings_of(schema, "members")))
    if len(members) < 2:
        gone = _allowed(lambda: mem.forget(schema.id, reason="fewer than two of its members are left"))
        return schema if gone else None
    order = schema.detail.get("order")
    record = schema_record(
        schema.subject,
        schema_text(schema.subject, members),
        order if isinstance(order, int) else 2,
        members,
        schema.scope,
    )
    if value_key(record.text) == value_key(schema.text):
        return None
    _made_candidate(mem, schema)
    try:
        return mem.write(record)
    except Refused as refusal:
        if refusal.rule == NOT_GRANTED:
            raise
        return None


def _living(mem: TrustedMemory, ids: Iterable[str]) -> list[MemoryRecord]:
    wanted = list(dict.fromkeys(ids))
    found = [record for record in mem.get_many(wanted) if record is not None and record.trust != Trust.REJECTED]
    return sorted(found, key=lambda record: record.id)


def _made_candidate(mem: TrustedMemory, record: MemoryRecord) -> None:
    """What is verified may not be overwritten by those who did not verify it; a reviewer can take that back first."""
    if record.trust == Trust.VERIFIED:
        _allowed(lambda: mem.demote(record.id, reason="a counterexample was found", trust=Trust.CANDIDATE))


def _allowed(call: Callable[[], object]) -> bool:
    """Whether a call was carried out that the caller may not be entitled to."""
    try:
        call()
    except Refused as refusal:
        if refusal.rule not in (NOT_GRANTED, NOT_YOURS):
            raise
        return False
    return True
