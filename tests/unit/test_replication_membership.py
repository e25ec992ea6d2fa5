"""Changes of membership as configurations: one member at a time, quorums that cannot miss each other."""

from __future__ import annotations

import pytest

from veridical.lease.quorum import overlap_fault
from veridical.log.configuration import Configuration, Member, QuorumError, founding
from veridical.replication.membership import with_learner, with_quorum, with_voter, without


def member(number: int) -> Member:
    """A member like those that found a cluster."""
    return Member(f"id{number}", f"n{number}", bytes([number]) * 32, f"h{number}:7400")


def of(count: int) -> Configuration:
    """A founding configuration of so many."""
    return founding([member(number) for number in range(1, count + 1)])


def quorums(configuration: Configuration) -> tuple[int, int, int]:
    """N, W and R."""
    return len(configuration.voters), configuration.write_quorum, configuration.recovery_quorum


def test_growing_and_shrinking_keeps_majorities_and_never_skips_the_overlap() -> None:
    """One, two, three, four, five voters, and back: each step may follow the one before."""
    present, seen = of(1), list[tuple[int, int, int]]()
    for number in range(2, 6):
        learning = with_learner(present, member(number))
        assert quorums(learning) == quorums(present)
        grown = with_voter(learning, f"id{number}")
        assert not overlap_fault(present, learning) and not overlap_fault(learning, grown)
        present = grown
        seen.append(quorums(present))
    assert seen == [(2, 2, 2), (3, 2, 2), (4, 3, 3), (5, 3, 3)]
    for number in range(1, 5):
        smaller = without(present, f"id{number}")
        assert not overlap_fault(present, smaller)
        present = smaller
    assert [each.id for each in present.members] == ["id5"]
    assert quorums(present) == (1, 1, 1)


def test_a_write_quorum_above_the_majority_stays_above_it() -> None:
    """Three of three acknowledge; with a fourth voter, four do."""
    strict = with_quorum(of(3), 3)
    assert quorums(strict) == (3, 3, 2)
    assert quorums(with_voter(with_learner(strict, member(4)), "id4")) == (4, 4, 3)


def test_a_write_quorum_below_the_majority_costs_recovery() -> None:
    """One acknowledgement needs all three to recover; less than that is refused."""
    assert quorums(with_quorum(of(3), 1)) == (3, 1, 3)
    with pytest.raises(QuorumError, match="W=4"):
        with_quorum(of(3), 4)


def test_admitting_a_voter_again_leaves_it_its_vote_and_takes_its_new_address() -> None:
    """So that repeating an admission is safe, and an address can be told anew."""
    moved = Member("id2", "n2", bytes([2]) * 32, "elsewhere:7400")
    again = with_learner(of(3), moved)
    assert again.voters == of(3).voters
    known = again.member("id2")
    assert known is not None and known.endpoint == "elsewhere:7400"


def test_nobody_cannot_be_promoted_and_whoever_is_gone_stays_gone() -> None:
    """An id that no member has is an error where somebody is to count; a cluster without voters is none."""
    with pytest.raises(QuorumError, match="id9 is no member"):
        with_voter(of(3), "id9")
    assert without(of(3), "id9") == of(3)
    with pytest.raises(QuorumError):
        without(of(1), "id1")
