"""What a reader can be asked, and what it answers. Every answer says at which index and at which `now_us` it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..memory.principals import Principal
from ..memory.record import PastVersion, Record, Version
from ..memory.reputation import AuthorTrust
from ..memory.tokens import Token


class ReadPoint(NamedTuple):
    """The state that was read: entry `index` of `epoch`, judged at `now_us`, never earlier than that entry's time."""

    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    now_us: int


@dataclass(frozen=True, slots=True)
class Filters:
    """Which records a query may return. None: any.

    `scopes` in normal form: scopes, or the patterns of a reach, which stand for all scopes that they match; `kind` and
    `trust` as records spell them; `valid_at_us` is a moment in valid time, `as_of_us` one in recorded time.
    """

    scopes: tuple[str, ...] | None = None
    kind: str | None = None
    trust: str | None = None
    valid_at_us: int | None = None
    as_of_us: int | None = None


ANYTHING = Filters()


class Found(NamedTuple):
    """A record and the values it held before that were superseded, oldest first, at most the last 100."""

    record: Record
    corrections: tuple[PastVersion, ...] = ()


class Records(NamedTuple):
    """Answers to `get_many`, in the order of the ids; None where there is nothing, or nothing any more."""

    point: ReadPoint
    found: tuple[Found | None, ...]


class Page(NamedTuple):
    """Some of all records, in the order of their ids. `after` asks for the next page; None: that was the last."""

    point: ReadPoint
    records: tuple[Record, ...]
    after: bytes | None
    unknown_scopes: tuple[str, ...]


class HistoryItem(NamedTuple):
    """A record that was held until `until_us`, or, with None, is held still. `ended_by` names the event that ended it,
    `expired` also where nobody has removed it yet; `reason` is what was said then.
    """

    record: Record
    until_us: int | None
    ended_by: str
    reason: str


class HistoryPage(NamedTuple):
    """What was held under an id, newest first. `before` asks for the next page; None: that was the last."""

    point: ReadPoint
    items: tuple[HistoryItem, ...]
    before: Version | None


class Hit(NamedTuple):
    """A recalled record. `score` orders; `relevance` (0 to 1) is its lexical part; `lanes` hold raw scores."""

    record: Record
    score: float
    relevance: float
    lanes: Mapping[str, float]


class Recalled(NamedTuple):
    """The answer to a recall, best first. `scopes`: those searched (None: all); `notices` say what was left aside."""

    point: ReadPoint
    hits: tuple[Hit, ...]
    scopes: tuple[str, ...] | None
    unknown_scopes: tuple[str, ...]
    notices: tuple[str, ...]


class Review(NamedTuple):
    """A record that waits for a reviewer, and what speaks for and against it.

    `contenders` wait beside a record that is held; `corrections` are its last superseded values, oldest first; `barred`
    counts the values that were rejected under its key; `author` is None where nobody signed the value, `standing` says
    whether that key is in force.
    """

    record: Record
    contenders: tuple[Record, ...]
    corrections: tuple[PastVersion, ...]
    barred: int
    author: AuthorTrust | None
    standing: str = ""


class ReviewPage(NamedTuple):
    """Some of what waits for a reviewer. `after` asks for the next page; None: that was the last."""

    point: ReadPoint
    items: tuple[Review, ...]
    after: bytes | None
    unknown_scopes: tuple[str, ...]


class Known(NamedTuple):
    """A principal, with what is known of the person behind the key: a reputation outlives a rotation."""

    principal: Principal
    trust: AuthorTrust


class TokenPage(NamedTuple):
    """Some of the tokens that were issued, in the order of ids. `after` asks for the next page; None: the last."""

    point: ReadPoint
    tokens: tuple[Token, ...]
    after: bytes | None


class KnownPage(NamedTuple):
    """Some of all that are known, in the order of their keys. `after` asks for the next page; None: the last."""

    point: ReadPoint
    known: tuple[Known, ...]
    after: bytes | None


class Barred(NamedTuple):
    """A value that was rejected under a key. `text` is None where no version that is kept held it."""

    value_digest: bytes
    text: str | None


class ScopeRecords(NamedTuple):
    """A scope and how many records it holds, whatever their trust."""

    scope: str
    records: int


class Counts(NamedTuple):
    """How much there is: records, those that can be recalled, past versions, rejected values, remembered commands."""

    records: int
    searchable: int
    past_versions: int
    rejections: int
    commands: int
    scopes: int
