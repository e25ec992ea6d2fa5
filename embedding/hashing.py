"""`hash`: vectors of words and of their parts, without a model. It matches surface, not meaning.

Each word, and each run of three letters in it, adds or takes one at a place that its hash names (feature hashing,
Weinberger et al. 2009). Texts that share words or stems are near; a paraphrase without shared words is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from unicodedata import normalize

from .vectors import quantised

WIDTH: Final = 256
WORD_WEIGHT: Final = 3
GRAM: Final = 3

_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """An `Embedder` that needs nothing. It matches surface, not meaning."""

    name: str = f"hash-{WIDTH}"
    width: int = WIDTH
    is_own: bool = True
    is_semantic: bool = False

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `Embedder.embed`."""
        return [quantised(_features(text)) for text in texts]

    def __repr__(self) -> str:
        return f"<HashEmbedder {self.name}: matches surface, not meaning>"


def _features(text: str) -> list[int]:
    sums = [0] * WIDTH
    for word in _WORD.findall(normalize("NFKC", text).casefold()):
        _count(sums, word, WORD_WEIGHT)
        padded = f"^{word}$"
        for place in range(len(padded) - GRAM + 1):
            _count(sums, padded[place : place + GRAM], 1)
    return sums


def _count(sums: list[int], feature: str, weight: int) -> None:
    number = int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    sums[number % WIDTH] += weight if number >> 63 else -weight
