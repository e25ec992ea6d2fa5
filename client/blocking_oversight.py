"""The calls that show trust to people, for programs without an event loop: the same promises, blocking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..memory.lattice import ScopeLattice
from ..memory.reputation import AuthorTrust
from ..memory.reviewing import BarredValue, KnownPrincipal, ReviewItem
from .oversight import REVIEWS, Reviews
from .trust import Key

if TYPE_CHECKING:
    from .surface import AsyncMemory

Result = TypeVar("Result")


class BlockingOversightCalls(ABC):
    """The part of a `BlockingMemory` that shows trust. See `OversightCalls`."""

    @abstractmethod
    def _question(
        self, timeout_s: float | None, call: Callable[[AsyncMemory, float], Coroutine[Any, Any, Result]]
    ) -> Result:
        """Run a call that changes nothing."""

    def review_queue(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        after: Reviews | None = None,
        limit: int = REVIEWS,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Reviews:
        """See `OversightCalls.review_queue`."""
        return self._question(
            timeout_s,
            lambda memory, left: memory.review_queue(
                scope=scope, after=after, limit=limit, consistency=consistency, timeout_s=left
            ),
        )

    def review_item(
        self, id: str, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> ReviewItem | None:
        """See `OversightCalls.review_item`."""
        return self._question(
            timeout_s, lambda memory, left: memory.review_item(id, consistency=consistency, timeout_s=left)
        )

    def principals(self, *, consistency: str | None = None, timeout_s: float | None = None) -> list[KnownPrincipal]:
        """See `OversightCalls.principals`."""
        return self._question(
            timeout_s, lambda memory, left: memory.principals(consistency=consistency, timeout_s=left)
        )

    def author_trust(self, key: Key, *, consistency: str | None = None, timeout_s: float | None = None) -> AuthorTrust:
        """See `OversightCalls.author_trust`."""
        return self._question(
            timeout_s, lambda memory, left: memory.author_trust(key, consistency=consistency, timeout_s=left)
        )

    def lattice(self, *, consistency: str | None = None, timeout_s: float | None = None) -> ScopeLattice:
        """See `OversightCalls.lattice`."""
        return self._question(timeout_s, lambda memory, left: memory.lattice(consistency=consistency, timeout_s=left))

    def rejections(
        self, id: str, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> list[BarredValue]:
        """See `OversightCalls.rejections`."""
        return self._question(
            timeout_s, lambda memory, left: memory.rejections(id, consistency=consistency, timeout_s=left)
        )
