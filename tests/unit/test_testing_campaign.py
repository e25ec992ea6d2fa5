"""A long run of seeds goes on where it was interrupted, and its page says what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from veridical.testing.campaign import Campaign, CampaignMisfit, Fate, page
from veridical.testing.report import Report
from veridical.testing.seams import ManualClock
from veridical.testing.sim_command import main

SEEDS_ONLY = ("--seeds-only", "--jobs", "1", "--profile", "founding")


def report(seed: int, violation: str = "") -> Report:
    counts = Counter({"commands acknowledged": 1_200, "leaders that serve": 2})
    faults = Counter({"crash": 3, "messages lost": 40})
    return Report(
        seed, "crashes", violation, "fence" if violation else "", 5_000_000, 70, checked=counts, faults=faults
    )


def campaign(*reports: Report, version: str = "1.0") -> Campaign:
    made = Campaign(10, 4, "", version)
    for each in reports:
        made.summary.add(each)
    return made


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    """Counts, failures and the next seed come back; a larger number of seeds carries it further."""
    kept = campaign(report(10), report(11, "fence: n1 writes"))
    kept.wall_s = 8.5
    kept.save(tmp_path / "deep" / "state.json")
    found = Campaign(10, 6, "", "1.0").resumed(tmp_path / "deep" / "state.json")
    assert (found.next, found.end, found.wall_s) == (12, 16, 8.5)
    assert found.summary == kept.summary
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state.json"]


def test_sums_of_other_code_or_seeds_are_not_gone_on_with(tmp_path: Path) -> None:
    """What was seen of other code says nothing of this."""
    path = tmp_path / "state.json"
    campaign(report(10)).save(path)
    for other in (campaign(version="1.1"), Campaign(0, 4, "", "1.0"), Campaign(10, 4, "drill", "1.0")):
        with pytest.raises(CampaignMisfit, match="name another file, or delete it"):
            other.resumed(path)
    path.write_text('{"form": 1}')
    with pytest.raises(CampaignMisfit, match="holds no campaign"):
        campaign().resumed(path)


def test_the_page_says_what_ran_and_what_was_found() -> None:
    """Violations and survivors are told with the command that repeats them; without any it says so."""
    clean = page(campaign(report(10), report(11)), [Fate("no probe", 0, "probe-first")], [])
    assert "| seeds | 2 (10 to 11) |" in clean
    assert "| commands acknowledged | 2 400 |" in clean
    assert "| faults | 6 |" in clean
    assert "| lost | 80 |" in clean
    assert "No promise was broken. Every fault struck" in clean
    few = page(campaign(report(10)), [], None)
    assert "No promise was broken.\n" in few
    bad = page(campaign(report(11, "fence: n1 writes")), [Fate("no probe", None, "")], ["fault crash"])
    assert "seed 11 (crashes): fence: n1 writes; `veridical sim --seed 11 --profile 'crashes'`" in bad
    assert "“no probe” survived" in bad
    assert "never seen: fault crash" in bad
    assert "No promise was broken" not in bad


def test_the_command_keeps_its_state_and_writes_the_page(tmp_path: Path) -> None:
    """Two parts come to the same counts as one run, and other seeds under the same file are refused."""
    state, out = str(tmp_path / "state.json"), tmp_path / "page.md"
    lines: list[str] = []
    assert main(["--seeds", "1", "--state", state, *SEEDS_ONLY], lines.append, ManualClock()) == 0
    assert main(["--seeds", "2", "--state", state, "--out", str(out), *SEEDS_ONLY], lines.append, ManualClock()) == 0
    assert f"going on from seed 1: {state}" in lines
    whole: list[str] = []
    assert main(["--seeds", "2", *SEEDS_ONLY], whole.append) == 0
    assert lines[-len(whole) - 1 : -1] == whole
    assert "| seeds | 2 (0 to 1) |" in out.read_text()
    assert main(["--from", "7", "--seeds", "1", "--state", state, *SEEDS_ONLY], lines.append) == 2
    assert lines[-1].startswith("Not run: ")
