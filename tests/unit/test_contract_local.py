"""The contract of every memory, kept by `LocalMemory`."""

from contract_of_memory import ContractOfMemory
from doors import LocalDoor


class TestLocalMemory(LocalDoor, ContractOfMemory):
    """One file each; principals open the same one."""
