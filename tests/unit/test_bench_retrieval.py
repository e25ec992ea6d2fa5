"""Recall finds what plain search does not, by as much as the page says, and the page says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

NUMBER = re.compile(r"\d\.\d+")
BENCH = Path(__file__).parents[2] / "bench"


pytestmark = pytest.mark.usefixtures("bench_modules")


def test_recall_is_better_than_plain_search_and_the_page_says_how_much() -> None:
    """By a tenth of the evidence at least, by words and by meaning; `make retrieval` brings the page up to date."""
    from retrieval import run
    from retrieval.talks import talks

    found = talks()
    plain, lexical, surface, meaning = run.figures(found)
    for way in (lexical, surface, meaning):
        assert way.whole.at[10] >= plain.whole.at[10] + 0.10, way.name
    assert meaning.whole.at[10] >= lexical.whole.at[10] + 0.05
    page = run.PAGE.read_text()
    now = run.with_figures(page, run.told(found, [plain, lexical, surface, meaning]))
    assert NUMBER.sub("#", page) == NUMBER.sub("#", now)
    assert figures_in(page) == pytest.approx(figures_in(now), abs=0.011)  # the last digit may round otherwise


def figures_in(page: str) -> list[float]:
    """All numbers with decimals."""
    return list(map(float, NUMBER.findall(page)))


def test_the_set_is_what_it_says() -> None:
    """Every question has its evidence in its own conversation, and the set is the same every time."""
    from retrieval.talks import talks

    found = talks()
    assert found == talks()
    for talk in found:
        ids = {turn.id for turn in talk.turns}
        assert all(question.evidence <= ids and question.evidence for question in talk.questions)
    assert {question.kind for talk in found for question in talk.questions} == {
        "plain", "context", "reworded", "dated", "both", "chain",
    }  # fmt: skip


def test_scores_are_counted_as_defined() -> None:
    """Recall at k, reciprocal rank, and what a budget holds."""
    from retrieval.measure import Scores
    from retrieval.talks import Question

    question = Question("?", "both", frozenset({"a", "b"}))
    ids = ["x", "a", *map(str, range(10)), "b"]
    scores = Scores.of([(question, ids)], dict.fromkeys(ids, 250))
    assert scores.at == {5: 0.5, 10: 0.5, 20: 1.0}
    assert scores.mrr == 0.5
    assert scores.within == {500: 0.5, 1_000: 0.5, 2_000: 0.5}
    assert Scores.of([(question, [])], {}).mrr == 0.0


def test_locomo_is_read_from_a_path(tmp_path: Path) -> None:
    """In the form in which it is published; another form is refused with what is wrong."""
    from retrieval import locomo

    sample: dict[str, Any] = {
        "conversation": {
            "speaker_a": "Ann", "speaker_b": "Bo",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a cat on a roof"},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Sweet."},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
        },
        "qa": [
            {"question": "What did Ann show?", "evidence": ["D1:1"], "category": 4, "answer": "a cat"},
            {"question": "What was never said?", "evidence": [], "category": 5},
        ],
    }  # fmt: skip
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([sample]))
    [talk] = locomo.read(path)
    assert [turn.line for turn in talk.turns] == ["Ann: Look! a cat on a roof", "Bo: Sweet."]
    assert talk.turns[0].said.isoformat() == "2023-05-08T13:56:00+00:00"
    assert [(question.text, question.kind, question.evidence) for question in talk.questions] == [
        ("What did Ann show?", "single-hop", frozenset({"D1:1"}))
    ]
    for other in ("{}", "[1]", '[{"conversation": []}]', '[{"conversation": {}, "qa": []}]', "no JSON"):
        path.write_text(other)
        with pytest.raises(ValueError, match=r"locomo10\.json"):
            locomo.read(path)
