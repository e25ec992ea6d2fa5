"""The resume file: it keeps command ids before they are used, survives a torn end, and serves one errand only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from veridical.cli.resume import Errand, ResumeFile
from veridical.memory.errors import Invalid

ERRAND = Errand("c" * 32, "f" * 64, 600, "global", "notes.md")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "facts.jsonl.resume"


def test_what_was_begun_is_pending_for_the_next_run(path: Path) -> None:
    resume = ResumeFile.open(path, ERRAND)
    resume.begin(["01", "02"])
    resume.settle()
    resume.begin(["03"])
    resume.close()
    again = ResumeFile.open(path, ERRAND)
    assert (again.answered, again.pending) == (2, ["03"])
    again.close()


def test_ids_are_in_the_file_before_they_are_used(path: Path) -> None:
    resume = ResumeFile.open(path, ERRAND)
    resume.begin(["0123"])
    assert '"0123"' in path.read_text()
    resume.close()


@pytest.mark.parametrize("torn", ["", '{"answered": ', '{"first": 2, "command_ids": ["07"'])
def test_a_torn_last_line_never_happened(path: Path, torn: str) -> None:
    resume = ResumeFile.open(path, ERRAND)
    resume.begin(["01", "02"])
    resume.settle()
    resume.close()
    path.write_text(path.read_text() + torn)
    again = ResumeFile.open(path, ERRAND)
    assert (again.answered, again.pending) == (2, [])
    again.begin(["03"])
    again.settle()
    again.close()
    last = ResumeFile.open(path, ERRAND)
    assert last.answered == 3
    last.close()


def test_a_finished_errand_leaves_no_file(path: Path) -> None:
    ResumeFile.open(path, ERRAND).finish()
    assert not path.exists()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (replace(ERRAND, cluster_id="d" * 32), "cluster_id"),
        (replace(ERRAND, file_sha256="e" * 64), "file_sha256"),
        (replace(ERRAND, scope="user:dana"), "scope"),
    ],
)
def test_another_errand_is_refused_and_says_what_differs(path: Path, other: Errand, named: str) -> None:
    ResumeFile.open(path, ERRAND).close()
    with pytest.raises(Invalid, match=f"another import \\(other {named}\\)"):
        ResumeFile.open(path, other)


@pytest.mark.parametrize("content", ["not JSON\n", "[1]\n", '{"format": 1}\n'])
def test_a_file_that_is_something_else_is_left_alone(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(Invalid):
        ResumeFile.open(path, ERRAND)
    assert path.read_text() == content


def test_lines_that_no_import_wrote_are_refused(path: Path) -> None:
    ResumeFile.open(path, ERRAND).close()
    path.write_text(path.read_text() + '{"first": 5, "command_ids": []}\n')
    with pytest.raises(Invalid, match="no import wrote"):
        ResumeFile.open(path, ERRAND)
