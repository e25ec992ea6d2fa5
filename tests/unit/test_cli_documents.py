"""Facts out of JSONL and Markdown files: what they become, and what is said of lines that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veridical.cli.documents import LINE_BYTES_LIMIT, Defaults, Fact, Form, Problem, form_of, read_facts
from veridical.memory.errors import Invalid

DEFAULTS = Defaults("team:docs", "notes")

NOTES = """\
---
title: not a fact
---
Before any heading.

# Dana

Lives near
the *harbour*.

- **editor**: Helix
- **phone:** +44 1
- `shell`: fish
- Likes **strong** tea.

## Work

1. **role**: keeper of the lamps
   - **since**: 2019

<!-- nobody reads this -->

```sh
lamp --on
```
"""


def facts(path: Path, form: Form) -> list[Fact]:
    found = list(read_facts(path, form, DEFAULTS))
    assert all(isinstance(item, Fact) for item in found), found
    return [item for item in found if isinstance(item, Fact)]


def problems(path: Path, form: Form = Form.JSONL) -> list[tuple[int, str]]:
    return [(item.line, str(item.error)) for item in read_facts(path, form, DEFAULTS) if isinstance(item, Problem)]


@pytest.fixture
def markdown(tmp_path: Path) -> list[Fact]:
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    return facts(path, Form.MARKDOWN)


def test_bold_terms_under_a_heading_are_predicates_of_it(markdown: list[Fact]) -> None:
    keyed = [(f.record.subject, f.record.predicate, f.record.text) for f in markdown if f.record.subject]
    assert keyed == [
        ("Dana", "editor", "Helix"),
        ("Dana", "phone", "+44 1"),
        ("Dana", "shell", "fish"),
        ("Dana / Work", "role", "keeper of the lamps"),
        ("Dana / Work", "since", "2019"),
    ]


def test_everything_else_is_a_sentence_that_remembers_its_heading(markdown: list[Fact]) -> None:
    sentences = [(f.line, f.record.text, f.record.metadata) for f in markdown if not f.record.subject]
    assert sentences == [
        (4, "Before any heading.", {}),
        (8, "Lives near the *harbour*.", {"heading": "Dana"}),
        (14, "Likes **strong** tea.", {"heading": "Dana"}),
        (23, "lamp --on", {"heading": "Dana / Work"}),
    ]


def test_scope_and_source_come_from_the_caller_where_the_file_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "b", "scope": "user:dana", "source": "talk 7"}\n')
    assert [(f.line, f.record.scope, f.record.source) for f in facts(path, Form.JSONL)] == [
        (1, "team:docs", "notes"),
        (3, "user:dana", "talk 7"),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line: is not JSON"),
        ("[1]", "line: is not a JSON object"),
        ('{"subject": "a", "predicate": "b"}', "text: Field required"),
        ('{"text": 5}', "text: Input should be a valid string"),
        ('{"text": ""}', "text: is empty"),
        ('{"text": "a", "subject": "b"}', "predicate: is empty"),
        ('{"text": "a", "colour": "red"}', "colour: Extra inputs are not permitted"),
        ('{"text": "a", "valid_from": "2026-01-01T00:00:00"}', "valid_from: Input should have timezone info"),
        ('{"text": "a", "metadata": {"x": NaN}}', "metadata: not a JSON object"),
        (json.dumps({"text": "x" * 20_001}), "text: 20001 characters exceed the limit of 20000"),
    ],
)
def test_a_wrong_line_is_named_with_its_reason(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n{{"text": "fine too"}}\n')
    [(number, said)] = problems(path)
    assert number == 2
    assert said.startswith(complaint)


def test_bytes_that_are_not_utf8_are_a_problem_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b'{"text": "\xff\xfe"}\n{"text": "fine"}\n')
    [(number, _)] = problems(path)
    assert number == 1


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text("x" * (LINE_BYTES_LIMIT + 1))
    with pytest.raises(Invalid, match="line 1: is longer than"):
        problems(path)


def test_markdown_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"# \xff\n")
    with pytest.raises(Invalid, match="is not UTF-8"):
        problems(path, Form.MARKDOWN)


def test_the_form_follows_from_the_name(tmp_path: Path) -> None:
    assert form_of(tmp_path / "a.JSONL") is Form.JSONL
    assert form_of(tmp_path / "a.markdown") is Form.MARKDOWN
    with pytest.raises(Invalid, match="--format"):
        form_of(tmp_path / "a.txt")
