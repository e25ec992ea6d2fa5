"""Calls to a node as protobuf and back: submissions, what became of them, and what the Admin service says."""

from __future__ import annotations

from typing import Final

from ..log.lineage import Ancestor
from ..memory.errors import Invalid
from ..memory.machine import Outcome
from ..memory.record import Version
from ..proto.generated import admin_pb2, memory_pb2
from . import wire
from .addresses import is_wildcard, split
from .membership import Admit, Change, Promote, Remove, Resize
from .ports import (
    BareCommand,
    HelloReply,
    KeyRequest,
    MemberStatus,
    NodeStatus,
    Submission,
    SubmitResult,
    Wait,
)  # fmt: skip
from .rows import record_of, row_of

WAITS: Final = {
    memory_pb2.WAIT_QUORUM: Wait.QUORUM,
    memory_pb2.WAIT_ALL: Wait.ALL,
    memory_pb2.WAIT_COMMIT: Wait.COMMIT,
}
WAIT_NUMBERS: Final = {wait: number for number, wait in WAITS.items()}


# --- writing ----------------------------------------------------------------------------------------------------------


def submission_to_wire(submission: Submission, relayed: bool) -> memory_pb2.Submission:
    """A signed envelope on its way."""
    return memory_pb2.Submission(
        envelope=submission.envelope,
        signature=submission.signature,
        bodies=submission.bodies,
        timeout_us=submission.timeout_us,
        wait=WAIT_NUMBERS[submission.wait],
        relayed=relayed,
    )


def submission_from_wire(raw: memory_pb2.Submission) -> Submission:
    """A signed envelope that arrived; the node verifies it."""
    return Submission(raw.envelope, raw.signature, tuple(raw.bodies), raw.timeout_us, WAITS.get(raw.wait, Wait.QUORUM))


def bare_commands(raw: memory_pb2.Submission) -> list[BareCommand]:
    """The commands of a submission without a principal. Raises `ValueError` when names and bodies differ in number."""
    return [BareCommand(name.id, name.kind, content) for name, content in zip(raw.commands, raw.bodies, strict=True)]


def submit_result_to_wire(request: int, result: SubmitResult, leader: str) -> memory_pb2.SubmitResult:
    """The answer to the submission of that number."""
    raw = memory_pb2.SubmitResult(
        request=request,
        epoch=result.epoch,
        index=result.index,
        time_us=result.time_us,
        records=map(row_of, result.records),
        leader=leader,
    )
    for outcome in result.outcomes:
        _add_outcome(raw, outcome)
    return raw


def submit_result_from_wire(raw: memory_pb2.SubmitResult) -> SubmitResult:
    """The answer of a leader to whom a submission was relayed."""
    outcomes = tuple(_outcome(outcome, raw.epoch, raw.index, place) for place, outcome in enumerate(raw.outcomes))
    return SubmitResult(outcomes, tuple(map(record_of, raw.records)), raw.epoch, raw.index, raw.time_us)


def _add_outcome(result: memory_pb2.SubmitResult, outcome: Outcome) -> None:
    """Thousands a second: it is made in its place, and what is not set is not touched."""
    code, rule, reason, record_id, count, ignored, version, repeated = outcome
    raw = result.outcomes.add(code=code, record_id=record_id, count=count)
    if rule or reason or ignored:
        raw.rule, raw.reason = rule, reason
        raw.ignored.extend(ignored)
    if repeated:
        raw.repeated_command = True
        raw.version.epoch, raw.version.index, raw.version.place = version


def _outcome(raw: memory_pb2.Outcome, epoch: int, index: int, place: int) -> Outcome:
    version = Version(epoch, index, place)
    if raw.repeated_command:
        version = Version(raw.version.epoch, raw.version.index, raw.version.place)
    return Outcome(
        raw.code, raw.rule, raw.reason, raw.record_id, raw.count, tuple(raw.ignored), version, raw.repeated_command
    )


# --- admin ------------------------------------------------------------------------------------------------------------


def hello_to_wire(reply: HelloReply) -> admin_pb2.HelloReply:
    """Who this node is."""
    known = reply.configuration
    return admin_pb2.HelloReply(
        node=reply.node_id,
        name=reply.name,
        cluster=reply.cluster,
        public_key=reply.public_key,
        endpoint=reply.endpoint,
        has_history=reply.has_history,
        cluster_id=reply.cluster_id,
        share=reply.share,
        configuration=None if known is None else wire.configuration_to_wire(known),
        holds_key=reply.holds_key,
        ancestors=[admin_pb2.Ancestor(cluster_id=each.id, last=each.last) for each in reply.ancestors],
    )


def hello_from_wire(raw: admin_pb2.HelloReply) -> HelloReply:
    """Who the other node is. Raises `Malformed` or `QuorumError` for a configuration that cannot be."""
    return HelloReply(
        raw.node,
        raw.name,
        raw.cluster,
        raw.public_key,
        raw.endpoint,
        raw.has_history,
        raw.cluster_id,
        raw.share,
        wire.configuration_from_wire(raw.configuration) if raw.HasField("configuration") else None,
        raw.holds_key,
        tuple(Ancestor(each.cluster_id, each.last) for each in raw.ancestors),
    )


def key_request_to_wire(request: KeyRequest) -> admin_pb2.KeysRequest:
    """A member's request for the digest key."""
    return admin_pb2.KeysRequest(
        node=request.node_id, cluster_id=request.cluster_id, wall_us=request.wall_us, signature=request.signature
    )


def key_request_from_wire(raw: admin_pb2.KeysRequest) -> KeyRequest:
    """A request for the digest key; the node verifies it."""
    return KeyRequest(raw.node, raw.cluster_id, raw.wall_us, raw.signature)


def change_from_wire(raw: admin_pb2.ChangeMembersRequest) -> Change:
    """A change of membership. Raises `Invalid` for one that says nothing, or has no time."""
    if raw.timeout_us <= 0:
        raise Invalid("timeout_us", "is not positive")
    match raw.WhichOneof("change"):
        case "admit":
            return Admit(_address(raw.admit))
        case "promote":
            return Promote(raw.promote)
        case "remove":
            return Remove(raw.remove)
        case "write_quorum":
            return Resize(raw.write_quorum)
        case _:
            raise Invalid("change", "asks for nothing that this version knows")


def _address(endpoint: str) -> str:
    try:
        split(endpoint)
    except ValueError as error:
        raise Invalid("admit", str(error)) from error
    if is_wildcard(endpoint):
        raise Invalid("admit", f"{endpoint!r} names every address; write the one at which the node is reached")
    return endpoint


def status_to_wire(status: NodeStatus) -> admin_pb2.StatusReply:
    """What a node says of itself."""
    return admin_pb2.StatusReply(
        id=status.id,
        name=status.name,
        cluster=status.cluster,
        cluster_id=status.cluster_id,
        endpoint=status.endpoint,
        role=status.role,
        epoch=status.epoch,
        leader=status.leader or "",
        serves=status.serves,
        commit_index=status.commit_index,
        applied_index=status.applied_index,
        last_index=status.last_index,
        lease_remaining_us=status.lease_remaining_us,
        ready=status.ready,
        draining=status.draining,
        condition=status.condition,
        log_bytes=status.log_bytes,
        disk_free_bytes=status.disk_free_bytes,
        loop_lag_us=status.loop_lag_us,
        members=[_member_to_wire(member) for member in status.members],
    )


def _member_to_wire(member: MemberStatus) -> admin_pb2.MemberStatus:
    return admin_pb2.MemberStatus(
        id=member.id,
        name=member.name,
        endpoint=member.endpoint,
        voting=member.voting,
        match_index=member.match_index,
        applied_index=member.applied_index,
        last_contact_us=member.last_contact_us,
    )
