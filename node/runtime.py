"""One member of a cluster, whatever it is reached by: the replica with its disk, its fold, its callers and its peers.

The node is the only place that acts. What it owns, each on threads of its own: the log's writer, the applier of the
projection, the decider, the readers, the verifiers. What ties them together runs on one event loop, which never waits
for any of them. See DESIGN.md.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from ..log.configuration import Configuration
from ..log.entry import ORIGIN, CommandHead, Envelope, Position, body_hash
from ..log.entry import SALT_BYTES
from ..log.notary import Notary
from ..log.store import Identity
from ..lease.messages import Holder
from ..memory.errors import NotLeader, OutcomeUnknown, Refused, Unavailable, VeridicalError
from ..memory.machine import Context
from ..replication import messages as m
from ..replication.messages import Message, Role, RoleChanged
from ..replication.replica import Replica
from ..security.digests import DigestKey
from ..security.keys import sealed_to, verify
from .admission import Bounds, Gate
from .decider import Proposal
from .driver import Driver
from .founding import Founded, Joined, place
from .health import Health
from .identity import DataDirectory, StartRefused
from .metrics import Metrics
from .ports import (
    BareCommand, HelloReply, KeyRequest, NodeStatus, ReadReply, ReadRequest, Submission, SubmitResult, Transport, Wait,
)
from .reading import Freshness, Readers, Reads, ReadsPort
from .rights import OperatorRights
from .rounds import Rounds, RoundsPort
from .settings import MILLISECOND_US, SECOND_US, Settings
from .startup import Opened, close_files, open_files
from .storage import Applier, ApplierPort, CommandCount, RecentEntries, Writer, WriterPort
from .system import Clock, Entropy
from .verifier import Border, Verifier, check_size
