"""`docs/trust.md` and `docs/scenarios.md` name code and tests: all of it is there, refusals beside controls."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text()
MARKS = 7
FURTHER = ("Recoverability", "Write ownership", "Authority")

SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}
SCENARIOS = (ROOT / "docs" / "scenarios.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(::?[\w:.]+)`", PAGE + SCENARIOS)))


@lru_cache
def names(file: str) -> frozenset[str]:
    """What a module defines: `function`, `Class`, `Class.method`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return frozenset(found)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_what_the_page_names_is_there(file: str, name: str) -> None:
    """Files, functions and tests."""
    assert (ROOT / file).is_file()
    assert name.strip(":").replace("::", ".") in names(file)


def test_a_wrong_name_would_be_noticed() -> None:
    """The check can fail."""
    assert "no_such_function" not in names("memory/text.py")
    assert "comparison_key" in names("memory/text.py")
    assert len(NAMED) > 50


def test_all_marks_are_there() -> None:
    """Seven by number, and those past them."""
    numbered = [title for title in SECTIONS if re.match(r"\d\. ", title)]
    assert [title[0] for title in numbered] == [str(number) for number in range(1, MARKS + 1)]
    assert tuple(title for title in SECTIONS if title not in numbered) == FURTHER


@pytest.mark.parametrize("title", SECTIONS)
def test_every_claim_has_code_a_refusal_and_a_control(title: str) -> None:
    """A negative assertion without a positive control proves nothing."""
    parts = dict(re.findall(r"^- (code|refused|allowed): (.*?)(?=^- |\Z)", SECTIONS[title], re.MULTILINE | re.DOTALL))
    assert set(parts) == {"code", "refused", "allowed"}
    assert all("tests/" in parts[kind] for kind in ("refused", "allowed"))
    assert not re.search(r"`tests/", parts["code"])


def test_every_scenario_has_a_test() -> None:
    """Each row of the tables names at least one."""
    rows = [
        line for line in SCENARIOS.splitlines() if line.startswith("| ") and not line.startswith(("| what", "|---"))
    ]
    assert len(rows) > 35
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::", row)] == []
