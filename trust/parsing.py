"""What a model answers, read without believing in its form: JSON in prose, in fences, with bad escapes, or none at all.

An answer that cannot be read is said to be so. Half an answer is none: what is missing might be what matters.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, cast

ANSWER_CHARACTERS_LIMIT: Final = 1 << 20
STARTS_LIMIT: Final = 200
"""How many brackets in an answer are tried as the beginning of its JSON."""

_START: Final = re.compile(r"[\[{]")
_MEANT: Final = re.compile(r"\{\s*\"|\[\s*\{|\[\s*\[|[\[{]\s*$")
"""What begins like this is meant to be JSON, and not a bracket in prose."""

_BAD_ESCAPE: Final = re.compile(r'(?<!\\)((?:\\\\)*)\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPES: Final = "the JSON of the answer holds a malformed escape"
_decoder: Final = json.JSONDecoder(strict=False)


class Parsed(NamedTuple):
    """The JSON values that stand in an answer, or why none could be read."""

    values: tuple[Any, ...]
    complaint: str = ""


def parsed(answer: object) -> Parsed:
    """The objects and lists of objects in an answer, outermost and in order; what stands between them is prose.

    An empty list is one, and says that there is nothing. Other lists in prose (`[3]`) are none.
    """
    if type(answer) is not str:
        return Parsed((), "the model answered with something that is no text")
    if len(answer) > ANSWER_CHARACTERS_LIMIT:
        return Parsed((), f"the answer is longer than {ANSWER_CHARACTERS_LIMIT} characters")
    found = _values(answer)
    if found.complaint == _ESCAPES:
        found = _values(_BAD_ESCAPE.sub(r"\1\\\\", answer))
    return found


def _values(text: str) -> Parsed:
    values: list[Any] = []
    at = tries = 0
    while (start := _START.search(text, at)) is not None:
        tries += 1
        if tries > STARTS_LIMIT:
            return Parsed((), f"more than {STARTS_LIMIT} brackets and no JSON")
        try:
            value, at = _decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            at = start.end()
            complaint = _complaint(error, text, start.start())
            if complaint:
                return Parsed((), complaint)
        except RecursionError:
            return Parsed((), "the JSON of the answer is nested too deep")
        else:
            values += [value] if _is_structured(value) else []
    return Parsed(tuple(values)) if values else Parsed((), "there is no JSON in the answer")


def _is_structured(value: Any) -> bool:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return not items or any(isinstance(item, dict | list) for item in items)
    return True


def _complaint(error: json.JSONDecodeError, text: str, start: int) -> str:
    """What is wrong with JSON that begins there; empty when nothing there was meant as JSON."""
    if error.msg.startswith("Invalid \\"):
        return _ESCAPES
    if not _MEANT.match(text, start):
        return ""
    if error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()):
        return "the JSON of the answer is cut off"
    return "the JSON of the answer is malformed"
