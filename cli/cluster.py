"""`up`, `down`, `transfer` and `node`: clusters on this machine, and who leads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import screen
from .options import DataOption, EndpointOption, JsonOption, data_directory

if TYPE_CHECKING:
    from .local import LocalCluster, LocalNode

COUNTS: Final = (1, 3, 5, 7)
READY_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
TRANSFER_TIMEOUT_S: Final = 10.0
DEFAULT_NODES: Final = 3
DEFAULT_BASE_PORT: Final = 7400
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def up(
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="How many: 1, 3, 5 or 7. [default: 3]", show_default=False)
    ] = None,
    data: DataOption = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            "--base-port",
            min=0,
            max=65_000,
            help="gRPC from here on, HTTP 100 above; 0: any free ports. [default: 7400]",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="Name of a new cluster.")] = "veridical",
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long to wait until all are ready.")
    ] = READY_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster on this machine, wait until it is ready, leave it running. What runs already stays as it is."""
    from ..node.system import SystemClock
    from .local import only_one
    from .processes import start, wait_until_ready

    directory = data_directory(data)
    directory.mkdir(parents=True, exist_ok=True)
    with only_one(directory):
        found = _found_or_made(directory, cluster, nodes, base_port)
        started = [start(node) for node in found.nodes if not node.running_pid()]
        says = on_change(screen.complain) if started and not as_json else _nothing
        try:
            survey = wait_until_ready(found, started, SystemClock(), timeout, says)
        finally:
            found = found.refreshed()
            found.store()
    if as_json:
        screen.say_json(
            {"data": str(directory), "cluster": found.cluster, "nodes": [asdict(node) for node in found.nodes]}
        )
        return
    _show_nodes(found.nodes)
    leader = survey.leader
    ran = "started" if started else "it ran already"
    count = f"{len(found.nodes)} node{'s' if len(found.nodes) > 1 else ''}"
    screen.say(f"{count} ready in {directory} ({ran}); {leader.name if leader else 'nobody'} leads.")


def _found_or_made(directory: Path, name: str, count: int | None, base_port: int | None) -> LocalCluster:
    from ..memory.errors import Invalid
    from .local import LocalCluster
    from .processes import new_cluster

    found = LocalCluster.load(directory)
    if found is None:
        wanted = DEFAULT_NODES if count is None else count
        if wanted not in COUNTS:
            raise Invalid(
                "nodes", f"{wanted} nodes: choose {', '.join(map(str, COUNTS))}; an even one more helps nobody"
            )
        if NAME.fullmatch(name) is None:
            raise Invalid(
                "cluster", "a name has letters, digits, '.', '_' and '-', at most 63, and begins with no sign"
            )
        return new_cluster(directory, name, wanted, DEFAULT_BASE_PORT if base_port is None else base_port)
    if count is not None and count != len(found.nodes):
        raise Invalid("nodes", f"the cluster in {directory} has {len(found.nodes)} nodes, not {count}")
    first = int(found.nodes[0].endpoint.rpartition(":")[2])
    if base_port not in (None, 0, first):
        raise Invalid("base-port", f"the cluster in {directory} has base port {first}, not {base_port}")
    return found


def down(
    data: DataOption = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="How long nodes may take before they are killed."),
    ] = STOP_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Stop the cluster on this machine: each node hands over and flushes; its data stays."""
    from ..node.system import SystemClock
    from .local import LocalCluster, only_one
    from .processes import stop

    directory = data_directory(data)
    found = LocalCluster.load(directory)
    running, killed = [], []
    if found is not None:
        with only_one(directory):
            running = [node for node in found.nodes if node.running_pid()]
            killed = stop(running, SystemClock(), timeout)
            found.refreshed().store()
    names, hard = [node.name for node in running], [node.name for node in killed]
    if as_json:
        screen.say_json({"data": str(directory), "stopped": names, "killed": hard})
    elif not names:
        screen.say(f"Nothing runs in {directory}.")
    else:
        screen.say(f"Stopped {', '.join(names)}" + (f" ({', '.join(hard)} by force)." if hard else "."))


def transfer(
    to: Annotated[
        str, typer.Option("--to", metavar="NODE", help="Name or id of the next leader. [default: the most advanced]")
    ] = "",
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand leadership over to another member."""
    from ..memory.errors import Invalid, NotLeader, Unavailable
    from .survey import surveyed
    from .target import target

    survey = asyncio.run(surveyed(target(data, endpoint).endpoints))
    if survey.leader is None:
        raise NotLeader() if survey.members else Unavailable(survey.reason)
    ids = {key: member.id for member in survey.members for key in (member.id, member.name)}
    if to and to not in ids:
        raise Invalid("to", f"{to} is no member; members are {', '.join(member.name for member in survey.members)}")
    reason = asyncio.run(_transferred(survey.leader.endpoint, ids.get(to, ""), survey.cluster_id))
    if reason:
        raise Unavailable(reason)
    after = asyncio.run(surveyed([member.endpoint for member in survey.members])).leader
    if as_json:
        screen.say_json({"from": survey.leader.id, "to": after.id if after else None})
    else:
        screen.say(f"{survey.leader.name} handed over; {after.name if after else 'nobody yet'} leads.")


async def _transferred(endpoint: str, target: str, cluster_id: str) -> str:
    from ..proto.generated import admin_pb2
    from .target import admin
    from .tickets import ticket

    async with admin(endpoint) as stub:
        request = admin_pb2.TransferRequest(target=target, ticket=ticket(cluster_id))
        return (await stub.Transfer(request, timeout=TRANSFER_TIMEOUT_S)).reason


def node(context: typer.Context) -> None:
    """Run one node in this process (`veridical node --help`)."""
    from ..node.main import main

    raise typer.Exit(main(context.args))


def _show_nodes(nodes: Sequence[LocalNode]) -> None:
    rows = [(each.name, each.id, each.endpoint, each.pid, each.data) for each in nodes]
    screen.console().print(screen.table(("node", "id", "endpoint", "pid", "data"), rows, numbers=("pid",)))


def on_change(says: Callable[[str], None]) -> Callable[[str], None]:
    """Say a thing once, however often it is told in a row."""
    told: list[str] = []

    def tell(text: str) -> None:
        if text not in told[-1:]:
            told.append(text)
            says(f"… {text}")

    return tell


def _nothing(_: str) -> None: ...
