"""Share of the evidence among the first k, the rank of the first of it, and how much of it a token budget holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from veridical.memory import LocalMemory, MemoryKind
from veridical.projection.terms import STOP_WORDS

from .talks import Question, Talk

DEPTHS = (5, 10, 20)
BUDGETS = (500, 1_000, 2_000)
CHARACTERS_A_TOKEN = 4
DEEPEST = 200
SCORE_DECIMALS = 5
"""What is told apart by less was only written at another moment."""
CALL_TIMEOUT_S = 60.0
"""On a machine that is busy otherwise, what is found counts and not when."""
PLAIN = "plain BM25"
"""FTS5 with porter, the words of the question OR-ed, stop-words left out: the better of the plain ways."""

Finder = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over questions: recall at each depth, mean reciprocal rank, evidence within each budget of tokens."""

    at: Mapping[int, float]
    mrr: float
    within: Mapping[int, float]
    questions: int

    @staticmethod
    def of(found: Iterable[tuple[Question, Sequence[str]]], tokens: Mapping[str, int]) -> Scores:
        """The scores of answers: ids, best first."""
        answers = list(found)
        return Scores(
            {k: fmean(_share(question, ids[:k]) for question, ids in answers) for k in DEPTHS},
            fmean(_reciprocal_rank(question, ids) for question, ids in answers),
            {budget: fmean(_share(question, _packed(ids, tokens, budget)) for question, ids in answers)
             for budget in BUDGETS},
            len(answers),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """One way of finding over a set: all questions together, and by kind of question."""

    name: str
    whole: Scores
    by_kind: Mapping[str, Scores]
    ms_a_question: float


def measured(name: str, talks: Sequence[Talk], opened: Callable[[Talk], tuple[Finder, Callable[[], None]]]) -> Measured:
    """Ask everything. `opened` remembers a conversation, and gives what finds in it and what ends it."""
    answers: list[tuple[Question, Sequence[str]]] = []
    tokens = {turn.id: len(turn.line) // CHARACTERS_A_TOKEN + 1 for talk in talks for turn in talk.turns}
    spent = 0.0
    for talk in talks:
        find, close = opened(talk)
        try:
            begin = time.perf_counter()
            answers += [(question, find(question.text)) for question in talk.questions]
            spent += time.perf_counter() - begin
        finally:
            close()
    kinds = dict.fromkeys(question.kind for question, _ in answers)
    by_kind = {kind: Scores.of([each for each in answers if each[0].kind == kind], tokens) for kind in kinds}
    return Measured(name, Scores.of(answers, tokens), by_kind, 1000 * spent / len(answers))


def by_veridical(embedder: str) -> Callable[[Talk], tuple[Finder, Callable[[], None]]]:
    """Each turn an episode that follows the one before, asked through the public `recall`."""

    def opened(talk: Talk) -> tuple[Finder, Callable[[], None]]:
        memory = LocalMemory(":memory:", embedder=embedder, timeout_s=CALL_TIMEOUT_S)
        places: dict[str, int] = {}
        before = None
        for place, turn in enumerate(talk.turns):
            before = memory.remember_episode(turn.line, scope="talk", occurred=turn.said, follows=before)
            places[before.id] = place

        def find(question: str) -> Sequence[str]:
            """Of equally good hits the earlier turn first, as in `by_plain_bm25`: no two stores have the same ids."""
            hits = memory.recall(question, k=DEEPEST, kind=MemoryKind.EPISODE)
            hits.sort(key=lambda hit: (-round(hit.score or 0.0, SCORE_DECIMALS), places[hit.id]))
            return [talk.turns[places[hit.id]].id for hit in hits]

        return find, memory.close

    return opened


def by_plain_bm25(talk: Talk) -> tuple[Finder, Callable[[], None]]:
    """See `PLAIN`."""
    import sqlite3  # not before the projection had its chance to set it up (see projection/sqlite.py)

    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE turn USING fts5(text, tokenize='porter unicode61')")
    database.executemany(
        "INSERT INTO turn (rowid, text) VALUES (?, ?)",
        [(place + 1, turn.line) for place, turn in enumerate(talk.turns)],
    )

    def find(question: str) -> Sequence[str]:
        words = ["".join(filter(str.isalnum, word)) for word in question.lower().split()]
        terms = [f'"{word}"' for word in words if word and word not in STOP_WORDS]
        if not terms:
            return []
        rows = database.execute(
            "SELECT rowid FROM turn WHERE turn MATCH ? ORDER BY bm25(turn), rowid LIMIT ?",
            (" OR ".join(terms), DEEPEST),
        )
        places: list[int] = [number - 1 for (number,) in rows]
        return [talk.turns[place].id for place in places]

    return find, database.close


def _share(question: Question, ids: Sequence[str]) -> float:
    return len(question.evidence.intersection(ids)) / len(question.evidence)


def _reciprocal_rank(question: Question, ids: Sequence[str]) -> float:
    return next((1 / rank for rank, id in enumerate(ids, 1) if id in question.evidence), 0.0)


def _packed(ids: Sequence[str], tokens: Mapping[str, int], budget: int) -> list[str]:
    taken: list[str] = []
    for id in ids:
        budget -= tokens[id]
        if budget < 0:
            break
        taken.append(id)
    return taken
