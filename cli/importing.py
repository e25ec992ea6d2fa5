"""`import`: a file of facts into a cluster, each exactly once, however often the import is interrupted."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .facts import ScopeOption, one_of
from .failures import NEGATIVE
from .options import DataOption, EndpointOption, JsonOption, TimeoutOption

if TYPE_CHECKING:
    from ..memory.errors import Refused
    from ..memory.view import MemoryRecord
    from ..node.system import Clock, Entropy
    from .documents import Defaults, Fact, Form
    from .resume import ResumeFile

BATCH_FACTS: Final = 256
"""As many as one envelope holds: they are signed once, and travel together."""

PROBLEMS_SHOWN: Final = 10
TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.2
READ_BYTES: Final = 1 << 20
SECOND_US: Final = 1_000_000

Write = Callable[[Sequence["MemoryRecord"], Sequence[str]], "list[MemoryRecord | Refused]"]


@dataclass(slots=True)
class Report:
    """What became of the facts of this run. `refused` holds line, rule and reason of each that a rule stood against."""

    facts: int
    resumed_after: int
    outcomes: Counter[str] = field(default_factory=Counter[str])
    refused: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    last_index: int = 0

    def take(self, facts: Sequence[Fact], results: Sequence[MemoryRecord | Refused]) -> None:
        """Count the answers to these facts."""
        from ..memory.errors import Refused

        for fact, result in zip(facts, results, strict=True):
            if isinstance(result, Refused):
                self.outcomes["refused"] += 1
                self.refused.append({"line": fact.line, "rule": result.rule, "reason": result.reason})
            else:
                self.outcomes[result.outcome] += 1
                self.last_index = max(self.last_index, result.index)

    @property
    def fields(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "facts": self.facts, "resumed_after": self.resumed_after, "outcomes": dict(self.outcomes),
            "refused": self.refused, "last_index": self.last_index,
        }  # fmt: skip


def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSONL (a record a line) or Markdown.", show_default=False)
    ],
    scope: ScopeOption = "global",
    source: Annotated[
        str, typer.Option("--source", help="Where the facts come from. [default: the file's name]", show_default=False)
    ] = "",
    form: Annotated[
        str, typer.Option("--format", help="jsonl or markdown. [default: by the file's name]", show_default=False)
    ] = "",
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="PATH", help="The resume file. [default: FILE.resume]", show_default=False),
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=0, help="How long to go on without an answer.")
    ] = PATIENCE_S,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Write down every fact of a file, each exactly once. The same command goes on where an interrupted one stopped."""
    from ..node.system import SystemClock, SystemEntropy
    from .documents import Defaults, Form, form_of
    from .resume import SUFFIX, Errand, ResumeFile
    from .target import connected, target

    chosen: Form = one_of(Form, "format", form) if form else form_of(file)
    defaults = Defaults(scope, source or file.name)
    count = checked_count(file, chosen, defaults)
    cluster_id = _cluster_id(target(data, endpoint).endpoints)
    errand = Errand(cluster_id, _sha256(file), count, *defaults)
    opened = ResumeFile.open(resume or file.with_name(file.name + SUFFIX), errand)
    clock = SystemClock()
    report = Report(count, opened.answered)
    if opened.answered and not as_json:
        screen.complain(f"going on after {opened.answered} of {count} facts")
    try:
        with connected(data, endpoint, timeout) as memory, screen.progress("facts", as_json) as bar:
            task = bar.add_task(file.name, total=count, completed=opened.answered)
            write = patient(lambda records, ids: memory.write_many(records, command_ids=ids), clock, patience)
            facts = facts_of(file, chosen, defaults)
            for done in carried_over(facts, opened, write, report, clock, SystemEntropy()):
                bar.update(task, completed=done)
    except BaseException:
        opened.close()
        screen.complain(
            f"{opened.answered} of {count} facts are in; the same command goes on from there ({opened.path})"
        )
        raise
    opened.finish()
    _tell(report, file, as_json)
    if report.refused:
        raise typer.Exit(NEGATIVE)


def checked_count(file: Path, form: Form, defaults: Defaults) -> int:
    """How many facts the file holds. Raises `Invalid`, after naming what is wrong, unless all of them can be sent."""
    from ..memory.errors import Invalid
    from .documents import Problem, read_facts

    count, wrong = 0, 0
    for item in read_facts(file, form, defaults):
        count += 1
        if isinstance(item, Problem):
            wrong += 1
            if wrong <= PROBLEMS_SHOWN:
                screen.complain(f"{file.name}:{item.line}: {item.error}")
    if wrong:
        raise Invalid(file.name, f"{wrong} of {count} facts are wrong; nothing was imported")
    if not count:
        raise Invalid(file.name, "holds no facts")
    return count


def facts_of(file: Path, form: Form, defaults: Defaults) -> Iterator[Fact]:
    """The facts of a file that was checked. Raises `Invalid` when it was changed since, and wrongly."""
    from .documents import Problem, read_facts

    for item in read_facts(file, form, defaults):
        if isinstance(item, Problem):
            raise item.error
        yield item


def carried_over(
    facts: Iterator[Fact], resume: ResumeFile, write: Write, report: Report, clock: Clock, entropy: Entropy
) -> Iterator[int]:
    """Send what has not been answered, batch by batch in the file's order; yields how many facts are done."""
    remaining = islice(facts, resume.answered, None)
    while batch := list(islice(remaining, len(resume.pending) or BATCH_FACTS)):
        if not resume.pending:
            resume.begin([_command_id(clock, entropy) for _ in batch])
        report.take(batch, write([fact.record for fact in batch], resume.pending))
        resume.settle()
        yield resume.answered


def patient(write: Write, clock: Clock, patience_s: float) -> Write:
    """`write`, again under the same command ids while the cluster has no answer, until patience ends."""
    from ..memory.errors import NotLeader, OutcomeUnknown, Retry, Unavailable

    def write_patiently(records: Sequence[MemoryRecord], ids: Sequence[str]) -> list[MemoryRecord | Refused]:
        deadline_us = clock.elapsed_us() + round(patience_s * SECOND_US)
        while True:
            try:
                return write(records, ids)
            except (Retry, NotLeader, OutcomeUnknown, Unavailable):
                if clock.elapsed_us() >= deadline_us:
                    raise
                time.sleep(PAUSE_S)

    return write_patiently


def _command_id(clock: Clock, entropy: Entropy) -> str:
    from ..log.identifier import ENTROPY_BYTES, uuid7

    return uuid7(clock.wall_us(), entropy.bytes(ENTROPY_BYTES)).hex()


def _cluster_id(endpoints: Sequence[str]) -> str:
    from ..memory.errors import Unavailable
    from .survey import surveyed

    survey = asyncio.run(surveyed(endpoints))
    if not survey.cluster_id:
        raise Unavailable(survey.reason or "the cluster has no history yet", endpoints)
    return survey.cluster_id


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _tell(report: Report, file: Path, as_json: bool) -> None:
    if as_json:
        screen.say_json(report.fields)
        return
    for refusal in report.refused[:PROBLEMS_SHOWN]:
        screen.complain(f"{file.name}:{refusal['line']}: refused: {refusal['rule']}: {refusal['reason']}")
    parts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(report.outcomes.items()))
    screen.say(f"{report.facts} facts of {file.name}: {parts or 'all were in already'} (index {report.last_index})")
