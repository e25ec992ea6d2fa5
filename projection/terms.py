"""From whatever somebody asks to a full-text expression that is always valid and never slow.

Asked raw, FTS5 refuses nearly every natural question (`?`, `:`, `-`, `'` and `AND` are operators to it). So a question
is read into *terms*: quoted phrases that are OR-ed, without stop-words. What makes a million facts fast is to leave out
the most common of them: a term costs as much as it has hits, and says as little. How common a term is, a small sample
of the index answers (`Commonness`); the choice itself is pure and here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .words import folded_text, language_names, pairs, split_runs

QUERY_CHARACTERS_LIMIT = 16_384
TERMS_READ_LIMIT = 256
TERMS_ASKED_LIMIT = 32
SMALL_POPULATION = 5_000
NOTICE_CHARACTERS_LIMIT = 200

Commonness = Callable[[str], int]

_BLANK = re.compile(r"[\s'\u0080-\u00a0\u2000-\u206f\u3000-\u3003\u3008-\u301f\uff01-\uff0f]+")
_JOINT = re.compile(r"[\x00-\x2f:-@\[-`{-\x7f\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf]+")

STOP_WORDS = frozenset(
    "a about after again all also am an and any are as at be because been before being both but by can could did do"
    " does doing down during each few for from further had has have having he her here hers him his how i if in into is"
    " it its just me more most my no nor not now of off on once only or other our out over own same she should so some"
    " such than that the their them then there these they this those through to too under until up us very was we were"
    " what when where which while who whom why will with would you your yours s t d ll m re ve don isn".split()
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a question asks for: FTS5 phrases in the order asked, and `notices` that say what was left aside."""

    phrases: tuple[str, ...]
    notices: tuple[str, ...] = ()


class Budget(NamedTuple):
    """What a search may cost: the hits of all its phrases together, and the share of all records that one may have."""

    hits: int
    share: float


EVERYWHERE = Budget(hits=8_192, share=0.02)


@dataclass(frozen=True, slots=True)
class Choice:
    """The phrases that are searched; `common` were left out. Not `ranked`: all are common, only new hits count."""

    phrases: tuple[str, ...]
    common: tuple[str, ...] = ()
    ranked: bool = True

    @property
    def notices(self) -> tuple[str, ...]:
        """What the caller should know about what was left out."""
        left_out = f"searched without the more common {', '.join(self.common)}" if self.common else ""
        newest = "" if self.ranked else "the words are so common that only the newest records with them were looked at"
        return tuple(filter(None, (left_out[:NOTICE_CHARACTERS_LIMIT], newest)))

    @property
    def expression(self) -> str:
        """The FTS5 expression: any of the phrases."""
        return " OR ".join(self.phrases)


def terms(query: str) -> Terms:
    """The terms of `query`, any text whatever. No phrases: nothing in it can be searched for."""
    notices: list[str] = []
    if len(query) > QUERY_CHARACTERS_LIMIT:
        notices.append(f"only the first {QUERY_CHARACTERS_LIMIT} characters of the query were read")
    folded = folded_text(query[:QUERY_CHARACTERS_LIMIT])
    spaced, runs = split_runs(folded)
    found = dict.fromkeys([*_words(spaced), *_run_phrases(runs)])
    telling = [word for word in found if word not in STOP_WORDS] or list(found)
    if len(telling) > TERMS_READ_LIMIT:
        notices.append(f"only the first {TERMS_READ_LIMIT} different words of the query were read")
    if not telling:
        notices.append("the query holds no words")
    return Terms(tuple(map(_phrase, telling[:TERMS_READ_LIMIT])), tuple(notices))


def choose(phrases: tuple[str, ...], population: int, commonness: Commonness, budget: Budget = EVERYWHERE) -> Choice:
    """The phrases worth searching among `population` records: the rarest that the budget allows, and at least one.

    `commonness(phrase)` estimates how many records hold a phrase.
    """
    if population <= SMALL_POPULATION:
        return Choice(phrases[:TERMS_ASKED_LIMIT], phrases[TERMS_ASKED_LIMIT:])
    counted = sorted((commonness(phrase), place) for place, phrase in enumerate(phrases))
    kept = list(_affordable(counted, budget.share * population, budget.hits))[:TERMS_ASKED_LIMIT]
    chosen = tuple(phrases[place] for place in sorted(kept))
    common = tuple(phrase for place, phrase in enumerate(phrases) if place not in kept)
    return Choice(chosen, common, ranked=not counted or counted[0][0] <= budget.hits)


def _affordable(counted: list[tuple[int, int]], common_from: float, budget: int) -> Iterable[int]:
    spent = 0
    for rank, (hits, place) in enumerate(counted):
        spent += hits
        if rank and (hits > common_from or spent > budget):
            return
        yield place


def _words(spaced: str) -> Iterable[str]:
    """Each word, and before it the compound that it is part of: `src/main.py` gives itself, `src`, `main` and `py`."""
    for compound in _BLANK.split(spaced):
        parts = [part for part in _JOINT.split(compound) if part]
        yield from language_names(compound)
        if len(parts) > 1:
            yield " ".join(parts)
        yield from parts


def _run_phrases(runs: Iterable[str]) -> Iterable[str]:
    for run in runs:
        yield from pairs(run) if len(run) > 1 else [run + "*"]


def _phrase(word: str) -> str:
    return f'"{word[:-1]}" *' if word.endswith("*") else f'"{word}"'
