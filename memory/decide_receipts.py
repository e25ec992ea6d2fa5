"""What a receipt does to a record: the decider of `memory.attest` (MEMORY § 3).

A receipt counts when its key may: in a guarded store that of an enrolled principal with the right `attest` in the
record's scope, in an open one the store's own runner key. Each receipt is spent by its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import events, rules, trust_commands
from .case import Case, judged
from .confirmation import is_settled
from .context import ATTEST, WRITE
from .errors import Invalid
from .events import Event, refused, unchanged
from .fields import json_object
from .grants import allows
from .principals import enrolled, is_guarded
from .receipts import PASS, Gate, bound_to, gate_of, objection, receipt_digest
from .record import REJECTED, Record
from .trust_commands import AttestBody


def _attest(case: Case[AttestBody]) -> Event:
    record = judged(case, case.body.id, WRITE)
    if not isinstance(record, Record):
        return record
    try:
        gate = gate_of(json_object("evidence", case.body.evidence))
    except Invalid:
        return refused(rules.MALFORMED, record.id)
    rule = _rule_against(case, gate, record)
    if rule:
        return refused(rule, record.id)
    receipt = receipt_digest(gate)
    if case.state.receipt_use(receipt) is not None:
        return refused(rules.RECEIPT_SPENT, record.id)
    if gate.verdict == PASS and is_settled(record):
        return unchanged(record.id)
    return [events.ATTESTED, record.id, receipt, gate.key, gate.verdict == PASS]


def _rule_against(case: Case[AttestBody], gate: Gate, record: Record) -> str:
    if record.trust == REJECTED:
        return rules.STANDING_REJECTION
    if not _is_trusted(case, gate.key, record.scope):
        return rules.RECEIPT_STRANGER
    about = bound_to(gate, record.subject, record.predicate, record.text, record.scope)
    return about or objection(gate, case.context.signatures, case.now_us)


def _is_trusted(case: Case[AttestBody], key: bytes, scope: str) -> bool:
    if not is_guarded(case.state):
        return key == case.context.runner_key
    grader = enrolled(case.state, key)
    return grader is not None and allows(grader.grants, ATTEST, scope)


RECEIPT_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {trust_commands.ATTEST: _attest}
