"""What one principal may write in a second: buckets over a clock that is set by hand, and a node that has them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_cluster import cluster, signed, write_command

from veridical.memory.errors import Retry
from veridical.node import rates as rates_module
from veridical.node.rates import BURST_S, Rate, Rates
from veridical.node.settings import Limits
from veridical.security.principal import Principal

SECOND_US = 1_000_000
ALICE, BOB = b"a" * 32, b"b" * 32


def taken(rates: Rates, who: bytes, commands: int, size: int, now_us: int) -> float:
    """How long to wait, 0 for a write that was counted."""
    try:
        rates.take(who, commands, size, now_us)
    except Retry as error:
        return error.retry_after_s
    return 0.0


def test_without_a_rate_nothing_is_counted() -> None:
    """Nor remembered."""
    rates = Rates(Rate())
    assert {taken(rates, ALICE, 10**6, 10**9, 0) for _ in range(10)} == {0.0}
    assert not rates._known  # pyright: ignore[reportPrivateUsage]


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    """Two seconds' worth at once; whoever is turned away is told when to come, and is right to come then."""
    rates = Rates(Rate(commands_per_s=10))
    assert [taken(rates, ALICE, 1, 0, 0) for _ in range(20)] == [0.0] * 20
    wait_s = taken(rates, ALICE, 1, 0, 0)
    assert wait_s == pytest.approx(0.1)
    assert taken(rates, ALICE, 1, 0, int(wait_s * SECOND_US) - 1000) > 0
    assert taken(rates, ALICE, 1, 0, int(wait_s * SECOND_US)) == 0


def test_one_principal_costs_another_nothing() -> None:
    """Each has buckets of its own."""
    rates = Rates(Rate(commands_per_s=1))
    assert taken(rates, ALICE, 2, 0, 0) == 0 < taken(rates, ALICE, 1, 0, 0)
    assert taken(rates, BOB, 2, 0, 0) == 0


def test_bytes_are_bounded_beside_commands() -> None:
    """The later of the two says when; one that was turned away by one costs nothing of the other."""
    rates = Rates(Rate(commands_per_s=10, bytes_per_s=1000))
    assert taken(rates, ALICE, 1, 2000, 0) == 0
    with pytest.raises(Retry, match="1000 bytes a second") as error:
        rates.take(ALICE, 1, 500, 0)
    assert error.value.retry_after_s == pytest.approx(0.5)
    assert [taken(rates, ALICE, 19, 0, 0), taken(rates, ALICE, 1, 0, 0) > 0] == [0.0, True]


def test_what_is_larger_than_a_bucket_passes_and_is_paid_for() -> None:
    """An envelope of 256 commands at ten a second: once the bucket is full, and then nothing for 25 seconds."""
    rates = Rates(Rate(commands_per_s=10))
    assert taken(rates, ALICE, 256, 0, 0) == 0
    assert taken(rates, ALICE, 1, 0, 0) == pytest.approx((256 - 20 + 1) / 10)


def test_who_was_silent_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that many keys fill no memory; whoever is heard stays."""
    monkeypatch.setattr(rates_module, "KNOWN_LIMIT", 2)
    rates = Rates(Rate(commands_per_s=1))
    for who in (ALICE, BOB, ALICE, b"c" * 32):
        taken(rates, who, 1, 0, 0)
    assert set(rates._known) == {ALICE, b"c" * 32}  # pyright: ignore[reportPrivateUsage]


@given(st.lists(st.tuples(st.integers(0, 500_000), st.integers(1, 30)), min_size=1, max_size=80), st.integers(1, 50))
def test_the_mean_is_never_above_the_rate(writes: list[tuple[int, int]], rate: int) -> None:
    """Over any time from the first write on: the burst, the rate, and one write's debt bound what passed."""
    rates, now_us, passed = Rates(Rate(commands_per_s=rate)), 0, 0
    for pause_us, commands in writes:
        now_us += pause_us
        if taken(rates, ALICE, commands, 0, now_us) == 0:
            passed += commands
        assert passed <= rate * (BURST_S + now_us / SECOND_US) + 30


def test_a_leader_holds_each_principal_to_its_rate(tmp_path: Path) -> None:
    """Whichever node is asked; nobody else waits for it, and nothing of it happened."""
    alice, bob = Principal(ALICE), Principal(BOB)

    async def run() -> None:
        async with cluster(tmp_path, 3, limits=Limits(principal_commands_per_s=0.001)) as running:
            leader = await running.leader()
            others = [node for node in running.nodes.values() if node is not leader]
            cluster_id = leader.status().cluster_id
            first, second = (write_command(subject, "v") for subject in ("first", "second"))
            await others[0].submit(signed(alice, cluster_id, [first]))
            for node in (*others, leader):
                with pytest.raises(Retry, match=r"0\.001 commands a second") as error:
                    await node.submit(signed(alice, cluster_id, [second]))
                assert error.value.retry_after_s > 500
            answer = await leader.submit(signed(bob, cluster_id, [second]))
            assert answer.outcomes[0].code == "asserted"
            assert b"veridical_rate_limited_total 3.0" in leader.metrics.exposition()

    asyncio.run(run())
