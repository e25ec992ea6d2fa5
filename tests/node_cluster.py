"""A cluster of real nodes in one process, with real files: the world of the in-process node tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from veridical.log.entry import SALT_BYTES, CommandHead, Envelope, body_hash
from veridical.log.identifier import uuid7
from veridical.memory.commands import WriteBody, encode_body
from veridical.memory.errors import OutcomeUnknown
from veridical.memory.trust_commands import ENROLL, EnrollBody
from veridical.node.access import NOBODY, Caller
from veridical.node.inprocess import InProcessNetwork
from veridical.node.ports import BareCommand, ReadReply, ReadRequest, Submission, SubmitResult, Verb, Wait
from veridical.node.runtime import Node
from veridical.node.settings import Limits, Settings, Timings
from veridical.node.system import SystemClock, SystemEntropy
from veridical.replication.messages import ReadMode
from veridical.security.principal import Principal

SECOND_US = 1_000_000
QUICK = Timings(heartbeat_ms=30, lease_ttl_ms=300, election_jitter_ms=50)
ENTROPY = SystemEntropy()
CLOCK = SystemClock()


def write_command(subject: str, text: str, predicate: str = "says", scope: str = "global") -> BareCommand:
    """A command that writes one fact, under an id of its own."""
    body = WriteBody("fact", subject, predicate, scope, text)
    id = uuid7(CLOCK.wall_us(), ENTROPY.bytes(8))
    return BareCommand(id, "memory.write", encode_body("memory.write", body))


EVERYTHING = ("*", ("read", "write", "review", "attest", "vouch", "admin"))


def enrolment(principal: Principal, *grants: tuple[str, tuple[str, ...]]) -> BareCommand:
    """A command that enrolls that principal; without grants, with every right."""
    body = EnrollBody(principal.public_key, "somebody", grants or (EVERYTHING,))
    return BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ENROLL, encode_body(ENROLL, body))


def signed(
    principal: Principal,
    cluster_id: str,
    commands: Sequence[BareCommand],
    timeout_us: int = 5 * SECOND_US,
    wait: Wait = Wait.QUORUM,
) -> Submission:
    """The commands in one envelope, signed by `principal`."""
    bodies = tuple(ENTROPY.bytes(SALT_BYTES) + command.content for command in commands)
    heads = tuple(
        CommandHead(command.id, command.kind, body_hash(body)) for command, body in zip(commands, bodies, strict=True)
    )
    envelope = Envelope(cluster_id, principal.public_key, CLOCK.wall_us(), heads)
    return Submission(envelope.raw, principal.sign(envelope.signed_bytes), bodies, timeout_us, wait)


class Cluster:
    """Nodes n1, n2, … by name. A node that was killed can be started again on its files."""

    def __init__(self, data: Path, count: int, timings: Timings, limits: Limits, embedder: str = "") -> None:
        self.data = data
        self.names = [f"n{number}" for number in range(1, count + 1)]
        self.timings = timings
        self.limits = limits
        self.embedder = embedder
        self.runner_key = ""
        self.network = InProcessNetwork()
        self.nodes: dict[str, Node] = {}
        self.fatal: dict[str, str] = {}

    def settings(self, name: str) -> Settings:
        """What a node of this cluster is told."""
        peers = {peer: f"{peer}:7400" for peer in self.names}
        return Settings(
            name=name, cluster="test", data=self.data / name, endpoint=peers[name], peers=peers, timings=self.timings,
            limits=self.limits, embedder=self.embedder, runner_key=self.runner_key,
        )  # fmt: skip

    async def start(self, *names: str) -> None:
        """Start these nodes."""
        for name in names:
            settings = self.settings(name)
            transport = self.network.transport(settings.endpoint)
            node = Node(settings, transport, CLOCK, ENTROPY, partial(self.fatal.__setitem__, name))
            transport.attach(node)
            self.nodes[name] = node
            await node.start()

    async def stop(self, *names: str) -> None:
        """Stop these nodes, as when a process ends."""
        await asyncio.gather(*(self.nodes.pop(name).stop() for name in names))

    async def until(self, condition: Callable[[], object], timeout_s: float = 10) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(timeout_s):
            while not condition():  # noqa: ASYNC110 (the nodes have no event for what tests want to see)
                await asyncio.sleep(0.002)

    def leaders(self) -> list[Node]:
        """Nodes that serve as leader."""
        return [node for node in self.nodes.values() if node.status().serves]

    async def leader(self) -> Node:
        """The one that serves, once there is one."""
        await self.until(self.leaders)
        return self.leaders()[0]

    def followers(self) -> list[Node]:
        """The others."""
        return [node for node in self.nodes.values() if not node.status().serves]

    async def level(self) -> None:
        """Wait until every node has applied all that any of them holds."""
        await self.until(lambda: len({_ends(node) for node in self.nodes.values()}) == 1 and _is_level(self.nodes))

    async def digests(self) -> set[bytes]:
        """The digests of all nodes' states; one when they are equal."""
        await self.level()
        replies = [await read(node, Verb.DIGEST) for node in self.nodes.values()]
        return {reply.value.digest for reply in replies}


def _ends(node: Node) -> tuple[int, int]:
    status = node.status()
    return status.last_index, status.applied_index


def _is_level(nodes: dict[str, Node]) -> bool:
    return all(last == applied > 0 for last, applied in map(_ends, nodes.values()))


async def read(
    node: Node,
    verb: Verb,
    mode: ReadMode = ReadMode.LOCAL,
    timeout_us: int = 5 * SECOND_US,
    caller: Caller = NOBODY,
    **args: object,
) -> ReadReply:
    """Ask a node."""
    return await node.read(ReadRequest(verb, args, mode, timeout_us, caller=caller))


async def write(node: Node, subject: str, text: str, timeout_us: int = 5 * SECOND_US) -> SubmitResult:
    """Write one fact, anonymously; where the outcome is unknown, ask again with the same command id, as clients do."""
    command, deadline_us = write_command(subject, text), CLOCK.elapsed_us() + timeout_us
    while True:
        remaining_us = deadline_us - CLOCK.elapsed_us()
        try:
            return await node.submit_anonymous([command], remaining_us)
        except OutcomeUnknown:
            if CLOCK.elapsed_us() >= deadline_us:
                raise


@asynccontextmanager
async def cluster(
    data: Path, count: int = 3, timings: Timings = QUICK, limits: Limits | None = None, embedder: str = ""
) -> AsyncGenerator[Cluster]:
    """A running cluster, stopped at the end; a node that had to end fails the test."""
    made = Cluster(data, count, timings, limits or Limits(), embedder)
    await made.start(*made.names)
    try:
        yield made
    finally:
        await made.stop(*list(made.nodes))
    assert not made.fatal, made.fatal
