"""What an embedder is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class EmbedderUnavailable(Exception):
    """Vectors cannot be had now: a service does not answer, or refuses. The message holds no secret."""


class Embedder(Protocol):
    """Makes vectors of texts. May block; to be called on a thread. Safe over threads."""

    @property
    def name(self) -> str:
        """By what an index remembers which embedder made it: two of one name make the same vectors."""
        ...

    @property
    def width(self) -> int:
        """How many components a vector has."""
        ...

    @property
    def is_semantic(self) -> bool:
        """Whether texts that mean the same are near each other though they share no words."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A stored vector (`vectors.py`) for each text, however long. Raises `EmbedderUnavailable`."""
        ...
