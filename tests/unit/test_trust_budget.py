"""A recall within a budget: the whole block fits, the verified come first, and what did not fit is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.memory import LocalMemory, MemoryRecord, Trust, recall_budgeted
from veridical.memory.errors import Invalid
from veridical.memory.fence import FENCE_CLOSES, FENCE_OPENS, fenced, inert_line
from veridical.trust.budget import CountTokens
from veridical.trust.tokens import tokens_at_most

COUNTED = Path(__file__).parents[1] / "counts" / "token_counts.json"


@pytest.fixture(scope="module")
def mem() -> Iterator[LocalMemory]:
    """One fact that is verified, and many that fit the words as well or better."""
    with LocalMemory(":memory:") as mem:
        written = mem.write(MemoryRecord(subject="deploy", predicate="via", text="the pipeline", scope="team"))
        mem.approve(written.id)
        for number in range(12):
            text = f"deploy deploy deploy by hand, way {number} " + "and so on " * number
            mem.write(MemoryRecord(subject=f"deploy {number}", predicate="via", text=text, scope="team"))
        yield mem


def words(text: str) -> int:
    """A tokenizer of words."""
    return len(text.split())


@pytest.mark.parametrize("count", [None, words, len])
@pytest.mark.parametrize("budget", [1, 12, 20, 60, 120, 300, 1_000, 100_000])
def test_the_whole_block_fits_or_is_the_best_record_alone(
    mem: LocalMemory, budget: int, count: CountTokens | None
) -> None:
    """Fence and the line about what was dropped included."""
    counter = count or tokens_at_most
    context = recall_budgeted(mem, "deploy", scope="team", token_budget=budget, count_tokens=count)
    assert context.used_tokens == counter(context.text)
    assert context.over_budget == (context.used_tokens > budget)
    assert len(context.records) + context.dropped == 13
    assert context.records[0].trust is Trust.VERIFIED
    first, *lines, last = context.text.splitlines()
    assert (first, last) == (FENCE_OPENS, FENCE_CLOSES)
    assert lines[: len(context.records)] == [inert_line(record) for record in context.records]
    if context.over_budget:
        assert len(context.records) == len(lines) == 1
    elif len(lines) > len(context.records):
        assert lines[-1] == f"- (+{context.dropped} more lower-ranked memories omitted for budget)"


def test_a_larger_budget_holds_more(mem: LocalMemory) -> None:
    """And a budget for all of them drops none."""
    held = [
        len(recall_budgeted(mem, "deploy", scope="team", token_budget=budget).records)
        for budget in (1, 200, 400, 800, 100_000)
    ]
    assert held == sorted(held)
    assert (held[0], held[-1]) == (1, 13)


def test_a_record_that_does_not_fit_keeps_no_smaller_one_out() -> None:
    """The large one is dropped, the small one after it is not."""
    with LocalMemory(":memory:") as mem:
        for subject, text in (("tea", "tea"), ("tea time", "tea " + "x" * 3_000), ("teapot", "tea in a pot")):
            mem.write(MemoryRecord(subject=subject, predicate="is", text=text))
        context = recall_budgeted(mem, "tea", token_budget=250)
    assert {record.subject for record in context.records} == {"tea", "teapot"}
    assert context.dropped == 1


def test_nothing_found_costs_nothing(mem: LocalMemory) -> None:
    """There is no empty fence."""
    context = recall_budgeted(mem, "zebra", scope="team", token_budget=100)
    assert (context.text, context.used_tokens, context.dropped, context.over_budget) == ("", 0, 0, False)


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_is_positive(mem: LocalMemory, budget: int) -> None:
    """Otherwise it says so."""
    with pytest.raises(Invalid, match="token_budget"):
        recall_budgeted(mem, "deploy", scope="team", token_budget=budget)


@pytest.mark.parametrize("answer", [-1, 2.5, None, True])
def test_a_tokenizer_answers_with_a_number(mem: LocalMemory, answer: object) -> None:
    """A list of tokens, say, is a mistake and not a budget."""

    def wrong(_: str) -> int:
        return cast("int", answer)

    with pytest.raises(Invalid, match="count_tokens"):
        recall_budgeted(mem, "deploy", scope="team", token_budget=9, count_tokens=wrong)


# --- the estimate -----------------------------------------------------------------------------------------------------


def samples() -> Sequence[tuple[str, dict[str, int]]]:
    """Texts in many scripts with what four real tokenizers made of them."""
    return [(item["text"], item["tokens"]) for item in json.loads(COUNTED.read_text())]


@pytest.mark.parametrize(("text", "tokens"), samples())
def test_the_estimate_is_an_upper_bound_of_real_tokenizers(text: str, tokens: dict[str, int]) -> None:
    """Every script, emoji, base64, code, and letters that no vocabulary knows together."""
    assert max(tokens.values()) <= tokens_at_most(text)


def test_the_estimate_is_not_absurd() -> None:
    """For English prose it stays under four times what that really costs."""
    text, tokens = next(sample for sample in samples() if sample[0].startswith("The office"))
    assert tokens_at_most(text) < 4 * min(tokens.values())


LETTERS = "abcdefghilmnoprstu"


def left_by_merging(text: str) -> int:
    """The most tokens that a vocabulary can leave which has no more than it must: the pairs of these letters."""
    tokens: list[str] = []
    for character in text:
        before = tokens[-1] if tokens else ""
        if len(before) == 1 and before in LETTERS + " " and character in LETTERS:
            tokens[-1] += character
        else:
            tokens.append(character)
    return sum(1 if token[-1] in LETTERS else len(token.encode()) for token in tokens)


@given(st.text(alphabet=LETTERS + " AZ<-é中\n"), st.booleans())
@settings(max_examples=300)
def test_no_merging_leaves_more(text: str, backwards: bool) -> None:
    """From the left or, so that other letters stay single, with the text turned round."""
    assert left_by_merging(text[::-1] if backwards else text) <= tokens_at_most(text[::-1] if backwards else text)


@given(st.text())
def test_it_is_never_less_than_a_token_for_three_bytes_or_more_than_one_for_each(text: str) -> None:
    """Between the two whatever the text, in its own form or the compatibility form."""
    size = max(len(form.encode("utf-8", "surrogatepass")) for form in (text, normalize("NFKC", text)))
    assert size // 2 <= tokens_at_most(text) <= size + 1


def test_the_fence_is_counted() -> None:
    """It costs what it costs."""
    assert tokens_at_most(fenced([])) > 50
