"""What users of other memories report about time: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Time


class TestLocalTime(LocalDoor, Time):
    """In one file, and without one."""


class TestClusterTime(InProcessDoor, Time):
    """Three members of one process."""
