"""Bearer tokens at a file of one's own, and at three members of one process."""

from doors import InProcessDoor, LocalDoor
from scenarios_of_borders import Borders
from scenarios_of_tokens import Claims, Tokens


class TestTokensOfAFile(LocalDoor, Tokens, Claims, Borders):
    """Principals open the same file."""


class TestTokensOfMembers(InProcessDoor, Tokens, Claims, Borders):
    """Each principal asks another member."""
