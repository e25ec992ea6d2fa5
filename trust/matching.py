"""Whether a rule is about a text, by their words: what is asked where no model is given. Same words, same answer."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ..memory.text import value_key
from ..memory.view import MemoryRecord
from .design import rule_of

SHARED_WORDS: Final = 2
EXCEPTED_SHARE: Final = 0.5

_WORD: Final = re.compile(r"[^\W_]{2,}")
_ENDINGS: Final = ("ings", "ing", "ies", "ied", "ed", "es", "s")
_STOP: Final = frozenset(
    "when the and with that this from into onto for are was were has have had its not but can may should must will "
    "would could than then they them their there here where which who whose whom what why how all any each every some "
    "such only own same just very too also one two more most less least other another it is in on at of to as an or if "
    "be by do no so we you he she up out off over under again use used using prevent avoid always never".split()
)


@lru_cache(maxsize=4096)
def stems(text: str) -> frozenset[str]:
    """The words of a text that say something, without their endings."""
    return frozenset(_stem(word) for word in _WORD.findall(value_key(text)) if word not in _STOP)


def applies_by_words(rule: MemoryRecord, text: str) -> bool:
    """Whether a rule acts on what a text tells: it names the kind, or shares words with the condition, and no
    exception is told better."""
    structured = rule_of(rule)
    told = stems(text)
    for exception in structured.exceptions:
        words = stems(exception)
        if words and len(words & told) >= EXCEPTED_SHARE * len(words):
            return False
    kind = stems(structured.covers_kind)
    if kind and kind <= told:
        return True
    return len(told & (kind | stems(structured.condition))) >= SHARED_WORDS


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3:
            return stem
    return word
