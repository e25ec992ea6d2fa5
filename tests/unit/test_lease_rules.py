"""Quorum arithmetic, the acceptor and the tenure, each alone."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.lease.acceptor import Acceptor
from veridical.lease.messages import Holder
from veridical.lease.quorum import overlap_fault, quorum_value, reached, silent
from veridical.lease.tenure import Tenure
from veridical.log.configuration import Configuration, Member, QuorumError, founding

TTL_US, MARGIN_US = 600_000, 60_000
ALICE, BOB = Holder("a", "1"), Holder("b", "1")


def configuration(count: int, write: int, recovery: int) -> Configuration:
    """Members m0, m1, … with these quorums."""
    return Configuration(tuple(Member(f"m{n}", f"m{n}", b"", "") for n in range(count)), write, recovery)


FOUNDERS = founding([Member(id, id, b"", "") for id in "abc"])


def acceptor(promised: int = 0, holder: Holder | None = None, now_us: int = 0) -> Acceptor:
    """An acceptor as it starts."""
    return Acceptor(promised, holder, TTL_US, MARGIN_US, now_us)


@given(st.integers(1, 7), st.data())
def test_configurations_whose_quorums_could_miss_each_other_are_refused(count: int, data: st.DataObject) -> None:
    """W + R > N and 2R > N, or there is no such configuration."""
    write, recovery = data.draw(st.integers(1, count)), data.draw(st.integers(1, count))
    if write + recovery > count and 2 * recovery > count:
        assert configuration(count, write, recovery).write_quorum == write
    else:
        with pytest.raises(QuorumError):
            configuration(count, write, recovery)


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_overlap_rule_is_what_sets_of_members_say(old: int, new: int, data: st.DataObject) -> None:
    """A change passes exactly when every write and recovery quorum of one side meets every one of the other."""
    before = configuration(old, data.draw(st.integers(old // 2 + 1, old)), old // 2 + 1)
    after = configuration(new, data.draw(st.integers(new // 2 + 1, new)), new // 2 + 1)

    def meet(left: Configuration, right: Configuration, left_size: int, right_size: int) -> bool:
        return all(
            set(one) & set(other)
            for one in combinations(sorted(left.voters), left_size)
            for other in combinations(sorted(right.voters), right_size)
        )

    safe = (
        meet(after, before, after.write_quorum, before.recovery_quorum)
        and meet(before, after, before.write_quorum, after.recovery_quorum)
        and meet(before, after, before.recovery_quorum, after.recovery_quorum)
    )
    if not overlap_fault(before, after):
        assert safe


def test_one_more_or_less_of_a_majority_may_follow() -> None:
    """Majorities pass for one member more or less."""
    for count in range(1, 6):
        smaller, larger = (configuration(n, n // 2 + 1, n // 2 + 1) for n in (count, count + 1))
        assert overlap_fault(smaller, larger) == overlap_fault(larger, smaller) == ""


def test_quorum_value_counts_voters_only() -> None:
    """A learner's value counts for nothing, a silent voter for 0."""
    values = {"a": 5, "b": 3, "learner": 9}
    assert quorum_value(values, ["a", "b", "c"], 2) == 3
    assert quorum_value(values, ["a", "b", "c"], 3) == 0
    assert reached(["a", "learner"], ["a", "b", "c"], 1)
    assert not reached(["a", "learner"], ["a", "b", "c"], 2)
    assert silent(["b"], ["a", "b", "c"]) == ("a", "c")


class TestAcceptor:
    """What one member promises."""

    def test_an_unexpired_grant_keeps_others_out(self) -> None:
        """Another candidate waits for ttl and margin from the receipt, to the microsecond."""
        one = acceptor()
        one.bind(1, ALICE, 1000)
        until_us = 1000 + TTL_US + MARGIN_US
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, until_us - 1) == "held"
        assert one.obstacle(ALICE, FOUNDERS, FOUNDERS, until_us - 1) == ""
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, until_us) == ""

    def test_restart_waits_out_what_it_forgot(self) -> None:
        """Only exactly the holder on disk gets something before."""
        one = acceptor(promised=4, holder=ALICE, now_us=5000)
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 5000 + TTL_US + MARGIN_US - 1) == "waiting"
        assert one.obstacle(Holder("a", "2"), FOUNDERS, FOUNDERS, 5001) == "waiting"
        assert one.obstacle(ALICE, FOUNDERS, FOUNDERS, 5001) == ""
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 5000 + TTL_US + MARGIN_US) == ""

    def test_restart_waits_also_where_the_time_to_live_is_learned_later(self) -> None:
        """A node that restarts before it has any entry learns from others how long it has to wait."""
        one = Acceptor(4, ALICE, 0, 0, 5000)
        one.adopt_ttl(TTL_US, MARGIN_US)
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 5000 + TTL_US + MARGIN_US - 1) == "waiting"
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 5000 + TTL_US + MARGIN_US) == ""

    def test_an_epoch_is_promised_once(self) -> None:
        """The same epoch goes again only to the very run that has it."""
        one = acceptor()
        one.bind(3, ALICE, 0)
        assert one.may_promise(3, ALICE)
        assert not one.may_promise(3, BOB)
        assert not one.may_promise(3, Holder("a", "2"))
        assert not one.may_promise(2, ALICE)
        assert one.may_promise(4, BOB)

    def test_release_counts_only_for_exactly_this_grant(self) -> None:
        """Another epoch or another run releases nothing."""
        one = acceptor()
        one.bind(3, ALICE, 0)
        assert not one.release(2, ALICE)
        assert not one.release(3, Holder("a", "2"))
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 1) == "held"
        assert one.release(3, ALICE)
        assert one.obstacle(BOB, FOUNDERS, FOUNDERS, 1) == ""

    def test_the_newer_configuration_says_who_may_lead(self) -> None:
        """A member removed by either side's newer configuration gets no grant."""
        without_b = Configuration(FOUNDERS.members[:1] + FOUNDERS.members[2:], 2, 2, 3, 9)
        one = acceptor()
        assert one.obstacle(BOB, FOUNDERS, without_b, 0) == "member"
        assert one.obstacle(BOB, without_b, FOUNDERS, 0) == "member"
        assert one.obstacle(ALICE, without_b, FOUNDERS, 0) == ""


class TestTenure:
    """What the holder of an epoch may count on."""

    def test_lease_counts_from_the_sending_of_what_a_quorum_confirmed(self) -> None:
        """The second best of three, less the margin."""
        tenure = Tenure("a", TTL_US, MARGIN_US, 0)
        tenure.renewed("a", 9000)
        assert tenure.valid_until_us(FOUNDERS.voters, 2) == 0
        tenure.renewed("b", 5000)
        assert tenure.valid_until_us(FOUNDERS.voters, 2) == 5000 + TTL_US - MARGIN_US

    def test_a_dropped_lease_stays_dropped(self) -> None:
        """No renewal brings it back in this epoch."""
        tenure = Tenure("a", TTL_US, MARGIN_US, 0)
        tenure.drop()
        tenure.renewed("a", 9000)
        tenure.renewed("b", 9000)
        assert tenure.valid_until_us(FOUNDERS.voters, 2) == 0

    def test_contact_is_lost_when_too_few_were_heard(self) -> None:
        """The leader counts as one of R; hearing one other of three is enough."""
        tenure = Tenure("a", TTL_US, MARGIN_US, 1000)
        assert tenure.contact_lost_at_us(FOUNDERS.voters, 2, TTL_US) == 1000 + TTL_US
        tenure.heard("c", 7000)
        assert tenure.contact_lost_at_us(FOUNDERS.voters, 2, TTL_US) == 7000 + TTL_US
        assert tenure.contact_lost_at_us(["a"], 1, TTL_US) > 10**18
