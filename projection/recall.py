"""Recall: candidates by words and by vectors under hard filters, then one rank for all (MEMORY § 7).

Each *lane* gives candidates with scores: the words of the question, and where an embedder was chosen its meaning. The
scores of a lane are spread over 0 to 1 and the lanes added up. In every lane the verified are a list of their own, so
that no flood of candidates can push them out before they are ranked. Words that are in a large share of all records are
not looked at when rarer ones were asked for; when only such words were asked for, the newest hits are looked at and no
others, so that no question takes longer than its budget.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import log
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ..embedding.embedder import Embedder
from ..memory.ranking import best_of, normalised, order, rank
from ..memory.record import CANDIDATE, VERIFIED, Record
from . import schema
from .answers import Filters, Hit
from .filters import Conditions
from .former import LANE as FORMER_LANE
from .former import Moment, former_hits
from .names import names_in, unnamed
from .rows import TRUST_NUMBERS, VERIFIED_MARK, mark_of_name, record_of
from .schema import FULL_TEXT_WEIGHTS, SAMPLE_ONE_IN
from .terms import EVERYWHERE, SMALL_POPULATION, TERMS_ASKED_LIMIT, Budget, Choice, choose

if TYPE_CHECKING:
    from .nearest import Near, Shelves

SLICE: Final = 64
SLICE_PER_ASKED: Final = 4
NEWEST_HITS: Final = 512
NEWEST_PHRASES: Final = 4
COUNTED_LIMIT: Final = 1_024
SMALL_SCOPE_SHARE: Final = 0.02
SMALL_SCOPE_RECORDS: Final = 4_096
NAME_BOOST: Final = 0.3
RELEVANCE_DECIMALS: Final = 9
WORDS: Final = "words"
NEWEST: Final = "newest"
MEANING: Final = "vectors"
WITHIN_SMALL_SCOPE: Final = Budget(hits=131_072, share=1.0)

# Rows come out as one JSON array. Between two rows SQLite lets other threads run, and while one of them folds, a reader
# would wait for its turn a hundred times for each question.
_BM25: Final = f"bm25(words, {', '.join(map(str, FULL_TEXT_WEIGHTS))})"
_RANKED: Final = f"""
WITH hit AS MATERIALIZED (
    SELECT record.number AS number, record.id AS id, record.trust AS trust, {_BM25} AS score
    FROM words JOIN record ON record.number = words.rowid
    WHERE words MATCH ? AND {{conditions}}
)
SELECT json_group_array(json_array(number, score)) FROM (
    SELECT * FROM (SELECT number, score FROM hit WHERE trust = {TRUST_NUMBERS[VERIFIED]} ORDER BY score, id LIMIT ?)
    UNION ALL
    SELECT * FROM (SELECT number, score FROM hit WHERE trust = {TRUST_NUMBERS[CANDIDATE]} ORDER BY score, id LIMIT ?)
)
"""
_NEWEST: Final = """
SELECT json_group_array(number) FROM (
    SELECT record.number AS number FROM words JOIN record ON record.number = words.rowid
    WHERE words MATCH ? AND {conditions} ORDER BY words.rowid DESC LIMIT ?
)
"""
_WEIGHED: Final = """
SELECT json_group_array(
    json_array(number, hex(id), trust, confidence_ppm, support, pinned, strength_ppm, strength_at_us, name)
)
FROM record WHERE number IN (SELECT value FROM json_each(?))
"""
_BODIES: Final = "SELECT number, body FROM content WHERE number IN (SELECT value FROM json_each(?))"
_TRUST_NAMES: Final = {number: name for name, number in TRUST_NUMBERS.items()}


Key = TypeVar("Key", int, bytes)
"""A row number or a record's id."""


class Lane(NamedTuple):
    """One way to find candidates: row numbers with their scores, the higher the better."""

    name: str
    scores: dict[int, float]
    weight: float = 1.0


class Candidate(NamedTuple):
    """A record that may be in the answer: as much of it as ranks it. `id` in hex digits, `name` marks its subject."""

    number: int
    id: str
    trust: str
    confidence_ppm: int
    support: int
    pinned: bool
    strength_ppm: int
    strength_at_us: int
    name: int


class Ranked(NamedTuple):
    """A candidate with its rank and how well it fits the question, 0 to 1."""

    score: float
    relevance: float
    candidate: Candidate


class AskedOf(NamedTuple):
    """What a service made of a question; None where it made nothing, and `notice` says why."""

    vector: bytes | None
    notice: str = ""


class Meaning(NamedTuple):
    """What a projection with vectors has its questions answered by. `vector`: of the question, if a service made it."""

    embedder: Embedder
    shelves: Shelves
    vector: bytes | None = None

    def of(self, asked: AskedOf | None) -> Meaning | None:
        """For one question; None where it can only be answered by words."""
        if self.embedder.is_own:
            return self
        vector = None if asked is None else asked.vector
        return None if vector is None or len(vector) != self.embedder.width else self._replace(vector=vector)


class Search:
    """One recall over one connection, inside the snapshot at entry `index`.

    `population` is how many records can be recalled at all. With `meaning`, vectors are a lane too.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        conditions: Conditions,
        population: int,
        now_us: int,
        index: int = 0,
        meaning: Meaning | None = None,
    ) -> None:
        self._connection = connection
        self._conditions = conditions
        self._population = population
        self._now_us = now_us
        self._index = index
        self._meaning = meaning
        self._known: dict[int, Candidate] = {}

    def hits(self, question: str, phrases: tuple[str, ...], k: int) -> tuple[list[Hit], Choice]:
        """The best `k` records for a question and its phrases, best first, and the phrases that were searched."""
        choice = self._choice(phrases)
        slice = max(SLICE, SLICE_PER_ASKED * k)
        lanes = [self._weighted(self._by_words_at_all(choice, slice), phrases)]
        self._weigh(lanes[0].scores)
        named = self._named(question)
        lanes.append(self._by_meaning(unnamed(question, named), slice))
        self._weigh(lanes[1].scores)
        best = best_of(self._ranked(lanes, frozenset(named.values())), k, _is_verified)
        records = self._records(ranked.candidate.number for ranked in best)
        return [_hit(ranked, records[ranked.candidate.number], lanes) for ranked in best], choice

    def hits_then(
        self,
        question: str,
        phrases: tuple[str, ...],
        k: int,
        filters: Filters,
        moment: Moment,
        found: Callable[[bytes], Record | None],
    ) -> tuple[list[Hit], Choice]:
        """The best `k` records as they were at that moment; `found` gives each as it was, or None.

        Past versions are searched by their words, a lane of its own. Vectors are those of the present.
        """
        choice = self._choice(phrases)
        slice = max(SLICE, SLICE_PER_ASKED * k)
        present = [self._weighted(self._by_words_at_all(choice, slice), phrases)]
        self._weigh(present[0].scores)
        if moment.as_of_us is None:
            present.append(self._by_meaning(unnamed(question, self._named(question)), slice))
            self._weigh(present[1].scores)
        scopes = None if self._conditions.scopes is None else [scope.number for scope in self._conditions.scopes]
        former = former_hits(self._connection, choice.expression, moment, filters, scopes, slice) if phrases else {}
        lanes = [
            *(({self._id(number): score for number, score in lane.scores.items()}, lane) for lane in present),
            (former, Lane(FORMER_LANE, {}, present[0].weight if present[0].scores else 1.0)),
        ]
        records = {id: record for scores, _ in lanes for id in scores if (record := found(id)) is not None}
        marks = frozenset(names_in(question).values())
        named = {id for id, record in records.items() if mark_of_name(record) in marks}
        held = [({id: score for id, score in scores.items() if id in records}, lane.weight) for scores, lane in lanes]
        ranked = [
            Ranked(rank(records[id], relevance, self._now_us), relevance, _candidate(records[id]))
            for id, relevance in relevances(held, named).items()
        ]
        best = best_of(sorted(ranked, key=lambda each: order(each.score, each.candidate.id)), k, _is_verified)
        return [
            Hit(
                records[id := bytes.fromhex(each.candidate.id)], each.score, each.relevance,
                {lane.name: scores[id] for scores, lane in lanes if id in scores},
            )
            for each in best
        ], choice  # fmt: skip

    def _id(self, number: int) -> bytes:
        return bytes.fromhex(self._known[number].id)

    # --- candidates ---------------------------------------------------------------------------------------------------

    def _choice(self, phrases: tuple[str, ...]) -> Choice:
        budget = WITHIN_SMALL_SCOPE if self._is_small_scope else EVERYWHERE
        return choose(phrases, self._population, self._commonness, budget)

    def _commonness(self, phrase: str) -> int:
        (hits,) = self._connection.execute(schema.COMMONNESS, (phrase, COUNTED_LIMIT)).fetchone()
        return hits * SAMPLE_ONE_IN

    @property
    def _is_small_scope(self) -> bool:
        records = self._conditions.scope_records
        limit = max(SMALL_SCOPE_RECORDS, SMALL_SCOPE_SHARE * self._population)
        return records is not None and records <= limit

    def _by_words_at_all(self, choice: Choice, slice: int) -> Lane:
        if not choice.phrases:
            return Lane(WORDS, {})
        return self._by_words(choice, slice) if choice.ranked else self._newest(choice)

    def _by_words(self, choice: Choice, slice: int) -> Lane:
        sql = _RANKED.format(conditions=self._conditions.sql)
        parameters = (self._within_scope(choice.expression), *self._conditions.parameters, slice, slice)
        return Lane(WORDS, {number: -score for number, score in self._array(sql, *parameters)})

    def _newest(self, choice: Choice) -> Lane:
        scores: defaultdict[int, float] = defaultdict(float)
        for phrase in choice.phrases[:NEWEST_PHRASES]:
            weight = log(2 + self._population / (1 + self._commonness(phrase)))
            for number in self._newest_hits(phrase):
                scores[number] += weight
        return Lane(NEWEST, dict(scores))

    def _newest_hits(self, phrase: str) -> set[int]:
        sql = _NEWEST.format(conditions=self._conditions.sql)
        anywhere = self._within_scope(phrase)
        verified = f'({anywhere}) AND marks : "{VERIFIED_MARK}"'
        return {
            number
            for expression in (anywhere, verified)
            for number in self._array(sql, expression, *self._conditions.parameters, NEWEST_HITS)
        }

    def _within_scope(self, expression: str) -> str:
        return f"({expression}) AND {self._conditions.scope_expression}" if self._is_small_scope else expression

    def _weighted(self, lane: Lane, phrases: tuple[str, ...]) -> Lane:
        """Words count as much as the best hit holds of all that the words of the question could tell.

        Otherwise a question of which only a common name is found would be ranked by chance.
        """
        if self._meaning is None or not lane.scores:
            return lane
        tellable = sum(self._telling(phrase) for phrase in phrases[:TERMS_ASKED_LIMIT])
        return lane._replace(weight=min(1.0, max(lane.scores.values()) / tellable) if tellable else 1.0)

    def _telling(self, phrase: str) -> float:
        """The weight of a phrase in BM25: its inverse document frequency."""
        if self._population > SMALL_POPULATION:
            hits = self._commonness(phrase)
        else:
            (hits,) = self._connection.execute(schema.HITS, (phrase,)).fetchone()
        return max(log((self._population - hits + 0.5) / (hits + 0.5)), 0.0) if hits < self._population else 0.0

    def _by_meaning(self, question: str, slice: int) -> Lane:
        if self._meaning is None:
            return Lane(MEANING, {})
        embedder, shelves, vector = self._meaning
        if vector is None:
            (vector,) = embedder.embed([question])
        allowed = self._conditions.allowed
        found = shelves.near(self._connection, self._index, self._scopes(), vector, allowed)
        return Lane(MEANING, self._nearest(found, slice))

    def _scopes(self) -> Iterable[int]:
        if self._conditions.scopes is not None:
            return [scope.number for scope in self._conditions.scopes]
        return [number for number, *_ in self._connection.execute(schema.GET_SCOPES)]

    def _nearest(self, found: Near, slice: int) -> dict[int, float]:
        """The nearest `slice` of the verified and of the others; where many are equally near, the first by id."""
        scores: dict[int, float] = {}
        for trust in (TRUST_NUMBERS[VERIFIED], TRUST_NUMBERS[CANDIDATE]):
            near = dict(found.best(trust, slice))
            if len(near) > slice:
                self._weigh(near)
                ordered = sorted(near, key=lambda number: order(near[number], self._known[number].id))
                near = {number: near[number] for number in ordered[:slice]}
            scores |= near
        return scores

    # --- names --------------------------------------------------------------------------------------------------------

    def _named(self, question: str) -> dict[str, int]:
        """The names in the question under which something is known, each with its mark."""
        known = {candidate.name for candidate in self._known.values()}
        return {name: mark for name, mark in names_in(question).items() if mark in known}

    # --- rank ---------------------------------------------------------------------------------------------------------

    def _ranked(self, lanes: Sequence[Lane], named: frozenset[int]) -> list[Ranked]:
        ranked: list[Ranked] = []
        of_named = {number for lane in lanes for number in lane.scores if self._known[number].name in named}
        for number, relevance in relevances([(lane.scores, lane.weight) for lane in lanes], of_named).items():
            candidate = self._known[number]
            ranked.append(Ranked(rank(candidate, relevance, self._now_us), relevance, candidate))
        return sorted(ranked, key=lambda each: order(each.score, each.candidate.id))

    def _weigh(self, numbers: Iterable[int]) -> None:
        """Know what ranks these candidates."""
        wanted = [number for number in numbers if number not in self._known]
        if wanted:
            for number, id, trust, *rest in self._array(_WEIGHED, json.dumps(wanted)):
                self._known[number] = Candidate(number, id, _TRUST_NAMES[trust], *rest)

    def _records(self, numbers: Iterable[int]) -> dict[int, Record]:
        rows = self._connection.execute(_BODIES, (json.dumps(list(numbers)),)).fetchall()
        return {number: record_of(body) for number, body in rows}

    def _array(self, sql: str, *parameters: object) -> list[Any]:
        return json.loads(self._connection.execute(sql, parameters).fetchone()[0])


def relevances(lanes: Sequence[tuple[Mapping[Key, float], float]], named: Set[Key]) -> dict[Key, float]:
    """Scores by lane, each lane with its weight, added up, and more for who is asked about; the best has 1."""
    sums: defaultdict[Key, float] = defaultdict(float)
    for scores, weight in lanes:
        for key, share in zip(scores, normalised(list(scores.values())), strict=True):
            sums[key] += weight * share
    for key in named:
        sums[key] += NAME_BOOST
    best = max(sums.values(), default=0.0)
    return {key: round(total / best, RELEVANCE_DECIMALS) for key, total in sums.items()} if best else {}


def _hit(ranked: Ranked, record: Record, lanes: Sequence[Lane]) -> Hit:
    number = ranked.candidate.number
    scores = {lane.name: lane.scores[number] for lane in lanes if number in lane.scores}
    return Hit(record, ranked.score, ranked.relevance, scores)


def _candidate(record: Record) -> Candidate:
    return Candidate(
        0, record.id.hex(), record.trust, record.confidence_ppm, record.support, record.pinned, record.strength_ppm,
        record.strength_at_us, 0,
    )  # fmt: skip


def _is_verified(ranked: Ranked) -> bool:
    return ranked.candidate.trust == VERIFIED
