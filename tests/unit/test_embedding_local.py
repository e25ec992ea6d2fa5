"""Embedders without a network: what they find alike, and that they always say the same."""

from __future__ import annotations

import hashlib
from array import array
from itertools import combinations
from pathlib import Path

import pytest

from veridical.embedding import static
from veridical.embedding.choice import EMBEDDERS, embedder_named
from veridical.embedding.embedder import Embedder
from veridical.embedding.hashing import HashEmbedder
from veridical.embedding.static import local_embedder
from veridical.embedding.vectors import LARGEST, quantised, says_nothing
from veridical.embedding.wordpiece import WordPiece

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    "the office moves on Monday", "das Büro zieht um", "офис переезжает", "το γραφείο", "المكتب", "המשרד", "कार्यालय",
    "สำนักงาน", "사무실", "事務所", "办公室", "kancelář 😀 C++ src/main.py",
]  # fmt: skip


def never(_: float) -> None:
    raise AssertionError("nothing to wait for")


def alike(embedder: Embedder, one: str, other: str) -> float:
    """The cosine of two texts."""
    a, b = (array("b", vector) for vector in embedder.embed([one, other]))
    dot, own, others = (sum(x * y for x, y in zip(p, q, strict=True)) for p, q in ((a, b), (a, a), (b, b)))
    return dot / (own * others) ** 0.5


def test_the_model_is_the_one_that_its_page_names() -> None:
    """By its checksum."""
    folder = ROOT / "embedding" / "model"
    digest = hashlib.sha256((folder / static.MODEL).read_bytes()).hexdigest()
    assert f"`{digest}`" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("how does login work", "auth uses sessions are JWT, 15-min expiry", "deploys go through the pipeline"),
        ("panel runs off the screen", "use max-width to prevent overflow on narrow screens", "page the owning team"),
        (
            "how do we release software",
            "deploys go through the pipeline, never manual",
            "sessions are JWT, 15-min expiry",
        ),
    ],
)
def test_the_local_model_matches_meaning_and_hashing_does_not(question: str, answer: str, other: str) -> None:
    """Without a shared word the answer is nearer than something else; by surface nothing tells them apart."""
    local, surface = local_embedder(), HashEmbedder()
    assert alike(local, question, answer) > alike(local, question, other) + 0.2
    assert alike(surface, question, answer) < 0.15
    assert (local.is_semantic, surface.is_semantic) == (True, False)
    assert "not meaning" in repr(surface)


def test_hashing_matches_shared_words_and_stems() -> None:
    """Its positive control."""
    surface = HashEmbedder()
    assert alike(surface, "the deployment pipeline", "deployments use a pipeline") > 0.4
    assert alike(surface, "the deployment pipeline", "cats like milk") < 0.25


@pytest.mark.parametrize("name", ["hash", "local"])
def test_any_text_has_a_vector_of_the_width(name: str) -> None:
    """Scripts, nothing, blanks, a surrogate, 60 KB; the largest component is 127, and the same text gives the same."""
    embedder = embedder_named(name, never)
    assert embedder is not None
    texts = [*SCRIPTS, "", " \n", "\ud800", "?" * 50, "word " * 12_000]
    vectors = embedder.embed(texts)
    assert vectors == embedder.embed(texts)
    assert {len(vector) for vector in vectors} == {embedder.width}
    for text, vector in zip(texts, vectors, strict=True):
        assert max(map(abs, array("b", vector))) == (0 if says_nothing(vector) else LARGEST), text
    assert says_nothing(vectors[len(SCRIPTS)])


def test_the_words_of_different_texts_are_told_apart() -> None:
    """No two of the scripts collapse into one vector, except those that the model knows nothing of."""
    vectors = [vector for vector in local_embedder().embed(SCRIPTS) if not says_nothing(vector)]
    assert len(vectors) >= 8
    assert all(one != other for one, other in combinations(vectors, 2))


def test_words_are_cut_into_the_longest_known_pieces() -> None:
    """Accents and case go, punctuation stands alone, an ideograph too; an unknown word is left out."""
    wordpiece = WordPiece(
        {token: place for place, token in enumerate(["un", "##aff", "##able", "café", "cafe", "!", "云"])}
    )
    assert wordpiece.tokens("Unaffable CAFÉ!") == [0, 1, 2, 4, 5]
    assert wordpiece.tokens("云云 xyz un\u200baff\tun") == [6, 6, 0, 1, 0]
    assert wordpiece.tokens("a" * 101) == []


def test_quantising_keeps_the_direction() -> None:
    """The largest component becomes 127; nothing stays nothing."""
    assert array("b", quantised([0.5, -1.0, 0.25])).tolist() == [64, -127, 32]
    assert quantised([0.0, 0.0]) == bytes(2)


def test_an_unknown_name_fails_closed() -> None:
    """It names the choices; the words for none give none."""
    with pytest.raises(ValueError, match=", ".join(EMBEDDERS)):
        embedder_named("word2vec", never)
    assert embedder_named("lexical", never) is None and embedder_named(" None ", never) is None
