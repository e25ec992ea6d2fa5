"""Where memories of a program lie: a path that was given, one from the environment, or one in the user's own folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..embedding.choice import EMBEDDER_VARIABLE, checked_name
from ..memory.errors import Invalid

MEMORY: Final = ":memory:"
STORE_VARIABLE: Final = "VERIDICAL_MEMORY_STORE"
DEFAULT_STORE: Final = "~/.config/veridical/brain.db"
PRIVATE_FOLDER: Final = 0o700


def default_store() -> str:
    """Where a memory lies that was given no path."""
    return os.environ.get(STORE_VARIABLE, "").strip() or DEFAULT_STORE


def embedder_name(given: str | None) -> str:
    """The embedder that is named, else that of the environment; empty when none is. Raises `Invalid`."""
    name = os.environ.get(EMBEDDER_VARIABLE, "") if given is None else given
    try:
        return checked_name(name)
    except ValueError as error:
        raise Invalid("embedder", str(error)) from error


def path_of(store: str | Path) -> Path | None:
    """The file of a store, resolved; None for one in memory. Raises `Invalid` for what cannot be a file."""
    if str(store) == MEMORY:
        return None
    if not str(store):
        raise Invalid("path", "is empty")
    path = Path(store).expanduser().resolve()
    if path.is_dir():
        raise Invalid("path", f"{path} is a directory; name a file in it")
    return path


def member_path(cluster_key: str, owner: str) -> Path | None:
    """The file of a member that was given no path: beside the default store, under its cluster key and owner."""
    store = path_of(default_store())
    return None if store is None else store.parent / cluster_key / owner / store.name


def make_folder(path: Path) -> None:
    """The folder of that file, for its owner only where it has to be made. Raises `Invalid` when it cannot be."""
    try:
        for folder in (*reversed(path.parent.parents), path.parent):
            if not folder.is_dir():
                folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise Invalid("path", f"{path.parent} cannot be made: {error.strerror}") from error
