"""What can be asked of a projection by name. A query's arguments are those of the reader's method, without `now_us`.

    get        id, as_of_us, valid_at_us          `Found` or None
    get_many   ids, as_of_us, valid_at_us         a tuple of them
    recall     query, k, filters                  `Recalled`
    all        filters, after, limit              `Page`
    history    id, limit, before, as_of_us, valid_at_us                  `HistoryPage`
    prunable   at_us, half_life_us, limit         a list of ids; `at_us` 0 means now
    scopes                                        a tuple of `ScopeRecords`
    counts                                        `Counts`
    digest                                        `StateDigest`
    review_queue  filters, after, limit           `ReviewPage`
    review_queue  id                              a page of that record alone, or of nothing
    principals  key, after, limit                 `KnownPage`; of that key, or of all
    lattice                                       a tuple of pairs: a scope, and the one that it lies within
    rejections  id                                a tuple of `Barred`
    tokens  after, limit                          `TokenPage`

Ids are 16 bytes. A page names what to ask for the next one with. Where principals are enrolled, a caller sees the
scopes that it may read; `prunable` answers for those that it may write, `review_queue` for those that it may review,
`counts` takes the right to read everywhere, `digest` the right `admin` everywhere. Of `principals` and
`tokens` an administrator sees all, everybody else its own. Ids elsewhere are answered as those under which nothing is
held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..log.entry import Position
from ..memory import rules
from ..memory.context import ADMIN, READ, REVIEW, WRITE
from ..memory.digest import combined
from ..memory.errors import Refused, Unavailable
from ..memory.lattice import lattice_of
from ..memory.principals import Reach, granted_scopes
from ..projection.answers import ANYTHING, Filters, Found, HistoryPage, KnownPage, ReadPoint
from ..projection.reader import Reader
from .access import Access, is_all, require_all
from .ports import ReadRequest, Verb


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


def answer(reader: Reader, request: ReadRequest, wall_us: int, access: Access) -> Answered:
    """Ask `reader`, all in one state, for what the caller may see in that state.

    Raises `Invalid`, `TypeError` or `ValueError` for wrong arguments, `Refused` for what is not granted, `Unavailable`
    for a state that is not whole.
    """
    verb = request.verb
    with reader.snapshot():
        require_whole(reader)
        if verb is Verb.PRINCIPALS:
            return _principals(reader, wall_us, access.own_key(reader, request.caller), **request.args)
        if verb is Verb.TOKENS:
            return _tokens(reader, wall_us, access.own_key(reader, request.caller), **request.args)
        right = RIGHTS.get(verb, READ)
        seen = access.reach(reader, request.caller, right)
        if verb in ABOUT_ALL:
            require_all(seen, right)
        return _ANSWERS[verb](reader, wall_us, seen, **request.args)


def require_whole(reader: Reader) -> None:
    """Raises `Unavailable` for a state in which texts are missing that only a later entry erases."""
    whole_after = reader.standing().whole_after
    if whole_after > reader.applied.index:
        raise Unavailable(f"texts are missing here until entry {whole_after}, which erased them, is applied")


def _get(reader: Reader, wall_us: int, seen: Reach, **args: Any) -> Answered:
    point, found = reader.get(now_us=wall_us, **args)
    return _at(point, _seen_of(found, seen))


def _get_many(reader: Reader, wall_us: int, seen: Reach, **args: Any) -> Answered:
    records = reader.get_many(now_us=wall_us, **args)
    return _at(records.point, records.found if is_all(seen) else tuple(_seen_of(one, seen) for one in records.found))


def _seen_of(found: Found | None, seen: Reach) -> Found | None:
    """A record elsewhere is as one that is not held: ids can be guessed, and say of what they are."""
    return found if found is not None and seen.includes(found.record.scope) else None


def _recall(reader: Reader, wall_us: int, seen: Reach, filters: Filters = ANYTHING, **args: Any) -> Answered:
    recalled = reader.recall(now_us=wall_us, filters=_within(filters, seen), **args)
    return _at(recalled.point, recalled, recalled.scopes or ())


def _all(reader: Reader, wall_us: int, seen: Reach, filters: Filters = ANYTHING, **args: Any) -> Answered:
    page = reader.page(now_us=wall_us, filters=_within(filters, seen), **args)
    return _at(page.point, page)


def _within(filters: Filters, seen: Reach) -> Filters:
    """The scopes that are asked for, or all that are granted. Raises `Refused` for more than those."""
    return filters if is_all(seen) else replace(filters, scopes=seen.asked(filters.scopes).patterns)


def _history(reader: Reader, wall_us: int, seen: Reach, **args: Any) -> Answered:
    history = reader.history(now_us=wall_us, **args)
    if history.items and not seen.includes(history.items[0].record.scope):
        history = HistoryPage(history.point, (), None)
    return _at(history.point, history)


def _prunable(reader: Reader, wall_us: int, seen: Reach, at_us: int, half_life_us: int, limit: int) -> Answered:
    point = reader.point(wall_us)
    includes = None if is_all(seen) else seen.includes
    found = reader.prunable(at_us or point.now_us, half_life=half_life_us, limit=limit, includes=includes)
    return _at(point, found)


def _scopes(reader: Reader, wall_us: int, seen: Reach) -> Answered:
    return _at(reader.point(wall_us), tuple(granted_scopes(reader.scopes(), seen)))


def _counts(reader: Reader, wall_us: int, seen: Reach) -> Answered:
    del seen
    return _at(reader.point(wall_us), reader.counts())


def _digest(reader: Reader, wall_us: int, seen: Reach) -> Answered:
    del seen
    _, buckets = reader.buckets()
    return _at(reader.point(wall_us), StateDigest(combined(buckets), buckets))


def _review_queue(reader: Reader, wall_us: int, seen: Reach, filters: Filters = ANYTHING, **args: Any) -> Answered:
    if "id" not in args:
        page = reader.review_queue(wall_us, filters=_within(filters, seen), **args)
        return _at(page.point, page)
    page = reader.review_of(wall_us, **args)
    return _at(page.point, page._replace(items=tuple(one for one in page.items if seen.includes(one.record.scope))))


def _principals(reader: Reader, wall_us: int, own: bytes | None, key: bytes = b"", **args: Any) -> Answered:
    """Of the key that is asked for; else of all, or of the only one that the caller may know of."""
    if own is not None and key not in (b"", own):
        raise Refused(rules.NOT_GRANTED, "what is known of others takes the right to admin in every scope")
    point = reader.point(wall_us)
    wanted = key or own
    page = KnownPage(point, (reader.known_by(wanted),), None) if wanted else reader.known(**args)
    return _at(point, page._replace(point=point))


def _tokens(reader: Reader, wall_us: int, own: bytes | None, **args: Any) -> Answered:
    point = reader.point(wall_us)
    return _at(point, reader.tokens(principal=own, **args)._replace(point=point))


def _lattice(reader: Reader, wall_us: int, seen: Reach) -> Answered:
    """What can be read of it: a scope that may not be seen is neither named as a parent nor as a child."""
    pairs = lattice_of(reader).parents.items()
    return _at(reader.point(wall_us), tuple(pair for pair in pairs if all(map(seen.includes, pair))))


def _rejections(reader: Reader, wall_us: int, seen: Reach, id: bytes) -> Answered:
    scope = reader.scope_of(id)
    barred = reader.barred(id) if is_all(seen) or (scope is not None and seen.includes(scope)) else ()
    return _at(reader.point(wall_us), barred)


def _at(point: ReadPoint, value: Any, scopes: tuple[str, ...] = ()) -> Answered:
    return Answered(value, Position(point.epoch, point.index), point.now_us, scopes)


RIGHTS: Final[Mapping[Verb, str]] = {Verb.PRUNABLE: WRITE, Verb.DIGEST: ADMIN, Verb.REVIEW_QUEUE: REVIEW}
"""What is needed for other verbs than those that read records."""

ABOUT_ALL: Final = frozenset({Verb.COUNTS, Verb.DIGEST})
"""Their answers cannot be parted by scope."""

_ANSWERS: Final[Mapping[Verb, Callable[..., Answered]]] = {
    Verb.GET: _get,
    Verb.GET_MANY: _get_many,
    Verb.RECALL: _recall,
    Verb.ALL: _all,
    Verb.HISTORY: _history,
    Verb.PRUNABLE: _prunable,
    Verb.SCOPES: _scopes,
    Verb.COUNTS: _counts,
    Verb.DIGEST: _digest,
    Verb.REVIEW_QUEUE: _review_queue,
    Verb.LATTICE: _lattice,
    Verb.REJECTIONS: _rejections,
}
