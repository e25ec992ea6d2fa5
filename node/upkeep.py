"""Anti-entropy of a running node (PROTOCOL § 9): it compares its state with the others', looks through its own files
little by little, and folds its own log again where rows are not what they should be.

Nothing is ever copied from a peer: a difference only makes this node ask its own log which side is right.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from ..antientropy.digests import Snapshot, Verdicts, differing
from ..antientropy.pace import Pace
from ..antientropy.standing import PeerStanding, ScrubStanding
from ..log.errors import LogDamaged, LogError
from ..log.store import LogStore
from ..memory.errors import Unavailable, VeridicalError
from ..projection.errors import ProjectionError, SnapshotRevoked
from ..projection.projection import Projection
from ..projection.scrub import PARTS, Scrubber
from .chronicle import Chronicle
from .daemons import Daemons
from .members import Members
from .ports import CompareRequest, Transport
from .proofs import Proofs
from .settings import Upkeep as UpkeepSettings
from .storage import Applier
from .system import Clock

SECOND_US: Final = 1_000_000
COMPARE_TIMEOUT_US: Final = 5 * SECOND_US
COMPARE_ATTEMPTS: Final = 20
COMPARE_PAUSE_S: Final = 0.1
SNAPSHOT_ATTEMPTS: Final = 3
LOG_STRETCH_ENTRIES: Final = 128
FIRST_PASS_AFTER_S: Final = 10.0
PASS_EVERY_S: Final = 300.0
"""A small store is looked through in seconds: then it rests, as an idle node should."""
NOBODY: Final = "nobody"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class UpkeepPort:
    """Who hears that the log is damaged, that this node should not lead while its rows are wrong, and that they cannot
    be put right.
    """

    log_damaged: Callable[[str], None]
    step_aside: Callable[[], None]
    fatal: Callable[[str], None]


class Step(NamedTuple):
    """A look at some part: how many rows it read, what was wrong, and how long it rested meanwhile."""

    rows: int
    findings: list[str]
    rested_us: int = 0


class _Unlike(NamedTuple):
    """What another member does in its own way: whose vectors it uses, whose receipts count there. Empty: as here."""

    embedder: str = ""
    runner: str = ""


class _Halted(Exception):
    """The node ends, or opens its files again."""


class Upkeep:
    """Belongs to the loop that made it; works on threads of its own. `start` begins the background passes."""

    def __init__(
        self,
        projection: Projection,
        store: LogStore,
        applier: Applier,
        members: Members,
        transport: Transport,
        proofs: Proofs,
        chronicle: Chronicle,
        settings: UpkeepSettings,
        clock: Clock,
        port: UpkeepPort,
        runner_key: Callable[[], bytes | None],
    ) -> None:
        self._projection = projection
        self._store = store
        self._applier = applier
        self._members = members
        self._transport = transport
        self._proofs = proofs
        self._chronicle = chronicle
        self._settings = settings
        self._clock = clock
        self._port = port
        self._runner_key = runner_key
        self._loop = asyncio.get_running_loop()
        self._threads = Daemons("upkeep")
        self._halt = threading.Event()
        self._verdicts = Verdicts()
        self._others: dict[str, _Unlike] = {}
        self._comparing = asyncio.Lock()
        self._repairing = asyncio.Lock()
        self._mending = False
        self._tasks: list[asyncio.Task[None]] = []

    # --- life ---

    def start(self) -> None:
        """Compare and look from now on, as often and as fast as the settings say."""
        if self._settings.compare_s:
            self._tasks.append(self._loop.create_task(self._compare_for_ever()))
        if self._settings.scrub_rows_per_s:
            self._tasks.append(self._loop.create_task(self._scrub_for_ever()))

    def halt(self) -> None:
        """Begin nothing more."""
        self._halt.set()
        for task in self._tasks:
            task.cancel()

    def stop(self) -> None:
        """End the threads, what they are at given up. Blocks; not to be called on the loop."""
        self._halt.set()
        self._threads.join()

    # --- what others ask ---

    def snapshot(self, request: CompareRequest) -> Snapshot:
        """The digests that a member asks for. Raises `Refused` for anybody else."""
        self._proofs.require(request.proof, CompareRequest.PURPOSE)
        snapshot = self._applier.snapshots.at(request.indexes)
        return snapshot._replace(embedder=str(self._projection.made_by), runner_key=self._runner_key() or b"")

    def mend(self, reason: str) -> None:
        """A read met rows that are not what was written: fold the log again. Ends the node where that is no use."""
        if not self._mending and not self._halt.is_set():
            self._mending = True
            self._tasks.append(self._loop.create_task(self._mended(reason)))

    async def _mended(self, reason: str) -> None:
        try:
            self._chronicle.found("projection", (reason,))
            await self._fold_again(reason, wrong=True)
        except Unavailable as error:
            self._port.fatal(f"{reason}; start it again, and it is folded again from the log ({error})")
        finally:
            self._mending = False

    async def run(self) -> None:
        """Compare with everybody and look through everything now, without resting. Raises `Unavailable` at the end."""
        await self.compare()
        await self._scrub(Pace(0))

    # --- comparing ---

    async def _compare_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.compare_s)
            with suppress(Unavailable):
                await self.compare()

    async def compare(self) -> None:
        """Compare with each other member, one after the other, and repair this node's rows where they are wrong."""
        async with self._comparing:
            found: dict[str, PeerStanding] = {}
            for peer in self._members.others:
                standing = await self._compared_with(peer)
                found[peer] = replace(standing, **self._others.get(peer, _Unlike())._asdict())
            self._chronicle.compared(found)

    async def _compared_with(self, peer: str) -> PeerStanding:
        name = self._members.name(peer)
        try:
            pair = await self._at_one_index(peer)
        except VeridicalError as error:
            return PeerStanding(name, reason=str(error))
        if pair is None:
            return PeerStanding(name, reason="never at one index with this node")
        mine, theirs = pair
        buckets = differing(mine.digests, theirs.digests)
        if not buckets:
            self._verdicts.forget(peer)
            return PeerStanding(name, mine.applied)
        if not self._verdicts.is_known(peer, mine.digests, theirs.digests):
            self._chronicle.differed(name, mine.applied, buckets)
            if await self._fold_again(f"buckets differ from those of {name}", wrong=False):
                return PeerStanding(name, mine.applied, len(buckets))
            self._verdicts.note(peer, mine.digests, theirs.digests)
            self._chronicle.remarked(f"this node's own log says that its rows are right, and those of {name} are not")
        return PeerStanding(name, mine.applied, len(buckets), judged=True)

    async def _at_one_index(self, peer: str) -> tuple[Snapshot, Snapshot] | None:
        """This node's snapshot and the peer's at the same index; None when they never stood at one together."""
        snapshots = self._applier.snapshots
        for attempt in range(COMPARE_ATTEMPTS):
            if attempt:
                await asyncio.sleep(COMPARE_PAUSE_S)
            request = CompareRequest(self._proofs.made(CompareRequest.PURPOSE), snapshots.indexes)
            theirs = await self._transport.compare(peer, request, COMPARE_TIMEOUT_US)
            self._note_unlike(peer, theirs)
            mine = snapshots.at((theirs.applied,))
            if theirs.digests and mine.digests:
                return mine, theirs
        return None

    def _note_unlike(self, peer: str, theirs: Snapshot) -> None:
        """Members that were started with other settings than here: nothing is wrong with either's rows."""
        name, before = self._members.name(peer), self._others.get(peer, _Unlike())
        vectors, runner = str(self._projection.made_by), self._runner_key() or b""
        now = _Unlike(
            "" if theirs.embedder in ("", vectors) else theirs.embedder,
            "" if theirs.runner_key == runner else theirs.runner_key.hex() or NOBODY,
        )
        self._others[peer] = now
        if now.embedder not in ("", before.embedder):
            self._chronicle.remarked(
                f"vectors are made by {vectors} here and by {now.embedder} at {name}: they rank differently until one"
                " of them is stopped and changed with `veridical reembed`"
            )
        if now.runner not in ("", before.runner):
            self._chronicle.remarked(
                f"receipts of runner {runner.hex() or NOBODY} count here and of {now.runner} at {name}: which do"
                " depends on who leads until all nodes have the same runner_key"
            )

    # --- folding again ---

    async def _fold_again(self, why: str, wrong: bool) -> bool:
        """Fold the log again beside the rows, and put the outcome in their place if they differ, or are known to be
        `wrong`. Whether they were.
        """
        async with self._repairing:
            self._chronicle.doing = f"folding the log again: {why}"
            if wrong:
                self._port.step_aside()
            try:
                return await self._folded_again(why, wrong)
            except LogDamaged as damage:
                self._port.log_damaged(str(damage))
                raise Unavailable(f"the log is damaged: {damage}") from damage
            except (ProjectionError, LogError) as error:
                self._chronicle.remarked(f"the log cannot be folded again: {error}")
                raise Unavailable(str(error)) from error
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise Unavailable("the node ends") from None
            finally:
                self._chronicle.doing = ""

    async def _folded_again(self, why: str, wrong: bool) -> bool:
        again = await self._on_thread(self._caught_up_beside)
        try:
            buckets = await self._applier.call(lambda: self._settle(again, wrong))
        finally:
            again.discard()
        if buckets is None:
            return False
        self._verdicts = Verdicts()
        index = self._applier.snapshots.at(()).applied
        what = f"buckets {list(buckets)}" if buckets else "rows"
        self._chronicle.repaired("projection", f"{what} folded again from the log, at index {index}: {why}")
        return True

    def _caught_up_beside(self) -> Projection:
        """The log folded beside, nearly up to where this node stands; half of the time is left to others."""
        again = self._projection.beside()
        try:
            for _ in range(SNAPSHOT_ATTEMPTS):
                began_us = self._clock.elapsed_us()

                def rest(_index: int) -> None:
                    nonlocal began_us
                    self._rest_us(self._clock.elapsed_us() - began_us)
                    began_us = self._clock.elapsed_us()

                again.catch_up(self._store, self._applier.snapshots.at(()).applied, rest)
        except BaseException:
            again.discard()
            raise
        return again

    def _settle(self, again: Projection, wrong: bool) -> tuple[int, ...] | None:
        """On the applier's thread, where nothing moves. The buckets that were wrong; None: nothing was."""
        again.catch_up(self._store, self._projection.applied.index)
        buckets = differing(self._projection.state.bucket_digests(), again.state.bucket_digests())
        if not buckets and not wrong:
            return None
        self._projection.take_over(again)
        self._applier.begin_anew()
        return buckets

    # --- looking ---

    async def _scrub_for_ever(self) -> None:
        pace = Pace(self._settings.scrub_rows_per_s)
        await asyncio.sleep(FIRST_PASS_AFTER_S)
        while not self._halt.is_set():
            began_us = self._clock.elapsed_us()
            with suppress(Unavailable):
                await self._scrub(pace)
            await asyncio.sleep(PASS_EVERY_S - (self._clock.elapsed_us() - began_us) / SECOND_US)

    async def _scrub(self, pace: Pace) -> None:
        """One pass: every bucket, the projection as a whole, every entry, the log's file as a whole."""
        scrubber = self._projection.scrubber()
        try:
            await self._scrub_projection(scrubber, pace)
            await self._scrub_log(pace)
        finally:
            scrubber.close()
        scrub = self._chronicle.scrub
        self._chronicle.scrub = replace(scrub, passes=scrub.passes + 1, finished_wall_us=self._clock.wall_us())

    async def _scrub_projection(self, scrubber: Scrubber, pace: Pace) -> None:
        self._begin_pass()
        findings: list[str] = []
        for number in range(PARTS):
            findings += await self._step(pace, lambda number=number: _bucket(scrubber, number))
        findings += await self._step(pace, lambda: self._whole(scrubber, pace))
        if findings:
            self._chronicle.found("projection", tuple(findings))
            await self._fold_again(findings[0], wrong=True)

    def _whole(self, scrubber: Scrubber, pace: Pace) -> Step:
        began_us, rested_us = self._clock.elapsed_us(), 0

        def rest(_rows: int) -> None:
            nonlocal began_us, rested_us
            pause_us = pace.pause_in_snapshot_us(self._clock.elapsed_us() - began_us)
            self._rest_us(pause_us)
            rested_us += pause_us
            began_us = self._clock.elapsed_us()

        try:
            findings = [f"{finding.where}: {finding.what}" for finding in scrubber.look_at_whole(rest)]
        except SnapshotRevoked:  # too much was written meanwhile: the next pass looks again
            findings = []
        return Step(0, findings, rested_us)

    async def _scrub_log(self, pace: Pace) -> None:
        first = 1
        while first <= self._store.last.index:
            last = first + LOG_STRETCH_ENTRIES - 1
            await self._require_sound(pace, lambda first=first, last=last: self._store.check(first, last))
            first = last + 1
        await self._require_sound(pace, self._store.check_file)

    async def _require_sound(self, pace: Pace, check: Callable[[], Sequence[LogDamaged]]) -> None:
        damages = await self._step(pace, lambda: Step(LOG_STRETCH_ENTRIES, [str(damage) for damage in check()]))
        if damages:
            self._chronicle.found("log", tuple(damages))
            self._port.log_damaged("; ".join(damages[:3]))
            raise Unavailable(f"the log is damaged: {damages[0]}")

    # --- steps ---

    def _begin_pass(self) -> None:
        stretches = -(-self._store.last.index // LOG_STRETCH_ENTRIES)
        old = self._chronicle.scrub
        self._chronicle.scrub = replace(old, done=0, total=PARTS + 1 + stretches + 1, rows=0)

    async def _step(self, pace: Pace, look: Callable[[], Step]) -> list[str]:
        """One look on a thread, then the rest that the pace asks for. Returns what was wrong."""
        began_us = self._clock.elapsed_us()
        step = await self._on_thread(look)
        scrub: ScrubStanding = self._chronicle.scrub
        done = min(scrub.done + 1, scrub.total)
        self._chronicle.scrub = replace(scrub, done=done, rows=scrub.rows + step.rows)
        busy_us = self._clock.elapsed_us() - began_us - step.rested_us
        await asyncio.sleep(pace.pause_us(step.rows, busy_us) / SECOND_US)
        return step.findings

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        """Do `work` on a thread of its own, which an interpreter that exits does not wait for."""
        if self._halt.is_set():
            raise Unavailable("the node ends")
        try:
            return await self._threads.run(work)
        except _Halted as error:
            raise Unavailable("the node ends") from error

    def _rest_us(self, pause_us: int) -> None:
        """Rest on a thread. Raises `_Halted` when the node ends meanwhile."""
        if self._halt.wait(pause_us / SECOND_US):
            raise _Halted


def _bucket(scrubber: Scrubber, number: int) -> Step:
    """A look at one bucket, begun again where the writer needed the snapshot's place."""
    for _ in range(SNAPSHOT_ATTEMPTS):
        with suppress(SnapshotRevoked):
            looked = scrubber.look_at_bucket(number)
            return Step(looked.rows, [_told(*finding) for finding in looked.findings])
    return Step(0, [])


def _told(where: str, what: str, id: bytes | None) -> str:
    return f"{where}: {what}" + ("" if id is None else f" (record {id.hex()})")
