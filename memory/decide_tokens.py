"""Which tokens are issued and taken back: the deciders of `token.…` (MEMORY § 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import events, rules, trust_commands
from .case import Case
from .context import ADMIN
from .events import Event, refused, unchanged
from .limits import TOKENS_LIMIT
from .principals import enrolled
from .scope import EVERY_SCOPE
from .tokens import TOKENS, token_id
from .trust_commands import IssueTokenBody, RevokeTokenBody


def _issue(case: Case[IssueTokenBody]) -> Event:
    """For oneself, or for anybody by an administrator. It adds no right to those that its principal holds."""
    key, digest, _, expires_us = case.body
    if not _may(case, key):
        return refused(rules.NOT_GRANTED)
    if enrolled(case.state, key) is None:
        return refused(rules.STRANGER)
    if expires_us is not None and expires_us <= case.now_us:
        return refused(rules.TOKEN_EXPIRED)
    if case.state.token(token_id(digest)) is not None:
        return refused(rules.TOKEN_KNOWN)
    count = case.state.setting(TOKENS)
    if isinstance(count, int) and count >= TOKENS_LIMIT:
        return refused(rules.TOKENS_FULL)
    return [events.TOKEN_ISSUED, digest, key, expires_us]


def _revoke(case: Case[RevokeTokenBody]) -> Event:
    """Whoever may not revoke it learns no more than that, whether or not there is one."""
    token = case.state.token(case.body.id)
    if token is None or not _may(case, token.principal):
        is_administrator = case.holds(ADMIN, EVERY_SCOPE)
        return refused(rules.TOKEN_UNKNOWN if is_administrator else rules.NOT_GRANTED)
    if token.revoked_us is not None:
        return unchanged(b"")
    return [events.TOKEN_REVOKED, token.digest]


def _may(case: Case[Any], key: bytes) -> bool:
    """Whether the author is an administrator, or of the identity that holds the key."""
    if case.holds(ADMIN, EVERY_SCOPE):
        return True
    principal = case.state.principal(key)
    return case.principal is not None and principal is not None and principal.identity == case.principal.identity


TOKEN_DECIDERS: Final[Mapping[str, Callable[[Case[Any]], Event]]] = {
    trust_commands.ISSUE_TOKEN: _issue,
    trust_commands.REVOKE_TOKEN: _revoke,
}
