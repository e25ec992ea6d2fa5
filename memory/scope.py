"""Scopes: path-like names of whose memory it is, and the patterns that grants and settings match them with.

A scope is `global`, `user:dana`, `team:platform/oncall`: segments parted by `/`, compared in lower case. A pattern is
an exact scope, `a/**` (a and all below it), `kind:*` (every scope of that kind), or `*` (every scope). Nothing else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .errors import Invalid, TooLarge
from .keys import normal_name
from .limits import SCOPE_CHARACTERS_LIMIT
from .text import unnameable_character

EVERY_SCOPE: Final = "*"

_FORBIDDEN: Final = frozenset("*?%[]{}\\\"'`<>")


@lru_cache(maxsize=4096)
def normal_scope(scope: str) -> str:
    """The one spelling of a scope. Raises `Invalid` for an empty, relative or invisible one, or a pattern."""
    normal = normal_name(scope)
    if not normal:
        raise Invalid("scope", "is empty; name one, such as `global` or `user:dana`")
    if len(normal) > SCOPE_CHARACTERS_LIMIT:
        raise TooLarge("scope", len(normal), SCOPE_CHARACTERS_LIMIT, "characters")
    reason = _unfit(normal)
    if reason:
        raise Invalid("scope", reason)
    return normal


def _unfit(scope: str) -> str:
    hidden = unnameable_character(scope)
    if hidden:
        return f"contains the invisible character U+{ord(hidden):04X}"
    forbidden = sorted(_FORBIDDEN.intersection(scope))
    if forbidden:
        return f"contains {' '.join(forbidden)}"
    if any(segment.strip() in ("", ".", "..") for segment in scope.split("/")):
        return "has an empty or relative segment"
    return ""


@lru_cache(maxsize=4096)
def normal_pattern(pattern: str) -> str:
    """The one spelling of a pattern. Raises `Invalid` for anything but the four forms."""
    text = normal_name(pattern)
    if text == EVERY_SCOPE:
        return text
    for tail in ("/**", ":*"):
        if text.endswith(tail):
            return normal_scope(text.removesuffix(tail)) + tail
    return normal_scope(text)


def is_pattern(scope: str) -> bool:
    """Whether a normal pattern covers more than the one scope that it names."""
    return scope == EVERY_SCOPE or scope.endswith(("/**", ":*"))


def scopes_below(pattern: str) -> tuple[str, str]:
    """The scopes that a pattern covers besides the one it names, as a half-open range of names in code point order."""
    prefix = pattern.removesuffix("**").removesuffix("*")
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def scope_matches(pattern: str, scope: str) -> bool:
    """Whether a normal pattern covers a normal scope. `a/**` covers `a` and `a/b`, never `ab`."""
    if pattern in (EVERY_SCOPE, scope):
        return True
    if pattern.endswith("/**"):
        root = pattern[:-3]
        return scope == root or scope.startswith(root + "/")
    return pattern.endswith(":*") and scope.startswith(pattern[:-1])
