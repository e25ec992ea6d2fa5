"""What users of other memories report, and where another trust layer failed, at three real nodes."""

import pytest
from doors import NetworkDoor
from scenarios_of_reference import ReferenceTrust
from scenarios_of_refusals import Refusals
from scenarios_of_users import Contradiction, Conversations, Duplicates, Isolation, Search, Time

pytestmark = pytest.mark.process


class TestNetwork(
    NetworkDoor, Duplicates, Contradiction, Time, Isolation, Search, Conversations, ReferenceTrust, Refusals
):
    """A cluster for each store."""
