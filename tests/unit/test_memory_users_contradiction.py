"""What users of other memories report about contradiction: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Contradiction


class TestLocalContradiction(LocalDoor, Contradiction):
    """In one file, and without one."""


class TestClusterContradiction(InProcessDoor, Contradiction):
    """Three members of one process."""
