"""Recall: candidates by words under hard filters, then one rank for all (MEMORY § 7).

Two candidate lists come out of one pass over the full-text hits, the verified and the others, so that no flood of
candidates can push the verified out before they are ranked. Words that are in a large share of all records are not
looked at when rarer ones were asked for; when only such words were asked for, the newest hits are looked at and no
others, so that no question takes longer than its budget.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log
from typing import Any, Final, NamedTuple

from ..memory.ranking import normalised, order, rank
from ..memory.record import CANDIDATE, VERIFIED, Record
from . import schema
from .answers import Hit
from .filters import Conditions
from .rows import TRUST_NUMBERS, VERIFIED_MARK, record_of
from .schema import FULL_TEXT_WEIGHTS, SAMPLE_ONE_IN
from .terms import EVERYWHERE, Budget, Choice, choose

SLICE: Final = 64
SLICE_PER_ASKED: Final = 4
NEWEST_HITS: Final = 512
NEWEST_PHRASES: Final = 4
COUNTED_LIMIT: Final = 1_024
SMALL_SCOPE_SHARE: Final = 0.02
SMALL_SCOPE_RECORDS: Final = 4_096
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
    json_array(number, hex(id), trust, confidence_ppm, support, pinned, strength_ppm, strength_at_us)
)
FROM record WHERE number IN (SELECT value FROM json_each(?))
"""
_BODIES: Final = "SELECT number, body FROM content WHERE number IN (SELECT value FROM json_each(?))"
_TRUST_NAMES: Final = {number: name for name, number in TRUST_NUMBERS.items()}


class Candidates(NamedTuple):
    """Row numbers with their lexical scores, the higher the better, from the lane of that name."""

    lane: str
    scores: dict[int, float]


class Candidate(NamedTuple):
    """A record that may be in the answer: as much of it as ranks it. `id` in hex digits."""

    number: int
    id: str
    trust: str
    confidence_ppm: int
    support: int
    pinned: bool
    strength_ppm: int
    strength_at_us: int


class Ranked(NamedTuple):
    """A candidate with its rank and the lexical part of it."""

    score: float
    relevance: float
    candidate: Candidate


class Search:
    """One recall over one connection, inside a snapshot. `population` is how many records can be recalled at all."""

    def __init__(self, connection: sqlite3.Connection, conditions: Conditions, population: int, now_us: int) -> None:
        self._connection = connection
        self._conditions = conditions
        self._population = population
        self._now_us = now_us

    def hits(self, phrases: tuple[str, ...], k: int) -> tuple[list[Hit], Choice]:
        """The best `k` records for the phrases of a question, best first, and the phrases that were searched."""
        choice = self._choice(phrases)
        candidates = self._candidates(choice, max(SLICE, SLICE_PER_ASKED * k))
        best = _best(self._ranked(candidates), k)
        records = self._records(ranked.candidate.number for ranked in best)
        return [_hit(ranked, records[ranked.candidate.number], candidates) for ranked in best], choice

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

    def _candidates(self, choice: Choice, slice: int) -> Candidates:
        if not choice.phrases:
            return Candidates("words", {})
        return self._by_words(choice, slice) if choice.ranked else self._newest(choice)

    def _by_words(self, choice: Choice, slice: int) -> Candidates:
        sql = _RANKED.format(conditions=self._conditions.sql)
        parameters = (self._within_scope(choice.expression), *self._conditions.parameters, slice, slice)
        return Candidates("words", {number: -score for number, score in self._array(sql, *parameters)})

    def _newest(self, choice: Choice) -> Candidates:
        scores: defaultdict[int, float] = defaultdict(float)
        for phrase in choice.phrases[:NEWEST_PHRASES]:
            weight = log(2 + self._population / (1 + self._commonness(phrase)))
            for number in self._newest_hits(phrase):
                scores[number] += weight
        return Candidates("newest", dict(scores))

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

    # --- rank ---------------------------------------------------------------------------------------------------------

    def _ranked(self, candidates: Candidates) -> list[Ranked]:
        relevances = dict(zip(candidates.scores, normalised(list(candidates.scores.values())), strict=True))
        ranked = [
            Ranked(rank(candidate, relevances[candidate.number], self._now_us), relevances[candidate.number], candidate)
            for candidate in self._weighed(candidates.scores)
        ]
        return sorted(ranked, key=lambda each: order(each.score, each.candidate.id))

    def _weighed(self, numbers: Iterable[int]) -> list[Candidate]:
        rows = self._array(_WEIGHED, json.dumps(list(numbers)))
        return [Candidate(number, id, _TRUST_NAMES[trust], *rest) for number, id, trust, *rest in rows]

    def _records(self, numbers: Iterable[int]) -> dict[int, Record]:
        rows = self._connection.execute(_BODIES, (json.dumps(list(numbers)),)).fetchall()
        return {number: record_of(body) for number, body in rows}

    def _array(self, sql: str, *parameters: object) -> list[Any]:
        return json.loads(self._connection.execute(sql, parameters).fetchone()[0])


def _hit(ranked: Ranked, record: Record, candidates: Candidates) -> Hit:
    lanes = {candidates.lane: candidates.scores[ranked.candidate.number]}
    return Hit(record, ranked.score, ranked.relevance, lanes)


def _best(ordered: Sequence[Ranked], k: int) -> Sequence[Ranked]:
    """The first `k` by rank. Where there is room for more than one, the best verified hit is among them.

    The rank alone does not promise that: a better fit of the words can weigh more than trust, and candidates are many.
    """
    best = list(ordered[:k])
    if k > 1 and len(ordered) > k and not any(map(_is_verified, best)):
        best[-1:] = [next(filter(_is_verified, ordered), best[-1])]
    return best


def _is_verified(ranked: Ranked) -> bool:
    return ranked.candidate.trust == VERIFIED
