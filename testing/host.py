"""A simulated machine: what stays when its process dies (disk, clocks, projection, identity), and what befalls it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..log.configuration import Configuration, Member
from ..replication.messages import Found
from ..replication.replica import Restored
from ..replication.tail import Anchor
from .clocks import NodeClock
from .disk import Disk
from .fold import Fold
from .notary import FakeNotary, public_key
from .process import Process
from .world import MILLISECOND, SECOND, Action

if TYPE_CHECKING:
    from .cluster import Cluster

HELLO_US = 100 * MILLISECOND
REPAIR_US = 300 * MILLISECOND
RESTART_US = (50 * MILLISECOND, 2 * SECOND)
RESTORED_ENTRIES = 20


class Host:
    """One node of the cluster over all its runs. `is_first` marks members of the founding configuration."""

    def __init__(self, cluster: Cluster, id: str, is_first: bool, clock: NodeClock) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.id = id
        self.is_first = is_first
        self.clock = clock
        self.choices = cluster.world.stream(f"host/{id}")
        self.disk = Disk()
        self.fold = Fold()
        self.notary = FakeNotary(cluster.name, id)
        self.applies_slowly = False
        self.dies_after_granting = False
        self.is_paused = False
        self.is_wiped = False
        self.is_older = False
        self.backlog: list[Action] = []
        self.runs = 0
        self.process: Process | None = None

    @property
    def member(self) -> Member:
        """This node as a configuration names it."""
        return Member(self.id, self.id, public_key(self.id), f"{self.id}:7400")

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or unreadable here that this node once acknowledged."""
        lost = self.is_wiped or self.is_older
        return not lost and not self.disk.damaged and self.fold.applied.index <= self.disk.last_index

    @property
    def running(self) -> Process | None:
        """The process, if one is alive and not paused."""
        return None if self.is_paused else self.process

    def whenever_runs(self, action: Action) -> None:
        """Let `action` happen in the present process: now, or when it is no longer paused."""
        if self.process is not None:
            self.process.whenever_runs(action)

    # --- life ---

    def start(self) -> None:
        """Start a process from what the disk holds; a damaged one asks its peers for the entries first."""
        if self.process is not None or self.is_wiped:
            return
        self.runs += 1
        self.is_paused = False
        self.backlog.clear()
        if self.disk.last_index < self.fold.applied.index:
            self.fold.reopen_erasures()
        self.world.note(f"{self.id}.{self.runs} starts")
        self.process = Process(self, f"{self.id}.{self.runs}")
        self.cluster.checks.started(self.process)
        if self.disk.damaged:
            self.world.after(REPAIR_US, self._repair)
        if self.is_first and not self.disk.entries:
            self._greet(self.process)

    def crash(self) -> None:
        """The process is gone at once; a prefix of its unfinished writes may have reached the disk."""
        process = self.process
        if process is None:
            return
        self.world.note(f"{self.id}.{self.runs} dies")
        process.is_dead = True
        self.process = None
        self.is_paused = False
        self.backlog.clear()
        for write in process.writer.die():
            self.cluster.checks.written(self, write)

    def restart_later(self) -> None:
        """Somebody starts the process again, soon."""
        self.world.after(self.choices.randrange(*RESTART_US), self.start)

    def wipe(self) -> None:
        """The data directory is gone for ever, and with it this id."""
        self.crash()
        self.is_wiped, self.is_older = True, False
        self.disk, self.fold = Disk(), Fold()

    def set_back(self, earlier: Disk) -> None:
        """An earlier copy of the disk is put in its place; what was promised and acknowledged since is gone."""
        self.crash()
        self.is_older = True
        self.disk, self.fold = earlier, Fold()

    def wake_disk(self) -> None:
        """The disk has room again, or moves again."""
        if self.process is not None:
            self.process.writer.wake()

    def lose_projection(self) -> None:
        """The projection's file is gone: it is folded again from the log."""
        self.fold = Fold()

    def pause(self, duration_us: int) -> None:
        """The process stands still while its clock runs; what arrives meanwhile waits."""
        if self.process is None or self.is_paused:
            return
        self.is_paused = True
        self.world.note(f"{self.id} is paused")
        process = self.process
        self.world.after(duration_us, lambda: self.resume(process))

    def resume(self, process: Process | None = None) -> None:
        """The process goes on, with all that has waited, in order."""
        if not self.is_paused or (process is not None and process is not self.process):
            return
        self.world.note(f"{self.id} goes on")
        self.is_paused = False
        waiting, self.backlog = self.backlog, []
        if self.process is not None and self.choices.random() < 0.3:
            self.process.tick()  # timers and messages of a process that wakes up come in any order
        for action in waiting:
            action()
        if self.process is not None:
            self.process.rearm()

    def heal(self) -> None:
        """Everything about this machine is in order again, but for what is lost."""
        disk = self.disk
        disk.is_slow = disk.is_stalled = disk.is_full = disk.fills_at_a_cut = disk.tears = False
        self.applies_slowly = self.dies_after_granting = False
        self.clock.wall_offset_us = 0
        if self.process is not None:
            self.process.fuse = None
        self.wake_disk()
        self.resume()
        self.start()

    # --- what the disk holds ---

    def restored(self) -> Restored:
        """What a process that starts finds here."""
        disk = self.disk
        before = max(0, min(disk.commit_index, len(disk.entries)) - RESTORED_ENTRIES)
        configurations = [found for entry in disk.entries if (found := entry.configuration)]
        older = [known for known in configurations if known.index <= before]
        newer = [known for known in configurations if known.index > before]
        keys = {member.id: member.public_key for known in configurations for member in known.members}
        return Restored(
            disk.hard_state,
            disk.commit_index,
            self.fold.applied.index,
            self._anchor(before),
            tuple(disk.entries[before:]),
            tuple(disk.seals[index] for index in sorted(disk.seals) if index > before),
            (*older[-1:], *newer),
            keys,
            bool(disk.damaged),
            disk.seen,
        )

    def _anchor(self, index: int) -> Anchor:
        if not index:
            return Anchor()
        entry = self.disk.entries[index - 1]
        return Anchor(entry.index, entry.epoch, entry.hash, entry.time_us)

    def scrub(self) -> None:
        """A slow pass over the log meets what has rotted, if nobody else has by then."""
        if self.disk.damaged and self.running is not None and self.running.replica.status().is_whole:
            self.found_damage()

    def found_damage(self) -> None:
        """Reading met an entry whose checksum fails: the process ends, and its successor repairs first."""
        self.cluster.faults_seen.count("damage found while running")
        self.crash()
        self.restart_later()

    def before_repair(self) -> None:
        """Who gives an entry may not have erased yet what was erased here: it is erased again."""
        self.fold.reopen_erasures()

    def _repair(self) -> None:
        """Refetch damaged entries from peers, by index and hash; then start as a whole node."""
        process = self.process
        if process is None or not self.disk.damaged:
            return
        for index in sorted(self.disk.damaged):
            wanted = self.disk.hash_at(index)
            holders = [peer for peer in self.cluster.reachable_from(self.id) if peer.disk.holds(index, wanted)]
            if holders:
                self.before_repair()
                self.disk.put_back(self.choices.choice(holders).disk.entries[index - 1])
                self.cluster.faults_seen.count("damaged entry refetched")
        if self.disk.damaged:
            self.world.after(REPAIR_US, self._repair)
        else:
            self.crash()
            self.start()

    # --- founding ---

    def _greet(self, process: Process) -> None:
        """An empty first member founds the cluster once all first members answer that they are empty too.

        Where others have history already, it takes the newest configuration from them, if that has it as a voter.
        """
        if process is not self.process or self.disk.entries:
            return
        peers = [peer for peer in self.cluster.reachable_from(self.id) if peer.is_first]
        if any(peer.disk.entries for peer in peers):
            agreed = self._joined(peers)
        else:
            agreed = self._founding() if len(peers) == len(self.cluster.first_members) - 1 else None
        if agreed is not None:
            self.whenever_runs(lambda: process.feed(Found(agreed)))
        else:
            self.world.after(HELLO_US, lambda: self._greet(process))

    def _joined(self, peers: Collection[Host]) -> Configuration | None:
        known = [found for peer in peers if (found := peer.disk.configuration) and self.id in found.voters]
        return max(known, key=lambda configuration: configuration.version, default=None)

    def _founding(self) -> Configuration:
        return self.cluster.founding_configuration()
