"""When two texts are the same value: one function for the renderer, for equality and for the rejection ledger."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from unicodedata import is_normalized, normalize

# What a reader cannot see but a comparison would: format and bidirectional controls, fillers, variation selectors.
_INVISIBLE_RANGES: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{_INVISIBLE_RANGES}]")
_PRINTABLE_INVISIBLE: Final = re.compile(  # those of them that Unicode counts among the letters and marks
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_GAPS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ANGLES: Final = str.maketrans({"<": "‹", ">": "›"})

# Persian and Indic spelling needs these two; they may stand in a name, though never in the comparison of values.
_JOINERS: Final = "\u200c\u200d"
_UNNAMEABLE: Final = re.compile(f"(?![{_JOINERS}\ufe0e\ufe0f])[{_INVISIBLE_RANGES}]|[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def canonical_text(text: str) -> str:
    """NFKC, invisible characters removed, runs of control and white space as one space, angle brackets defanged."""
    if _is_plain(text):
        return _closed(text)
    return _GAPS.sub(" ", seen_text(text)).strip().translate(_ANGLES)


def seen_text(text: str) -> str:
    """What a reader sees of a text: NFKC, without invisible characters."""
    return normalize("NFKC", _INVISIBLE.sub("", normalize("NFKC", text)))


def comparison_key(text: str) -> str:
    """What two texts must share to be the same: the casefold of the canonical text, folded until it rests."""
    canonical = canonical_text(text)
    if canonical.isascii():
        return canonical.lower()
    folded = canonical.casefold()
    if is_normalized("NFKC", folded) and folded.casefold() == folded:
        return folded
    return canonical_text(normalize("NFKC", normalize("NFKC", folded).casefold()))


value_key: Final = lru_cache(maxsize=64)(comparison_key)
"""`comparison_key` of a value: a page at most, and asked for again at once."""


def unnameable_character(name: str) -> str | None:
    """The first character that may not stand in a subject, predicate or scope, because nobody could see it; or None."""
    if name.isascii() and name.isprintable():
        return None
    found = _UNNAMEABLE.search(name)
    return found.group() if found else None


def _is_plain(text: str) -> bool:
    """Whether nothing but spaces and angle brackets can need care; true of nearly every text, and quickly known."""
    if not text.isprintable():  # controls, format characters, and every white space but the space
        return False
    return text.isascii() or (is_normalized("NFKC", text) and not _PRINTABLE_INVISIBLE.search(text))


def _closed(text: str) -> str:
    if "  " in text:
        text = _GAPS.sub(" ", text)
    if "<" in text or ">" in text:
        text = text.translate(_ANGLES)
    return text.strip()
