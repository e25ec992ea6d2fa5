"""The contract of every memory, kept by three members of a cluster in this process."""

from contract_of_memory import ContractOfMemory
from doors import InProcessDoor


class TestClusterInProcess(InProcessDoor, ContractOfMemory):
    """Each principal asks another member."""
