"""The backends that can be named, and how a name becomes a memory. Fails closed: an unknown name is never the default.

A backend is a class with a factory `from_env()`, which reads its settings from the environment. Those of the product
are named here, with what has to be installed for them. Other packages add theirs as entry points of `GROUP`; a name of
the product's own stays what it is, whatever is installed beside it.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..memory.errors import Invalid

if TYPE_CHECKING:
    from ..memory.view import MemoryView

BACKEND_VARIABLE: Final = "VERIDICAL_MEMORY_BACKEND"
DEFAULT: Final = "local"
GROUP: Final = "veridical.memory_backends"


class Backend(NamedTuple):
    """Where the class of a backend lives; `drivers` are modules that it imports, which come with `extra`."""

    home: str
    name: str
    drivers: tuple[str, ...] = ()
    extra: str = ""


BUILT_IN: Final[dict[str, Backend]] = {
    "cluster": Backend("veridical.embedded", "ReplicatedMemory"),
    "local": Backend("veridical.embedded", "LocalMemory"),
}


def known_backends() -> list[str]:
    """All names that can be chosen, in order; those of the product also where their driver is not installed."""
    return sorted({*BUILT_IN, *_added()})


def ignored_backends() -> list[str]:
    """What other packages registered and nobody can choose, each with the reason."""
    added = _added()
    return [
        f"{name} of {_origin(point)}: the product's own backend of that name stays"
        if name in BUILT_IN
        else f"{name} of {_origin(point)}: registered more than once"
        for name, points in sorted(_registered().items())
        if name not in added
        for point in points
    ]


def chosen_backend(name: str | None = None) -> str:
    """The name that is meant: the one given, else `VERIDICAL_MEMORY_BACKEND`, else `local`. Raises `Invalid`."""
    chosen = (name or os.environ.get(BACKEND_VARIABLE) or DEFAULT).strip()
    if chosen not in known_backends():
        raise Invalid("backend", f"{chosen!r} is not known; known are {', '.join(known_backends())}")
    return chosen


def load_backend(name: str | None = None) -> MemoryView:
    """The memory of that backend, or of the one that the environment names, as its `from_env()` makes it.

    Raises `Invalid` for a name that is not known, for a driver that is not installed, and for wrong settings.
    """
    chosen = chosen_backend(name)
    own = BUILT_IN.get(chosen)
    return _built_in(chosen, own) if own is not None else _from(chosen, _added()[chosen])


def _built_in(name: str, backend: Backend) -> MemoryView:
    missing = [driver for driver in backend.drivers if find_spec(driver) is None]
    if missing:
        hint = f"pip install 'veridical[{backend.extra}]'"
        raise Invalid("backend", f"{name!r} needs {', '.join(missing)}, which is not installed: {hint}")
    return getattr(import_module(backend.home), backend.name).from_env()


def _from(name: str, point: EntryPoint) -> MemoryView:
    try:
        made: Any = point.load()
    except (ImportError, AttributeError) as error:
        raise Invalid("backend", f"{name!r} of {_origin(point)} cannot be loaded: {error}") from error
    if not callable(getattr(made, "from_env", None)):
        raise Invalid("backend", f"{name!r} of {_origin(point)} has no from_env()")
    return made.from_env()


def _registered() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


def _added() -> dict[str, EntryPoint]:
    """What other packages add: names that are not taken, and that one package alone has registered."""
    return {name: points[0] for name, points in _registered().items() if name not in BUILT_IN and len(points) == 1}


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
