"""The contract of every memory, kept by three real nodes."""

import pytest
from contract_of_memory import ContractOfMemory
from doors import NetworkDoor

pytestmark = pytest.mark.process


class TestNetwork(NetworkDoor, ContractOfMemory):
    """A cluster for each store."""
