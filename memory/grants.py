"""Grants: which rights somebody holds in which scopes. `allows` is the one function that answers, for every verb.

A right that is not given is not there: `admin` gives and takes rights, and reads nothing by itself. A scope asked for
as `*` means every scope, so that only the pattern `*` covers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from .context import ADMIN, RIGHTS
from .scope import EVERY_SCOPE, is_pattern, scope_matches


class Grant(NamedTuple):
    """Rights in every scope that a pattern covers. The pattern is normal, the rights are in the order of `RIGHTS`."""

    pattern: str
    rights: tuple[str, ...]


Grants: TypeAlias = tuple[Grant, ...]

NO_GRANTS: Final[Grants] = ()
OPERATOR_GRANTS: Final[Grants] = (Grant(EVERY_SCOPE, RIGHTS),)


def allows(grants: Iterable[Grant], right: str, scope: str) -> bool:
    """Whether these grants give that right in that (normal) scope."""
    return any(right in rights and scope_matches(pattern, scope) for pattern, rights in grants)


def covers(pattern: str, other: str) -> bool:
    """Whether every scope that the pattern `other` covers is covered by `pattern`."""
    if pattern in (EVERY_SCOPE, other):
        return True
    if other.endswith("/**"):
        return is_pattern(pattern) and scope_matches(pattern, other.removesuffix("/**"))
    return not is_pattern(other) and scope_matches(pattern, other)


def may_give(grants: Iterable[Grant], pattern: str) -> bool:
    """Whether the holder of these grants may give and take rights in all scopes of that pattern."""
    return any(ADMIN in grant.rights and covers(grant.pattern, pattern) for grant in grants)


def is_administrator(grants: Iterable[Grant]) -> bool:
    """Whether these grants give the admin right everywhere."""
    return allows(grants, ADMIN, EVERY_SCOPE)


def given(grants: Iterable[Grant], pattern: str, rights: Iterable[str]) -> Grants:
    """The grants with further rights."""
    held = {grant.pattern: set(grant.rights) for grant in grants}
    held.setdefault(pattern, set()).update(rights)
    return _arranged(held)


def taken(grants: Iterable[Grant], pattern: str, rights: Iterable[str]) -> Grants:
    """The grants without these rights in any pattern that lies within `pattern`."""
    gone = set(rights)
    return _arranged(
        {grant.pattern: set(grant.rights) - (gone if covers(pattern, grant.pattern) else set()) for grant in grants}
    )


def remains(grants: Iterable[Grant], pattern: str, rights: Iterable[str]) -> bool:
    """Whether a broader pattern still gives one of these rights in all scopes of `pattern`."""
    wanted = set(rights)
    return any(wanted.intersection(grant.rights) and covers(grant.pattern, pattern) for grant in grants)


def patterns_of(grants: Iterable[Grant], right: str) -> tuple[str, ...]:
    """The patterns in which that right is held, in order; those within another one are left out."""
    patterns = sorted(grant.pattern for grant in grants if right in grant.rights)
    return tuple(one for one in patterns if not any(covers(other, one) for other in patterns if other != one))


def _arranged(held: dict[str, set[str]]) -> Grants:
    return tuple(
        Grant(pattern, tuple(right for right in RIGHTS if right in held[pattern]))
        for pattern in sorted(held)
        if held[pattern]
    )
