"""Which embedder is meant: by a name, or by the environment. An unknown name is an error, never the default."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from .embedder import Embedder
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
        from .openai import MODEL, OpenAIEmbedder

        url = next(filter(None, map(environment.get, URL_VARIABLES)), OPENAI_URL)
        model = environment.get(MODEL_VARIABLE) or MODEL
        return OpenAIEmbedder(pause, model, url=url, width=_width(environment.get(WIDTH_VARIABLE)))
    raise ValueError(f"{EMBEDDER_VARIABLE}: {name!r} is none of {', '.join(EMBEDDERS)}")


def checked_name(name: str) -> str:
    """The name of an embedder as it is compared; an empty one stays so. Raises `ValueError` where nothing has it."""
    chosen = name.strip().lower()
    if chosen and chosen not in EMBEDDERS:
        raise ValueError(f"{name!r} is none of {', '.join(EMBEDDERS)}")
    return chosen


def index_embedder(name: str, made_by: str, environment: Mapping[str, str] = os.environ) -> Embedder | None:
    """The embedder of an index: the one named or, without a name, the one that has made it (`Embedder.name`).

    Raises `ValueError` for one that cannot be it: vectors that every node makes for itself must come out the same.
    """
    if name:
        if name.strip().lower() == "openai":
            raise ValueError("a service cannot make the vectors of an index yet: choose lexical, hash or local")
        return embedder_named(name, _never, environment)
    if made_by in WITHOUT:
        return None
    for own in OWN:
        embedder = embedder_named(own, _never, environment)
        if embedder is not None and embedder.name == made_by:
            return embedder
    raise ValueError(f"the index was made by the embedder {made_by}, which this version does not have")


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
