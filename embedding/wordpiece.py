"""Text to the tokens of a BERT vocabulary (Devlin et al. 2018; uncased): words, then the longest pieces known.

Normalised as the model was trained: controls out, accents off, lower case, a space around each CJK character; cut at
white space and at punctuation, which is a word of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final
from unicodedata import category, normalize

WORD_CHARACTERS_LIMIT: Final = 100
CONTINUED: Final = "##"
WORDS_KEPT: Final = 8_192

# The blocks that BERT takes for CJK ideographs; kana and hangul are not among them.
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_ASCII_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_BLANKS: Final = frozenset("\t\n\r")


class WordPiece:
    """A tokenizer over a vocabulary (number by token). What no pieces make up is left out."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._pieces = lru_cache(maxsize=WORDS_KEPT)(self._pieces_of)

    def tokens(self, text: str) -> list[int]:
        """The numbers of a text's tokens, in order."""
        return [number for word in _words(text) for number in self._pieces(word)]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """The longest known piece from the left, again and again; nothing when some of the word is unknown."""
        if len(word) > WORD_CHARACTERS_LIMIT:
            return ()
        found: list[int] = []
        begin = 0
        while begin < len(word):
            prefix = CONTINUED if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if prefix + word[begin:end] in self._vocabulary), None)
            if end is None:
                return ()
            found.append(self._vocabulary[prefix + word[begin:end]])
            begin = end
        return tuple(found)


def _words(text: str) -> Iterator[str]:
    for chunk in _plain(text).split():
        yield from _cut(chunk)


def _plain(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text.lower()
    spaced = "".join(map(_spaced, text))
    return "".join(character for character in normalize("NFD", spaced) if category(character) != "Mn").lower()


def _spaced(character: str) -> str:
    if character in _BLANKS or category(character) == "Zs":
        return " "
    if character == "\ufffd" or category(character)[0] == "C":
        return ""
    number = ord(character)
    if number >= 0x2E80 and any(first <= number <= last for first, last in _IDEOGRAPHS):
        return f" {character} "
    return character


def _cut(chunk: str) -> Iterator[str]:
    begin = 0
    for place, character in enumerate(chunk):
        if character in _ASCII_PUNCTUATION or (not character.isascii() and category(character)[0] == "P"):
            if place > begin:
                yield chunk[begin:place]
            yield character
            begin = place + 1
    if begin < len(chunk):
        yield chunk[begin:]
