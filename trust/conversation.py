"""Conversations: what is said in them enters as candidates, and is graded by who says it and what proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from ..memory.errors import Invalid, Refused, TooLarge
from ..memory.fence import without_fenced
from ..memory.receipts import fact_commitment
from ..memory.rules import FORGOTTEN_SOURCE, NOT_GRANTED
from ..memory.text import value_key
from ..memory.view import MemoryRecord, Trust
from ..verdict import GateReceipt
from .chat import Chat
from .facts import TRANSCRIPT_CHARACTERS_LIMIT, ExtractedFact, Extraction, extract_facts
from .leaks import masked
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
    """What a conversation left in the memory. `extraction` tells what was not taken, and whether it failed.

    `episode` is the transcript as it is kept; forgetting that takes the facts back that nobody else states. It is None
    where nothing was left to keep, or where it was forgotten before (then every fact is refused for that reason).
    """

    facts: tuple[GradedFact, ...]
    extraction: Extraction
    episode: MemoryRecord | None = None

    @property
    def extraction_failed(self) -> bool:
        """Whether the model's answer could not be read: no fact was stored, and it may be tried again."""
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
            return f"remember: extraction failed ({self.extraction.reason}); no fact was stored"
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
    """Keep a transcript as an episode, extract its facts, write them as candidates, and grade them.

    Secrets and this memory's own fenced words are cut out before anything is kept.

    A fact is verified when a receipt in `evidence` is about it, or once enough distinct authenticated principals have
    said it; repetition alone never verifies. `authenticate` says whom `source` proves; such a write needs the right
    `vouch`. A source that proves nobody is anonymous; where there is an `authenticate`, the source may be a secret, and
    is not kept. Raises `Refused` when the memory may not be written to.
    """
    speaker = None if authenticate is None else authenticate(source)
    label = source if authenticate is None else ""
    episode = _kept(mem, transcript, scope, label)
    extraction = extract_facts(transcript, chat)
    written = _written(mem, [_record(fact, scope, label, episode) for fact in extraction], speaker, episode)
    receipts = _by_claim(evidence)
    graded = [
        _graded(mem, fact, answer, receipts.get(fact_commitment(*fact)))
        for fact, answer in zip(extraction, written, strict=True)
    ]
    return ConversationReport(tuple(graded), extraction, episode if isinstance(episode, MemoryRecord) else None)


def _kept(mem: TrustedMemory, transcript: str, scope: str, label: str) -> MemoryRecord | Refused | None:
    """The transcript as an episode; or the refusal of one that was forgotten; or None where nothing is left of it."""
    if len(transcript) > TRANSCRIPT_CHARACTERS_LIMIT:
        raise TooLarge("transcript", len(transcript), TRANSCRIPT_CHARACTERS_LIMIT, "characters")
    text = masked(without_fenced(transcript).text).text
    if not value_key(text):
        return None
    try:
        return mem.remember_episode(text, scope=scope, source=label)
    except Refused as refusal:
        if refusal.rule != FORGOTTEN_SOURCE:
            raise
        return refusal


def _record(fact: ExtractedFact, scope: str, source: str, episode: MemoryRecord | Refused | None) -> MemoryRecord:
    subject, predicate, text = fact
    origin = [episode.id] if isinstance(episode, MemoryRecord) else []
    return MemoryRecord(
        subject=subject, predicate=predicate, text=text, scope=scope, source=source, derived_from=origin,
        provenance=[CONVERSATION],
    )  # fmt: skip


def _written(
    mem: TrustedMemory, records: Sequence[MemoryRecord], speaker: str | None, episode: MemoryRecord | Refused | None
) -> Sequence[MemoryRecord | Refused]:
    if not records:
        return ()
    if isinstance(episode, Refused):
        return [episode] * len(records)
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
