"""The contract of every memory, kept by three real nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract_of_memory import ADMIN, ALICE, BOB, ContractOfMemory, Guarded
from grpc_cluster import process_cluster

from veridical.memory import ReplicatedMemory
from veridical.verdict import Runner

pytestmark = pytest.mark.process


class TestNetwork(ContractOfMemory):
    """A cluster for each store; its nodes inherit the runner from the environment."""

    @pytest.fixture(scope="class")
    @classmethod
    def unguarded(cls, runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
        """Asked without a principal."""
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
        with process_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
            admin, alice, bob = (
                ReplicatedMemory.connect(cluster.endpoints, read_consistency="strong", principal=principal)
                for principal in (ADMIN, ALICE, BOB)
            )
            with admin, alice, bob:
                yield Guarded(admin, alice, bob).enroll()
