"""What users of other memories report about duplicates: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Duplicates


class TestLocalDuplicates(LocalDoor, Duplicates):
    """In one file, and without one."""


class TestClusterDuplicates(InProcessDoor, Duplicates):
    """Three members of one process."""
