"""Who is enrolled and what is granted: the deciders of `principal.…` and `grant.…` (MEMORY § 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import events, rules, trust_commands
from .case import Case
from .context import ADMIN
from .events import Event, refused, unchanged
from .grants import Grant, Grants, given, is_administrator, may_give, remains, taken
from .limits import GRANTS_LIMIT
from .principals import ADMINISTRATORS, STRANGER, Principal, enrolled, is_guarded
from .scope import EVERY_SCOPE
from .trust_commands import EnrollBody, GrantBody, RevokeBody, RotateBody, rotation_message


def _enroll(case: Case[EnrollBody]) -> Event:
    if not case.holds(ADMIN, EVERY_SCOPE):
        return refused(rules.NOT_GRANTED)
    known = case.state.principal(case.body.key)
    if known is not None and known.standing != STRANGER:
        return refused(rules.KNOWN_KEY)
    grants: Grants = ()
    for pattern, rights in case.body.grants:
        grants = given(grants, pattern, rights)
    if not is_guarded(case.state) and not is_administrator(grants):
        return refused(rules.FIRST_ADMINISTRATOR)
    return [events.ENROLLED, case.body.key, _listed(grants)]


def _revoke(case: Case[RevokeBody]) -> Event:
    if not case.holds(ADMIN, EVERY_SCOPE):
        return refused(rules.NOT_GRANTED)
    principal = enrolled(case.state, case.body.key)
    if principal is None:
        return refused(rules.STRANGER)
    if _is_last_administrator(case, principal):
        return refused(rules.LAST_ADMINISTRATOR)
    return [events.REVOKED, case.body.key]


def _rotate(case: Case[RotateBody]) -> Event:
    """The principal itself rotates, with the key that it still has, or an administrator does."""
    key, successor, proof = case.body
    principal = enrolled(case.state, key)
    is_own = principal is not None and principal.identity == case.author
    if not is_own and not case.holds(ADMIN, EVERY_SCOPE):
        return refused(rules.NOT_GRANTED)
    if principal is None:
        return refused(rules.STRANGER)
    if case.state.principal(successor) is not None:
        return refused(rules.KNOWN_KEY)
    if not case.context.signatures(successor, rotation_message(key, successor), proof):
        return refused(rules.WRONG_PROOF)
    return [events.ROTATED, key, successor]


def _give(case: Case[GrantBody]) -> Event:
    principal = _grantee(case)
    if not isinstance(principal, Principal):
        return principal
    grants = given(principal.grants, case.body.pattern, case.body.rights)
    if grants == principal.grants:
        return unchanged(b"")
    if len(grants) > GRANTS_LIMIT:
        return refused(rules.GRANTS_FULL)
    return [events.GRANTED, case.body.key, _listed(grants)]


def _take(case: Case[GrantBody]) -> Event:
    principal = _grantee(case)
    if not isinstance(principal, Principal):
        return principal
    _, pattern, rights = case.body
    grants = taken(principal.grants, pattern, rights)
    if remains(grants, pattern, rights):
        return refused(rules.BROADER_GRANT)
    if grants == principal.grants:
        return unchanged(b"")
    if not is_administrator(grants) and _is_last_administrator(case, principal):
        return refused(rules.LAST_ADMINISTRATOR)
    return [events.TAKEN, case.body.key, _listed(grants)]


def _grantee(case: Case[GrantBody]) -> Principal | Event:
    """Whose grants are to change, or the refusal: the author gives no rights there, or the key is nobody's."""
    author = case.principal
    may = case.holds(ADMIN, EVERY_SCOPE) or (author is not None and may_give(author.grants, case.body.pattern))
    if not may:
        return refused(rules.NOT_GRANTED)
    return enrolled(case.state, case.body.key) or refused(rules.STRANGER)


def _is_last_administrator(case: Case[Any], principal: Principal) -> bool:
    return is_administrator(principal.grants) and case.state.setting(ADMINISTRATORS) == 1


def _listed(grants: Grants) -> list[list[Any]]:
    return [[grant.pattern, list(grant.rights)] for grant in grants]


def grants_of(listed: list[Any]) -> Grants:
    """The grants that an event lists."""
    return tuple(Grant(pattern, tuple(rights)) for pattern, rights in listed)


PRINCIPAL_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {
    trust_commands.ENROLL: _enroll,
    trust_commands.REVOKE: _revoke,
    trust_commands.ROTATE: _rotate,
    trust_commands.GIVE: _give,
    trust_commands.TAKE: _take,
}
