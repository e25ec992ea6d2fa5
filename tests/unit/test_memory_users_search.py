"""What users of other memories report about search: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Search


class TestLocalSearch(LocalDoor, Search):
    """In one file, and without one."""


class TestClusterSearch(InProcessDoor, Search):
    """Three members of one process."""
