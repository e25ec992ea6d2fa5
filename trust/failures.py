"""The failure ledger: what failed has a fingerprint, and what was fixed once fails the gate when it is back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ..memory.errors import Refused
from ..memory.keys import make_id, make_key
from ..memory.rules import REASONS, REJECTED_VALUE, UNKNOWN_RECORD
from ..memory.view import MemoryKind, MemoryRecord, Trust
from ..verdict import Finding, Report, Verdict
from .leaks import masked
from .ports import TrustedMemory
from .scrubbing import fingerprint_of, given_fingerprint, scrubbed

FAILS: Final = "fails"
CONTRACT: Final = "contract"
REGRESSION: Final = "regression"
SHOWN_CHARACTERS: Final = 2_000
"""How much of a grader's message is kept to be shown; the fingerprint is of all of it."""

NAMED_REGRESSIONS: Final = 3


class Regression(NamedTuple):
    """A failure that is back: what was found now, and the record of what was fixed then."""

    fingerprint: str
    finding: Finding
    record: MemoryRecord


class FailureLedger:
    """The failures of a scope, in a memory. They are control records: no recall ever returns them.

    A fingerprint is what a grader gave (`Finding.fingerprint`), or the key that `record` made of kind, message and
    file; either is taken where one is asked for.
    """

    def __init__(self, mem: TrustedMemory, scope: str) -> None:
        self._mem = mem
        self._scope = scope

    def record(self, report: Report) -> list[str]:
        """Remember every gating failure of a report; returns their keys. A known one keeps what is known of it."""
        found = _gating(report)
        records = [
            self._occurrence(key, finding, report, held)
            for (key, finding), held in zip(found.items(), self._held(found), strict=True)
            if held is None or held.trust != Trust.REJECTED
        ]
        for answer in self._mem.write_many(records):
            if isinstance(answer, Refused) and answer.rule != REJECTED_VALUE:
                raise answer
        return list(found)

    def mark_fixed(self, fingerprints: Iterable[str]) -> list[MemoryRecord]:
        """These no longer fail: verified and pinned from now on, so that they are known when they come back.

        Raises `Refused` (`unknown_record`) before anything is changed when one of them was never recorded.
        """
        keys = list(dict.fromkeys(map(given_fingerprint, fingerprints)))
        for key, held in zip(keys, self._held(keys), strict=True):
            if held is None:
                raise Refused(UNKNOWN_RECORD, f"{REASONS[UNKNOWN_RECORD]}: no failure {key} in {self._scope}")
        return [self._mem.mark_fixed(self._id(key)) for key in keys]

    def check_regressions(self, report: Report) -> list[Regression]:
        """Those gating failures of a report that were fixed before, whether or not they were recorded again since."""
        found = _gating(report)
        return [
            Regression(key, finding, held)
            for (key, finding), held in zip(found.items(), self._held(found), strict=True)
            if held is not None and held.trust == Trust.VERIFIED
        ]

    def get(self, fingerprint: str) -> MemoryRecord | None:
        """What is known of a failure."""
        return self._mem.get(self._id(given_fingerprint(fingerprint)))

    def _held(self, keys: Iterable[str]) -> list[MemoryRecord | None]:
        ids = list(map(self._id, keys))
        return self._mem.get_many(ids) if ids else []

    def _id(self, key: str) -> str:
        return make_id(make_key(key, FAILS, self._scope))

    def _occurrence(self, key: str, finding: Finding, report: Report, held: MemoryRecord | None) -> MemoryRecord:
        """What is written of a failure: the same text each time, so that it repeats and never contradicts itself."""
        about = {} if held is not None else _about(finding, report)
        return MemoryRecord(
            kind=MemoryKind.FAILURE,
            subject=key,
            predicate=FAILS,
            text=_text(finding) if held is None else held.text,
            scope=self._scope,
            source=f"report:{report.digest().hex()[:32]}",
            detail=about,
        )


def regression_report(hits: Iterable[Regression]) -> Report:
    """The report of the contract grader: fails when anything that was fixed is back."""
    found = list(hits)
    findings = tuple(
        Finding(
            kind=REGRESSION, message=hit.finding.message, fingerprint=hit.fingerprint, where=hit.finding.where
        )
        for hit in found
    )  # fmt: skip
    if not found:
        return Report(grader=CONTRACT, verdict=Verdict.PASS, summary="no failure that was fixed has come back")
    named = ", ".join(hit.finding.kind for hit in found[:NAMED_REGRESSIONS])
    more = f" and {len(found) - NAMED_REGRESSIONS} more" if len(found) > NAMED_REGRESSIONS else ""
    summary = f"{len(found)} fixed failure{'s'[: len(found) > 1]} came back: {named}{more}"
    return Report(grader=CONTRACT, verdict=Verdict.FAIL, summary=summary, findings=findings)


def _gating(report: Report) -> dict[str, Finding]:
    """The gating failures by key; of several alike the first."""
    found: dict[str, Finding] = {}
    for finding in report.findings:
        if finding.gating and report.verdict != Verdict.PASS:
            found.setdefault(fingerprint_of(finding, report.grader), finding)
    return found


def _text(finding: Finding) -> str:
    return scrubbed(masked(finding.message).text)[:SHOWN_CHARACTERS] or finding.kind


def _about(finding: Finding, report: Report) -> dict[str, str]:
    return {
        "kind": finding.kind,
        "grader": report.grader,
        "where": finding.where[:SHOWN_CHARACTERS],
        "message": masked(finding.message).text[:SHOWN_CHARACTERS],
    }
