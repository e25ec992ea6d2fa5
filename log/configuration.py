"""Configurations: who is a member, and how many of them it takes (PROTOCOL §§ 1 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from .canonical import Canonical, NotCanonical, encode, tagged_hash
from .value import value

LEASE_TTL_MS = 600


class QuorumError(ValueError):
    """The quorums could miss each other; choose W and R with W + R > N and 2R > N."""


@value()
class Member:
    """A node of the configuration: `public_key` is its Ed25519 node key, `endpoint` host:port.

    A member that does not vote is a learner: it receives, and does not count.
    """

    id: str
    name: str
    public_key: bytes
    endpoint: str
    voting: bool = True


@value()
class Configuration:
    """Members with their write quorum W and recovery quorum R. `epoch` and `index` say which entry put it in force.

    A founding configuration, agreed before entry 1 exists, has epoch 0 and index 0. The time to live of a lease is
    logged here, so that every member counts with the same one.
    """

    members: tuple[Member, ...]
    write_quorum: int
    recovery_quorum: int
    epoch: int = 0
    index: int = 0
    lease_ttl_ms: int = LEASE_TTL_MS
    voters: frozenset[str] = field(init=False, repr=False, compare=False)
    """Ids of the members that count."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "voters", frozenset(member.id for member in self.members if member.voting))
        if len({member.id for member in self.members}) != len(self.members):
            raise QuorumError("two members share an id")
        voters, write, recovery = len(self.voters), self.write_quorum, self.recovery_quorum
        if not (1 <= write <= voters and 1 <= recovery <= voters):
            raise QuorumError(f"W={write} and R={recovery} must lie between 1 and N={voters}")
        if write + recovery <= voters or 2 * recovery <= voters:
            raise QuorumError(f"W={write}, R={recovery}, N={voters}: need W + R > N and 2R > N")

    @property
    def version(self) -> tuple[int, int]:
        """Orders configurations: the newer one has the greater version."""
        return (self.epoch, self.index)

    def member(self, id: str) -> Member | None:
        """The member of that id, or None."""
        return next((member for member in self.members if member.id == id), None)

    def canonical(self) -> list[Canonical]:
        """The fields that a configuration entry carries in its events."""
        members: list[Canonical] = [[m.id, m.name, m.public_key, m.endpoint, m.voting] for m in self.members]
        return [members, self.write_quorum, self.recovery_quorum, self.lease_ttl_ms]

    @staticmethod
    def from_canonical(
        members: Sequence[Any], write_quorum: int, recovery_quorum: int, lease_ttl_ms: int, version: tuple[int, int]
    ) -> Configuration:
        """Read back what `canonical` wrote. Raises `NotCanonical` when it is something else."""
        numbers = (write_quorum, recovery_quorum, lease_ttl_ms)
        if any(type(number) is not int for number in numbers):
            raise NotCanonical("quorums and times of a configuration are integers")
        return Configuration(
            tuple(map(_member, members)), write_quorum, recovery_quorum, *version, lease_ttl_ms=lease_ttl_ms
        )


def founding(
    members: Sequence[Member], write_quorum: int | None = None, lease_ttl_ms: int = LEASE_TTL_MS
) -> Configuration:
    """The configuration of a new cluster: members by name, W the majority unless given, R the smallest that is safe."""
    count = sum(member.voting for member in members)
    majority = count // 2 + 1
    write = majority if write_quorum is None else write_quorum
    recovery = max(majority, count - write + 1)
    by_name = tuple(sorted(members, key=lambda member: member.name))
    return Configuration(by_name, write, recovery, lease_ttl_ms=lease_ttl_ms)


def cluster_id(name: str, configuration: Configuration) -> str:
    """The identity of a history: 32 hex digits over the cluster's name and its first members' names, ids and keys."""
    members: list[Canonical] = [[m.name, m.id, m.public_key] for m in configuration.members]
    return tagged_hash(b"veridical/cluster/1\0", encode([name, members])).hex()[:32]


def _member(value: object) -> Member:
    match value:
        case [str(id), str(name), bytes(public_key), str(endpoint), bool(voting)]:
            return Member(id, name, public_key, endpoint, voting)
        case _:
            raise NotCanonical("not a member of a configuration")
