"""The contract of every memory, kept by three members of a cluster in this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from contract_of_memory import ADMIN, ALICE, BOB, ContractOfMemory, Guarded

from veridical.fleet import InMemoryLeaseStore
from veridical.memory import LocalMemory, Principal, ReplicatedMemory
from veridical.verdict import Runner


@contextmanager
def members(principals: Sequence[Principal | None]) -> Generator[list[ReplicatedMemory]]:
    """One for each principal, in a cluster of their own, without files."""
    leases = InMemoryLeaseStore()
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                ReplicatedMemory(
                    LocalMemory(":memory:"), leases=leases, cluster_key="contract", owner=owner, principal=principal,
                    read_consistency="strong",
                )
            )
            for owner, principal in zip("ABC", principals, strict=True)
        ]  # fmt: skip


class TestClusterInProcess(ContractOfMemory):
    """Each principal asks another member; reads are strong, so that what one wrote the others find."""

    @pytest.fixture(scope="class")
    @classmethod
    def unguarded(cls, runner: Runner) -> Iterator[ReplicatedMemory]:
        """A member that does not lead is asked, as a rule."""
        assert runner.public_key
        with members([None, None, None]) as (*_, last):
            yield last

    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls) -> Iterator[Guarded]:
        """A member for each."""
        with members([ADMIN, ALICE, BOB]) as opened:
            yield Guarded(*opened).enroll()
