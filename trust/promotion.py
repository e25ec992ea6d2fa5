"""The promotion gate: a rule is verified by how it does on cases that whoever made it has never seen.

The gate writes nothing that says "verified". It signs what it found, and brings that as evidence; the store checks the
receipt like anybody's, and the result says what the record is afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, cast

from ..memory.errors import Invalid, Refused
from ..memory.keys import make_id, make_key
from ..memory.text import value_key
from ..memory.view import MemoryRecord, Trust
from ..verdict import Finding, Report, Runner, Verdict, attest_fact, default_runner, signed_report
from .design import rule_of
from .matching import applies_by_words
from .ports import TrustedMemory

MIN_F1: Final = 0.8
CASES_LIMIT: Final = 10_000
LEAK_CHARACTERS: Final = 24
"""A case that is quoted at this length or more is known; shorter ones occur by chance."""

PROMOTION: Final = "promotion gate"

Applies = Callable[[MemoryRecord, str], bool]
"""Whether a rule, followed, would prevent what a text tells. Any callable, such as a model."""

_NO_LETTERS: Final = re.compile(r"[\W_]+")


class EvalCase(NamedTuple):
    """A case: what happened, which kind of failure that concerns, and whether a rule for it should act."""

    text: str
    covers_kind: str
    label: Literal["prevent", "allow"]


class HeldOutCorpus:
    """Cases that no agent may read, with a canary: a text that stands beside them wherever they are kept.

    Whoever shows the canary has seen the cases. Without one of your own it follows from the cases.
    """

    def __init__(self, cases: Iterable[EvalCase], *, canary: str | None = None) -> None:
        self.cases = tuple(cases)
        if not 1 <= len(self.cases) <= CASES_LIMIT:
            raise Invalid("cases", f"{len(self.cases)} are not between 1 and {CASES_LIMIT}")
        for case in self.cases:
            if case.label not in ("prevent", "allow"):
                raise Invalid("label", f"{case.label!r} is neither prevent nor allow")
        digest = sha256()
        for case in self.cases:
            digest.update("\0".join((*case, "")).encode())
        self.digest = digest.hexdigest()
        self.canary = f"canary-{self.digest[:24]}" if canary is None else canary
        if len(_squeezed(self.canary)) < LEAK_CHARACTERS // 2:
            raise Invalid(
                "canary", f"has fewer than {LEAK_CHARACTERS // 2} letters and digits; it would occur by chance"
            )

    def about(self, kind: str) -> list[EvalCase]:
        """The cases of a kind of failure."""
        return [case for case in self.cases if value_key(case.covers_kind) == value_key(kind)]

    def leaks_into(self, record: MemoryRecord) -> str:
        """The path of the field of a record in which the canary stands, or a case by its own words; empty if none."""
        known = [_squeezed(self.canary), *(_squeezed(case.text) for case in self.cases)]
        wanted = [known[0], *(text for text in known[1:] if len(text) >= LEAK_CHARACTERS)]
        for path, text in _strings("", record.model_dump()):
            squeezed = _squeezed(text)
            if any(one in squeezed for one in wanted):
                return path
        return ""


class Promotion(NamedTuple):
    """What the gate came to. `promoted` is read from the record: it is verified, with this very text."""

    promoted: bool
    f1: float
    reason: str
    precision: float
    recall: float
    record: MemoryRecord | None


class _Score(NamedTuple):
    hits: int
    false_alarms: int
    misses: int

    @property
    def precision(self) -> float:
        acted = self.hits + self.false_alarms
        return self.hits / acted if acted else 0.0

    @property
    def recall(self) -> float:
        wanted = self.hits + self.misses
        return self.hits / wanted if wanted else 0.0

    @property
    def f1(self) -> float:
        total = 2 * self.hits + self.false_alarms + self.misses
        return 2 * self.hits / total if total else 0.0


class PromotionGate:
    """Considers candidates against a held-out corpus.

    `applies` says whether a rule acts on a case (by its words, unless given); `runner` signs (this machine's, unless
    given): in a guarded store it must be enrolled with the right `attest`. `min_f1` may be raised above 0.8.
    """

    def __init__(
        self,
        mem: TrustedMemory,
        corpus: HeldOutCorpus,
        *,
        applies: Applies | None = None,
        min_f1: float = MIN_F1,
        runner: Runner | None = None,
    ) -> None:
        if not MIN_F1 <= min_f1 <= 1:
            raise Invalid("min_f1", f"{min_f1} is not between {MIN_F1} and 1")
        self._mem = mem
        self._corpus = corpus
        self._applies = applies or applies_by_words
        self._min_f1 = min_f1
        self._runner = runner

    def consider(self, rule: MemoryRecord) -> Promotion:
        """Run the cases of its kind against a rule that is held, and bring the signed result if it passes."""
        id = rule.id or make_id(make_key(rule.subject, rule.predicate, rule.scope))
        held = self._mem.get(id)
        obstacle = self._obstacle(rule, held)
        if held is None or obstacle:
            return Promotion(False, 0.0, obstacle, 0.0, 0.0, held)
        cases = self._corpus.about(rule_of(held).covers_kind)
        wrong, score = self._run(held, cases)
        if score.f1 < self._min_f1:
            reason = f"F1 {score.f1:.2f} is under {self._min_f1:.2f}"
            return Promotion(False, score.f1, reason, score.precision, score.recall, held)
        return self._attested(held, wrong, score)

    def _obstacle(self, rule: MemoryRecord, held: MemoryRecord | None) -> str:
        """Why a rule is not even tried."""
        if held is None:
            return "no such rule is held; write it first"
        if value_key(held.text) != value_key(rule.text):
            return "the rule has changed since; consider what is held now"
        leak = self._corpus.leaks_into(held) or self._corpus.leaks_into(rule)
        if leak:
            return f"leaked: the rule knows the held-out corpus, as {leak} shows"
        labels = {case.label for case in self._corpus.about(rule_of(held).covers_kind)}
        if labels != {"prevent", "allow"}:
            missing = " or ".join(sorted({"prevent", "allow"} - labels))
            return f"the corpus has no case to {missing} of kind {rule_of(held).covers_kind!r}"
        return ""

    def _run(self, rule: MemoryRecord, cases: Sequence[EvalCase]) -> tuple[list[int], _Score]:
        """The places of the cases that it got wrong, and the score."""
        acted = [self._applies(rule, case.text) for case in cases]
        pairs = [(acts, case.label == "prevent") for acts, case in zip(acted, cases, strict=True)]
        wrong = [place for place, (acts, should) in enumerate(pairs) if acts != should]
        return wrong, _Score(pairs.count((True, True)), pairs.count((True, False)), pairs.count((False, True)))

    def _attested(self, rule: MemoryRecord, wrong: Sequence[int], score: _Score) -> Promotion:
        runner = self._runner or default_runner()
        report = signed_report(self._report(wrong, score), runner)
        receipt = attest_fact(
            Verdict.PASS, [report], subject=rule.subject, predicate=rule.predicate, text=rule.text, scope=rule.scope,
            runner=runner,
        )  # fmt: skip
        try:
            held: MemoryRecord | None = self._mem.attest(rule.id, receipt)
            reason = f"F1 {score.f1:.2f}, attested by {runner.public_key.hex()[:16]}"
        except Refused as refusal:
            held, reason = self._mem.get(rule.id), f"passed, but the store refused the receipt: {refusal}"
        promoted = held is not None and held.trust == Trust.VERIFIED and held.text == rule.text
        return Promotion(promoted, score.f1, reason, score.precision, score.recall, held)

    def _report(self, wrong: Sequence[int], score: _Score) -> Report:
        """What is signed: which cases went wrong, by number and not by text, so that the report may travel."""
        findings = tuple(
            Finding(kind="misjudged", message=f"case {place} of this kind", gating=False) for place in wrong
        )
        summary = f"F1 {score.f1:.4f} on the held-out corpus {self._corpus.digest}"
        return Report(grader=PROMOTION, verdict=Verdict.PASS, summary=summary, findings=findings)


def _squeezed(text: str) -> str:
    """A text as it is looked for: letters and digits only, in the form in which values are compared."""
    return _NO_LETTERS.sub("", value_key(text))


def _strings(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a value, field names included, with the path to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            yield f"{path}.{name}".lstrip("."), str(name)
            yield from _strings(f"{path}.{name}".lstrip("."), inner)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        joined = "".join(item for item in items if isinstance(item, str))
        yield path, joined
        for place, inner in enumerate(items):
            yield from _strings(f"{path}[{place}]", inner)
