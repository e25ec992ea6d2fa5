"""Which embedder is meant: by a name, or by the environment. An unknown name is an error, never the default."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .embedder import Embedder, EmbedderUnavailable
from .service import OPENAI_URL

EMBEDDER_VARIABLE: Final = "VERIDICAL_EMBEDDER"
MODEL_VARIABLE: Final = "VERIDICAL_EMBED_MODEL"
WIDTH_VARIABLE: Final = "VERIDICAL_EMBED_DIM"
URL_VARIABLES: Final = ("VERIDICAL_EMBED_BASE_URL", "OPENAI_BASE_URL")

LEXICAL: Final = "lexical"
WITHOUT: Final = (LEXICAL, "none")
EMBEDDERS: Final = (*WITHOUT, "hash", "local", "openai")
"""By words alone (two names for it); surface; meaning, by a model on this machine; meaning, by a service."""
OWN: Final = ("hash", "local")
"""Those that ask nobody, and make the same vector of the same text everywhere."""


def embedder_named(
    name: str, pause: Callable[[float], None], environment: Mapping[str, str] = os.environ
) -> Embedder | None:
    """The embedder of that name, its settings from the environment; None for `lexical` and `none`.

    Raises `ValueError` for an unknown name and for settings that cannot be used.
    """
    chosen = name.strip().lower()
    if chosen in WITHOUT:
        return None
    if chosen == "hash":
        from .hashing import HashEmbedder

        return HashEmbedder()
    if chosen == "local":
        from .static import local_embedder

        return local_embedder()
    if chosen == "openai":
        from .openai import OpenAIEmbedder

        model, width = _model(environment)
        return OpenAIEmbedder(pause, model, url=_url(environment), width=width)
    raise ValueError(f"{EMBEDDER_VARIABLE}: {name!r} is none of {', '.join(EMBEDDERS)}")


def checked_name(name: str) -> str:
    """The name of an embedder as it is compared; an empty one stays so. Raises `ValueError` where nothing has it."""
    chosen = name.strip().lower()
    if chosen and chosen not in EMBEDDERS:
        raise ValueError(f"{name!r} is none of {', '.join(EMBEDDERS)}")
    return chosen


class Served:
    """The embedder of an index whose vectors a service makes: by which model, and how wide.

    It makes none itself: the service is asked once for each text, by whoever leads (`service_of`), and what it answers
    is replicated. So an index can be opened, folded and looked at without the service, and without its key.
    """

    is_own: bool = False
    is_semantic: bool = True

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Raises `EmbedderUnavailable`, for whatever texts."""
        raise EmbedderUnavailable(f"{self.name}: the service is not asked where {len(texts)} texts are folded")


def index_embedder(name: str, made_by: str, environment: Mapping[str, str] = os.environ) -> Embedder | None:
    """The embedder of an index: the one named or, without a name, the one that has made it (`Embedder.name`).

    Of a service it is what an index knows of it (`Served`). Raises `ValueError` for one that cannot be it.
    """
    from .openai import NAME, model_of, name_of, width_of

    if name.strip().lower() == NAME:
        model, told = _model(environment)
        width = width_of(model, told)
        return Served(name_of(model, width), width)
    if name:
        return embedder_named(name, _never, environment)
    if made_by in WITHOUT:
        return None
    if served := model_of(made_by):
        return Served(made_by, served[1])
    for own in OWN:
        embedder = embedder_named(own, _never, environment)
        if embedder is not None and embedder.name == made_by:
            return embedder
    raise ValueError(f"the index was made by the embedder {made_by}, which this version does not have")


def service_of(
    name: str,
    pause: Callable[[float], None],
    timeout_s: float,
    attempts: int,
    environment: Mapping[str, str] = os.environ,
) -> Embedder:
    """The service that makes the vectors of an index of that name; address and key from the environment.

    Raises `ValueError` where it cannot be asked: a key is missing, an address is none.
    """
    from .openai import OpenAIEmbedder, model_of

    served = model_of(name)
    if served is None:
        raise ValueError(f"{name} is no service")
    model, width = served
    return OpenAIEmbedder(pause, model, url=_url(environment), width=width, timeout_s=timeout_s, attempts=attempts)


def _url(environment: Mapping[str, str]) -> str:
    return next(filter(None, map(environment.get, URL_VARIABLES)), OPENAI_URL)


def _model(environment: Mapping[str, str]) -> tuple[str, int | None]:
    from .openai import MODEL

    return environment.get(MODEL_VARIABLE) or MODEL, _width(environment.get(WIDTH_VARIABLE))


def _never(_: float) -> None:
    raise AssertionError("no service is asked")


def chosen_name(environment: Mapping[str, str] = os.environ) -> str:
    """The name that the environment chooses."""
    return environment.get(EMBEDDER_VARIABLE) or LEXICAL


def _width(told: str | None) -> int | None:
    if not told:
        return None
    try:
        return int(told)
    except ValueError:
        raise ValueError(f"{WIDTH_VARIABLE}: {told!r} is not a number of components") from None
