"""Whatever somebody types becomes a query that SQLite accepts, finds the literal text, and stays cheap."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.projection import schema
from veridical.projection.terms import (
    EVERYWHERE,
    QUERY_CHARACTERS_LIMIT,
    SMALL_POPULATION,
    TERMS_ASKED_LIMIT,
    TERMS_READ_LIMIT,
    choose,
    terms,
)
from veridical.projection.words import indexed


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    """An empty full-text index."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(connection)
    yield connection
    connection.close()


def finds(index: sqlite3.Connection, query: str, text: str) -> bool:
    """Whether a query finds the only text of the index."""
    expression = " OR ".join(terms(query).phrases)
    index.execute("BEGIN")
    try:
        index.execute("INSERT INTO words(rowid, value) VALUES (1, ?)", (indexed(text),))
        return bool(expression) and bool(
            index.execute("SELECT 1 FROM words WHERE words MATCH ?", (expression,)).fetchall()
        )
    finally:
        index.execute("ROLLBACK")


NASTY = [
    "TODO: fix the parser",
    "what's in src/main.py?",
    "task_tools",
    "C++ or C#",
    "a AND b",
    "NOT x",
    "this OR that",
    "NEAR(a b, 3)",
    'say "hello',
    "it''s \"quoted\" 'twice'",
    "(unbalanced",
    "brackets] and [braces}",
    "star* and pre*fix",
    "col:umn value:x",
    "^start",
    "-minus +plus",
    "50% off & more | less",
    "a; DROP TABLE record; --",
    "back\\slash",
    "user@example.com",
    "https://example.com/a?b=c&d=e#f",
    "v1.2.3-rc.1",
    "{json: [1, 2]}",
    "x == y != z <= w",
    "tab\tand\nnewline",
    "nul\x00byte",
    "café naïve Zürich",
    "🚀 launch 👍🏽",
    "e\u0301clair",
    "١٢٣ ۴۵۶ １２３",
]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_finds_itself(index: sqlite3.Connection, text: str) -> None:
    """Operators, quotes, brackets and controls are text like any other."""
    assert finds(index, text, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("腾讯云", "我们使用腾讯云作为供应商"),
        ("腾讯", "我们使用腾讯云作为供应商"),
        ("云", "我们使用腾讯云"),
        ("使", "我们使用腾讯云"),
        ("しりとり", "子供としりとりをする"),
        ("カタカナ", "ｶﾀｶﾅで書く"),
        ("체크리스트", "배포 체크리스트를 확인"),
        ("리스트", "배포 체크리스트를 확인"),
        ("ภาษาไทย", "เขาพูดภาษาไทยได้"),
        ("ພາສາ", "ຂ້ອຍເວົ້າພາສາລາວ"),
        ("ខ្មែរ", "ភាសាខ្មែរ"),
        ("москва", "Столица — Москва."),
        ("ёлка", "елка"),
        ("αθηνα", "Η Αθήνα"),
        ("οδος", "ΟΔΌΣ"),
        ("مرحبا", "مَرْحَبًا بالعالم"),
        ("שלום", "שָׁלוֹם עולם"),
        ("हिन्दी", "मुझे हिन्दी आती है"),
        ("தமிழ்", "அவர் தமிழ் பேசுவார்"),
        ("cafe", "Café"),
        ("CAFÉ", "cafe\u0301"),
        ("strasse", "Straße"),
        ("istanbul", "İstanbul"),
        ("🚀", "ship it🚀now"),
        ("👍", "👍🏽"),
        ("❤", "I ❤️ tests"),
        ("C++", "written in C++17"),
        ("c#", "A C# service"),
        ("main.py", "see src/main.py:12"),
        ("tools", "task_tools"),
        ("running", "it runs"),
        ("ﬁle", "file"),
    ],
)
def test_every_script_is_found(index: sqlite3.Connection, query: str, text: str) -> None:
    """A word of each script, in whatever form it is written."""
    assert finds(index, query, text)
    assert finds(index, unicodedata.normalize("NFD", query), unicodedata.normalize("NFC", text))
    assert finds(index, unicodedata.normalize("NFC", query), unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    ("query", "text"),
    [("C++", "the letter C"), ("C#", "C++"), ("讯腾", "腾讯云"), ("🚀", "👍"), ("main.py", "main.rs"), ("tea", "team")],
)
def test_what_only_looks_alike_is_not_found(index: sqlite3.Connection, query: str, text: str) -> None:
    """Parts of a name do not stand for the name."""
    phrases = " OR ".join(phrase for phrase in terms(query).phrases if phrase not in ('"c"', '"main"'))
    index.execute("BEGIN")
    index.execute("INSERT INTO words(rowid, value) VALUES (1, ?)", (indexed(text),))
    found = index.execute("SELECT 1 FROM words WHERE words MATCH ?", (phrases,)).fetchall()
    index.execute("ROLLBACK")
    assert not found


@pytest.mark.parametrize("query", ["", "   ", "?!… — ()", "\x00", "\ud800", "\u200b\ufeff", "'''", '"', "***"])
def test_a_query_without_words_says_so(query: str) -> None:
    """Nothing to search for is an answer, not an error."""
    assert terms(query).phrases == ()
    assert terms(query).notices == ("the query holds no words",)


def test_stop_words_are_left_out_unless_there_is_nothing_else() -> None:
    """They say nothing beside other words, and all there is to say alone."""
    assert terms("what is the capital of France").phrases == ('"capital"', '"france"')
    assert terms("To be or not to be").phrases == ('"to"', '"be"', '"or"', '"not"')


def test_a_compound_is_asked_for_as_a_whole_and_in_parts() -> None:
    """The whole is rarer than its parts and so weighs more."""
    assert terms("src/main.py").phrases == ('"src main py"', '"src"', '"main"', '"py"')


def test_ten_thousand_words_are_clamped_with_a_notice() -> None:
    """Only so many are read, and the answer says so."""
    asked = terms(" ".join(f"word{number}" for number in range(10_000)))
    assert len(asked.phrases) == TERMS_READ_LIMIT
    assert any("first 256 different words" in notice for notice in asked.notices)
    assert any(f"first {QUERY_CHARACTERS_LIMIT} characters" in notice for notice in asked.notices)


def test_a_megabyte_of_one_word_is_clamped_with_a_notice() -> None:
    """Length alone does no harm either."""
    asked = terms("x" * (1 << 20))
    assert len(asked.phrases) == 1
    assert len(asked.notices) == 1


@given(st.text(max_size=200))
def test_any_text_is_a_valid_query(index: sqlite3.Connection, text: str) -> None:
    """No text whatever makes SQLite raise."""
    expression = " OR ".join(terms(text).phrases)
    if expression:
        index.execute("SELECT 1 FROM words WHERE words MATCH ?", (expression,)).fetchall()


@given(st.text(max_size=200))
def test_any_text_can_be_indexed(index: sqlite3.Connection, text: str) -> None:
    """And can be taken out again by the same words, which is how the index forgets."""
    words = indexed(text)
    assert words == indexed(text)
    index.execute("BEGIN")
    index.execute("INSERT INTO words(rowid, value) VALUES (1, ?)", (words,))
    index.execute("INSERT INTO words(words, rowid, value) VALUES ('delete', 1, ?)", (words,))
    index.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    index.execute("ROLLBACK")


# --- which terms are worth it -----------------------------------------------------------------------------------------

LARGE = 1_000_000


def test_a_small_store_is_searched_for_every_word() -> None:
    """Nothing is common where everything is cheap, and nobody is asked how common it is."""

    def unasked(_: str) -> int:
        raise AssertionError

    assert choose(('"a"', '"b"'), SMALL_POPULATION, unasked).phrases == ('"a"', '"b"')


def test_common_words_are_left_out_beside_rarer_ones() -> None:
    """They cost most and tell least; the answer names them."""
    hits = {'"user"': 800_000, '"dark"': 900, '"mode"': 2_000}
    choice = choose(tuple(hits), LARGE, hits.__getitem__)
    assert choice.phrases == ('"dark"', '"mode"')
    assert choice.common == ('"user"',)
    assert choice.ranked
    assert choice.notices == ('searched without the more common "user"',)


def test_the_hits_of_all_words_together_are_bounded() -> None:
    """Rarest first, until the budget is spent."""
    hits = {f'"{number}"': 1_000 + number for number in range(30)}
    choice = choose(tuple(hits), LARGE, hits.__getitem__)
    assert sum(hits[phrase] for phrase in choice.phrases) <= EVERYWHERE.hits
    assert choice.phrases == tuple(hits)[: len(choice.phrases)]


def test_only_common_words_find_the_newest_records() -> None:
    """The rarest of them is searched, and not ranked by words."""
    hits = {'"user"': 800_000, '"prefers"': 500_000}
    choice = choose(tuple(hits), LARGE, hits.__getitem__)
    assert choice.phrases == ('"prefers"',)
    assert not choice.ranked
    assert "newest" in choice.notices[-1]


@given(st.lists(st.integers(0, 2 * LARGE), min_size=1, max_size=60))
def test_a_choice_is_never_empty_and_never_dear(counts: list[int]) -> None:
    """Whatever the numbers are: something is searched, within limits, and nothing is lost from sight."""
    phrases = tuple(f'"{number}"' for number in range(len(counts)))
    hits = dict(zip(phrases, counts, strict=True))
    choice = choose(phrases, LARGE, hits.__getitem__)
    assert 1 <= len(choice.phrases) <= TERMS_ASKED_LIMIT
    assert sorted(choice.phrases + choice.common) == sorted(phrases)
    cost = sum(hits[phrase] for phrase in choice.phrases)
    assert cost <= EVERYWHERE.hits or len(choice.phrases) == 1
    assert all(hits[phrase] <= EVERYWHERE.share * LARGE for phrase in choice.phrases) or len(choice.phrases) == 1
