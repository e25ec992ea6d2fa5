"""Where another memory's trust layer failed: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_reference import ReferenceTrust


class TestLocal(LocalDoor, ReferenceTrust):
    """In one file, and without one."""


class TestCluster(InProcessDoor, ReferenceTrust):
    """Three members of one process."""
