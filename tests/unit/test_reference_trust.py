"""Where another memory's trust layer failed: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_reference import ReferenceTrust
from scenarios_of_refusals import Refusals


class TestLocal(LocalDoor, ReferenceTrust, Refusals):
    """In one file, and without one."""


class TestCluster(InProcessDoor, ReferenceTrust, Refusals):
    """Three members of one process."""
