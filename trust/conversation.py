"""Conversations: what is said in them enters as candidates, and is graded by who says it and what proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from ..memory.errors import Invalid, Refused
from ..memory.receipts import fact_commitment
from ..memory.rules import NOT_GRANTED
from ..memory.view import MemoryRecord, Trust
from ..verdict import GateReceipt
from .chat import Chat
from .facts import ExtractedFact, Extraction, extract_facts
from .ports import Evidence, TrustedMemory

CONVERSATION: Final = "conversation"
SUPERSEDED: Final = "superseded"
CONFLICTED: Final = "conflicted"

Authenticate = Callable[[str], str | None]
"""From a source (a session token, say) to the principal that it proves: a key in hex or any other identity; or None."""


class Grade(StrEnum):
    """What became of a fact. Each fact has one."""

    VERIFIED = "verified"
    CANDIDATE = "candidate"
    SUPERSEDED = "superseded"
    CONTENDING = "contending"
    REFUSED = "refused"


class GradedFact(NamedTuple):
    """A fact of a conversation, and what the memory made of it.

    `superseded`: it took the place of another value, as a candidate. `contending`: a verified value of others stands,
    and this one waits beside it. `refused`: `reason` says by which rule. `reason` also says why evidence was not taken.
    """

    fact: ExtractedFact
    grade: Grade
    record: MemoryRecord | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConversationReport:
    """What a conversation left in the memory. `extraction` tells what was not taken, and whether it failed."""

    facts: tuple[GradedFact, ...]
    extraction: Extraction

    @property
    def extraction_failed(self) -> bool:
        """Whether the model's answer could not be read: nothing was stored, and it may be tried again."""
        return self.extraction.failed

    @property
    def dropped(self) -> Mapping[str, int]:
        """What was proposed and not taken, counted by reason."""
        return self.extraction.dropped

    def count(self, grade: Grade) -> int:
        """How many facts came to that grade."""
        return sum(fact.grade == grade for fact in self.facts)

    def summary(self) -> str:
        """One line. What is out of the ordinary is named when there is any."""
        if self.extraction_failed:
            return f"remember: extraction failed ({self.extraction.reason}); nothing was stored"
        usual = (Grade.VERIFIED, Grade.CANDIDATE, Grade.SUPERSEDED, Grade.REFUSED)
        told = [f"{self.count(grade)} {grade}" for grade in usual]
        told += [f"{number} {name}" for name, number in self._rest() if number]
        return f"remember: {', '.join(told)}"

    def _rest(self) -> Iterator[tuple[str, int]]:
        yield Grade.CONTENDING.value, self.count(Grade.CONTENDING)
        yield "dropped", sum(self.dropped.values())
        yield "fenced blocks cut", self.extraction.fenced_blocks


def remember_conversation(
    mem: TrustedMemory,
    transcript: str,
    *,
    scope: str,
    chat: Chat | None = None,
    authenticate: Authenticate | None = None,
    source: str = "",
    evidence: Evidence | Sequence[Evidence] = (),
) -> ConversationReport:
    """Extract the facts of a transcript, write them as candidates, and grade them.

    A fact is verified when a receipt in `evidence` is about it, or once enough distinct authenticated principals have
    said it; repetition alone never verifies. `authenticate` says whom `source` proves; such a write needs the right
    `vouch`. A source that proves nobody is anonymous; where there is an `authenticate`, the source may be a secret, and
    is not kept. Raises `Refused` when the memory may not be written to.
    """
    extraction = extract_facts(transcript, chat)
    speaker = None if authenticate is None else authenticate(source)
    label = source if authenticate is None else ""
    records = [_record(fact, scope, label) for fact in extraction]
    written = _written(mem, records, speaker)
    receipts = _by_claim(evidence)
    graded = [
        _graded(mem, fact, answer, receipts.get(fact_commitment(*fact)))
        for fact, answer in zip(extraction, written, strict=True)
    ]
    return ConversationReport(tuple(graded), extraction)


def _record(fact: ExtractedFact, scope: str, source: str) -> MemoryRecord:
    subject, predicate, text = fact
    return MemoryRecord(
        subject=subject, predicate=predicate, text=text, scope=scope, source=source, provenance=[CONVERSATION]
    )


def _written(
    mem: TrustedMemory, records: Sequence[MemoryRecord], speaker: str | None
) -> Sequence[MemoryRecord | Refused]:
    if not records:
        return ()
    answers = mem.write_many(records) if speaker is None else mem.write_vouched(records, speaker)
    for answer in answers:
        if isinstance(answer, Refused) and answer.rule == NOT_GRANTED:
            raise answer
    return answers


def _by_claim(evidence: Evidence | Sequence[Evidence]) -> dict[str, Evidence]:
    """Receipts by the claim that they are about."""
    if isinstance(evidence, Mapping | GateReceipt):
        evidence = [evidence]
    return {_commitment(receipt): receipt for receipt in evidence}


def _commitment(receipt: Evidence) -> str:
    commitment = receipt.commitment if isinstance(receipt, GateReceipt) else receipt.get("commitment")
    if type(commitment) is not str:
        raise Invalid("evidence", "is not a gate receipt; see attest_fact")
    return commitment


def _graded(
    mem: TrustedMemory, fact: ExtractedFact, answer: MemoryRecord | Refused, receipt: Evidence | None
) -> GradedFact:
    if isinstance(answer, Refused):
        return GradedFact(fact, Grade.REFUSED, None, str(answer))
    if answer.outcome == CONFLICTED:
        return GradedFact(fact, Grade.CONTENDING, answer, "another principal's verified value stands; see the review")
    outcome, reason = answer.outcome, ""
    if receipt is not None:
        try:
            answer = mem.attest(answer.id, receipt)
        except Refused as refusal:
            reason = f"the evidence was not taken: {refusal}"
    return GradedFact(fact, _grade(answer, outcome), answer, reason)


def _grade(record: MemoryRecord, outcome: str) -> Grade:
    if record.trust == Trust.VERIFIED:
        return Grade.VERIFIED
    return Grade.SUPERSEDED if outcome == SUPERSEDED else Grade.CANDIDATE
