"""One member of a cluster, whatever it is reached by: the replica with its disk, its fold, its callers and its peers.

The node is the only place that acts. What it owns works on threads of its own: the log's writer, the applier of the
projection, the decider, the readers, the verifiers. What ties them together runs on one event loop, which never waits
for any of them. See DESIGN.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import structlog

from ..antientropy.digests import Snapshot
from ..antientropy.standing import Standing
from ..lease.sources import LeaseSource
from ..log.configuration import Configuration
from ..log.entry import Entry
from ..log.errors import LogDamaged, LogError
from ..log.lineage import Ancestor
from ..log.notary import Notary
from ..log.seal import Seal
from ..log.store import LogStore
from ..memory.context import ADMIN
from ..memory.errors import NotLeader, Unavailable, VeridicalError
from ..projection.errors import ProjectionError
from ..projection.projection import Projection
from ..replication.messages import Message, Role, RoleChanged
from ..security.tokens import BearerToken
from .access import Caller
from .chronicle import Chronicle
from .engine import Engine, EnginePort
from .feed import ChangePage, WatchRequest
from .founding import HELLO_TIMEOUT_US, Founded, Joined, Terms, place
from .health import Health, HealthPort
from .identity import DataDirectory, StartRefused
from .ingress import Ingress
from .keeper import Keeper
from .keyring import Keyring
from .members import Members
from .membership import Change
from .metrics import Metrics
from .ports import (
    BareCommand,
    CompareRequest,
    HelloReply,
    KeyRequest,
    NodeStatus,
    ReadReply,
    ReadRequest,
    RefetchRequest,
    Submission,
    SubmitResult,
    Transport,
    Wait,
)
from .proofs import Proofs
from .readmission import Readmission, ReadmissionPort
from .refetch import ANSWER_BYTES, Refetch, RefetchPort
from .settings import MILLISECOND_US, SECOND_US, Settings
from .situation import OUTSIDE, REROUTE_PAUSE_S, Situation
from .startup import Damaged, Opened, Unreadable, close_files, open_files
from .system import Clock, Entropy

ANONYMOUS = "anonymous"
LOST = "; if no other member can help, move this node's data away and start it again: it comes back as a new member"
PROGRESS_PERIOD_S = 0.25
FOUNDING_CHECK_S = 1.0
MEMBERSHIP_CHECK_S = 1.0
STOP_WAIT_S = 30.0
DEAD_WAIT_S = 1.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.node")


class Node:
    """One member of a cluster. All methods are called on the loop that `start` ran on.

    `on_fatal` hears, once, why this process must end: a failed write, a broken invariant, a bug; or that its disk was
    an older copy (`is_lost`): then another `Node` of the same settings is a new member. `source`, if any, says who may
    try to lead; while it does not answer, writes are refused and reads go on.
    """

    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        on_fatal: Callable[[str], None],
        source: LeaseSource | None = None,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._entropy = entropy
        self._on_fatal = on_fatal
        self._directory = _directory(settings, entropy)
        self.node_id = self._directory.identity.node_id
        self._log = _log.bind(node=settings.name, id=self.node_id)
        self._members = Members(self.node_id, settings.peers, transport)
        self._keyring = Keyring(self._directory, self._members, transport, clock)
        self._situation = Situation(self._members, clock, settings.timings.lease_ttl_ms, self._log)
        port = HealthPort(self._stuck_us, self._on_room, self._fatal)
        disk_timeout_us = settings.timings.disk_timeout_ms * MILLISECOND_US
        self._health = Health(settings.places, settings.limits.disk_reserve_bytes, disk_timeout_us, clock, port)
        self._keeper = None if source is None else self._kept(source)
        self.metrics = Metrics(self.status, lambda: self._health.wal_bytes, self._lease_store_is_up)
        self._ingress = Ingress(
            self._situation, self._directory, settings.limits, transport, clock, entropy, self.metrics,
            self._lease_store_is_up,
        )  # fmt: skip
        self._proofs = Proofs(self._directory, self._members, clock)
        self._chronicle = Chronicle(settings.name, self.metrics, clock)
        self._damaged: LogStore | None = None
        self._reopening = False
        self.is_lost = False
        self._engine_tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Future[Opened] | None = None
        self._opened: Opened | None = None
        self._transfers: list[asyncio.Future[str]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def _kept(self, source: LeaseSource) -> Keeper:
        """The claim on a lease source outside, which this node takes to lead."""
        ttl_us = self._settings.timings.lease_ttl_ms * MILLISECOND_US
        return Keeper(
            source, self._settings.cluster, self.node_id, ttl_us, self._clock, self.status, self.may_try
        )  # fmt: skip

    def _lease_store_is_up(self) -> bool:
        return self._keeper is None or not self._keeper.is_down

    # --- life ---

    async def start(self) -> None:
        """Begin, in the background, to open the files and to found or rejoin; the node can be asked at once."""
        self._spawn(self._health.watch())
        if self._keeper is not None:
            self._spawn(self._keeper.keep())
        self._spawn(self._begin())

    async def stop(self) -> None:
        """Answer who waits, write what waits, end the threads, close transport and files."""
        self._situation.draining = True
        self._situation.stop("stopped")
        for task in self._tasks:
            task.cancel()
        if self._keeper is not None:
            await self._keeper.release()
        engine, opened = self._situation.engine, await self._whatever_was_opened()
        self._situation.lose("the node stops")
        ended = engine is None or await asyncio.to_thread(
            engine.stop, DEAD_WAIT_S if self._situation.dead else STOP_WAIT_S
        )
        await self._transport.close()
        if not ended:
            return
        if opened is not None:
            await asyncio.to_thread(close_files, opened)
        self._directory.close()

    async def _whatever_was_opened(self) -> Opened | None:
        """The files, also when they are being opened just now: a thread cannot be called back."""
        if self._opening is None:
            return None
        try:
            return await self._opening
        except (Unreadable, StartRefused, LogError, ProjectionError, OSError):
            return None

    async def drain(self, timeout_us: int) -> None:
        """Turn unready, hand leadership over, wait for what is under way. `stop` comes afterwards.

        As soon as no other voter answers, nobody is waited for: callers are told, and this node takes part no more.
        """
        self._situation.draining = True
        if self._situation.engine is not None:
            self._situation.engine.feed.close()
        try:
            async with asyncio.timeout(timeout_us / SECOND_US):
                if not await self._handed_over():
                    self._close_alone()
                await self._ingress.emptied()
        except TimeoutError:
            self._log.warning("drained incompletely", commands=self._ingress.waiting)

    async def _handed_over(self) -> bool:
        """Returns once another node leads, or none can."""
        while self._situation.role.leader in (None, self.node_id):
            if not self._may_be_succeeded():
                return False
            if self._situation.role.role is not Role.LEADER:
                await self._situation.other_leader(self._situation.role)
            elif reason := await self.transfer():
                self._log.warning("leadership cannot be handed over", reason=reason)
                await asyncio.sleep(REROUTE_PAUSE_S)
        return True

    def _may_be_succeeded(self) -> bool:
        """Whether another voter answers, and enough of them do for an election."""
        configuration = self._members.configuration
        if configuration is None:
            return False
        voters = self._situation.live & configuration.voters
        return bool(voters - {self.node_id}) and len(voters) >= configuration.recovery_quorum

    def _close_alone(self) -> None:
        """Take nobody in any more. A node that is a quorum by itself still answers those that it has in hand."""
        self._log.warning("no other node can take over", commands=self._ingress.waiting)
        self._situation.closed = True
        configuration = self._members.configuration
        if configuration is None or configuration.voters != frozenset({self.node_id}):
            self._situation.stop(self._situation.condition or "draining")
            self._situation.lose("no other node can take over")

    async def _begin(self) -> None:
        try:
            self._opened = await self._opened_whole()
            await self._take_place(self._opened)
        except (Unreadable, LogDamaged) as error:
            self._situation.say(f"damaged: {error}{LOST}")
            self._situation.settled.set()
        except (StartRefused, LogError, ProjectionError) as error:
            self._fatal(str(error))
        except Exception as error:  # noqa: BLE001 (nothing may keep a node half started)
            self._log.exception("the start failed")
            self._fatal(f"the start failed: {error!r}")

    async def _opened_whole(self) -> Opened:
        """The files, the log made whole by other members where single entries are damaged. Raises `Unreadable`."""
        while True:
            tail_bytes = self._settings.limits.tail_bytes
            opening = asyncio.to_thread(
                open_files, self._directory, tail_bytes, self._settings.embedder, self._situation.say
            )
            self._opening = asyncio.ensure_future(opening)
            try:
                return await asyncio.shield(self._opening)
            except Damaged as damaged:
                await self._refetched(damaged)

    async def _refetched(self, damaged: Damaged) -> None:
        """Wait until the log is whole. This node answers nobody meanwhile, but for what other members lack."""
        self._situation.say(f"damaged: {damaged}; asking the other members")
        self._chronicle.found("log", tuple(str(damage) for damage in damaged.damages))
        self._situation.settled.set()
        self._damaged = damaged.store
        try:
            known = await asyncio.to_thread(_newest_configuration, damaged.store)
            self._members.adopt(known)
            await self._refetch(damaged).until_whole(damaged.damages)
        finally:
            self._damaged = None
            await asyncio.to_thread(damaged.store.close)

    def _refetch(self, damaged: Damaged) -> Refetch:
        def says(missing: str) -> None:
            self._situation.say(f"damaged: {damaged}; {missing}{LOST}")

        identity, upkeep, path = self._directory.identity, self._settings.upkeep, self._directory.projection_path
        notary = Notary(identity.cluster_id, identity.node_id, self._directory.key, identity.ancestors)
        port = RefetchPort(self._others, lambda: Projection.erasures(path), says)
        return Refetch(
            damaged.store, notary, self._transport, self._proofs, self._chronicle, upkeep.refetch_s, port
        )  # fmt: skip

    def _others(self) -> list[tuple[str, str]]:
        """Names and endpoints of the other members or, where none are known, of the peers that this node was told."""
        members = self._members
        known = [(members.name(id), members.endpoint(id)) for id in members.others]
        return known or [peer for peer in self._settings.peers.items() if peer[0] != self._settings.name]

    def _on_log_damaged(self, reason: str) -> None:
        """The log of this running node is damaged: it takes part in nothing until it has opened its files again."""
        if not (self._situation.dead or self._situation.stopped or self._reopening):
            self._reopening = True
            self._situation.say(f"damaged: {reason}")
            self._spawn(self._reopen())

    async def _reopen(self) -> None:
        if await self._closed("the log is damaged"):
            self._reopening = False
            await self._begin()

    async def _closed(self, reason: str) -> bool:
        """Let go of the replica as in a crash, and of the files; whether the disk let go of them."""
        engine, opened = self._situation.engine, self._opened
        assert engine is not None and opened is not None, "only an engine finds this"
        self._situation.lose(reason)
        for task in self._engine_tasks:
            task.cancel()
        self._engine_tasks.clear()
        if not await asyncio.to_thread(engine.stop, STOP_WAIT_S):
            self._fatal("the disk does not answer")
            return False
        self._situation.engine = self._opened = None
        await asyncio.to_thread(close_files, opened)
        return True

    def _on_lost(self, reason: str) -> None:
        """This disk is an older copy: what it has forgotten does not come back (*lost-disk-is-a-new-member*)."""
        if not (self._situation.dead or self._situation.stopped or self._reopening):
            self._reopening = True
            self._situation.say(f"lost: {reason}")
            self._spawn(self._give_up_disk(reason))

    async def _give_up_disk(self, reason: str) -> None:
        if await self._closed("this disk is an older copy"):
            aside = await asyncio.to_thread(self._directory.set_aside)
            self.is_lost = True
            self._fatal(f"{reason}. Its files are kept in {aside}; started again, this node is a new member")

    def _fatal(self, reason: str) -> None:
        if self._situation.dead:
            return
        self._situation.dead = self._situation.condition = reason
        self._situation.settled.set()
        self._log.critical("the node must end", reason=reason)
        if self._situation.engine is not None:
            self._situation.engine.lose(reason)
        self._on_fatal(reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- founding and rejoining ---

    async def _take_place(self, opened: Opened) -> None:
        if opened.log.last.index:
            self._run(opened)
        else:
            await self._take_first_place(opened)
        if self._directory.digest_secret is None:
            self._spawn(self._obtain_keys())

    async def _take_first_place(self, opened: Opened) -> None:
        """An empty directory: found a cluster with the other first members, or wait to be brought up to date."""
        settings = self._settings
        found = await place(
            self.hello(), settings.peers, Terms(settings.write_quorum, settings.timings.lease_ttl_ms),
            self._transport.hello, self._situation.say,
        )  # fmt: skip
        await asyncio.to_thread(self._directory.join_cluster, found.cluster_id, _ancestors(found))
        if isinstance(found, Founded):
            await asyncio.to_thread(self._directory.store_digest_secret, found.digest_secret)
        engine = self._run(opened)
        if found.configuration is not None and self._is_voter(found.configuration):
            engine.found(found.configuration)
        else:
            self._members.adopt(found.configuration)
        self._spawn(self._watch_founding(found))

    def _is_voter(self, configuration: Configuration) -> bool:
        """Whether this very node counts there. A first member that came late to its founding can grant from the start:
        it has never promised nor acknowledged anything, and the others may need it before the first entry reaches it.
        """
        member = configuration.member(self.node_id)
        return member is not None and member.voting and member.public_key == self._directory.key.public_key

    async def _watch_founding(self, found: Founded | Joined) -> None:
        """Until the first entry has come: was the cluster founded by other members than those this node saw?"""
        engine = self._situation.engine
        assert engine is not None, "a founder without an engine"
        while engine.replica.last.index == 0:
            await asyncio.sleep(FOUNDING_CHECK_S)
            elsewhere = await self._other_history(found.cluster_id)
            if elsewhere and engine.replica.last.index == 0:
                await asyncio.to_thread(self._directory.join_cluster, elsewhere)
                self._fatal(f"cluster {elsewhere} was founded without this node; start it again to join")

    async def _other_history(self, cluster_id: str) -> str:
        for name, endpoint in self._settings.peers.items():
            if name == self._settings.name:
                continue
            try:
                reply = await self._transport.hello(endpoint, SECOND_US)
            except VeridicalError:
                continue
            if reply.has_history and reply.cluster == self._settings.cluster and reply.cluster_id != cluster_id:
                return reply.cluster_id
        return ""

    async def _obtain_keys(self) -> None:
        await self._keyring.obtain()
        if self._situation.engine is not None:
            self._situation.engine.rounds.pump()

    def _run(self, opened: Opened) -> Engine:
        port = EnginePort(
            self._on_role, self._on_transfer_ended, self._on_log_damaged, self._on_lost, self._step_aside, self._fatal
        )  # fmt: skip
        engine = Engine(
            opened, self._settings, self._directory, self._members, self._transport, self._clock, self._entropy,
            self.metrics, self._chronicle, port,
        )  # fmt: skip
        self._situation.engine = engine
        self._situation.settled.set()
        self._situation.say("")
        engine.begin()
        self._engine_tasks = [self._spawn(self._watch_membership())]
        if self._settings.timings.readmit_after_ms:
            self._engine_tasks.append(self._spawn(self._readmission(engine).watch()))
        return engine

    def _readmission(self, engine: Engine) -> Readmission:
        port = ReadmissionPort(
            lambda: self._members.configuration if engine.rounds.serves else None,
            lambda within_us: self._members.live(self._clock.elapsed_us(), within_us),
            self._members.endpoint, self._transport.hello, engine.membership.change,
        )  # fmt: skip
        after_us = self._settings.timings.readmit_after_ms * MILLISECOND_US
        return Readmission(self._settings.cluster, after_us, self._clock, port)

    # --- what the engine says ---

    def _on_role(self, role: RoleChanged) -> None:
        if self._situation.lead(role):
            self.metrics.leader_changes.inc()

    def _on_transfer_ended(self, reason: str) -> None:
        transfers, self._transfers = self._transfers, []
        for future in transfers:
            if not future.done():
                future.set_result(reason)

    def _step_aside(self) -> None:
        """Let another member lead while this one's rows are wrong; where there is none, it goes on."""
        if self._situation.role.role is Role.LEADER and self._may_be_succeeded():
            self._spawn(self._transferred_away())

    async def _transferred_away(self) -> None:
        if reason := await self.transfer():
            self._log.warning("leadership cannot be handed over", reason=reason)

    def _stuck_us(self) -> int:
        return 0 if self._situation.engine is None else self._situation.engine.stuck_us()

    def _on_room(self, room: bool) -> None:
        if self._situation.engine is not None:
            self._situation.engine.on_room(room)

    # --- writes ---

    async def submit(self, submission: Submission, relayed: bool = False) -> SubmitResult:
        """Decide, replicate, apply, answer. A node that does not lead passes it on, unless it was `relayed` here.

        Raises `TooLarge`, `Invalid`, `Refused`; `Retry` when too much waits; `NotLeader` only when `relayed`;
        `Unavailable` when nothing happened in time, `OutcomeUnknown` when something may have.
        """
        return await self._ingress.submit(submission, relayed)

    async def submit_anonymous(
        self,
        commands: Sequence[BareCommand],
        timeout_us: int,
        wait: Wait = Wait.QUORUM,
        token: BearerToken | None = None,
    ) -> SubmitResult:
        """The same for commands without a principal, signed by this node on behalf of "anonymous", or of a token.

        What is said under a token is a claim in nobody's name (`memory.claims`).
        """
        return await self._ingress.submit_anonymous(commands, timeout_us, wait, token)

    # --- reads ---

    async def read(self, request: ReadRequest) -> ReadReply:
        """Answer a query in its mode; where another member has to answer, it is asked.

        Raises `Unavailable` (who did not answer), `Invalid`, `Refused` for what the caller is not granted, `Retry` when
        too many reads wait.
        """
        engine = await self._situation.engine_in_time(request.timeout_us)
        if self._situation.dead or self._situation.is_outside:
            raise Unavailable(self._situation.condition or OUTSIDE)
        return await engine.reads.read(request)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[ChangePage]:
        """The change feed, see `Feed.watch`; it ends when this node drains or stops.

        Raises `Unavailable` while this node has not found its place, or drains.
        """
        engine = self._situation.engine
        if engine is None or self._situation.draining or self._situation.dead or self._situation.is_outside:
            reason = self._situation.condition or (OUTSIDE if self._situation.is_outside else "draining")
            raise Unavailable(reason, (self._settings.name,))
        async with aclosing(engine.feed.watch(request)) as pages:
            async for page in pages:
                yield page

    async def require_everywhere(self, caller: Caller, right: str) -> None:
        """Raises `Refused` unless the caller holds that right in every scope, after all that this node's log holds.

        For what is read from the log itself. `Unavailable` when the state does not follow the log in time.
        """
        await self._situation.running.require_everywhere(caller, right)

    async def export(self, first: int, max_bytes: int, last: int | None = None) -> tuple[list[Entry], list[Seal]]:
        """Consecutive entries of this node's log from `first` on, to the next seal, and their seals.

        With `last`, nothing beyond it. Empty when there is no entry at `first`.
        """
        return await self._situation.running.export(first, max_bytes, last)

    # --- leadership ---

    def may_try(self, token: int, until_us: int) -> None:
        """An external lease source lets this node try for an epoch above `token` until `until_us` (elapsed clock)."""
        if self._situation.engine is not None:
            self._situation.engine.may_try(token, until_us)

    async def transfer(self, target: str | None = None) -> str:
        """Hand leadership over, to member `target` or to the most advanced; empty when it was, else why it was not."""
        if self._situation.engine is None:
            return self._situation.condition
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._transfers.append(future)
        await self._situation.engine.transfer(target)
        return await future

    async def change_members(self, change: Change, caller: Caller, timeout_us: int) -> Configuration:
        """See `Membership.change`; for holders of the right `admin` everywhere (else `Refused`, `not_granted`).

        Raises `Unavailable` when it is not done in time.
        """
        engine = await self._situation.engine_in_time(timeout_us)
        try:
            async with asyncio.timeout(timeout_us / SECOND_US):
                await engine.require_everywhere(caller, ADMIN)
                return await engine.membership.change(change)
        except TimeoutError as error:
            raise Unavailable("the change is not committed in time; see `veridical status`") from error
        except NotLeader:
            raise NotLeader(self._situation.leader_endpoint) from None

    # --- peers ---

    def knows(self, id: str, name: str) -> bool:
        """Whether the node that is certified as `name` may speak as that id: a member's name is bound to its id.

        While this node knows no configuration yet, those may that it was started with.
        """
        members = self._members
        if members.configuration is None:
            return name in self._settings.peers
        member = members.member(id)
        return member is not None and member.name == name

    def receive(self, sender: str, message: Message) -> None:
        """A message came from member `sender` (an id)."""
        if self._situation.engine is not None:
            self._situation.engine.receive(sender, message)

    def hello(self) -> HelloReply:
        """Who this node is; anybody may ask. Raises `Unavailable` while its log is not open."""
        if self._opened is None:
            raise Unavailable(self._situation.condition)
        identity, engine = self._directory.identity, self._situation.engine
        last = engine.replica.last if engine else self._opened.log.last
        has_history = last.index > 0
        return HelloReply(
            self.node_id, identity.name, identity.cluster, self._directory.key.public_key, self._settings.endpoint,
            has_history, identity.cluster_id if has_history or engine else "",
            b"" if has_history else self._directory.founding_share, self._members.configuration,
            self._directory.digest_secret is not None, identity.ancestors,
        )  # fmt: skip

    def keys(self, request: KeyRequest) -> bytes:
        """The digest key for a member that proves its node key, sealed to that key. Raises `Refused` for others."""
        return self._keyring.answer(request)

    def compare(self, request: CompareRequest) -> Snapshot:
        """The digests that another member compares its own with. Raises `Refused` for anybody else."""
        return self._situation.running.upkeep.snapshot(request)

    async def refetch(self, request: RefetchRequest) -> tuple[list[Entry], list[Seal]]:
        """Entries for a member whose own are damaged, some or all of them. Raises `Refused` for anybody else.

        A node whose own log is damaged in another place answers too: who asks can prove what it is given.
        """
        self._proofs.require(request.proof, RefetchRequest.PURPOSE)
        store = self._damaged or (self._opened.store if self._opened else None)
        if store is None:
            raise Unavailable(self._situation.condition)
        try:
            return await asyncio.to_thread(store.read, request.first, ANSWER_BYTES, request.last)
        except LogDamaged as damage:
            raise Unavailable(f"damaged here too: {damage}") from damage

    async def antientropy(self, run: bool) -> AsyncGenerator[tuple[Standing, bool]]:
        """How comparing, looking and repairing stand, and whether that is the last word. With `run`, do all of it now.

        Raises `Unavailable` when it cannot be done to its end.
        """
        if run:
            running = asyncio.ensure_future(self._situation.running.upkeep.run())
            try:
                while not (await asyncio.wait({running}, timeout=PROGRESS_PERIOD_S))[0]:
                    yield self._chronicle.standing, False
                await running
            finally:
                running.cancel()
        yield self._chronicle.standing, True

    # --- what is known ---

    def status(self) -> NodeStatus:
        """What this node knows of itself and of its members."""
        identity, health = self._directory.identity, self._health
        now_us = self._clock.elapsed_us()
        core = self._situation.engine.replica.status() if self._situation.engine else None
        return NodeStatus(
            id=self.node_id,
            name=identity.name,
            cluster=identity.cluster,
            cluster_id=identity.cluster_id,
            endpoint=self._settings.endpoint,
            role=core.role.value if core else Role.FOLLOWER.value,
            epoch=core.epoch if core else 0,
            leader=core.leader if core else None,
            serves=bool(core and core.serves),
            commit_index=core.commit_index if core else 0,
            applied_index=core.applied_index if core else 0,
            last_index=core.last.index if core else 0,
            lease_remaining_us=core.lease_remaining_us if core else 0,
            ready=not self._situation.unready,
            draining=self._situation.draining,
            condition=self._situation.condition,
            log_bytes=health.log_bytes,
            disk_free_bytes=health.free_bytes,
            loop_lag_us=health.loop_lag_us,
            members=self._members.statuses(core, now_us) if core else (),
        )

    @property
    def alive(self) -> bool:
        """`/livez`: the loop turns and the disk answers; independent of quorum."""
        return not self._situation.dead and self._health.alive

    async def ready(self, sync_timeout_us: int = 0) -> str:
        """`/readyz`: empty when this node may be sent traffic, else why not. With a time-out it waits (`?sync`)."""
        return await self._situation.ready(sync_timeout_us)

    async def _watch_membership(self) -> None:
        """Nobody sends anything to a node that was removed, not even that it was: one without a leader asks."""
        while True:
            await asyncio.sleep(MEMBERSHIP_CHECK_S)
            if self._situation.role.leader is None:
                self._situation.removed = await self._knows_no_place()

    async def _knows_no_place(self) -> bool:
        """Whether another node holds a newer configuration of this cluster, and this node is not in it."""
        mine, identity = self._members.configuration, self._directory.identity
        for member in self._members.others if mine is not None else ():
            try:
                reply = await self._transport.hello(self._members.endpoint(member), HELLO_TIMEOUT_US)
            except VeridicalError:
                continue
            known = reply.configuration if reply.cluster_id == identity.cluster_id else None
            if mine is not None and known is not None and known.version > mine.version:
                return known.member(self.node_id) is None
        return False


def _newest_configuration(store: LogStore) -> Configuration | None:
    """The configuration in force at the end of a damaged log, where that can still be read."""
    try:
        return next(reversed(store.configurations()), None)
    except LogDamaged:
        return None


def _directory(settings: Settings, entropy: Entropy) -> DataDirectory:
    places = settings.places
    if places is None:
        return DataDirectory.in_memory(settings.name, settings.cluster, entropy)
    places.log.parent.mkdir(parents=True, exist_ok=True)
    return DataDirectory.at(places, settings.name, settings.cluster, entropy)


def _ancestors(found: Founded | Joined) -> tuple[Ancestor, ...]:
    return found.ancestors if isinstance(found, Joined) else ()
