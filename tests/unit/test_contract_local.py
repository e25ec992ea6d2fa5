"""The contract of every memory, kept by `LocalMemory`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract_of_memory import ADMIN, ALICE, BOB, ContractOfMemory, Guarded

from veridical.memory import LocalMemory
from veridical.verdict import Runner


class TestLocalMemory(ContractOfMemory):
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
