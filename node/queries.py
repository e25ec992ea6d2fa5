"""What can be asked of a projection by name. A query's arguments are those of the reader's method, without `now_us`.

    get        id, as_of=None, valid_at_us=None              Found or None
    get_many   ids, as_of=None, valid_at_us=None             a tuple of Found or None
    recall     as `Reader.recall`                            Recalled
    all        as `Reader.all`                               Page
    history    as `Reader.history`                           HistoryPage
    scopes     -                                             a tuple of ScopeRecords
    counts     -                                             Counts
    digest     -                                             StateDigest

Ids are 16 bytes. A page names what to ask for the next one with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..log.entry import Position
from ..projection.answers import ReadPoint
from ..projection.reader import Reader
from .ports import Verb


class Answered(NamedTuple):
    """A value, and the state, the moment and the scopes that it holds for."""

    value: Any
    position: Position
    now_us: int
    scopes: tuple[str, ...] = ()


class StateDigest(NamedTuple):
    """The digest of the whole state, 32 bytes, and of each of its 256 buckets; equal on all nodes at one index."""

    digest: bytes
    buckets: tuple[bytes, ...]


def answer(reader: Reader, verb: Verb, args: Mapping[str, Any], wall_us: int) -> Answered:
    """Ask `reader`, all in one state. Raises `Invalid`, `TypeError` or `ValueError` for wrong arguments."""
    match verb:
        case Verb.GET:
            found = reader.get_many([args["id"]], wall_us, args.get("as_of"), args.get("valid_at_us"))
            return _at(found.point, found.found[0])
        case Verb.GET_MANY:
            found = reader.get_many(args["ids"], wall_us, args.get("as_of"), args.get("valid_at_us"))
            return _at(found.point, found.found)
        case Verb.RECALL:
            recalled = reader.recall(now_us=wall_us, **args)
            return _at(recalled.point, recalled, recalled.scopes or ())
        case Verb.ALL:
            page = reader.all(now_us=wall_us, **args)
            return _at(page.point, page)
        case Verb.HISTORY:
            history = reader.history(now_us=wall_us, **args)
            return _at(history.point, history)
        case Verb.SCOPES | Verb.COUNTS | Verb.DIGEST:
            with reader.snapshot():
                return _at(reader.point(wall_us), _about_all(reader, verb))


def _about_all(reader: Reader, verb: Verb) -> Any:
    if verb is Verb.SCOPES:
        return tuple(reader.scopes())
    if verb is Verb.COUNTS:
        return reader.counts()
    return StateDigest(reader.digest(), tuple(reader.buckets()))


def _at(point: ReadPoint, value: Any, scopes: tuple[str, ...] = ()) -> Answered:
    return Answered(value, Position(point.epoch, point.index), point.now_us, scopes)
