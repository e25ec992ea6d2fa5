"""The command line in processes of its own: the world of the tests that use it as people do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

CALL_TIMEOUT_S = 240


class Done(NamedTuple):
    """How a call ended; `answer` is its JSON."""

    code: int
    answer: Any
    said: str


class Shell:
    """`veridical … --data DIR --json`, in a process of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def __call__(self, *arguments: str, target: bool = True) -> Done:
        command = [sys.executable, "-P", "-m", "veridical.cli.main", *arguments, "--json"]
        command += ["--data", str(self.data)] if target else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False)
        assert "Traceback" not in done.stderr
        return Done(done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr)

    def well(self, *arguments: str, target: bool = True) -> Any:
        """The answer of a call that must not fail."""
        done = self(*arguments, target=target)
        assert done.code == 0, done
        return done.answer

    def up(self) -> list[Any]:
        """The nodes, all running."""
        return self.well("up", "--base-port", "0")["nodes"]
