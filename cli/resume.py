"""The resume file of an import: which commands carry which facts, and how many of them have been answered.

A batch's command ids are on disk before the batch is sent. Whatever ends an import, the next run sends what was not
answered under the same ids, and the cluster answers what it holds already with its first outcome: nothing is done
twice.

    {"format": 1, "cluster_id": …, "file_sha256": …, "facts": …, …}     for whom it is, and of what
    {"first": 0, "command_ids": [hex, …]}                               facts 0 … are under way
    {"answered": 256}                                                   facts before 256 are done
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from ..memory.errors import Invalid

FORMAT: Final = 1
SUFFIX: Final = ".resume"


@dataclass(frozen=True, slots=True)
class Errand:
    """What an import is about. A resume file serves this errand and no other."""

    cluster_id: str
    file_sha256: str
    facts: int
    scope: str
    source: str
    format: int = FORMAT


class ResumeFile:
    """An open resume file. `answered` facts are done; `pending` are the ids that the next ones were sent under."""

    def __init__(self, path: Path, answered: int, pending: list[str]) -> None:
        self.path = path
        self.answered = answered
        self.pending = pending
        self._file = path.open("ab")

    @staticmethod
    def open(path: Path, errand: Errand) -> ResumeFile:
        """Go on with the errand that `path` holds, or begin it. Raises `Invalid` when the file is another one's."""
        lines = _lines(path)
        if not lines:
            path.unlink(missing_ok=True)
            resume = ResumeFile(path, 0, [])
            resume._append(asdict(errand))
            return resume
        if lines[0] != asdict(errand):
            differing = [name for name, value in asdict(errand).items() if lines[0].get(name) != value]
            raise Invalid(
                str(path), f"belongs to another import (other {', '.join(differing)}): remove it to begin anew"
            )
        return ResumeFile(path, *_progress(path, lines[1:]))

    def begin(self, command_ids: list[str]) -> None:
        """These ids carry the next facts; on disk when this returns."""
        self._append({"first": self.answered, "command_ids": command_ids})
        self.pending = command_ids

    def settle(self) -> None:
        """All that was begun has been answered."""
        self.answered += len(self.pending)
        self.pending = []
        self._append({"answered": self.answered})

    def close(self) -> None:
        """Close it; another run may go on from here."""
        self._file.close()

    def finish(self) -> None:
        """The errand is done: the file goes away."""
        self.close()
        self.path.unlink()

    def _append(self, fields: dict[str, Any]) -> None:
        self._file.write(json.dumps(fields).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of the file. A torn one at its end was never acted upon: it is cut off."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = raw[: raw.rfind(b"\n") + 1]
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise Invalid(str(path), "is not a resume file: remove it to begin anew, or name another one") from error
    if not all(isinstance(line, dict) for line in lines):
        raise Invalid(str(path), "is not a resume file: remove it to begin anew, or name another one")
    if len(whole) < len(raw):
        os.truncate(path, len(whole))
    return cast("list[dict[str, Any]]", lines)


def _progress(path: Path, lines: list[dict[str, Any]]) -> tuple[int, list[str]]:
    answered, pending = 0, list[str]()
    for line in lines:
        match line:
            case {"first": int(first), "command_ids": [*ids]} if first == answered:
                pending = [str(id) for id in ids]
            case {"answered": int(index)} if index >= answered:
                answered, pending = index, []
            case _:
                raise Invalid(str(path), f"holds a line that no import wrote: {json.dumps(line)[:80]}")
    return answered, pending
