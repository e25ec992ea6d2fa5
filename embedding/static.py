"""`local`: a static model that ships with the product. A text's vector is the sum of those of its tokens.

The model is potion-base-8M (256 wide; `model/README.md` says where from). Its rows are kept as int8 with a whole number
as each row's scale, so that all that is added up are integers: every processor makes the same vector of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .vectors import LARGEST
from .wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME: Final = "potion-base-8m-int8"
MODEL: Final = "potion-base-8m.npz"
TOKENS_LIMIT: Final = 1 << 16
"""Of a longer text the first tokens count: a scale of 16 bits and a component of 7 leave room for so many in a sum."""


class StaticEmbedder:
    """An `Embedder` by a table of token vectors: `rows` (tokens × width, int8), `scales` (tokens, 1 to 65535)."""

    is_own: bool = True
    is_semantic: bool = True

    def __init__(
        self, name: str, vocabulary: Sequence[str], rows: NDArray[np.int8], scales: NDArray[np.uint16]
    ) -> None:
        self.name = name
        self.width = int(rows.shape[1])
        self._wordpiece = WordPiece({token: number for number, token in enumerate(vocabulary)})
        self._rows = rows
        self._scales = scales

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `Embedder.embed`."""
        return [self._vector(self._wordpiece.tokens(text)[:TOKENS_LIMIT]) for text in texts]

    def _vector(self, tokens: Sequence[int]) -> bytes:
        import numpy as np

        if not tokens:
            return bytes(self.width)
        sums = self._scales[tokens].astype(np.int64) @ self._rows[tokens].astype(np.int64)
        largest = int(np.abs(sums).max())
        if not largest:
            return bytes(self.width)
        return ((2 * LARGEST * sums + largest) // (2 * largest)).astype(np.int8).tobytes()

    def __repr__(self) -> str:
        return f"<StaticEmbedder {self.name}>"


@lru_cache(maxsize=1)
def local_embedder() -> StaticEmbedder:
    """The model that ships with the product, read once a process (about a tenth of a second)."""
    with as_file(files("veridical.embedding").joinpath("model", MODEL)) as path:
        return read_model(path, NAME)


def read_model(path: Path, name: str) -> StaticEmbedder:
    """A model as `derive.py` writes it."""
    import numpy as np

    with np.load(path, allow_pickle=False) as model:
        parts: Any = model
        vocabulary = bytes(parts["vocabulary"]).decode().split("\n")
        return StaticEmbedder(name, vocabulary, parts["rows"], parts["scales"])
