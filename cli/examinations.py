"""What `doctor` looks at: the surroundings, a memory in one file, a cluster, or a backend of another package."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from . import screen

if TYPE_CHECKING:
    from ..client.blocking import BlockingMemory
    from .audit import Finding
    from .doctor import Report

DISK_LOW_BYTES: Final = 256 << 20
"""With less than this the next snapshot, journal or fold may not fit."""

SCRATCH_SCOPE: Final = "doctor"


class Examination(Protocol):
    """A memory that is to be looked at."""

    def examine(self, report: Report, write: bool) -> None:
        """Look at it, and tell the report; with `write`, also write a fact and forget it."""
        ...


def surroundings(report: Report) -> None:
    """What is true whatever is opened: versions, the backends that can be named, who signs."""
    import sqlite3

    from ..client.environment import principal
    from ..memory.errors import Invalid
    from ..stores.registry import ignored_backends, known_backends
    from .options import default_data

    report.fields |= {
        "version": version("veridical"),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "known_backends": known_backends(),
        "cluster_data": str(default_data()),
    }
    _examine_embedder(report)
    for ignored in ignored_backends():
        report.note("ignored backend", ignored)
    try:
        signer = principal()
        report.fields["principal"] = None if signer is None else signer.key_id
    except Invalid as error:
        report.trouble(
            "principal", str(error), "put 64 hex digits there, or nothing; `veridical principal new` makes a seed"
        )


def _examine_embedder(report: Report) -> None:
    """Which embedder the environment names. It is made, and asked for nothing: a service is not called."""
    import time

    from ..embedding.choice import EMBEDDERS, chosen_name, embedder_named

    name = chosen_name()
    try:
        embedder = embedder_named(name, time.sleep)
    except (ValueError, OSError) as error:
        report.fields["embedder"] = name
        report.trouble(
            "embedder", str(error), f"set VERIDICAL_EMBEDDER to one of {', '.join(EMBEDDERS)}, with its settings"
        )
        return
    if embedder is None:
        report.fields["embedder"] = f"{name}: matches words"
    else:
        matches = "meaning" if embedder.is_semantic else "surface, not meaning"
        report.fields["embedder"] = f"{embedder.name}, {embedder.width} wide: matches {matches}"


def chosen_by(given: str | None) -> str:
    """What named the backend."""
    from ..stores.registry import BACKEND_VARIABLE

    return "--backend" if given else BACKEND_VARIABLE if os.environ.get(BACKEND_VARIABLE) else "default"


def of_backend(name: str, timeout_s: float) -> Examination:
    """The examination of that backend as the environment sets it. Raises `Invalid` for settings that are wrong."""
    from ..client.environment import ENDPOINTS_VARIABLE, named_endpoints
    from ..embedded.places import default_store, path_of
    from ..memory.errors import Invalid

    if name == "local":
        return LocalStore(path_of(default_store()))
    if name == "cluster":
        endpoints = named_endpoints()
        if not endpoints:
            raise Invalid(ENDPOINTS_VARIABLE, "is not set; name at least one node as host:port")
        return Cluster(endpoints, timeout_s)
    return Added(name)


class LocalStore:
    """A memory in one file: its folder and disk, the log, the projection, and the whole opened."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def examine(self, report: Report, write: bool) -> None:
        """See `Examination`."""
        path = self._path
        report.fields["store"] = ":memory:" if path is None else str(path)
        if path is None:
            report.note("store", "it lies in memory and ends with its process")
        elif not path.exists():
            _examine_folder(report, path)
            report.note("store", "nothing is there yet; the first call makes it")
            return
        else:
            _examine_folder(report, path)
            if not _examine_files(report, path):
                return
        _examine_opened(report, write)


class Cluster:
    """A cluster: who answers and in which role, whether all hold the same state, and the memory that they keep."""

    def __init__(self, endpoints: Sequence[str], timeout_s: float) -> None:
        self._endpoints = endpoints
        self._timeout_s = timeout_s

    def examine(self, report: Report, write: bool) -> None:
        """See `Examination`."""
        from ..client import ConnectedMemory
        from ..client.environment import connection_options

        report.fields["endpoints"] = list(self._endpoints)
        if not self._reachable(report):
            return
        self._compare(report)

        def use() -> str:
            options = connection_options()
            options.update(timeout_s=self._timeout_s, read_consistency="strong")
            with ConnectedMemory(self._endpoints, **options) as memory:
                return _used(memory, write)

        report.look("memory", "see which right the principal lacks, or which members are down", use)

    def _reachable(self, report: Report) -> bool:
        import asyncio

        from .survey import DOWN, Health, surveyed

        survey = asyncio.run(surveyed(self._endpoints))
        for member in survey.members:
            free = screen.size(member.disk_free_bytes)
            found = f"{member.role}, epoch {member.epoch}, {member.lag} entries behind, {free} of disk free"
            if member.role == DOWN:
                report.trouble(f"member {member.name}", f"{member.endpoint} does not answer", "start it again")
            elif (member.disk_free_bytes or 0) < DISK_LOW_BYTES:
                report.trouble(f"member {member.name}", found, "make room on its disk")
            else:
                report.note(f"member {member.name}", found)
        if survey.health is Health.HEALTHY:
            report.note("cluster", f"{survey.cluster} ({survey.cluster_id}): healthy")
        else:
            found = f"{survey.cluster or 'unknown'}: {survey.health.name.lower().replace('_', ' ')}: {survey.reason}"
            report.trouble("cluster", found, "see `veridical status`, and bring the missing members back")
        return survey.health in (Health.HEALTHY, Health.DEGRADED)

    def _compare(self, report: Report) -> None:
        from ..memory.errors import Refused, Unavailable
        from ..node.system import SystemClock
        from .comparing import compared

        try:
            found = compared(self._endpoints, SystemClock(), self._timeout_s)
        except Refused as refusal:
            report.note("states", f"not compared: that takes the right to admin everywhere ({refusal.rule})")
        except Unavailable as error:
            report.note("states", f"not compared: {error}")
        else:
            if found.differing:
                report.trouble("states", f"the members differ at entry {found.index}", "see `veridical audit compare`")
            else:
                report.note("states", f"equal at entry {found.index} on {len(found.members)} members")


class Added:
    """A backend of another package: as much as every memory promises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def examine(self, report: Report, write: bool) -> None:
        """See `Examination`."""
        from ..memory.errors import Invalid
        from ..memory.view import MemoryRecord, MemoryView
        from ..stores import load_backend

        def use() -> str:
            memory: Any = load_backend(self._name)
            if not isinstance(memory, MemoryView):
                raise Invalid("backend", "it does not keep the interface of a memory (MemoryView)")
            memory.recall("doctor")
            if write:
                written = memory.write(MemoryRecord(text="the doctor was here", scope=SCRATCH_SCOPE))
                memory.forget(written.id, reason="an examination")
            return "it answers" + (", and takes a fact" if write else "")

        report.look("memory", "ask whoever made this backend", use)


def _examine_folder(report: Report, path: Path) -> None:
    folder = next(parent for parent in path.parents if parent.is_dir())
    free_bytes = shutil.disk_usage(folder).free
    report.fields["disk_free_bytes"] = free_bytes
    if not os.access(folder, os.W_OK | os.X_OK):
        report.trouble("folder", f"{folder} cannot be written to", "give this user the right, or set another path")
    if free_bytes < DISK_LOW_BYTES:
        report.trouble("disk", f"{screen.size(free_bytes)} are left", "make room: a full disk stops all writes")
    else:
        report.note("disk", f"{screen.size(free_bytes)} are free")


def _examine_files(report: Report, path: Path) -> bool:
    """Chain, seals, signatures and pages of the log; pages, counts, rows and full text of the projection."""
    from .audit import verified
    from .sources import Place

    holder = _holder(path)
    found = verified(Place(store=path), "", True)
    for name, told, do in _damages(found, path):
        report.trouble(name, told, do)
    if not found.what:
        report.note("log", f"{found.last_index} entries and {found.seals} seals verify")
    if not found.files:
        report.note("projection", "pages, counts, rows and full text are what the log led to")
    _examine_index(report, path)
    if holder:
        report.trouble("process", f"process {holder} has it open", "only one may: end it, or run a cluster for several")
    return found.good and not holder


def _examine_index(report: Report, path: Path) -> None:
    """Who made the vectors of the index, and whether that is who is chosen."""
    from ..embedding.choice import EMBEDDER_VARIABLE, chosen_name, index_embedder
    from ..node.identity import Places
    from ..projection.projection import Projection
    from ..projection.vectors import NOBODY, Made

    file = Places.beside(path).projection
    made = Projection.maker(file)
    try:
        named = os.environ.get(EMBEDDER_VARIABLE, "")
        chosen = Made.by(index_embedder(named and chosen_name(), made.name))
    except (ValueError, OSError) as error:
        report.trouble("vectors", str(error), "name another embedder, or have all made anew: veridical reembed")
        return
    if chosen != made:
        do = f"choose {made}, or have all made anew: veridical reembed '{path}' --embedder {chosen_name()}"
        report.trouble("vectors", f"made by {made}, and {chosen} is chosen", do)
    elif made == NOBODY:
        report.note("vectors", "none: it is searched by words")
    else:
        waiting = Projection.waiting(file).unembedded
        awaited = f"; {waiting} records wait for theirs, and are found by words until then" if waiting else ""
        report.note("vectors", f"made by {made}{awaited}")


def _damages(found: Finding, path: Path) -> list[tuple[str, str, str]]:
    damages: list[tuple[str, str, str]] = []
    if found.what:
        do = "keep the file, and put back a copy or an export of it: a log cannot be made again"
        damages.append(("log", found.what, do))
    for damage in found.files:
        is_log = damage.file == path.name
        do = "put back a copy or an export" if is_log else f"fold it again: veridical reindex '{path}'"
        damages.append(("log" if is_log else "projection", damage.what, do))
    return damages


def _holder(path: Path) -> str:
    """The process that has a memory open, or empty. The lock tells, not the file that names it."""
    import fcntl

    lock = path.with_name(f"{path.name}.lock")
    if not lock.exists():
        return ""
    descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return (os.pread(descriptor, 32, 0).split() or [b"?"])[0].decode()
    finally:
        os.close(descriptor)
    return ""


def _examine_opened(report: Report, write: bool) -> None:
    from ..embedded import LocalMemory

    def use() -> str:
        with LocalMemory.from_env() as memory:
            return _used(memory, write)

    report.look("memory", "see what it says, and which right the principal lacks", use)


def _used(memory: BlockingMemory, write: bool) -> str:
    """Read from it, and with `write` say and forget something."""
    from ..memory.view import MemoryRecord

    scopes = memory.scopes()
    memory.recall("doctor")
    records, (_, index) = sum(scopes.values()), memory.last_seen
    told = f"it answers: {records} records in {len(scopes)} scopes that may be read, at entry {index}"
    if write:
        written = memory.write(MemoryRecord(text="the doctor was here", scope=SCRATCH_SCOPE))
        memory.forget(written.id, reason="an examination")
        told += "; it takes a fact, and forgets it"
    return told
