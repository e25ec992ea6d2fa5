"""The calls that show trust to people: what waits for a reviewer, who is known, which scope lies within which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from ..memory.lattice import ScopeLattice
from ..memory.record import Version
from ..memory.reputation import AuthorTrust
from ..memory.reviewing import BarredValue, KnownPrincipal, ReviewItem
from ..memory.view import RecordVersion, datetime_of
from ..proto.generated import memory_pb2
from . import answers
from .requests import count, filters_of, record_id
from .trust import Key, key_of

REVIEWS: Final = 20
PRINCIPALS_PAGE: Final = 1_000


class Reviews(list[ReviewItem]):
    """A page of what waits for a reviewer: the state after entry `(epoch, index)`, judged at `now`.

    `unknown_scopes` are those asked for that hold nothing; `cursor` is where the next page begins, empty on the last.
    """

    def __init__(self, items: Iterable[ReviewItem], reply: memory_pb2.ReadReply) -> None:
        super().__init__(items)
        self.epoch: int = reply.epoch
        self.index: int = reply.index  # pyright: ignore[reportIncompatibleMethodOverride] - of the log, as everywhere
        self.now: datetime = datetime_of(reply.now_us)
        self.unknown_scopes: tuple[str, ...] = tuple(reply.reviews.unknown_scopes)
        self.cursor: bytes = reply.reviews.after


class OversightCalls(ABC):
    """The part of an `AsyncMemory` that shows trust. Nothing of it changes anything."""

    @abstractmethod
    async def _ask(
        self, request: memory_pb2.ReadRequest, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply: ...

    @abstractmethod
    async def _paged(
        self, request: memory_pb2.ReadRequest, since: int | None, consistency: str | None, timeout_s: float | None
    ) -> memory_pb2.ReadReply:
        """The answer to a question for a page; of a state not older than entry `since`, where a page was read there."""

    async def review_queue(
        self,
        *,
        scope: str | Sequence[str] | None = None,
        after: Reviews | None = None,
        limit: int = REVIEWS,
        consistency: str | None = None,
        timeout_s: float | None = None,
    ) -> Reviews:
        """What waits for a reviewer: the first page, or the one that follows the page `after`.

        Contended records come first, then candidates scope by scope, the most supported first. Only scopes in which the
        principal may review; asking for another one raises `Refused` (`not_granted`). At most 100 items, and fewer
        where they are long.
        """
        cursor = b"" if after is None else after.cursor
        filters = filters_of(scope, None, None)
        question = memory_pb2.ReviewQueue(filters=filters, after=cursor, limit=count("limit", limit))
        request = memory_pb2.ReadRequest(review_queue=question)
        reply = await self._paged(request, None if after is None else after.index, consistency, timeout_s)
        return Reviews((_item(review, reply.now_us) for review in reply.reviews.reviews), reply)

    async def review_item(
        self, id: str, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> ReviewItem | None:
        """The evidence of one record, whether it waits or not. None where the principal may not review, or none is."""
        question = memory_pb2.ReviewQueue(id=record_id(id))
        reply = await self._ask(memory_pb2.ReadRequest(review_queue=question), consistency, timeout_s)
        return next((_item(review, reply.now_us) for review in reply.reviews.reviews), None)

    async def principals(
        self, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> list[KnownPrincipal]:
        """Who is known by key, in the order of keys: all, for a holder of `admin` in `*`; else only oneself.

        Those who were never enrolled and only signed something are listed too. Each 1 000 come within `timeout_s`.
        """
        found: list[KnownPrincipal] = []
        after = b""
        while True:
            question = memory_pb2.Principals(after=after, limit=PRINCIPALS_PAGE)
            reply = await self._ask(memory_pb2.ReadRequest(principals=question), consistency, timeout_s)
            found += map(_known, reply.known.known)
            after = reply.known.after
            if not after:
                return found

    async def author_trust(
        self, key: Key, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> AuthorTrust:
        """How often whoever holds or held that key was right here: of oneself, or for a holder of `admin` in `*`."""
        question = memory_pb2.Principals(key=key_of("key", key))
        reply = await self._ask(memory_pb2.ReadRequest(principals=question), consistency, timeout_s)
        (known,) = reply.known.known
        return _trust(known.trust)

    async def lattice(self, *, consistency: str | None = None, timeout_s: float | None = None) -> ScopeLattice:
        """The replicated lattice, as far as the principal may read its scopes."""
        reply = await self._ask(memory_pb2.ReadRequest(lattice=memory_pb2.Lattice()), consistency, timeout_s)
        return ScopeLattice({pair.scope: pair.parent for pair in reply.lattice.pairs})

    async def rejections(
        self, id: str, *, consistency: str | None = None, timeout_s: float | None = None
    ) -> list[BarredValue]:
        """The values that were rejected under an id and stay rejected, at most 1 000; `revoke_rejection` lifts one."""
        question = memory_pb2.Rejections(id=record_id(id))
        reply = await self._ask(memory_pb2.ReadRequest(rejections=question), consistency, timeout_s)
        return [BarredValue(one.value.hex(), one.text if one.HasField("text") else None) for one in reply.barred.values]


def _item(review: memory_pb2.Review, now_us: int) -> ReviewItem:
    return ReviewItem.of(
        answers.held(review.row),
        now_us,
        list(map(answers.held, review.contenders)),
        list(map(answers.past, review.corrections)),
        review.barred,
        _trust(review.author) if review.HasField("author") else None,
        review.standing,
    )


def _known(known: memory_pb2.Known) -> KnownPrincipal:
    version = Version(known.version.epoch, known.version.index, known.version.place)
    trust = _trust(known.trust)
    return KnownPrincipal(
        key=known.key.hex(),
        identity=known.identity.hex(),
        name=known.name,
        standing=known.standing,
        grants={grant.pattern: list(grant.rights) for grant in known.grants},
        kept=trust.kept,
        lost=trust.lost,
        rate=trust.rate,
        principals_needed=trust.principals_needed,
        version=RecordVersion(**version._asdict()) if version.index else None,
    )


def _trust(raw: memory_pb2.AuthorTrust) -> AuthorTrust:
    return AuthorTrust(raw.author, raw.kept, raw.lost, raw.rate_ppm, raw.principals_needed)
