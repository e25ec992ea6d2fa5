"""The command line in processes of its own: the world of the tests that use it as people do."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

CALL_TIMEOUT_S = 240
REFUSED = 12


class Done(NamedTuple):
    """How a call ended; `answer` is its JSON."""

    code: int
    answer: Any
    said: str


class Shell:
    """`veridical … --data DIR --json`, in a process of its own. Keys that it signs with are files beside the data."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.keys = data.parent

    def __call__(self, *arguments: str, target: bool = True, signer: str = "") -> Done:
        command = [*_command(*arguments), "--json"]
        command += ["--data", str(self.data)] if target else []
        command += ["--key", str(self.keys / signer)] if signer else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False)
        assert "Traceback" not in done.stderr
        return Done(done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr)

    def well(self, *arguments: str, target: bool = True, signer: str = "") -> Any:
        """The answer of a call that must not fail."""
        done = self(*arguments, target=target, signer=signer)
        assert done.code == 0, done
        return done.answer

    def refused(self, rule: str, *arguments: str, signer: str = "") -> None:
        """The call is refused by that rule."""
        done = self(*arguments, signer=signer)
        assert (done.code, rule in done.said) == (REFUSED, True), done

    def plainly(self, *arguments: str, answers: str, terminal: bool = False) -> tuple[int, str]:
        """A call without `--json` that is answered so, over a pipe or a terminal: exit code, and what it showed."""
        command = [*_command(*arguments), "--data", str(self.data)]
        if not terminal:
            done = subprocess.run(
                command, input=answers, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False
            )
            return done.returncode, done.stdout + done.stderr
        ours, theirs = pty.openpty()
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
        os.close(theirs)
        os.write(ours, answers.encode())  # a terminal keeps what is typed ahead
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
        os.close(ours)
        return process.wait(CALL_TIMEOUT_S), shown

    def up(self) -> list[Any]:
        """The nodes, all running."""
        return self.well("up", "--base-port", "0")["nodes"]

    def new_key(self, name: str) -> str:
        """Make a key file of that name; its public key."""
        return self.well("principal", "new", str(self.keys / name), target=False)["principal"]


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "veridical.cli.main", *arguments]


def _read(terminal: int) -> bytes:
    """What is shown next; nothing once nobody has the other end open any more."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
