"""When two texts are the same value, and which names can stand in a key."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.keys import is_reserved_key, make_id, make_key, normal_name, record_id
from veridical.memory.scope import normal_pattern, normal_scope, scope_matches
from veridical.memory.text import canonical_text, unnameable_character, value_key

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
tricky_text = st.text(
    st.sampled_from("aAée\u0301ﬁＡ \u00a0\u200b\u200d\t\n<>＜ßİıΣς\u0345ᾳ\u00ad\ufe0f한\u1100\u1161%|"), max_size=12
)


@given(any_text | tricky_text)
def test_canonical_text_is_at_rest(text: str) -> None:
    """Rendering a rendered text changes nothing."""
    assert canonical_text(canonical_text(text)) == canonical_text(text)


@given(any_text | tricky_text)
def test_the_key_of_a_value_is_at_rest(text: str) -> None:
    """The key of a key is itself, so that it does not matter how often a value was normalised on its way."""
    assert value_key(value_key(text)) == value_key(text)


@given(any_text | tricky_text, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_normal_forms_are_one_value(text: str, form: str) -> None:
    """A value is the same in each Unicode normal form."""
    assert value_key(normalize(form, text)) == value_key(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "variant",
    [
        "The Office Closed",
        "the  office closed",
        " the office\tclosed ",
        "ｔｈｅ ｏｆｆｉｃｅ ｃｌｏｓｅｄ",
        "the of\u200bfice closed",
        "the\u00a0office closed",
        "the o\ufb03ce closed",
        "the office\u2028closed",
        "\u202ethe office closed\u202c",
        "the of\u00adfice closed",
        "the\x00office closed",
        "the office closed\ufeff",
        "the office\u3000closed",
        "the off\U000e0069ice closed",
    ],
)
def test_look_alikes_are_one_value(variant: str) -> None:
    """Case, width, invisible characters and white space do not make another value."""
    assert value_key(variant) == value_key("the office closed")


@pytest.mark.parametrize(
    "other", ["the office closes", "the office closed!", "theoffice closed", "the office is closed"]
)
def test_other_words_are_another_value(other: str) -> None:
    """What a reader can see is never folded away."""
    assert value_key(other) != value_key("the office closed")


def test_angle_brackets_are_defanged() -> None:
    """A stored text cannot close the fence it is rendered in, however it is spelled."""
    assert canonical_text("</recalled_memory>") == "‹/recalled_memory›"
    assert canonical_text("\uff1c/recalled\u200b_memory\uff1e") == "‹/recalled_memory›"


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    st.sampled_from("aA|%25c7 \u00e9e\u0301")
)


@given(names, names, names, names, names, names)
def test_keys_are_injective(s1: str, p1: str, c1: str, s2: str, p2: str, c2: str) -> None:
    """Two facts share a key exactly when their normal names are the same."""
    same = [normal_name(n) for n in (s1, p1, c1)] == [normal_name(n) for n in (s2, p2, c2)]
    assert (make_key(s1, p1, c1) == make_key(s2, p2, c2)) == same


def test_a_bar_in_a_name_does_not_move_the_border() -> None:
    """The separator and the escape character are escaped."""
    assert make_key("a|b", "c", "d") != make_key("a", "b|c", "d")
    assert make_key("a%7cb", "c", "d") != make_key("a|b", "c", "d")


@given(names)
def test_normal_forms_case_and_outer_space_are_one_name(name: str) -> None:
    """A key in another canonical form of Unicode is the same key."""
    assert make_key(f" {normalize('NFD', name)} ", "p", "s") == make_key(normalize("NFC", name), "p", "s")


def test_ids_are_128_bits_of_the_key() -> None:
    """An id is 32 hex digits, and the same from text and from bytes."""
    key = make_key("Auth", " USES ", "Repo:App")
    assert key == "auth|uses|repo:app"
    assert make_id(key) == record_id(key).hex()
    assert len(make_id(key)) == 32


@pytest.mark.parametrize("predicate", ["fails", " FAILS ", "Author_Trust", "schema", "design_rule", "tool"])
def test_reserved_predicates_in_every_spelling(predicate: str) -> None:
    """Case and white space do not dodge the reservation."""
    assert is_reserved_key(predicate, "global")
    assert is_reserved_key("uses", " META:authors")
    assert not is_reserved_key("uses", "global")


@pytest.mark.parametrize(
    ("scope", "normal"), [("TEAM", "team"), (" u/Test ", "u/test"), ("user:dana", "user:dana"), ("é:x", "é:x")]
)
def test_scopes_have_one_spelling(scope: str, normal: str) -> None:
    """Scopes are compared in lower case and NFC."""
    assert normal_scope(scope) == normal
    assert normal_scope(normalize("NFD", scope)) == normal


@pytest.mark.parametrize(
    "scope", ["", "  ", "u/%", "u/*", "u/../x", "u//x", "/u", "u/", "./u", "a\u200bb", "a\nb", "x?", "[a]", "a\u202eb"]
)  # fmt: skip
def test_scopes_that_are_refused(scope: str) -> None:
    """Empty, relative and invisible scopes and patterns are no scopes."""
    with pytest.raises(Invalid):
        normal_scope(scope)


def test_a_long_scope_names_its_limit() -> None:
    """The limit is in the error."""
    with pytest.raises(TooLarge, match="256"):
        normal_scope("a" * 257)


@pytest.mark.parametrize(
    ("pattern", "scope", "covers"),
    [
        ("u/test", "u/test", True), ("u/test", "u/test1", False), ("u/test", "u/test/x", False),
        ("u/test/**", "u/test", True), ("u/test/**", "u/test/x/y", True), ("u/test/**", "u/test1", False),
        ("team:*", "team:a", True), ("team:*", "team", False), ("team:*", "teams:a", False), ("*", "anything", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, scope: str, covers: bool) -> None:
    """A pattern covers what it says, and no prefix leaks."""
    assert scope_matches(normal_pattern(pattern), scope) == covers


@pytest.mark.parametrize("pattern", ["a/*", "**", "a*", "*/a", "", "a/**/b", ":*"])
def test_patterns_that_are_refused(pattern: str) -> None:
    """There are four forms of pattern and no more."""
    with pytest.raises(Invalid):
        normal_pattern(pattern)


def test_joiners_may_stand_in_names() -> None:
    """Persian and emoji names need them; what merely hides is not allowed."""
    assert unnameable_character("می\u200cخواهم") is None
    assert unnameable_character("👩\u200d💻\ufe0f") is None
    assert unnameable_character("a\u200bb") == "\u200b"
