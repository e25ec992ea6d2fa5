"""How many tokens a text costs a model: never fewer than this estimate says, whatever the text.

A budget that is only probably kept is none, so the estimate is an upper bound for every tokenizer that works on bytes
(those of OpenAI, Anthropic, Llama, Qwen, …), and not an average:

- A token is at least one byte of UTF-8. So no text has more tokens than bytes, in any script.
- Merging ends when no two neighbours can be merged. Every such vocabulary has all pairs of the letters below, and each
  of them with a space before it, and no tokenizer parts a row of small letters before it merges. So of two neighbours
  in such a row one is in a longer token, and n in a row make at most (2n + 2) / 3 tokens.

It is about three times what English really costs. Who wants the budget used to the full passes the real tokenizer.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize

START_TOKENS: Final = 1  # some tokenizers begin every text with a space of their own

_ALWAYS_PAIRED: Final = re.compile(
    " ?[a-ilm-pr-u]+"
)  # a letter is left out if any pair with it lacks in any vocabulary


def tokens_at_most(text: str) -> int:
    """An upper bound of the tokens that `text` costs."""
    if not text.isascii():  # some tokenizers read the compatibility form, which may be longer
        text = max(text, normalize("NFKC", text), key=_size)
    saved = sum(len(run) // 3 for run in _ALWAYS_PAIRED.findall(text))
    return START_TOKENS + _size(text) - saved


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
