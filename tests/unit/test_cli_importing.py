"""An import: batches in the file's order under ids that it keeps, again and again until they are answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from veridical.cli import importing
from veridical.cli.documents import Defaults, Form
from veridical.cli.importing import BATCH_FACTS, Report, carried_over, facts_of, patient
from veridical.cli.resume import Errand, ResumeFile
from veridical.memory.errors import OutcomeUnknown, Refused, Unavailable
from veridical.memory.view import MemoryRecord
from veridical.testing.seams import ManualClock, SeededEntropy

COUNT = 2 * BATCH_FACTS + 88
ERRAND = Errand("c" * 32, "f" * 64, COUNT, "global", "facts.jsonl")


class Cluster:
    """Executes each command id once, as a cluster does; fails where the test wants it to."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.calls: list[list[str]] = []
        self.failures: list[Exception | None] = []

    def write(self, records: Sequence[MemoryRecord], ids: Sequence[str]) -> list[MemoryRecord | Refused]:
        """All or nothing; a failure is raised after the commands were executed, so that nobody can tell."""
        self.calls.append(list(ids))
        for id, record in zip(ids, records, strict=True):
            assert self.texts.setdefault(id, record.text) == record.text
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return [record.model_copy(update={"outcome": "asserted", "index": len(self.calls)}) for record in records]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "facts.jsonl"
    path.write_text("".join(json.dumps({"text": f"fact {number}"}) + "\n" for number in range(COUNT)))
    return path


def run(file: Path, cluster: Cluster) -> Report:
    """One run of an import; leaves the resume file when it fails."""
    resume = ResumeFile.open(file.with_name("resume"), ERRAND)
    report = Report(COUNT, resume.answered)
    facts = facts_of(file, Form.JSONL, Defaults("global", "facts.jsonl"))
    entropy = SeededEntropy(len(cluster.calls))
    try:
        for _ in carried_over(facts, resume, cluster.write, report, ManualClock(), entropy):
            pass
    finally:
        resume.close()
    return report


def test_facts_go_in_batches_in_the_order_of_the_file(file: Path) -> None:
    cluster = Cluster()
    report = run(file, cluster)
    assert [len(ids) for ids in cluster.calls] == [BATCH_FACTS, BATCH_FACTS, 88]
    assert list(cluster.texts.values()) == [f"fact {number}" for number in range(COUNT)]
    assert (report.outcomes, report.last_index) == ({"asserted": COUNT}, 3)


def test_an_interrupted_import_goes_on_under_the_same_ids(file: Path) -> None:
    cluster = Cluster()
    cluster.failures = [None, KeyboardInterrupt()]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(KeyboardInterrupt):
        run(file, cluster)
    report = run(file, cluster)
    assert cluster.calls[1] == cluster.calls[2]
    assert list(cluster.texts.values()) == [f"fact {number}" for number in range(COUNT)]
    assert report.resumed_after == BATCH_FACTS
    assert sum(report.outcomes.values()) == COUNT - BATCH_FACTS


def test_refusals_are_counted_and_named_by_line(file: Path) -> None:
    class Strict(Cluster):
        def write(self, records: Sequence[MemoryRecord], ids: Sequence[str]) -> list[MemoryRecord | Refused]:
            answers = super().write(records, ids)
            return [
                Refused("rejected_value", "no") if record.text == "fact 77" else answer
                for record, answer in zip(records, answers, strict=True)
            ]

    report = run(file, Strict())
    assert report.outcomes == {"asserted": COUNT - 1, "refused": 1}
    assert report.refused == [{"line": 78, "rule": "rejected_value", "reason": "no"}]


class JumpingClock:
    """A clock on which every look takes a second."""

    def __init__(self) -> None:
        self.now_us = 0

    def elapsed_us(self) -> int:
        """A second later than the last time."""
        self.now_us += 1_000_000
        return self.now_us

    def wall_us(self) -> int:
        """The same."""
        return self.elapsed_us()


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PAUSE_S", 0)


@pytest.mark.usefixtures("no_pause")
def test_patience_sends_the_same_ids_until_there_is_an_answer() -> None:
    cluster = Cluster()
    cluster.failures = [Unavailable("no leader"), OutcomeUnknown("01"), None]
    [record] = patient(cluster.write, JumpingClock(), 60)([MemoryRecord(text="a")], ["01"])
    assert isinstance(record, MemoryRecord)
    assert cluster.calls == [["01"], ["01"], ["01"]]


@pytest.mark.usefixtures("no_pause")
def test_patience_ends() -> None:
    cluster = Cluster()
    cluster.failures = [Unavailable("no leader")] * 100
    with pytest.raises(Unavailable):
        patient(cluster.write, JumpingClock(), 5)([MemoryRecord(text="a")], ["01"])
    assert len(cluster.calls) == 5
