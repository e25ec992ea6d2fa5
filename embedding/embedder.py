"""What an embedder is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class EmbedderUnavailable(Exception):
    """Vectors cannot be had now: a service does not answer, or refuses. The message holds no secret.

    `may_retry`: the same texts may be embedded later; otherwise there is something wrong with the question.
    """

    def __init__(self, reason: str, *, may_retry: bool = True) -> None:
        super().__init__(reason)
        self.may_retry = may_retry


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
    def is_own(self) -> bool:
        """Whether it asks nobody, and makes the same vector of the same text everywhere and always."""
        ...

    @property
    def is_semantic(self) -> bool:
        """Whether texts that mean the same are near each other though they share no words."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A stored vector (`vectors.py`) for each text, however long. Raises `EmbedderUnavailable`."""
        ...
