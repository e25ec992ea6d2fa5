"""Facts out of files: JSONL, one record a line, and Markdown, one fact an item or paragraph.

JSONL: an object with the fields of `MemoryRecord`; `text` must be there, subject and predicate together or not at all.
Markdown: the headings above it are what an item is about.

    # Dana                              →  subject "Dana"
    - **editor**: Helix                 →  Dana / editor / "Helix"
    - Lives near the harbour.           →  a sentence of its own, with the heading in its metadata

Code blocks are sentences too; front matter and HTML comments are not facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pydantic import ValidationError

from ..memory.commands import WRITE, encode_body
from ..memory.errors import Invalid, TooLarge
from ..memory.view import MemoryRecord

if TYPE_CHECKING:
    from markdown_it.token import Token

LINE_BYTES_LIMIT: Final = 1 << 20
MARKDOWN_BYTES_LIMIT: Final = 16 << 20
HEADING_JOINT: Final = " / "


class Form(StrEnum):
    """How a file is written."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"


FORMS: Final = {
    ".jsonl": Form.JSONL,
    ".ndjson": Form.JSONL,
    ".md": Form.MARKDOWN,
    ".markdown": Form.MARKDOWN,
}


class Defaults(NamedTuple):
    """What a fact gets where the file says nothing: its scope and its source."""

    scope: str
    source: str


class Fact(NamedTuple):
    """A fact and the line of the file where it begins, counted from 1."""

    line: int
    record: MemoryRecord


class Problem(NamedTuple):
    """What is wrong with a line."""

    line: int
    error: Invalid


def form_of(path: Path) -> Form:
    """The form that a file's name promises. Raises `Invalid` when it promises none."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise Invalid("format", f"{path.name} ends with none of {', '.join(FORMS)}; say which it is with --format")
    return form


def read_facts(path: Path, form: Form, defaults: Defaults) -> Iterator[Fact | Problem]:
    """Every fact of the file in its order, checked as a node will; for one that is wrong, what is wrong with it.

    Raises `Invalid` when the file as a whole cannot be read that way.
    """
    return _read_jsonl(path, defaults) if form is Form.JSONL else _read_markdown(path, defaults)


def checked(line: int, fields: dict[str, object], defaults: Defaults) -> Fact | Problem:
    """The fact that these fields make, or what is wrong with them."""
    try:
        record = MemoryRecord.model_validate({**defaults._asdict(), **fields})
        encode_body(WRITE, record.write_body())
    except ValidationError as error:
        return Problem(line, _first_of(error))
    except Invalid as error:
        return Problem(line, error)
    return Fact(line, record)


def _first_of(error: ValidationError) -> Invalid:
    details = error.errors(include_url=False)[0]
    return Invalid(".".join(map(str, details["loc"])) or "record", details["msg"])


def _read_jsonl(path: Path, defaults: Defaults) -> Iterator[Fact | Problem]:
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LINE_BYTES_LIMIT + 1):
            number += 1
            if len(raw) > LINE_BYTES_LIMIT:
                raise Invalid(f"line {number}", f"is longer than {LINE_BYTES_LIMIT} bytes")
            if raw.strip():
                yield _fact_of_line(number, raw, defaults)


def _fact_of_line(number: int, raw: bytes, defaults: Defaults) -> Fact | Problem:
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return Problem(number, Invalid("line", f"is not JSON: {error}"))
    if not isinstance(fields, dict):
        return Problem(number, Invalid("line", "is not a JSON object"))
    return checked(number, cast("dict[str, object]", fields), defaults)


# --- Markdown --------------------------------------------------------------------------------------------------------

_TERM: Final = re.compile(
    r"(?:\*\*(?P<strong>[^*]+?)\*\*|`(?P<code>[^`]+)`)(?P<colon>\s*:)?\s*(?P<value>.+)", re.DOTALL
)
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)


def _read_markdown(path: Path, defaults: Defaults) -> Iterator[Fact | Problem]:
    from markdown_it import MarkdownIt

    size = path.stat().st_size
    if size > MARKDOWN_BYTES_LIMIT:
        raise TooLarge(path.name, size, MARKDOWN_BYTES_LIMIT)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(path.name, f"is not UTF-8: {error}") from error
    text = _FRONT_MATTER.sub(lambda matter: "\n" * matter[0].count("\n"), text)
    yield from _facts_of(MarkdownIt("commonmark").parse(text), defaults)


def _facts_of(tokens: Sequence[Token], defaults: Defaults) -> Iterator[Fact | Problem]:
    headings: list[tuple[int, str]] = []
    for place, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "heading_open":
            level = int(token.tag[1:])
            headings = [heading for heading in headings if heading[0] < level]
            headings.append((level, tokens[place + 1].content.strip()))
        elif token.type == "inline" and tokens[place - 1].type != "heading_open":
            path = HEADING_JOINT.join(title for _, title in headings)
            yield checked(line, _sentence(" ".join(token.content.split()), path), defaults)
        elif token.type in ("fence", "code_block") and token.content.strip():
            path = HEADING_JOINT.join(title for _, title in headings)
            yield checked(line, _plain(token.content.rstrip(), path), defaults)


def _sentence(content: str, heading: str) -> dict[str, object]:
    """`**predicate**: value`, or `**predicate:** value`, is about the heading; all else stands alone."""
    found = _TERM.fullmatch(content) if heading else None
    if found is None:
        return _plain(content, heading)
    term = found["strong"] or found["code"]
    if not found["colon"] and not term.endswith(":"):
        return _plain(content, heading)
    return {"subject": heading, "predicate": term.removesuffix(":").strip(), "text": found["value"]}


def _plain(text: str, heading: str) -> dict[str, object]:
    return {"text": text, "metadata": {"heading": heading} if heading else {}}
