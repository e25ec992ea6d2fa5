"""`member …`: who is in a cluster, and who counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import screen
from .options import DataOption, EndpointOption, JsonOption

if TYPE_CHECKING:
    from ..proto.generated import admin_pb2
    from .local import LocalCluster, LocalNode
    from .survey import MemberRow, Survey

TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 20.0

MemberArgument = Annotated[str, typer.Argument(metavar="MEMBER", help="Name or id.", show_default=False)]
NodeArgument = Annotated[
    str,
    typer.Argument(
        metavar="[HOST:PORT]",
        help="Where a node without data answers, started with this cluster's name and peers. "
        "[default: another one on this machine, beside those of --data]",
        show_default=False,
    ),
]
WaitOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1, max=86_400, help="How long it may take.")
]


def listed(data: DataOption = None, endpoint: EndpointOption = None, as_json: JsonOption = False) -> None:
    """Say who is a member, and who of them counts."""
    from .survey import surveyed
    from .target import target

    _show(asyncio.run(surveyed(target(data, endpoint).endpoints)), as_json)


def add(
    node: NodeArgument = "",
    learner: Annotated[
        bool, typer.Option("--learner", help="Leave it a learner: it receives, and does not count.", show_default=False)
    ] = False,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: WaitOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Take a node in: as a learner, and as a voter once it has caught up."""
    from .target import target

    asked = target(data, endpoint)
    says = _progress(as_json)
    address = node or _started_beside(asked.data, timeout, says)
    survey = _admitted(asked.endpoints, address, timeout, says)
    if not learner:
        survey = _change(asked.endpoints, _wanted(promote=_at(survey, address).id), timeout, says)
    _keep_ids(asked.data)
    _show(survey, as_json)


def promote(
    member: MemberArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: WaitOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Let a learner count, once it has caught up."""
    from .target import target

    endpoints = target(data, endpoint).endpoints
    wanted = _wanted(promote=_member(endpoints, member).id)
    _show(_change(endpoints, wanted, timeout, _progress(as_json)), as_json)


def remove(
    member: MemberArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: WaitOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Take a member out. One of this machine is stopped afterwards; its data stays where it is."""
    from .target import target

    asked = target(data, endpoint)
    gone = _member(asked.endpoints, member)
    others = [each for each in asked.endpoints if each != gone.endpoint] or asked.endpoints
    survey = _change(others, _wanted(remove=gone.id), timeout, _progress(as_json))
    _stop_beside(asked.data, gone)
    _show(survey, as_json)


def replace_member(
    member: MemberArgument,
    node: NodeArgument = "",
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: WaitOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Put another node in the place of a member: the new one in, a voter once it has caught up, the old one out."""
    from .target import target

    asked = target(data, endpoint)
    says = _progress(as_json)
    gone = _member(asked.endpoints, member)
    address = node or _started_beside(asked.data, timeout, says)
    survey = _admitted(asked.endpoints, address, timeout, says)
    survey = _change(asked.endpoints, _wanted(promote=_at(survey, address).id), timeout, says)
    others = [each.endpoint for each in survey.members if each.id != gone.id]
    survey = _change(others, _wanted(remove=gone.id), timeout, says)
    _stop_beside(asked.data, gone)
    _show(survey, as_json)


def quorum(
    write: Annotated[int, typer.Argument(metavar="W", min=1, help="How many nodes must hold a write.")],
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: WaitOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Say how many nodes must hold a write before it is acknowledged."""
    from .target import target

    endpoints = target(data, endpoint).endpoints
    _show(_change(endpoints, _wanted(write_quorum=write), timeout, _progress(as_json)), as_json)


# --- asking -----------------------------------------------------------------------------------------------------------


def _wanted(
    admit: str = "", promote: str = "", remove: str = "", write_quorum: int = 0
) -> admin_pb2.ChangeMembersRequest:
    from ..proto.generated import admin_pb2

    if admit:
        return admin_pb2.ChangeMembersRequest(admit=admit)
    if promote:
        return admin_pb2.ChangeMembersRequest(promote=promote)
    if remove:
        return admin_pb2.ChangeMembersRequest(remove=remove)
    return admin_pb2.ChangeMembersRequest(write_quorum=write_quorum)


def _admitted(endpoints: list[str], address: str, timeout_s: float, says: Callable[[str], None]) -> Survey:
    return _change(endpoints, _wanted(admit=address), timeout_s, says)


def _change(
    endpoints: list[str], wanted: admin_pb2.ChangeMembersRequest, timeout_s: float, says: Callable[[str], None]
) -> Survey:
    from .changing import changed

    return asyncio.run(changed(endpoints, wanted, timeout_s, says))


def _member(endpoints: list[str], named: str) -> MemberRow:
    """The member of that name or id. Raises `Invalid` for nobody, and for a name that two bear."""
    from ..memory.errors import Invalid
    from .survey import surveyed

    members = asyncio.run(surveyed(endpoints)).members
    found = [member for member in members if named in (member.id, member.name)]
    if not found:
        known = ", ".join(member.name for member in members) or "nobody, as far as can be told"
        raise Invalid("member", f"{named} is no member; members are {known}")
    if len(found) > 1:
        raise Invalid("member", f"two members are called {named}; name one by its id: {', '.join(m.id for m in found)}")
    return found[0]


def _at(survey: Survey, address: str) -> MemberRow:
    from ..memory.errors import Unavailable

    for member in survey.members:
        if member.endpoint == address:
            return member
    raise Unavailable(f"{address} was admitted, and is no member any more")


# --- nodes of this machine --------------------------------------------------------------------------------------------


def _started_beside(data: Path | None, timeout_s: float, says: Callable[[str], None]) -> str:
    """The endpoint of one more node of the local cluster, started. A node that was added in vain is used again."""
    from ..memory.errors import Invalid
    from .local import cluster_in, only_one
    from .processes import further_node, start, wait_until_answers

    if data is None:
        raise Invalid("node", "say where the node answers; only beside a local cluster (--data) can one be started")
    with only_one(data):
        cluster = cluster_in(data)
        node = _unused(cluster) or further_node(cluster)
        if not node.running_pid():
            says(f"starting {node.name} at {node.endpoint}")
            wait_until_answers(start(node), timeout_s)
        cluster = cluster_in(data).refreshed()
        cluster.store()
    return node.endpoint


def _unused(cluster: LocalCluster) -> LocalNode | None:
    """A node that was made here and is no member: adding it was not finished."""
    from .survey import surveyed

    members = {member.id for member in asyncio.run(surveyed(cluster.endpoints)).members}
    return next((node for node in cluster.nodes if members and node.known_id() not in members), None)


def _stop_beside(data: Path | None, gone: MemberRow) -> None:
    from ..node.system import SystemClock
    from .local import cluster_in, only_one
    from .processes import stop

    if data is None:
        return
    with only_one(data):
        cluster = cluster_in(data).refreshed()
        stop([node for node in cluster.nodes if node.id == gone.id], SystemClock(), STOP_TIMEOUT_S)
        kept = tuple(node for node in cluster.nodes if node.id != gone.id)
        replace(cluster, nodes=kept).refreshed().store()


def _keep_ids(data: Path | None) -> None:
    from .local import LocalCluster

    cluster = None if data is None else LocalCluster.load(data)
    if cluster is not None:
        cluster.refreshed().store()


# --- showing ----------------------------------------------------------------------------------------------------------


def _progress(as_json: bool) -> Callable[[str], None]:
    from .cluster import on_change

    return on_change(screen.complain) if not as_json else _nothing


def _nothing(_: str) -> None: ...


def _show(survey: Survey, as_json: bool) -> None:
    from .status import as_fields

    if as_json:
        screen.say_json(as_fields(survey, None))
        return
    rows = [(m.name, m.id, m.endpoint, "voter" if m.voting else "learner", m.role, m.lag) for m in survey.members]
    screen.console().print(screen.table(("member", "id", "endpoint", "counts", "role", "lag"), rows, numbers=("lag",)))
