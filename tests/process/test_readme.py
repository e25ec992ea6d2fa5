"""The README is run as it stands: its console blocks answer as printed, its Python blocks end well."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

README = Path(__file__).parents[2] / "README.md"
COMMANDS = Path(sys.executable).parent
STEP_TIMEOUT_S = 60


class Step(NamedTuple):
    """One thing that a reader would run, and what the README says it answers (None: anything) and exits with."""

    command: list[str]
    expected: str | None
    exit_code: int = 0


def steps(readme: str) -> Iterator[Step]:
    """All steps of the README's `console` and `python` blocks, in the order in which a reader meets them."""
    for language, block in re.findall(r"^```(console|python)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
        if language == "python":
            yield Step([sys.executable, "-c", block], None)
        else:
            for command, answer in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                exit_code = re.search(r"# exit code (\d+)$", command)
                yield Step(["bash", "-c", command], answer, int(exit_code[1]) if exit_code else 0)


def as_pattern(answer: str) -> str:
    """What the README prints, where `…` stands for anything in its line, and alone in a line for any lines."""
    lines = answer.splitlines(keepends=True)
    return "".join(r"(.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*") for line in lines)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose home is empty and whose `veridical` is this checkout's; no cluster outlives it."""
    path = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}
    yield environment
    subprocess.run(["veridical", "down"], cwd=tmp_path, env=environment, timeout=STEP_TIMEOUT_S, capture_output=True)


def test_the_transcript_runs(tmp_path: Path, shell: dict[str, str]) -> None:
    """Each step ends as it should in the folder and state that the steps before it left, and answers as printed."""
    story = list(steps(README.read_text()))
    assert story
    for step in story:
        done = subprocess.run(
            step.command,
            cwd=tmp_path,
            env=shell,
            timeout=STEP_TIMEOUT_S,
            text=True,
            stdout=PIPE,
            stderr=STDOUT,
            check=False,
        )
        assert done.returncode == step.exit_code, (step.command, done.stdout)
        if step.expected is not None:
            assert re.fullmatch(as_pattern(step.expected), done.stdout), (step.command, done.stdout)
