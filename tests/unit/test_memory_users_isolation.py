"""What users of other memories report about isolation: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Isolation


class TestLocalIsolation(LocalDoor, Isolation):
    """In one file, and without one."""


class TestClusterIsolation(InProcessDoor, Isolation):
    """Three members of one process."""
