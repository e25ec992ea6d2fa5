"""Bearer tokens at a file of one's own, and at three members of one process."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_tokens import Tokens


class TestTokensOfAFile(LocalDoor, Tokens):
    """Principals open the same file."""


class TestTokensOfMembers(InProcessDoor, Tokens):
    """Each principal asks another member."""
