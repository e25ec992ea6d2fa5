"""Principals: who is known by key, who they were before a rotation, and what they may do now (MEMORY § 6).

While nobody is enrolled, whoever opened the store is its operator and holds all rights. The first enrolment ends that
for good: it must name an administrator, and the last administrator can neither be revoked nor lose the right, so that a
guarded store never falls back to an open one and never locks everybody out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from . import rules
from .context import READ, Rights
from .errors import Refused
from .grants import NO_GRANTS, Grants, allows, patterns_of
from .keys import normal_name
from .record import ORIGIN, PPM, Version
from .scope import EVERY_SCOPE, normal_scope, scope_matches

if TYPE_CHECKING:
    from .state import State

ADMINISTRATORS: Final = "administrators"  # the setting that counts administrators; it is there once any is enrolled

STRANGER: Final = "stranger"
ENROLLED: Final = "enrolled"
ROTATED: Final = "rotated"
REVOKED: Final = "revoked"

_KEY: Final = re.compile("[0-9a-f]{64}")

PRIOR_CLAIMS: Final = 4  # a new author counts as somebody with two claims kept and two lost
DISTRUSTED_UNDER_PPM: Final = 350_000


class Principal(NamedTuple):
    """A key that signed something, and what is known about it.

    `identity` is the first key of a chain of rotations: one person has one. `kept` and `lost` count the claims of that
    identity that were verified and rejected here; they stand in the row of the first key. `name` is text (erasable).
    A stranger was never enrolled and has no grants.
    """

    key: bytes
    identity: bytes
    name: str = ""
    standing: str = STRANGER
    grants: Grants = NO_GRANTS
    kept: int = 0
    lost: int = 0
    version: Version = ORIGIN

    @property
    def reputation_ppm(self) -> int:
        """How much of what this author claims holds, smoothed: half before anything is known."""
        return (self.kept + PRIOR_CLAIMS // 2) * PPM // (self.kept + self.lost + PRIOR_CLAIMS)

    @property
    def is_distrusted(self) -> bool:
        """Whether claims of this author need more principals than those of others."""
        return self.reputation_ppm < DISTRUSTED_UNDER_PPM


class HeldRights:
    """The rights of one author in a guarded store: those of an enrolled principal, or none at all."""

    __slots__ = ("principal",)
    enforced: Final = True

    def __init__(self, principal: Principal | None) -> None:
        self.principal = principal

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Whether the author that these rights were looked up for holds that right in that scope."""
        del author
        return self.principal is not None and allows(self.principal.grants, right, scope)


def is_guarded(state: State) -> bool:
    """Whether a principal was ever enrolled: from then on only what is granted happens."""
    return state.setting(ADMINISTRATORS) is not None


def enrolled(state: State, key: bytes | None) -> Principal | None:
    """The principal of that key while it is in force: neither revoked nor rotated away."""
    principal = None if key is None else state.principal(key)
    return principal if principal is not None and principal.standing == ENROLLED else None


def identity_of(state: State, key: bytes) -> Principal:
    """The row that stands for whoever holds or held that key, a stranger's where nothing is known."""
    known = state.principal(key)
    if known is not None and known.identity != key:
        known = state.principal(known.identity)
    return Principal(key, key) if known is None else known


def vouched_name(state: State, vouched: str) -> str:
    """The one name of somebody who is vouched for: for a key that of its holder's identity, in hex."""
    name = normal_name(vouched)
    return identity_of(state, bytes.fromhex(name)).key.hex() if _KEY.fullmatch(name) else name


def vouched_key(name: str) -> bytes | None:
    """The key that such a name spells, or None for a name of another kind."""
    return bytes.fromhex(name) if _KEY.fullmatch(name) else None


class Reach(NamedTuple):
    """The scopes that a read may see, as patterns. Whoever narrows it asks for scopes, which are patterns as well."""

    patterns: tuple[str, ...]

    def includes(self, scope: str) -> bool:
        """Whether a record of that (normal) scope may be seen."""
        return any(scope_matches(pattern, scope) for pattern in self.patterns)

    def asked(self, scopes: Iterable[str] | None) -> Reach:
        """What a call that names these scopes may see; None asks for everything that is granted.

        Raises `Refused` (`not_granted`) when it asks for more: nothing is narrowed in silence. `Invalid` for no scope.
        """
        if scopes is None:
            return self
        wanted = tuple(dict.fromkeys(map(normal_scope, scopes)))
        beyond = [scope for scope in wanted if not self.includes(scope)]
        if beyond:
            raise Refused(rules.NOT_GRANTED, f"what this needs is not granted in {', '.join(beyond)}")
        return Reach(wanted)


def reach(state: State, author: bytes | None, rights: Rights, right: str = READ) -> Reach:
    """Where that author may read (or hold another right): the check of every reading verb, on every door.

    `rights` are those of a store in which nobody is enrolled.
    """
    if not is_guarded(state):
        return Reach((EVERY_SCOPE,) if rights.holds(author, right, EVERY_SCOPE) else ())
    principal = enrolled(state, author)
    return Reach(() if principal is None else patterns_of(principal.grants, right))


_Count = TypeVar("_Count", bound=tuple[object, ...])


def granted_scopes(counts: Iterable[_Count], seen: Reach) -> list[_Count]:
    """Of rows that begin with a scope, such as `(scope, records)`, those that may be seen, in their order."""
    return [row for row in counts if seen.includes(str(row[0]))]
