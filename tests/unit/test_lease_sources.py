"""Lease sources: one test class, run against each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract_of_leases import TTL_US, ContractOfLeases

from veridical.lease.sources import InMemoryLeaseStore, LeaseSource, LeaseStoreDown, QuorumLease, SqliteLeaseStore


@pytest.fixture(params=["memory", "sqlite"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> LeaseSource:
    """Every source that keeps claims."""
    return InMemoryLeaseStore() if request.param == "memory" else SqliteLeaseStore(tmp_path / "lease.db")


class TestLeaseSource(ContractOfLeases):
    """The contract, for the sources that need nothing else to run."""


def test_quorum_lease_lets_everybody_try() -> None:
    """The members decide among themselves, so asking takes nothing away."""
    source = QuorumLease()
    assert source.acquire("brain", "A", TTL_US, 0)
    assert source.acquire("brain", "B", TTL_US, 0)


def test_a_store_that_is_gone_is_a_typed_error(tmp_path: Path) -> None:
    """The error names the file; nothing else escapes."""
    source = SqliteLeaseStore(tmp_path / "no-such-folder" / "lease.db")
    with pytest.raises(LeaseStoreDown, match="no-such-folder"):
        source.acquire("brain", "A", TTL_US, 0)
