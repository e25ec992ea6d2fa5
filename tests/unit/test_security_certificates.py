"""The small authority: what it issues is accepted for what it is, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from veridical.security.certificates import (
    AUTHORITY_DAYS,
    CLIENT,
    NODE,
    Pair,
    check,
    described,
    issue,
    joined,
    new_authority,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_node_is_certified_by_name_and_hosts() -> None:
    """Its name is a host too: members dial it by that."""
    authority = new_authority("c", NOW)
    node = issue(authority, NODE, "n1", ["127.0.0.1", "n1.example"], NOW)
    says = check(node, authority.certificate, NOW)
    assert (says.name, says.kind, set(says.hosts)) == ("n1", NODE, {"n1", "n1.example", "127.0.0.1"})
    assert says.not_after == NOW + timedelta(days=397) and len(says.sha256) == 64
    client = issue(authority, CLIENT, "alice", [], NOW)
    assert check(client, authority.certificate, NOW).kind == CLIENT
    assert described(authority.certificate).kind == "authority"


def test_what_does_not_fit_together_is_told() -> None:
    """Another's key, another authority, a time before or after."""
    authority, other = new_authority("c", NOW), new_authority("c", NOW)
    node, twin = (issue(authority, NODE, "n1", [], NOW, days=10) for _ in range(2))
    for pair, authorities, now, told in (
        (Pair(node.certificate, twin.key), authority.certificate, NOW, "key is not that"),
        (node, other.certificate, NOW, "none of the authorities"),
        (node, authority.certificate, NOW + timedelta(days=11), "has expired"),
        (node, authority.certificate, NOW - timedelta(days=1), "not valid before"),
    ):
        with pytest.raises(ValueError, match=told):
            check(pair, authorities, now)
    assert check(node, joined(other.certificate, authority.certificate), NOW).name == "n1"


def test_nothing_outlives_its_authority() -> None:
    """A certificate ends with the one that signed it, at the latest."""
    authority = new_authority("c", NOW, days=30)
    assert described(issue(authority, NODE, "n1", [], NOW).certificate).not_after == NOW + timedelta(days=30)
    assert AUTHORITY_DAYS > 397


def test_a_leaf_is_no_authority() -> None:
    """What was issued issues nothing, and a key that is another's signs nothing."""
    authority = new_authority("c", NOW)
    node = issue(authority, NODE, "n1", [], NOW)
    for wrong in (node, Pair(authority.certificate, node.key)):
        with pytest.raises(ValueError, match="authority"):
            issue(wrong, NODE, "n2", [], NOW)


def test_authorities_are_joined_once_each() -> None:
    """However often they are told."""
    one, other = (new_authority("c", NOW).certificate for _ in range(2))
    assert joined(one, joined(other, one)).count(b"BEGIN CERTIFICATE") == 2
