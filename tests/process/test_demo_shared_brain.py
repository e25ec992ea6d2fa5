"""The demo of a shared brain runs unattended on three real nodes, tells its story, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

DEMO = Path(__file__).parents[2] / "examples" / "demo_shared_brain.py"
LONGEST_S = 40
STORY = """\
three nodes are up (n1, n2, n3); alice and bob speak to them
== 1) resolve down: a repository sees itself, its team and everybody — the most specific first ==
   [repo:a] verified: json lines to stdout
   [global] verified: json lines to stdout
== 2) graduate up: verified in both repositories -> a CANDIDATE of the team, which must earn it again ==
   [team:f] candidate: json lines to stdout
== 3) cross-agent trust: say-so is never enough, evidence is ==
   alice claims it is verified -> trust=candidate, ignored: trust
   alice brings a receipt      -> verified by a fact-bound attestation
   bob says otherwise          -> conflict=True, written=False
   a key that nobody enrolled  -> refused: not_granted
   another team imports it     -> trust=candidate  (trust does not travel)
== 4) the librarian: recurring failures -> candidate rules, never trust ==
   librarian[repo:a]: +1 rules, +0 schemas, +0 graduated, -0 pruned
== 5) high availability: the leader is killed, and nothing that was acknowledged is lost ==
   … led in epoch …, and is killed (SIGKILL)
   quorum read, no leader needed -> verified: page the owning team first
   a write, … s later           -> superseded; … leads in epoch …
   … is back                    -> all three nodes hold the same, digest …
   and the history of each of them verifies
all nodes are stopped and nothing is left behind
"""


def of_this_run(mark: str) -> list[str]:
    """The processes that carry that mark in their environment: all that the demo started, however it left them."""
    found: list[str] = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (directory / "environ").read_bytes():
                found.append(directory.name)
        except OSError:  # it has just ended, or belongs to somebody else
            continue
    return found


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    """As it stands here, in time; while it runs there are nodes, and afterwards neither nodes nor files."""
    mark = f"DEMO_MARK={tmp_path.name}-{os.getpid()}"
    name, _, value = mark.partition("=")
    environment = os.environ | {name: value, "TMPDIR": str(tmp_path)}
    began, complaints = time.monotonic(), tmp_path.with_suffix(".err")
    with (
        complaints.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-P", "-u", str(DEMO)], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as demo,
    ):
        assert demo.stdout is not None
        told = demo.stdout.readline()
        running = of_this_run(mark)
        told += demo.stdout.read()
    assert (demo.returncode, complaints.read_text()) == (0, "")
    assert time.monotonic() - began < LONGEST_S
    assert re.fullmatch(re.escape(STORY).replace("…", ".+"), told), told
    assert len(running) >= 4  # itself and three nodes
    assert of_this_run(mark) == []
    assert list(tmp_path.iterdir()) == []
