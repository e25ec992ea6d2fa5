"""Names in a question: found as whole words, however they end, and left out as such."""

from __future__ import annotations

import pytest

from veridical.projection.names import name_mark, names_in, unnamed


@pytest.mark.parametrize("question", ["What does Mira like?", "Mira's cat", "mira, please", "(Mira)", "where is Mira."])
def test_a_name_is_found(question: str) -> None:
    """In any case and with whatever stands at its end."""
    assert name_mark("mira") in names_in(question).values()


def test_names_of_several_words_are_found() -> None:
    """Up to four of them, as they stand next to each other."""
    marks = names_in("who owns the billing service of acme").values()
    assert name_mark("billing service") in marks and name_mark("the billing service of") in marks
    assert name_mark("the billing service of acme") not in marks


def test_a_name_is_left_out_as_a_word_and_nowhere_else() -> None:
    """A word that only holds it stays whole; a question that is nothing but a name stays as it is."""
    named = {"art": name_mark("art")}
    assert unnamed("art in the department of art", named).split() == ["in", "the", "department", "of"]
    assert unnamed("art?", named) == "art?"
    assert unnamed("C++ and c", {"C++": name_mark("c++")}).split() == ["and", "c"]
