"""What the nodes say of themselves, and what follows for the cluster: one row for each member of its configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ..log.configuration import Configuration

if TYPE_CHECKING:
    from ..proto.generated import admin_pb2

ANSWER_TIMEOUT_S: Final = 1.5
DOWN: Final = "down"
LEADER: Final = "leader"
MICROSECONDS_A_MILLISECOND: Final = 1000


class Health(IntEnum):
    """How a cluster is; the value is the exit code of `veridical status`."""

    HEALTHY = 0
    DEGRADED = 1
    NO_QUORUM = 2
    CANNOT_TELL = 3


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member as it sees itself; numbers are None where it did not answer. `pid` is known for local nodes only.

    `lag` counts entries that are committed somewhere and not yet applied here. `condition` says why it does not serve.
    """

    id: str
    name: str
    role: str
    endpoint: str
    voting: bool
    epoch: int | None = None
    commit_index: int | None = None
    applied_index: int | None = None
    last_index: int | None = None
    lag: int | None = None
    lease_ms: int | None = None
    log_bytes: int | None = None
    disk_free_bytes: int | None = None
    ready: bool = False
    condition: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster at one moment. `reason` says why it is no better than it is; empty when it is healthy."""

    cluster: str
    cluster_id: str
    members: tuple[MemberRow, ...]
    health: Health
    reason: str

    @property
    def leader(self) -> MemberRow | None:
        """The member that leads, of two that say so the one of the later epoch."""
        leaders = [member for member in self.members if member.role == LEADER]
        return max(leaders, key=lambda member: member.epoch or 0, default=None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one node says: a row about itself, and the newest configuration in its log, if it has one."""

    endpoint: str
    cluster: str
    cluster_id: str
    row: MemberRow
    configuration: Configuration | None


async def surveyed(endpoints: Sequence[str], timeout_s: float = ANSWER_TIMEOUT_S) -> Survey:
    """Ask these nodes, and every other member that they name. Never raises for a node that does not answer."""
    answers = await _asked(endpoints, timeout_s)
    known = newest_configuration(answers.values())
    further = {member.endpoint for member in known.members} - set(endpoints) if known else set[str]()
    answered = {answer.row.id for answer in answers.values()}
    missing = [m.endpoint for m in known.members if m.endpoint in further and m.id not in answered] if known else []
    answers |= await _asked(missing, timeout_s)
    return judged(tuple(answers.values()))


def judged(answers: Collection[Answer]) -> Survey:
    """The survey that follows from these answers."""
    if not answers:
        return Survey("", "", (), Health.CANNOT_TELL, "no node answered")
    first = next(iter(answers))
    cluster_ids = {answer.cluster_id for answer in answers if answer.cluster_id}
    if len(cluster_ids) > 1 or len({answer.cluster for answer in answers}) > 1:
        rows = tuple(answer.row for answer in answers)
        return Survey("", "", rows, Health.CANNOT_TELL, "the nodes asked belong to different clusters")
    configuration = newest_configuration(answers)
    cluster_id = next(iter(cluster_ids), "")
    if configuration is None:
        rows = tuple(sorted((answer.row for answer in answers), key=lambda row: row.name))
        reason = next((row.condition for row in rows if row.condition), "the cluster is not founded yet")
        return Survey(first.cluster, cluster_id, rows, Health.NO_QUORUM, reason)
    rows = member_rows(configuration, {answer.row.id: answer.row for answer in answers})
    return Survey(first.cluster, cluster_id, rows, *health_of(configuration, rows))


def newest_configuration(answers: Collection[Answer]) -> Configuration | None:
    """The newest configuration that any of the nodes holds."""
    known = (answer.configuration for answer in answers if answer.configuration is not None)
    return max(known, key=lambda configuration: configuration.version, default=None)


def member_rows(configuration: Configuration, rows: Mapping[str, MemberRow]) -> tuple[MemberRow, ...]:
    """A row for each member, in the order of their names."""
    committed = max((row.commit_index or 0 for row in rows.values()), default=0)
    members = sorted(configuration.members, key=lambda member: member.name)
    found: list[MemberRow] = []
    for member in members:
        row = rows.get(member.id)
        if row is None:
            found.append(MemberRow(member.id, member.name, DOWN, member.endpoint, member.voting))
        else:
            lag = max(0, committed - (row.applied_index or 0))
            role = row.role if member.voting else "learner"
            found.append(replace(row, name=member.name, voting=member.voting, role=role, lag=lag))
    return tuple(found)


def health_of(configuration: Configuration, rows: Sequence[MemberRow]) -> tuple[Health, str]:
    """How the cluster is, and why it is no better. A member that answers but does not serve counts for no quorum."""
    able = [row for row in rows if row.voting and row.role != DOWN and not row.condition]
    needed = max(configuration.write_quorum, configuration.recovery_quorum)
    if len(able) < needed:
        return Health.NO_QUORUM, f"{len(able)} of {len(configuration.voters)} voting members can act, {needed} must"
    faults = [f"{row.name} is down" for row in rows if row.role == DOWN]
    faults += [f"{row.name}: {row.condition or 'not ready'}" for row in rows if row.role != DOWN and not row.ready]
    if not any(row.role == LEADER for row in rows):
        faults.insert(0, "no member leads at the moment")
    return (Health.DEGRADED, "; ".join(faults)) if faults else (Health.HEALTHY, "")


async def _asked(endpoints: Collection[str], timeout_s: float) -> dict[str, Answer]:
    answers = await asyncio.gather(*(_answer_of(endpoint, timeout_s) for endpoint in endpoints))
    return {answer.endpoint: answer for answer in answers if answer is not None}


async def _answer_of(endpoint: str, timeout_s: float) -> Answer | None:
    import grpc.aio

    from ..client.environment import credentials
    from ..proto.channel import open_channel
    from ..proto.generated import admin_pb2, admin_pb2_grpc

    async with open_channel(endpoint, credentials()) as channel:
        stub: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(channel)
        status, hello = await asyncio.gather(
            stub.Status(admin_pb2.StatusRequest(), timeout=timeout_s),
            stub.Hello(admin_pb2.HelloRequest(), timeout=timeout_s),
            return_exceptions=True,
        )
    if isinstance(status, BaseException):
        if isinstance(status, grpc.aio.AioRpcError):
            return None
        raise status
    configuration = None if isinstance(hello, BaseException) else _configuration(hello)
    return Answer(endpoint, status.cluster, status.cluster_id, _row(status), configuration)


def _configuration(hello: admin_pb2.HelloReply) -> Configuration | None:
    from ..node.wire import configuration_from_wire

    return configuration_from_wire(hello.configuration) if hello.HasField("configuration") else None


def _row(status: admin_pb2.StatusReply) -> MemberRow:
    return MemberRow(
        id=status.id,
        name=status.name,
        role=status.role,
        endpoint=status.endpoint,
        voting=True,
        epoch=status.epoch,
        commit_index=status.commit_index,
        applied_index=status.applied_index,
        last_index=status.last_index,
        lag=0,
        lease_ms=max(0, status.lease_remaining_us) // MICROSECONDS_A_MILLISECOND,
        log_bytes=status.log_bytes,
        disk_free_bytes=status.disk_free_bytes,
        ready=status.ready,
        condition=status.condition or ("draining" if status.draining else ""),
    )
