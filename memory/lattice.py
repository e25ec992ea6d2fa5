"""The scope lattice: which scope lies within which, and what several of them know alike (MEMORY § 6).

Each scope has at most one parent; the way up ends. What is recalled at a scope may come from its ancestors too, the
nearest first; what was verified in several scopes under one parent may be lifted there, as a candidate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

from .commands import LATTICE, WriteBody
from .errors import Invalid
from .keys import normal_name
from .limits import LATTICE_DEPTH_LIMIT, PROVENANCE_LIMIT
from .record import VERIFIED, Record
from .scope import normal_scope
from .text import value_key

if TYPE_CHECKING:
    from .state import State

GRADUATED: Final = "graduate:"
SIBLINGS_NEEDED: Final = 2


class ScopeLattice:
    """Scopes and their parents, `{child: parent}`. A value: nothing changes it.

    Raises `Invalid` for a scope that would be within itself, for a way up that is too long, and for what is no scope.
    """

    __slots__ = ("_parents",)

    def __init__(self, parents: Mapping[str, str] | None = None) -> None:
        self._parents = {normal_scope(child): normal_scope(parent) for child, parent in (parents or {}).items()}
        for child in self._parents:
            self.ancestors(child)

    @property
    def parents(self) -> dict[str, str]:
        """Each scope that has a parent, and the parent."""
        return dict(self._parents)

    def parent(self, scope: str) -> str | None:
        """The scope that this one lies within, or None."""
        return self._parents.get(normal_scope(scope))

    def children(self, scope: str) -> tuple[str, ...]:
        """The scopes that lie directly within this one, by name."""
        normal = normal_scope(scope)
        return tuple(sorted(child for child, parent in self._parents.items() if parent == normal))

    def ancestors(self, scope: str) -> tuple[str, ...]:
        """The scopes that this one lies within, the nearest first; not itself."""
        found: dict[str, None] = {}
        at = normal_scope(scope)
        while (parent := self._parents.get(at)) is not None:
            if parent in found:
                raise Invalid("lattice", f"{parent} would lie within itself")
            found[parent] = None
            if len(found) > LATTICE_DEPTH_LIMIT:
                raise Invalid("lattice", f"{scope} would lie within more than {LATTICE_DEPTH_LIMIT} scopes")
            at = parent
        return tuple(found)

    def resolve(self, scope: str) -> tuple[str, ...]:
        """Where to look for what holds at a scope: itself, then its ancestors; specific before general."""
        return (normal_scope(scope), *self.ancestors(scope))

    def with_parent(self, child: str, parent: str) -> ScopeLattice:
        """The lattice in which `child` lies within `parent` and nothing else; an empty parent takes it out."""
        normal = normal_scope(child)
        others = {one: other for one, other in self._parents.items() if one != normal}
        return ScopeLattice(others | ({normal: parent} if parent else {}))

    def __eq__(self, other: object) -> bool:
        """Whether it says the same."""
        return isinstance(other, ScopeLattice) and self._parents == other._parents

    def __hash__(self) -> int:
        """Equal lattices, equal hashes."""
        return hash(frozenset(self._parents.items()))

    def __repr__(self) -> str:
        """As it was made."""
        return f"ScopeLattice({self._parents!r})"


def lattice_of(state: State) -> ScopeLattice:
    """The lattice that is replicated."""
    return ScopeLattice(dict(cast("tuple[tuple[str, str], ...]", state.setting(LATTICE) or ())))


def graduations(
    records: Iterable[Record], parent: str, children: Iterable[str], min_scopes: int = SIBLINGS_NEEDED
) -> list[WriteBody]:
    """Writes that lift to `parent` what is verified in at least `min_scopes` of its `children`, in a stable order.

    They name the records they come from, enter as candidates like any write, and share one source, so that doing it
    again adds no support. Raises `Invalid` for fewer than two scopes: what one scope knows is not general.
    """
    if min_scopes < SIBLINGS_NEEDED:
        raise Invalid("min_scopes", f"is less than {SIBLINGS_NEEDED}")
    wanted = set(map(normal_scope, children))
    alike: defaultdict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record.trust == VERIFIED and record.scope in wanted:
            subject, predicate = normal_name(record.subject), normal_name(record.predicate)
            alike[record.kind, subject, predicate, value_key(record.text)].append(record)
    return [
        _lifted(alike[claim], normal_scope(parent))
        for claim in sorted(alike)
        if len({record.scope for record in alike[claim]}) >= min_scopes
    ]


def _lifted(records: list[Record], parent: str) -> WriteBody:
    records.sort(key=lambda record: record.id)
    first = records[0]
    origins = tuple(f"record:{record.id.hex()}" for record in records[:PROVENANCE_LIMIT])
    return WriteBody(
        first.kind, first.subject, first.predicate, parent, first.text, source=GRADUATED + parent, provenance=origins
    )
