"""What users of other memories report about conversations: a memory of one's own process, and a cluster in it."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_users import Conversations


class TestLocalConversations(LocalDoor, Conversations):
    """In one file, and without one."""


class TestClusterConversations(InProcessDoor, Conversations):
    """Three members of one process."""
