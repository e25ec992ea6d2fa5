"""Vectors as they are stored: int8, the largest component at 127. Integers, so that every processor ranks alike.

How alike two of them are is the cosine, dot(a, b) / sqrt(dot(a, a) · dot(b, b)): integer sums, and two operations on
floats that IEEE 754 rounds the same everywhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

LARGEST: Final = 127


def quantised(components: Sequence[float] | Sequence[int]) -> bytes:
    """The stored form of a vector, one byte a component. All zero: the text says nothing that the embedder knows."""
    largest = max(map(abs, components), default=0)
    if not largest:
        return bytes(len(components))
    return array("b", [round(LARGEST * component / largest) for component in components]).tobytes()


def says_nothing(vector: bytes) -> bool:
    """Whether a stored vector is like none."""
    return not any(vector)
