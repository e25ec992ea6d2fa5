"""`audit`: a history checked, looked into, folded again, taken along."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .failures import DAMAGED
from .options import DataOption, EndpointOption, JsonOption, TimeoutOption

if TYPE_CHECKING:
    from ..log.entry import Entry
    from ..log.seal import Seal
    from .replaying import Replayed
    from .sources import FileDamage, Place, Source

VERIFIER_THREADS: Final = 2
COMPARE_TIMEOUT_S: Final = 10.0
RECORDS_SHOWN: Final = 20
DAMAGES_SHOWN: Final = 5

PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        help="A data directory (of a node or of a local cluster) or an export. [default: the local cluster]",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the verification of one history found. `bad_index` is the first entry that does not verify."""

    source: str
    cluster: str
    cluster_id: str
    good: bool
    seals: int
    unsealed: int
    erased: int
    last_index: int
    last_hash: str
    committed: int
    bad_index: int | None
    what: str
    files: tuple[FileDamage, ...]


def verify(
    path: PathArgument = None,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", help="It must be the history of this cluster.", show_default=False)
    ] = "",
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check chain, seals, signatures, bodies and files, and name the first bad index. Exit code 30: it is damaged."""
    from .sources import places

    named = places(path, data, endpoint)
    found = [verified(place, cluster_id, as_json) for place in named]
    disagreement = disagreement_of(named, found)
    good = not disagreement and all(finding.good for finding in found)
    if as_json:
        histories = [asdict(finding) for finding in found]
        screen.say_json({"good": good, "disagreement": disagreement, "histories": histories})
    else:
        for finding in found:
            _show_finding(finding)
        if disagreement:
            screen.say(f"BAD: {disagreement}")
    if not good:
        raise typer.Exit(DAMAGED)


def verified(place: Place, cluster_id: str, quiet: bool) -> Finding:
    """Verify the history in that place; damage of any kind is part of the answer."""
    from ..log.errors import LogDamaged
    from .sources import FileDamage, opened

    try:
        with opened(place) as source:
            return _finding(source, cluster_id, quiet)
    except LogDamaged as damage:
        files = () if damage.index is not None else (FileDamage(damage.file, damage.page, damage.what),)
        return Finding(place.name, "", "", False, 0, 0, 0, 0, "", 0, damage.index, str(damage), files)


def disagreement_of(named: Sequence[Place], found: Sequence[Finding]) -> str:
    """What sets histories apart that verify each by itself; empty when they are one, as far as all are committed."""
    from .sources import opened

    good = [
        (place, finding) for place, finding in zip(named, found, strict=True) if finding.good and finding.last_index
    ]
    if len({finding.cluster_id for _, finding in good}) > 1:
        return "these are histories of different clusters"
    common = min((finding.committed for _, finding in good), default=0)
    if len(good) < 2 or not common:
        return ""
    hashes: set[bytes] = set()
    for place, _ in good:
        with opened(place) as source:
            hashes |= {entry.hash for entry, _ in source.history(common, common)}
    return (
        f"the histories are not the same up to entry {common}, which all hold for committed" if len(hashes) > 1 else ""
    )


def _finding(source: Source, cluster_id: str, quiet: bool) -> Finding:
    from concurrent.futures import ThreadPoolExecutor

    from ..log.verify import verify as verify_history
    from .gaps import Gaps
    from .sources import explained

    gaps = Gaps()
    with ThreadPoolExecutor(VERIFIER_THREADS) as executor, screen.progress("entries", quiet) as bar:
        task = bar.add_task(source.name, total=source.last)
        result = verify_history(
            gaps.noted(explained(source, source.last)),
            source.cluster_id,
            source.cluster,
            executor=executor,
            progress=lambda index: bar.update(task, completed=index),
            may_lack=lambda _index, _place: True,  # whether an entry erased it is known at the end
        )
    files = tuple(source.file_damages())
    what, bad_index = result.what, result.bad_index
    if not what and (gap := gaps.unexplained()) is not None:
        bad_index, what = gap
    if not what and cluster_id not in ("", source.cluster_id):
        what = f"it is the history of cluster {source.cluster_id}, not of {cluster_id}"
    return Finding(
        source.name, source.cluster, source.cluster_id, not what and not files, result.seals,
        result.unsealed, result.erased, result.last.index, result.last.hash.hex(),
        min(result.last.index, source.committed or result.last.index), bad_index, what, files,
    )  # fmt: skip


def _show_finding(finding: Finding) -> None:
    if finding.what:
        named = finding.bad_index is None or f"entry {finding.bad_index}:" in finding.what
        place = "" if named else f"entry {finding.bad_index}: "
        screen.say(f"{finding.source}: BAD: {place}{screen.plain(finding.what)}")
    else:
        unsealed = f", {finding.unsealed} not sealed yet" if finding.unsealed else ""
        erased = f", {finding.erased} bodies erased" if finding.erased else ""
        end = f"it ends with {finding.last_hash[:16]}…"
        screen.say(
            f"{finding.source}: {finding.last_index} entries and {finding.seals} seals verify{unsealed}{erased}; {end}"
        )
    for damage in finding.files[:DAMAGES_SHOWN]:
        page = "" if damage.page is None else f", page {damage.page}"
        screen.say(f"{finding.source}: BAD: {damage.file}{page}: {screen.plain(damage.what)}")


def replay(
    to: Annotated[int, typer.Option("--to", metavar="INDEX", min=1, help="The last entry to fold.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new directory for what comes of it.")],
    path: PathArgument = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fold history up to an index, and show the state as it was then: `DIR/projection.db`, `DIR/records.jsonl`."""
    from .replaying import replayed
    from .sources import opened

    with opened(longest(path, data, endpoint)) as source:
        with screen.progress("entries", as_json) as bar:
            task = bar.add_task(f"folding {source.name}", total=to)
            done = replayed(source, to, out, lambda index: bar.update(task, completed=index))
        if source.committed is not None and to > source.committed:
            screen.complain(f"entry {to} is not known to be committed; this source knows of {source.committed}")
    if as_json:
        screen.say_json(done.fields)
    else:
        _show_replayed(done)


def _show_replayed(done: Replayed) -> None:
    for line in done.first_records(RECORDS_SHOWN):
        screen.say(screen.plain(line))
    if done.records > RECORDS_SHOWN:
        screen.say(f"… and {done.records - RECORDS_SHOWN} more")
    counts = f"{done.records} records, {done.past_versions} past versions, {done.rejections} rejected values"
    screen.say(
        f"at entry {done.index} (epoch {done.epoch}, {done.time}): {counts}; digest {done.digest[:16]}…; in {done.out}"
    )
    if done.erased_by:
        screen.complain(
            f"texts that were erased since, the last by entry {done.erased_by}, are missing and show as empty"
        )


def show(
    index: Annotated[int, typer.Argument(metavar="INDEX", min=1, show_default=False)],
    path: PathArgument = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one entry: who said what, what came of it, and who sealed it."""
    from ..memory.errors import Invalid
    from .entries import entry_fields
    from .sources import opened

    with opened(longest(path, data, endpoint)) as source:
        found = next(source.history(index, index), None)
    if found is None:
        raise Invalid("index", f"there is no entry {index}; history ends at {source.last}")
    fields = entry_fields(*found)
    if as_json:
        screen.say_json(fields)
    else:
        _show_fields(fields)


def trace(
    index: Annotated[int, typer.Argument(metavar="INDEX", min=1, show_default=False)],
    path: PathArgument = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what rested on an entry: what happened to its records since, and what was derived from them."""
    from ..memory.errors import Invalid
    from .sources import opened
    from .tracing import traced

    with opened(longest(path, data, endpoint)) as source:
        if source.last is not None and index > source.last:
            raise Invalid("index", f"there is no entry {index}; history ends at {source.last}")
        found = list(traced(source.history(index)))
    if as_json:
        screen.say_json([item._asdict() for item in found])
    else:
        rows = [
            (it.index, it.time, "+".join(it.kinds), it.id or None, it.why, " ".join(it.on), it.author) for it in found
        ]
        columns = ("index", "time", "what", "record", "why", "on", "author")
        screen.console().print(screen.table(columns, rows, numbers=("index",)))


def export(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file.")],
    path: PathArgument = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a history into one file, which `audit verify` checks anywhere, without the cluster."""
    from ..log.export import ExportHeader, write_export
    from .sources import explained, opened

    with opened(longest(path, data, endpoint)) as source, out.open("xb") as stream:
        with screen.progress("entries", as_json) as bar:
            task = bar.add_task(source.name, total=source.last)

            def counted() -> Iterator[tuple[Entry, Seal | None]]:
                for entry, seal in explained(source, source.committed):
                    bar.update(task, completed=entry.index)
                    yield entry, seal

            end = write_export(stream, ExportHeader(source.cluster_id, source.cluster), counted())
        stream.flush()
        os.fsync(stream.fileno())
    if as_json:
        screen.say_json({"out": str(out), "cluster_id": source.cluster_id, "index": end.index, "hash": end.hash.hex()})
    else:
        screen.say(f"{end.index} entries in {out}; it ends with {end.hash.hex()}")


def compare(
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = COMPARE_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Compare the members' states at one index, by their digests. Exit code 30: they differ."""
    from ..node.system import SystemClock
    from .comparing import compared
    from .target import target

    comparison = compared(target(data, endpoint).endpoints, SystemClock(), timeout)
    if as_json:
        screen.say_json(comparison.fields)
    else:
        for member in comparison.members:
            screen.say(f"{member.name} {member.endpoint} at {member.index}: {member.digest}")
        for name in comparison.silent:
            screen.complain(f"{name} did not answer")
        screen.say(f"{len(comparison.differing)} buckets differ" if comparison.differing else "all equal")
    if comparison.differing:
        raise typer.Exit(DAMAGED)


def longest(path: Path | None, data: Path | None, endpoint: Sequence[str] | None) -> Place:
    """Of the places named, the one whose history is committed furthest. Raises what the last one did if none opens."""
    from ..log.errors import LogError
    from ..memory.errors import Unavailable
    from .sources import opened, places

    named = places(path, data, endpoint)
    if len(named) == 1:
        return named[0]
    best: tuple[int, Place] | None = None
    failure: Exception | None = None
    for place in named:
        try:
            with opened(place) as source:
                committed = source.committed or 0
        except (LogError, Unavailable) as error:
            failure = error
            continue
        if best is None or committed > best[0]:
            best = (committed, place)
    if best is None:
        assert failure is not None
        raise failure
    return best[1]


def _show_fields(fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name != "commands":
            screen.say(f"{name:12} {screen.plain(str(value)) if value is not None else '–'}")
    for place, command in enumerate(fields["commands"]):
        screen.say(f"command {place}    {command['kind']} {command['id']} → {command['outcome']}")
        for name, value in command["body"].items() if command["body"] else ():
            screen.say(f"    {name:16} {screen.plain(str(value))}")
