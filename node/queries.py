"""What can be asked of a projection by name. A query's arguments are those of the reader's method, without `now_us`.

    get        id, as_of_us, valid_at_us          `Found` or None
    get_many   ids, as_of_us, valid_at_us         a tuple of them
    recall     query, k, filters                  `Recalled`
    all        filters, after, limit              `Page`
    history    id, limit, before                  `HistoryPage`
    prunable   at_us, half_life_us, limit         a list of ids; `at_us` 0 means now
    scopes                                        a tuple of `ScopeRecords`
    counts                                        `Counts`
    digest                                        `StateDigest`

Ids are 16 bytes. A page names what to ask for the next one with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..log.entry import Position
from ..memory.digest import combined
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
            point, found = reader.get(now_us=wall_us, **args)
            return _at(point, found)
        case Verb.GET_MANY:
            records = reader.get_many(now_us=wall_us, **args)
            return _at(records.point, records.found)
        case Verb.RECALL:
            recalled = reader.recall(now_us=wall_us, **args)
            return _at(recalled.point, recalled, recalled.scopes or ())
        case Verb.ALL:
            page = reader.page(now_us=wall_us, **args)
            return _at(page.point, page)
        case Verb.HISTORY:
            history = reader.history(now_us=wall_us, **args)
            return _at(history.point, history)
        case Verb.PRUNABLE:
            return _prunable(reader, wall_us, **args)
        case Verb.SCOPES | Verb.COUNTS | Verb.DIGEST:
            return _about_all(reader, verb, wall_us)


def _about_all(reader: Reader, verb: Verb, wall_us: int) -> Answered:
    with reader.snapshot():
        point = reader.point(wall_us)
        if verb is Verb.SCOPES:
            return _at(point, reader.scopes())
        if verb is Verb.COUNTS:
            return _at(point, reader.counts())
        _, buckets = reader.buckets()
        return _at(point, StateDigest(combined(buckets), buckets))


def _prunable(reader: Reader, wall_us: int, at_us: int, half_life_us: int, limit: int) -> Answered:
    with reader.snapshot():
        point = reader.point(wall_us)
        return _at(point, reader.prunable(at_us or point.now_us, half_life=half_life_us, limit=limit))


def _at(point: ReadPoint, value: Any, scopes: tuple[str, ...] = ()) -> Answered:
    return Answered(value, Position(point.epoch, point.index), point.now_us, scopes)
