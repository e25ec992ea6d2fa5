"""Set arithmetic of quorums: small functions over plain values, apart from the machines that use them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..log.configuration import Configuration


def reached(answered: Collection[str], voters: Collection[str], quorum: int) -> bool:
    """Whether at least `quorum` of the voters have answered."""
    return sum(voter in answered for voter in voters) >= quorum


def quorum_value(values: Mapping[str, int], voters: Collection[str], quorum: int) -> int:
    """The highest value that `quorum` of the voters have reached; a voter without a value has 0."""
    return sorted((values.get(voter, 0) for voter in voters), reverse=True)[quorum - 1]


def silent(answered: Collection[str], voters: Iterable[str]) -> tuple[str, ...]:
    """The voters that have not answered, in order of their ids."""
    return tuple(sorted(voter for voter in voters if voter not in answered))


def overlap_fault(old: Configuration, new: Configuration) -> str:
    """Why quorums of the two configurations could miss each other, or "" (*overlapping-change*, PROTOCOL § 10)."""
    either = len(old.voters | new.voters)
    sums = {
        "W' + R": new.write_quorum + old.recovery_quorum,
        "W + R'": old.write_quorum + new.recovery_quorum,
        "R + R'": old.recovery_quorum + new.recovery_quorum,
    }
    return "; ".join(f"{name} = {value} must exceed {either}" for name, value in sums.items() if value <= either)
