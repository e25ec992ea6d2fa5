"""Texts made to be slow to look at: every pattern of this room ends in time on them, at the size limit and beyond."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from veridical.memory.fence import without_fenced
from veridical.trust.facts import extract_facts
from veridical.trust.leaks import holds_secret, masked
from veridical.trust.parsing import parsed
from veridical.trust.scrubbing import scrubbed
from veridical.trust.tokens import tokens_at_most

SIZE = 190_000
PIECES = (
    "x", " ", "< ", "<", "'", '"a', "/", "a/", "1", "a.", "ab1", "I am ", " and I", "\\", "[1,", "a:", "://a:", "-",
    "a+-", "password: ", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaa.", "Bearer ", ", ", "x is ", "token is ",
    "\u200b", "＜",
)  # fmt: skip
PATTERNS: tuple[Callable[[str], object], ...] = (
    scrubbed, masked, lambda text: holds_secret("key", text), extract_facts, without_fenced, parsed, tokens_at_most,
)  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", PIECES)
def test_no_text_is_slow_to_look_at(piece: str) -> None:
    """Each of them takes some milliseconds; a pattern that backtracks takes hours."""
    text = piece * (SIZE // len(piece))
    for pattern in PATTERNS:
        pattern(text)
        pattern("<" + text)
