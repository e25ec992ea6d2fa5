"""The doors to a memory: each opens a store in which nobody is enrolled, and a guarded one with three principals.

A test class inherits a door and the scenarios that it is to be asked, in that order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from contract_of_memory import ADMIN, ALICE, BOB, GRADER_SEED, Guarded

from veridical.fleet import InMemoryLeaseStore
from veridical.memory import LocalMemory, Principal, ReplicatedMemory
from veridical.security.keys import KeyPair
from veridical.verdict import Runner
from veridical.verdict.runner import SEED_VARIABLE


class Door:
    """What all doors have in common."""

    @pytest.fixture(scope="class")
    @classmethod
    def runner(cls) -> Iterator[Runner]:
        """The store's own runner: whoever opens a store while this fixture lives trusts it."""
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(SEED_VARIABLE, GRADER_SEED.hex())
            yield Runner(KeyPair(GRADER_SEED))


class LocalDoor(Door):
    """One file each; principals open the same one."""

    @pytest.fixture(scope="class")
    @classmethod
    def unguarded(cls, runner: Runner) -> Iterator[LocalMemory]:
        """One without files, opened while the runner is known."""
        assert runner.public_key
        with LocalMemory(":memory:") as memory:
            yield memory

    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
        """Three objects over one file."""
        path = tmp_path_factory.mktemp("guarded") / "brain.db"
        with (
            LocalMemory(path, principal=ADMIN) as admin,
            LocalMemory(path, principal=ALICE) as alice,
            LocalMemory(path, principal=BOB) as bob,
        ):
            yield Guarded(admin, alice, bob).enroll()


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


class InProcessDoor(Door):
    """Three members of one process. Each principal asks another one; reads are strong, so that all find all."""

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


class NetworkDoor(Door):
    """Three real nodes for each store; they inherit the runner from the environment."""

    @pytest.fixture(scope="class")
    @classmethod
    def unguarded(cls, runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
        """Asked without a principal."""
        from grpc_cluster import process_cluster

        assert runner.public_key
        with (
            process_cluster(tmp_path_factory.mktemp("unguarded")) as cluster,
            ReplicatedMemory.connect(cluster.endpoints, read_consistency="strong") as memory,
        ):
            yield memory

    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
        """A connection for each principal."""
        from grpc_cluster import process_cluster

        with process_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
            admin, alice, bob = (
                ReplicatedMemory.connect(cluster.endpoints, read_consistency="strong", principal=principal)
                for principal in (ADMIN, ALICE, BOB)
            )
            with admin, alice, bob:
                yield Guarded(admin, alice, bob).enroll()
