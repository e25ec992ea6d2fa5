"""Names in a question: who or what it asks about, as far as it is a subject of records.

Each record's narrow row holds a mark of its subject, so that whether a question names it costs no lookup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from ..memory.keys import normal_name

MARK_BYTES: Final = 6
NAME_WORDS_LIMIT: Final = 4
QUESTION_WORDS_READ: Final = 256

_WORD: Final = re.compile(r"[^\s?!,;\"()\[\]{}]+")
_ENDING: Final = re.compile(r"('s|’s|['’.:])$")


def name_mark(name: str) -> int:
    """A number that stands for a name in normal form. Two names have one by chance once in 2⁴⁸."""
    return int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:MARK_BYTES], "big")


def names_in(question: str) -> dict[str, int]:
    """Everything in a question that may be a name, as it stands there, with its mark: runs of one to four words."""
    words = [match.span() for match in _WORD.finditer(question)][:QUESTION_WORDS_READ]
    names: dict[str, int] = {}
    for first, (begin, _) in enumerate(words):
        for _, end in words[first : first + NAME_WORDS_LIMIT]:
            whole = question[begin:end]
            for name in (whole, _ENDING.sub("", whole)):
                names[name] = name_mark(normal_name(name))
    return names


def unnamed(question: str, named: Mapping[str, int]) -> str:
    """The question without those names; all of it where nothing else is in it.

    A name says who is meant, and that the names' lane knows better: in a vector it only drowns what is asked.
    """
    rest = question
    for name in sorted(named, key=len, reverse=True):
        rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", rest)
    return rest if any(map(str.isalnum, rest)) else question
