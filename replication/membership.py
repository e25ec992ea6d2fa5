"""Changes of membership, each as the configuration that it leads to: one member at a time (PROTOCOL § 10).

Whether such a configuration may follow the one in force is for the leader to say (*overlapping-change*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..log.configuration import Configuration, Member, QuorumError


def with_learner(present: Configuration, member: Member) -> Configuration:
    """Take a new member in, which receives and does not count. One that is there already keeps its vote."""
    known = present.member(member.id)
    voting = known is not None and known.voting
    others = [other for other in present.members if other.id != member.id]
    return _with_members(present, [*others, replace(member, voting=voting)])


def with_voter(present: Configuration, id: str) -> Configuration:
    """Let a learner count. Raises `QuorumError` for nobody's id."""
    if present.member(id) is None:
        raise QuorumError(f"{id} is no member")
    members = [replace(member, voting=True) if member.id == id else member for member in present.members]
    return _with_members(present, members)


def without(present: Configuration, id: str) -> Configuration:
    """Take a member out; one who is gone stays gone. Raises `QuorumError` for the last voter."""
    if present.member(id) is None:
        return present
    return _with_members(present, [member for member in present.members if member.id != id])


def with_quorum(present: Configuration, write_quorum: int) -> Configuration:
    """The same members, with W acknowledgements for a write. Raises `QuorumError` where W fits no safe R."""
    return _with_quorums(present, present.members, write_quorum)


def _with_members(present: Configuration, members: Sequence[Member]) -> Configuration:
    """W stays as far above the majority as it is, within what the voters allow."""
    voters = sum(member.voting for member in members)
    above = present.write_quorum - _majority(len(present.voters))
    return _with_quorums(present, members, max(1, min(voters, _majority(voters) + above)))


def _with_quorums(present: Configuration, members: Sequence[Member], write_quorum: int) -> Configuration:
    voters = sum(member.voting for member in members)
    recovery_quorum = max(_majority(voters), voters - write_quorum + 1)
    by_name = tuple(sorted(members, key=lambda member: (member.name, member.id)))
    return Configuration(by_name, write_quorum, recovery_quorum, lease_ttl_ms=present.lease_ttl_ms)


def _majority(voters: int) -> int:
    return voters // 2 + 1
