"""Grants: patterns by four forms, rights by name, one function for every verb (MEMORY § 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.memory.context import RIGHTS
from veridical.memory.errors import Invalid
from veridical.memory.grants import Grant, allows, covers, patterns_of, remains, taken
from veridical.memory.grants import given as with_rights
from veridical.memory.principals import Reach, granted_scopes
from veridical.memory.scope import normal_pattern, scope_matches

SCOPES = ["global", "team:a", "team:a/x", "team:a/x/y", "team:ab", "team:b", "user:a", "user:a/x"]
PATTERNS = ["*", "team:*", "user:*", "global", "team:a", "team:a/**", "team:a/x/**", "team:a/x", "team:ab", "user:a/**"]

patterns = st.sampled_from(PATTERNS)
rights = st.sets(st.sampled_from(RIGHTS), min_size=1)
grants = st.dictionaries(patterns, rights, max_size=5).map(
    lambda held: tuple(Grant(pattern, tuple(sorted(held[pattern]))) for pattern in held)
)


@given(patterns, patterns)
def test_a_pattern_covers_what_covers_no_scope_beyond_it(one: str, other: str) -> None:
    """What covers a pattern covers its scopes, and `*` alone covers every scope there could be."""
    if covers(one, other):
        assert all(scope_matches(one, scope) for scope in SCOPES if scope_matches(other, scope))
    if other == "*":
        assert covers(one, other) == (one == "*")


@pytest.mark.parametrize(
    ("pattern", "other", "is_covered"),
    [
        ("team:a/**", "team:a", True),
        ("team:a/**", "team:a/x/**", True),
        ("team:a/**", "team:ab", False),
        ("team:a/**", "team:*", False),
        ("team:a", "team:a/**", False),
        ("team:*", "team:a/**", True),
        ("team:*", "user:*", False),
        ("team:*", "team:*", True),
        ("*", "team:*", True),
        ("global", "*", False),
    ],
)
def test_which_pattern_lies_within_which(pattern: str, other: str, is_covered: bool) -> None:
    """Exact, `a/**`, `kind:*` and `*`."""
    assert covers(pattern, other) == is_covered


@pytest.mark.parametrize("pattern", ["a*", "**", "team:a/*", "t?am", "team:*/x", "", "a/**/b", "*:*", "[a]", "../x"])
def test_there_is_no_fifth_form(pattern: str) -> None:
    """A pattern that means nothing is refused, and never taken for a scope."""
    with pytest.raises(Invalid):
        normal_pattern(pattern)


@given(grants, patterns, rights)
def test_what_is_given_is_held_and_what_is_taken_is_not(held: tuple[Grant, ...], pattern: str, some: set[str]) -> None:
    """Whatever was there before; other rights stay as they were."""
    more = with_rights(held, pattern, some)
    for scope in [scope for scope in SCOPES if scope_matches(pattern, scope)]:
        assert all(allows(more, right, scope) for right in some)
    less = taken(more, pattern, some)
    if not remains(less, pattern, some):
        assert not any(covers(grant.pattern, pattern) and some & set(grant.rights) for grant in less)
    for right in set(RIGHTS) - some:
        assert all(allows(held, right, scope) == allows(less, right, scope) for scope in SCOPES)


@given(grants, st.sampled_from(RIGHTS))
def test_patterns_of_a_right_say_where_it_holds(held: tuple[Grant, ...], right: str) -> None:
    """The shortest list that says the same, for reads that filter by it."""
    reach = Reach(patterns_of(held, right))
    assert all(reach.includes(scope) == allows(held, right, scope) for scope in SCOPES)
    assert not any(covers(one, other) for one in reach.patterns for other in reach.patterns if one != other)


def test_no_right_is_part_of_another() -> None:
    """An administrator gives rights; what it does not hold itself it cannot use."""
    held = (Grant("*", ("admin",)),)
    assert [right for right in RIGHTS if allows(held, right, "global")] == ["admin"]


def test_counts_of_scopes_are_bounded_by_grants() -> None:
    """A scope that may not be read is not even counted."""
    rows = [("team:a", 3), ("team:a/x", 1), ("user:dana", 7)]
    assert granted_scopes(rows, Reach(("team:a/**",))) == rows[:2]
    assert granted_scopes(rows, Reach(("*",))) == rows
    assert granted_scopes(rows, Reach(())) == []
