"""Text as the full-text index sees it: one function for what is stored and for what is asked.

SQLite's `unicode61` tokenizer takes a whole run of Chinese for one word, drops emoji, and reads `C++` as `c`. So text
that is not plain ASCII is rewritten first: compatibility forms and case folded, accents and invisible characters gone,
runs of scripts without spaces spread into overlapping pairs (`腾讯云` → `腾讯 讯云 云`), each symbol turned into a word
(`🚀` → `u1f680`). The last single character of a run is kept so that a search for one character, asked as a prefix,
finds it at any place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"

_DROPPED = re.compile(
    "[\u00ad\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef]+"
)
_RUN = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_SYMBOL = re.compile("[\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff]")
_UNSPEAKABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_LANGUAGE_NAME = re.compile(r"(?<![^\W_])([A-Za-z])(\+\+|#)(?![A-Za-z])")
_LANGUAGE_ENDING = {"++": "plusplus", "#": "sharp"}


def indexed(text: str) -> str:
    """The words of `text`, as they are put into the index. Never fails, whatever the text holds."""
    if text.isascii():
        return _plain(text) if "\x00" in text else named(text)
    folded = folded_text(text)
    return named(_RUN.sub(_spread_match, folded))


def folded_text(text: str) -> str:
    """`text` in one form of writing: compatibility forms, case and accents folded, symbols as words of their own."""
    speakable = _UNSPEAKABLE.sub(" ", text)
    folded = unicodedata.normalize("NFKD", speakable).casefold()
    return _SYMBOL.sub(
        _symbol_word, unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFKD", folded)))
    )


def split_runs(folded: str) -> tuple[str, list[str]]:
    """What is written with spaces, and the runs that are not, of a text that `folded_text` has folded."""
    return _RUN.sub(" ", folded), _RUN.findall(folded)


def pairs(run: str) -> list[str]:
    """The overlapping pairs of characters of a run; of a single character, itself."""
    return [run[place : place + 2] for place in range(len(run) - 1)] or [run]


def named(text: str) -> str:
    """`text`, with names such as C++ and F# repeated at its end as words that the tokenizer tells from C and F."""
    if "#" not in text and "++" not in text:
        return text
    return " ".join([text, *language_names(text)])


def language_names(text: str) -> Iterable[str]:
    """The words that stand for names such as C++ and F# in `text`."""
    return [letter.lower() + _LANGUAGE_ENDING[ending] for letter, ending in _LANGUAGE_NAME.findall(text)]


def _plain(text: str) -> str:
    return named(_UNSPEAKABLE.sub(" ", text))


def _spread_match(match: re.Match[str]) -> str:
    run = match.group()
    tail = [run[-1]] if len(run) > 1 else []
    return f" {' '.join([*pairs(run), *tail])} "


def _symbol_word(match: re.Match[str]) -> str:
    return f" u{ord(match.group()):x} "
