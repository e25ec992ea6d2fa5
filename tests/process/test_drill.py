"""The drills, each held on real nodes: nothing acknowledged is lost, whatever is broken."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cli_shell import Shell

from veridical.drills.exercises import EXERCISES

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def test_every_exercise_is_held_and_reported(tmp_path: Path) -> None:
    """On clusters made for it. A full disk takes root on Linux, and is named where it was not exercised."""
    done = Shell(tmp_path)("drill", "all", "--out", str(tmp_path / "report.md"), target=False)
    states = {exercise["name"]: (exercise["state"], exercise["reason"]) for exercise in done.answer["exercises"]}
    assert set(states) == set(EXERCISES)
    can_mount = sys.platform == "linux" and os.geteuid() == 0
    if not can_mount:
        assert "root" in states.pop("disk-full")[1]
    assert done.code == 0 and done.answer["passed"], done
    assert set(states.values()) == {("held", "")}
    for exercise in done.answer["exercises"]:
        if exercise["state"] == "held":
            assert (exercise["lost"], exercise["differing"], exercise["overdue"]) == ([], [], 0)
            assert exercise["acknowledged"] > 0 and exercise["moments"]
            assert 0 < exercise["gap_s"] <= exercise["gap_limit_s"]
    page = (tmp_path / "report.md").read_text()
    assert all(f"## {name}: " in page for name in EXERCISES)


def test_a_drill_on_a_running_cluster_leaves_it_whole(tmp_path: Path) -> None:
    """What needs links of its own is not held there, and says so; an unknown exercise is refused."""
    shell = Shell(tmp_path / "cluster")
    shell.up()
    try:
        done = shell("drill", "kill", "partition", "clock")
        states = [exercise["state"] for exercise in done.answer["exercises"]]
        assert (done.code, states) == (0, ["held", "not held", "not held"])
        assert shell("status").code == 0
        assert shell("drill", "earthquake").code == 10
    finally:
        shell("down")
