"""`antientropy …`: what the nodes compared, looked at and repaired; and all of that at once, now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .failures import exit_code, sentence
from .options import DataOption, EndpointOption, JsonOption

if TYPE_CHECKING:
    from ..proto.generated import admin_pb2
    from .survey import MemberRow

STATUS_TIMEOUT_S: Final = 5.0
RUN_TIMEOUT_S: Final = 3600.0
COLUMNS: Final = ("member", "compared", "with", "looked at", "passes", "last pass", "found", "repaired", "doing")
NUMBERS: Final = ("looked at", "passes", "found")

Hears = Callable[[str, "admin_pb2.AntiEntropyReply"], None]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node said last, or why it said nothing."""

    name: str
    endpoint: str
    reply: admin_pb2.AntiEntropyReply | None
    failure: Exception | None = None


def status(data: DataOption = None, endpoint: EndpointOption = None, as_json: JsonOption = False) -> None:
    """What each node has compared, how far it has looked through its files, what it found and repaired."""
    _show(_asked(data, endpoint, run=False, timeout_s=STATUS_TIMEOUT_S, hears=_silence), as_json)


def run(
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long a node may take.")
    ] = RUN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Let every node compare, look through all of its files and repair, now. Exit code 0: it did, and is well."""
    with screen.progress("parts", as_json) as progress:
        tasks: dict[str, Any] = {}

        def hears(name: str, reply: admin_pb2.AntiEntropyReply) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=None)
            what = f"{name}: {reply.doing}" if reply.doing else name
            progress.update(tasks[name], completed=reply.scrub_done, total=reply.scrub_total, description=what)

        reports = _asked(data, endpoint, run=True, timeout_s=timeout, hears=hears)
    _show(reports, as_json)


def _silence(_name: str, _reply: admin_pb2.AntiEntropyReply) -> None:
    """Nobody watches."""


def _asked(
    data: Any, endpoint: Sequence[str] | None, *, run: bool, timeout_s: float, hears: Hears
) -> list[NodeReport]:  # fmt: skip
    from ..memory.errors import Unavailable
    from .survey import surveyed
    from .target import target

    async def asked() -> list[NodeReport]:
        survey = await surveyed(target(data, endpoint).endpoints)
        if not survey.members:
            raise Unavailable(survey.reason)
        questions = (_reported(member, survey.cluster_id, run, timeout_s, hears) for member in survey.members)
        return list(await asyncio.gather(*questions))

    return asyncio.run(asked())


async def _reported(member: MemberRow, cluster_id: str, run: bool, timeout_s: float, hears: Hears) -> NodeReport:
    from ..memory.errors import VeridicalError
    from ..proto.generated import admin_pb2
    from .target import admin
    from .tickets import ticket

    last = None
    try:
        async with admin(member.endpoint) as stub:
            request = admin_pb2.AntiEntropyRequest(run=run, ticket=ticket(cluster_id))
            async for reply in stub.AntiEntropy(request, timeout=timeout_s):
                last = reply
                hears(member.name, reply)
    except VeridicalError as error:
        return NodeReport(member.name, member.endpoint, last, error)
    return NodeReport(member.name, member.endpoint, last)


def _show(reports: Sequence[NodeReport], as_json: bool) -> None:
    if as_json:
        screen.say_json({"nodes": [as_fields(report) for report in reports]})
    else:
        screen.console().print(screen.table(COLUMNS, [_cells(report) for report in reports], NUMBERS))
        for report in reports:
            for note in report.reply.notes if report.reply else ():
                screen.say(screen.plain(f"{_moment(note.wall_us)} {report.name}: {note.text}"))
    for report in reports:
        if report.failure is not None:
            screen.complain(f"veridical: {report.name}: {sentence(report.failure)}")
    codes = [exit_code(report.failure) for report in reports if report.failure is not None]
    if codes:
        raise typer.Exit(max(code or 0 for code in codes))


def as_fields(report: NodeReport) -> Mapping[str, Any]:
    """What `--json` prints of a node."""
    reply = report.reply
    named = {"member": report.name, "endpoint": report.endpoint}
    if reply is None:
        return named | {"failure": None if report.failure is None else sentence(report.failure)}
    return named | {
        "failure": None if report.failure is None else sentence(report.failure),
        "compared_at": _moment(reply.compared_wall_us),
        "peers": [
            {
                "member": peer.name, "index": peer.index, "differing_buckets": peer.differing, "reason": peer.reason,
                "judged": peer.judged, "embedder": peer.embedder or None, "runner": peer.runner or None,
            }
            for peer in reply.peers
        ],
        "scrub": {
            "done": reply.scrub_done, "total": reply.scrub_total, "rows": reply.scrub_rows,
            "passes": reply.scrub_passes, "finished_at": _moment(reply.scrub_finished_wall_us),
        },
        "differences": reply.differences,
        "findings": reply.findings,
        "repairs": dict(sorted(reply.repairs.items())),
        "doing": reply.doing,
        "notes": [{"at": _moment(note.wall_us), "text": note.text} for note in reply.notes],
    }  # fmt: skip


def _cells(report: NodeReport) -> Sequence[object]:
    reply = report.reply
    if reply is None:
        return (report.name, *[None] * (len(COLUMNS) - 2), "no answer")
    looked = f"{100 * reply.scrub_done // reply.scrub_total} %" if reply.scrub_total else None
    return (
        report.name, _moment(reply.compared_wall_us), "; ".join(map(_peer, reply.peers)) or None, looked,
        reply.scrub_passes, _moment(reply.scrub_finished_wall_us), reply.findings,
        ", ".join(f"{count} × {kind}" for kind, count in sorted(reply.repairs.items())) or None, reply.doing or None,
    )  # fmt: skip


def _peer(peer: admin_pb2.PeerComparison) -> str:
    vectors = f", with other vectors: {peer.embedder}" if peer.embedder else ""
    return _compared(peer) + vectors + (f", with another runner: {peer.runner}" if peer.runner else "")


def _compared(peer: admin_pb2.PeerComparison) -> str:
    if peer.reason:
        return f"{peer.name}: {peer.reason}"
    if not peer.differing:
        return f"{peer.name}: equal at {peer.index}"
    sound = ", this node is right" if peer.judged else ""
    return f"{peer.name}: {peer.differing} of 256 buckets differ at {peer.index}{sound}"


def _moment(wall_us: int) -> str | None:
    return datetime.fromtimestamp(wall_us / 1e6, UTC).isoformat(timespec="seconds") if wall_us else None
