"""Facts and questions in made-up words, a few of which are common and most of which are rare, as in any language."""

from __future__ import annotations

import random
from itertools import accumulate

from veridical.memory import MemoryKind, MemoryRecord

SEED = 20_261
VOCABULARY = 20_000
TEXT_CHARACTERS = 250
TEXTS = 16_384
"""So many are made before anything is measured; a run of more facts than that begins again with the first."""

SCOPE = "repo:bench"
ONSETS = "b d f g h k l m n p r s t v w z br cl dr gr pl st tr".split()
VOWELS = "a e i o u ai ea ou".split()


class Texts:
    """The word of rank r comes with a probability of 1/r (Zipf's law). The same seed gives the same texts."""

    def __init__(self, seed: int = SEED) -> None:
        self._chance = random.Random(seed)
        self._words = _vocabulary(self._chance)
        self._weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
        self._texts = [self._text() for _ in range(TEXTS)]

    def text(self, number: int) -> str:
        """Text number `number`, about 250 characters."""
        return self._texts[number % TEXTS]

    def fact(self, number: int) -> MemoryRecord:
        """A fact about a subject of its own."""
        return MemoryRecord(
            kind=MemoryKind.FACT,
            subject=f"subject {number}",
            predicate="says",
            text=self.text(number),
            scope=SCOPE,
        )

    def questions(self, count: int, words: int = 3) -> list[str]:
        """Questions of so many different words each, drawn as the words of the facts are."""
        return [" ".join(self._different(words)) for _ in range(count)]

    def _different(self, words: int) -> set[str]:
        drawn: set[str] = set()
        while len(drawn) < words:
            drawn.update(self._drawn(1))
        return drawn

    def _text(self) -> str:
        return " ".join(self._drawn(60))[:TEXT_CHARACTERS].rpartition(" ")[0]

    def _drawn(self, count: int) -> list[str]:
        return self._chance.choices(self._words, cum_weights=self._weights, k=count)


def _vocabulary(chance: random.Random) -> list[str]:
    """Different words, the shorter ones first: what is said often is short."""
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        syllables = 1 + len(words) * 3 // VOCABULARY + chance.randrange(2)
        words["".join(chance.choice(ONSETS) + chance.choice(VOWELS) for _ in range(syllables))] = None
    return list(words)
