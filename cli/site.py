"""A cluster of this machine as the site of a drill: processes get signals, files lose bytes, links have gaps."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ..client import AsyncReplicatedMemory
from ..drills.proxies import Links
from ..drills.site import Failed, Means, Unsuited
from ..log.store import LogStore
from ..memory.errors import Unavailable
from ..node.system import SystemClock
from .comparing import Comparison, compared
from .local import LocalCluster, LocalNode
from .processes import CONFIGURATION, SECOND_US, configuration, free_ports, last_words, new_cluster, start, stop
from .stepped import write_offset
from .survey import Health, Survey, surveyed

HEALTHY_TIMEOUT_S: Final = 60.0
LEADER_TIMEOUT_S: Final = 15.0
STOP_TIMEOUT_S: Final = 20.0
PAUSE_S: Final = 0.05
ROT_BYTES: Final = 24
SMALL_DISK: Final = "192m"
"""A node keeps 64 MiB of its disk in reserve; this leaves it room for the load of an exercise."""

CLOCK_SUFFIX: Final = ".clock"
"""Of the file beside a node's directory that says how far its clock is off."""

CLOCK_TOLERANCE_S: Final = 10.0
FILLER: Final = "filler"
FILLER_BYTES: Final = 1 << 20
KEPT: Final = (CONFIGURATION, "node.log")
"""What a node that lost its data has kept: what it is told, and what it printed."""


class LocalSite:
    """A `Site` on processes of this machine.

    Without `links` nodes cannot be parted; disks are filled and clocks stepped where `means` says that they can be.
    """

    def __init__(self, cluster: LocalCluster, links: Links | None = None, means: Means = Means.NOTHING) -> None:
        self._cluster = cluster
        self._links = links
        self._means = means
        self._nodes = {node.name: node for node in cluster.nodes}

    @property
    def names(self) -> Sequence[str]:
        """See `Site`."""
        return list(self._nodes)

    @property
    def endpoints(self) -> Sequence[str]:
        """See `Site`."""
        return self._cluster.endpoints

    # --- looking ------------------------------------------------------------------------------------------------------

    async def leader(self) -> str:
        """See `Site`."""
        survey = await self._survey(lambda survey: survey.leader is not None, LEADER_TIMEOUT_S, "nobody leads")
        assert survey.leader is not None, "a survey with a leader"
        return survey.leader.name

    async def epoch(self) -> int:
        """See `Site`."""
        survey = await self._survey(lambda survey: survey.leader is not None, LEADER_TIMEOUT_S, "nobody leads")
        assert survey.leader is not None, "a survey with a leader"
        return survey.leader.epoch or 0

    async def healthy(self) -> None:
        """See `Site`."""
        await self._survey(self._is_whole, HEALTHY_TIMEOUT_S, "not every node is ready again")

    def _is_whole(self, survey: Survey) -> bool:
        """Healthy, with every node a voter, and nobody else a member: who is being replaced is not yet."""
        voting = sorted(member.name for member in survey.members if member.voting)
        all_vote = voting == sorted(self._nodes) and len(voting) == len(survey.members)
        return survey.health is Health.HEALTHY and all_vote and all(member.ready for member in survey.members)

    async def _survey(self, wanted: Callable[[Survey], bool], timeout_s: float, complaint: str) -> Survey:
        reason = "no node answers"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    survey = await surveyed(self.endpoints)
                    if wanted(survey):
                        return survey
                    reason = survey.reason or _states(survey)
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            raise Failed(f"{complaint} after {timeout_s:g} s: {reason}{self._epitaphs()}") from None

    def _epitaphs(self) -> str:
        """The last words of nodes that do not run."""
        ended = [node for node in self._nodes.values() if not node.running_pid()]
        return "".join(f"; {node.name} ended: {last_words(node)}" for node in ended)

    async def differences(self) -> Sequence[str]:
        """See `Site`."""
        try:
            found = await asyncio.to_thread(compared, self.endpoints, SystemClock(), HEALTHY_TIMEOUT_S)
        except Unavailable as error:
            raise Failed(str(error)) from error
        return [*found.silent, *_odd(found)]

    # --- processes ----------------------------------------------------------------------------------------------------

    async def kill(self, name: str) -> None:
        """See `Site`."""
        self._signal(name, signal.SIGKILL)
        await self._until_gone(name)

    async def stop(self, name: str) -> None:
        """See `Site`."""
        await asyncio.to_thread(stop, [self._nodes[name]], SystemClock(), STOP_TIMEOUT_S)

    async def start(self, name: str) -> None:
        """See `Site`."""
        await asyncio.to_thread(_start, self._nodes[name], self._means)

    async def pause(self, name: str) -> None:
        """See `Site`."""
        self._signal(name, signal.SIGSTOP)

    async def resume(self, name: str) -> None:
        """See `Site`."""
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self._nodes[name].running_pid()
        if not pid:
            raise Failed(f"{name} does not run: {self._nodes[name].output} says why")
        os.kill(pid, number)

    async def _until_gone(self, name: str) -> None:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            while self._nodes[name].running_pid():  # noqa: ASYNC110 (a process that is killed tells nobody)
                await asyncio.sleep(PAUSE_S)

    # --- files --------------------------------------------------------------------------------------------------------

    async def wipe(self, name: str) -> None:
        """See `Site`."""
        for file in self._nodes[name].directory.iterdir():
            if file.name not in KEPT:
                shutil.rmtree(file) if file.is_dir() else file.unlink()

    async def rot(self, name: str) -> str:
        """See `Site`: in the middle of the entry that is in the middle of the log."""
        path = self._nodes[name].directory / "log.db"
        return await asyncio.to_thread(_rotten, path)

    async def fill(self, name: str) -> None:
        """See `Site`."""
        if self._means is not Means.SMALL_DISKS:
            raise Unsuited("a disk can only be filled where each node has one of its own, which takes root on Linux")
        await asyncio.to_thread(_filled, self._nodes[name].directory / FILLER)

    async def empty(self, name: str) -> None:
        """See `Site`."""
        (self._nodes[name].directory / FILLER).unlink(missing_ok=True)

    async def step_clock(self, name: str, seconds: int) -> None:
        """See `Site`."""
        if self._means is not Means.CLOCKS:
            raise Unsuited(
                "the nodes of this cluster read this machine's clock; a drill can step those of its own nodes"
            )
        node = self._nodes[name]
        await asyncio.to_thread(write_offset, _clock(node), seconds)
        async with AsyncReplicatedMemory([node.endpoint], read_consistency="local") as memory:
            answered = await memory.recall("what time is it?", k=1)
        off_s = answered.now.timestamp() - SystemClock().wall_us() / SECOND_US
        # What it answers at never lies before its last entry: a clock that was set back cannot be seen there.
        if answered.member != node.known_id() or off_s < seconds - CLOCK_TOLERANCE_S:
            raise Failed(f"the clock of {name} could not be set: {answered.member} answers at {answered.now}")

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, name: str, hears: bool = False, speaks: bool = False) -> None:
        """See `Site`."""
        if self._links is None:
            raise Unsuited("the nodes of this cluster speak directly; a drill can part those of a cluster of its own")
        self._links.cut(name, hears, speaks)

    async def mend(self) -> None:
        """See `Site`."""
        if self._links is not None:
            self._links.mend()


@asynccontextmanager
async def own_site(folder: Path, count: int, means: Means) -> AsyncGenerator[LocalSite]:
    """A cluster made for a drill in `folder`, whose links can be cut; it is gone afterwards, and so is what it mounted.

    Raises `Unsuited` for small disks where they cannot be had.
    """
    cluster = new_cluster(folder, "drill", count, 0)
    links = _links(cluster)
    mounted: list[Path] = []
    await links.listen()
    try:
        if means is Means.SMALL_DISKS:
            for node in cluster.nodes:
                _mount(node, mounted)
        _tell(cluster, links)
        for node in cluster.nodes:
            await asyncio.to_thread(_start, node, means)
        yield LocalSite(cluster, links, means)
    finally:
        links.mend()
        await asyncio.to_thread(_end, cluster)
        await links.close()
        await asyncio.to_thread(_unmount, mounted)


def _links(cluster: LocalCluster) -> Links:
    pairs = [(a.name, b.name) for a in cluster.nodes for b in cluster.nodes if a is not b]
    ports = dict(zip(pairs, free_ports(len(pairs)), strict=True))
    return Links(ports, {node.name: int(node.endpoint.rpartition(":")[2]) for node in cluster.nodes})


def _tell(cluster: LocalCluster, links: Links) -> None:
    """Write each node's configuration, by which it reaches every other one over a link of its own."""
    for node in cluster.nodes:
        (node.directory / CONFIGURATION).write_text(configuration(cluster, node, links.reached_from(node.name)))


def _start(node: LocalNode, means: Means) -> None:
    if means is not Means.CLOCKS:
        start(node)
        return
    write_offset(_clock(node), 0)
    start(node, _clock(node))


def _clock(node: LocalNode) -> Path:
    return node.directory.with_suffix(CLOCK_SUFFIX)


def _end(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        pid = node.running_pid()
        if pid:
            os.kill(pid, signal.SIGCONT)
    stop(cluster.nodes, SystemClock(), STOP_TIMEOUT_S)


def _mount(node: LocalNode, mounted: list[Path]) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Unsuited("small disks take root on Linux: they are file systems in memory")
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(node.directory)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unsuited(f"small disks cannot be mounted here: {done.stderr.strip()}")
    mounted.append(node.directory)


def _unmount(mounted: Sequence[Path]) -> None:
    for directory in mounted:
        subprocess.run(["umount", str(directory)], check=False, capture_output=True)


def _filled(filler: Path) -> None:
    with filler.open("wb") as file:
        try:
            while True:
                file.write(bytes(FILLER_BYTES))
                file.flush()
        except OSError:
            return


def _rotten(path: Path) -> str:
    store = LogStore.open(path, read_only=True)
    try:
        index = max(1, store.last.index // 2)
        entry = store.entry(index)
    finally:
        store.close()
    if entry is None:
        raise Failed(f"{path} holds no entry {index}")
    wanted = entry.envelope[len(entry.envelope) // 2 :][:ROT_BYTES]
    with path.open("r+b") as file:
        place = file.read().find(wanted)
        if place < 0:
            raise Failed(f"{path} holds entry {index} in pieces")
        file.seek(place)
        file.write(bytes([wanted[0] ^ 0xFF]))
    return f"byte {place} of {path.name}, in entry {index}"


def _states(survey: Survey) -> str:
    return "; ".join(
        f"{member.name} {member.condition or member.role}" for member in survey.members if not member.ready
    )


def _odd(found: Comparison) -> list[str]:
    """Members whose digest is not that of most."""
    digests = [member.digest for member in found.members]
    usual = max(digests, key=digests.count)
    return [member.name for member in found.members if member.digest != usual]
