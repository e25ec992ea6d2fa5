"""`doctor`: opens the backend that is chosen, for real, and says what it found and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from . import screen
from .failures import NEGATIVE, sentence
from .options import DataOption, EndpointOption, JsonOption, TimeoutOption

if TYPE_CHECKING:
    from .examinations import Examination

DOCTOR_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and, where it is trouble, what to do."""

    what: str
    good: bool
    found: str
    do: str = ""


@dataclass(slots=True)
class Report:
    """All that was found, as it is found; `fields` are the facts that belong to no check."""

    fields: dict[str, str | int | list[str] | None] = field(default_factory=dict[str, "str | int | list[str] | None"])
    checks: list[Check] = field(default_factory=list[Check])

    @property
    def good(self) -> bool:
        """Whether nothing is in trouble."""
        return all(check.good for check in self.checks)

    def note(self, what: str, found: str) -> None:
        """Something that is as it should be."""
        self.checks.append(Check(what, True, found))

    def trouble(self, what: str, found: str, do: str) -> None:
        """Something that is not."""
        self.checks.append(Check(what, False, found, do))

    def look(self, what: str, do: str, examine: Callable[[], str]) -> bool:
        """Examine something: what it answers is good, what it raises is trouble."""
        from ..log.errors import LogError
        from ..memory.errors import VeridicalError
        from ..projection.errors import ProjectionError

        try:
            self.note(what, examine())
        except (VeridicalError, LogError, ProjectionError, OSError) as error:
            self.trouble(what, sentence(error), do)
            return False
        return True


def doctor(
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="The backend to open. [default: $VERIDICAL_MEMORY_BACKEND, or local]",
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Also write a fact in the scope `doctor`, and forget it.", show_default=False),
    ] = False,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = DOCTOR_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Open the memory that programs get here, and say how it is. `--data` or `--endpoint`: the cluster there.

    Exit code 1: something is in trouble.
    """
    from ..memory.errors import Invalid
    from ..stores.registry import chosen_backend
    from . import examinations

    report = Report()
    examinations.surroundings(report)
    asked: Examination | None = None
    try:
        if data is not None or endpoint:
            from .target import target

            report.fields |= {"backend": "cluster", "chosen_by": "--data" if data is not None else "--endpoint"}
            asked = examinations.Cluster(target(data, endpoint).endpoints, timeout)
        else:
            name = chosen_backend(backend)
            report.fields |= {"backend": name, "chosen_by": examinations.chosen_by(backend)}
            asked = examinations.of_backend(name, timeout)
    except Invalid as error:
        report.trouble("backend", str(error), "choose one of the known backends, and set what it needs")
    if asked is not None:
        asked.examine(report, write)
    _tell(report, as_json)
    if not report.good:
        raise typer.Exit(NEGATIVE)


def _tell(report: Report, as_json: bool) -> None:
    if as_json:
        screen.say_json({**report.fields, "good": report.good, "checks": [asdict(check) for check in report.checks]})
        return
    for name, value in report.fields.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        screen.say(f"{name.replace('_', ' ')}: {screen.plain(str(shown)) if shown else '–'}")
    for check in report.checks:
        screen.say(f"{'good' if check.good else 'BAD '}  {check.what}: {screen.plain(check.found)}")
        if not check.good:
            screen.say(f"      → {check.do}")
