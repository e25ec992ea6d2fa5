"""`openai`: vectors from any server with the embeddings interface of OpenAI."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from .embedder import EmbedderUnavailable
from .service import OPENAI_URL, Service, ServiceFailed, openai_key
from .vectors import quantised

MODEL: Final = "text-embedding-3-small"
WIDTHS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
"""What the models are known to return; the width of any other one has to be told."""

SHORTENED: Final = frozenset({"text-embedding-3-small", "text-embedding-3-large"})
"""Models that return fewer components when they are asked to."""

WIDTH_LIMIT: Final = 8_192
TIMEOUT_S: Final = 20.0
TEXTS_A_CALL: Final = 128
WINDOW_CHARACTERS: Final = 8_000
"""Models take some 8 000 tokens; a longer text is embedded in windows, and its vector is the sum of theirs."""

ATTEMPTS: Final = 3
PAUSE_S: Final = 0.5


NAME: Final = "openai"


def width_of(model: str, told: int | None) -> int:
    """How many components the model's vectors have. Raises `ValueError` where that is not known, or cannot be."""
    width = WIDTHS.get(model, 0) if told is None else told
    if not width and told is None:
        raise ValueError(f"how wide {model} is has to be told: set VERIDICAL_EMBED_DIM")
    if not 1 <= width <= WIDTH_LIMIT:
        raise ValueError(f"{width} is not the width of a vector: 1 to {WIDTH_LIMIT}")
    return width


def name_of(model: str, width: int) -> str:
    """By what an index remembers a model with vectors of that width."""
    return f"{NAME}:{model}:{width}"


def model_of(name: str) -> tuple[str, int] | None:
    """The model and the width that such a name stands for; None for the names of other embedders."""
    kind, _, rest = name.partition(":")
    model, _, width = rest.rpartition(":")
    return (model, int(width)) if kind == NAME and model and width.isdecimal() else None


class OpenAIEmbedder:
    """An `Embedder` by HTTP. `pause` waits between attempts (seconds).

    Raises `ServiceMisused` for an address or a key that cannot be used, `ValueError` for a width that is none.
    """

    is_own: bool = False
    is_semantic: bool = True

    def __init__(
        self,
        pause: Callable[[float], None],
        model: str = MODEL,
        *,
        url: str = OPENAI_URL,
        key: str | None = None,
        width: int | None = None,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.width = width_of(model, width)
        self._pause = pause
        self._model = model
        self._asks_width = model in SHORTENED and self.width != WIDTHS[model]
        self._attempts = attempts
        self._service = Service(url, openai_key() if key is None else key, timeout_s)
        self.name = name_of(model, self.width)

    def __repr__(self) -> str:
        """Which model, and where; no key."""
        return f"<OpenAIEmbedder {self.name} at {self._service.host}>"

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `Embedder.embed`. Several calls for many texts; each is tried three times."""
        windows = [(place, window) for place, text in enumerate(texts) for window in _windows(text)]
        sums = [[0.0] * self.width for _ in texts]
        for first in range(0, len(windows), TEXTS_A_CALL):
            some = windows[first : first + TEXTS_A_CALL]
            for (place, _), vector in zip(some, self._answered([window for _, window in some]), strict=True):
                sums[place] = [have + more for have, more in zip(sums[place], vector, strict=True)]
        return [quantised(vector) for vector in sums]

    def _answered(self, texts: Sequence[str]) -> list[list[float]]:
        question: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._asks_width:
            question["dimensions"] = self.width
        for attempt in range(1, self._attempts + 1):
            try:
                return self._vectors(self._service.ask("embeddings", question), len(texts))
            except ServiceFailed as error:
                if not error.may_retry or attempt == self._attempts:
                    raise EmbedderUnavailable(f"{self.name}: {error.reason}", may_retry=error.may_retry) from error
                self._pause(PAUSE_S * attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _vectors(self, answer: Any, count: int) -> list[list[float]]:
        try:
            rows = sorted(cast("list[dict[str, Any]]", answer["data"]), key=lambda row: int(row["index"]))
            vectors = [[float(component) for component in row["embedding"]] for row in rows]
        except (LookupError, TypeError, ValueError):
            raise ServiceFailed("the server's answer holds no vectors", may_retry=True) from None
        if len(vectors) != count:
            raise ServiceFailed(f"{len(vectors)} vectors for {count} texts", may_retry=True)
        wrong = next((len(vector) for vector in vectors if len(vector) != self.width), None)
        if wrong is not None:
            reason = f"vectors are {wrong} wide, not {self.width}: set VERIDICAL_EMBED_DIM to what the model returns"
            raise ServiceFailed(reason, may_retry=False)
        return vectors


def _windows(text: str) -> list[str]:
    """Pieces of a text that a model takes. Servers refuse an empty one: a blank stands for it."""
    pieces = [text[first : first + WINDOW_CHARACTERS] for first in range(0, len(text), WINDOW_CHARACTERS)]
    return [piece for piece in pieces if piece.strip()] or [" "]
