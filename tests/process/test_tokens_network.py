"""Bearer tokens at three real nodes."""

import pytest
from doors import NetworkDoor
from scenarios_of_tokens import Claims, Tokens

pytestmark = pytest.mark.process


class TestTokensOfNodes(NetworkDoor, Tokens, Claims):
    """In the metadata of calls; a node that cannot answer itself passes the token on."""
