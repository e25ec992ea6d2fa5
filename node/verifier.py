"""Verifies what callers send before anybody decides it, on threads of its own (libsodium works without Python's lock).

A thread takes everything that waits at once: under load the hop between threads is shared by many.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import structlog

from ..log.canonical import NotCanonical
from ..log.entry import CONFIGURED, ELECTED, SALT_BYTES, CommandHead, Envelope, body_hash
from ..memory.commands import BODIES
from ..memory.errors import Invalid, Refused, TooLarge, VeridicalError
from ..security.keys import verify
from .decider import Proposal
from .ports import Submission
from .settings import Limits
from .storage import post

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.verifier")

GROUP_LIMIT = 64
LONE_BYTES = 4096
"""What is this small, and comes while nothing else is being verified, is verified on the loop: that takes a tenth of a
millisecond, and a hop to a thread and back as much again."""

KIND_SHOWN = 64
SYSTEM_KINDS = frozenset({ELECTED, CONFIGURED})


@dataclass(frozen=True, slots=True)
class Border:
    """What an envelope is checked against: this cluster, its limits, the keys of members (they may sign for others)."""

    cluster_id: str
    limits: Limits
    member_keys: frozenset[bytes] = field(default_factory=frozenset[bytes])


def verified(submission: Submission, border: Border) -> Proposal:
    """The envelope, read and verified. Raises `TooLarge`, `Invalid`, `Refused` (signature, cluster, on-behalf)."""
    check_size(submission, border.limits)
    try:
        envelope = Envelope.parse(submission.envelope)
    except NotCanonical as error:
        raise Invalid("envelope", str(error)) from error
    _check_shape(envelope, submission.bodies, border.limits)
    if envelope.cluster != border.cluster_id:
        raise Refused("cluster", f"signed for cluster {envelope.cluster}, this is {border.cluster_id}")
    if envelope.on_behalf and envelope.author not in border.member_keys:
        raise Refused("on-behalf", "only a member's own key may sign on behalf of somebody else")
    if not verify(envelope.author, envelope.signed_bytes, submission.signature):
        raise Refused("signature", "the envelope's signature is not its author's")
    for place, (head, body) in enumerate(zip(envelope.commands, submission.bodies, strict=True)):
        _check_body(place, head, body)
    return Proposal(envelope, submission.envelope, submission.signature, submission.bodies)


def check_size(submission: Submission, limits: Limits) -> None:
    """Refuse what is too large before a byte of it is read. Raises `TooLarge`."""
    largest = max(map(len, submission.bodies), default=0)
    if largest > limits.command_bytes:
        raise TooLarge("command", largest, limits.command_bytes)
    size = len(submission.envelope) + sum(map(len, submission.bodies))
    if size > limits.envelope_bytes:
        raise TooLarge("envelope", size, limits.envelope_bytes)
    if len(submission.bodies) > limits.envelope_commands:
        raise TooLarge("envelope", len(submission.bodies), limits.envelope_commands, "commands")


def _check_shape(envelope: Envelope, bodies: Sequence[bytes], limits: Limits) -> None:
    count = len(envelope.commands)
    if not 1 <= count <= limits.envelope_commands:
        raise Invalid("envelope", f"{count} commands; an envelope holds 1 to {limits.envelope_commands}")
    if count != len(bodies):
        raise Invalid("bodies", f"{len(bodies)} bodies for {count} commands")
    if len({head.id for head in envelope.commands}) != count:
        raise Invalid("envelope", "two commands share an id")


def _check_body(place: int, head: CommandHead, body: bytes) -> None:
    if head.kind in SYSTEM_KINDS:
        raise Refused("system-command", f"{head.kind} is written by the cluster itself")
    if head.kind not in BODIES:  # nobody could decide it
        raise Invalid(f"commands[{place}].kind", f"{head.kind[:KIND_SHOWN]!r} is not a command")
    if len(body) < SALT_BYTES:
        raise Invalid(f"bodies[{place}]", f"shorter than its salt of {SALT_BYTES} bytes")
    if body_hash(body) != head.body_hash:
        raise Invalid(f"bodies[{place}]", "does not have the hash that was signed")


Verdict = Proposal | VeridicalError
_Task = tuple[Submission, Border, "asyncio.Future[Proposal]"]


class Verifier:
    """A few threads that verify; results come back to the loop in groups."""

    def __init__(self, threads: int, failed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._under_way = 0
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"verifier-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def verify(self, submission: Submission, border: Border) -> asyncio.Future[Proposal]:
        """The verified proposal, or one of the errors of `verified`."""
        future: asyncio.Future[Proposal] = self._loop.create_future()
        if self._under_way or _weight(submission) > LONE_BYTES:
            self._under_way += 1
            self._queue.put((submission, border, future))
        else:
            self._deliver([future], [_verdict(submission, border)])
        return future

    def stop(self) -> None:
        """End the threads. Blocks; not to be called on the loop."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while tasks := self._next_tasks():
            verdicts = [_verdict(submission, border) for submission, border, _ in tasks]
            post(self._loop, self._returned, [future for _, _, future in tasks], verdicts)

    def _next_tasks(self) -> list[_Task]:
        first = self._queue.get()
        tasks = [first] if first is not None else []
        try:
            while tasks and len(tasks) < GROUP_LIMIT:
                task = self._queue.get_nowait()
                if task is None:
                    self._queue.put(None)
                    break
                tasks.append(task)
        except Empty:
            pass
        return tasks

    def _returned(self, futures: Sequence[asyncio.Future[Proposal]], verdicts: Sequence[Verdict]) -> None:
        self._under_way -= len(futures)
        self._deliver(futures, verdicts)

    def _deliver(self, futures: Sequence[asyncio.Future[Proposal]], verdicts: Sequence[Verdict]) -> None:
        for future, verdict in zip(futures, verdicts, strict=True):
            if future.done():
                continue
            if isinstance(verdict, Proposal):
                future.set_result(verdict)
            else:
                self._note(verdict)
                future.set_exception(verdict)

    def _note(self, error: VeridicalError) -> None:
        if isinstance(error, Refused) and error.rule == "signature":
            _log.warning("not authenticated", reason=error.reason)
            self._failed()


def _weight(submission: Submission) -> int:
    return len(submission.envelope) + sum(map(len, submission.bodies))


def _verdict(submission: Submission, border: Border) -> Verdict:
    try:
        return verified(submission, border)
    except VeridicalError as error:
        return error
