"""The candidacy: from a silent leader to an epoch of one's own (PROTOCOL §§ 3 and 4).

A candidate first asks without binding anyone (*probe-first*). If R members would grant, it asks for a new epoch, adopts
the best log among the R grants, and only then leads. It keeps asking while it fetches, so that its grants do not run
out under a long adoption.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median_low

from ..lease.messages import Grant, Prepare, Probe, ProbeReply, Refusal, Release
from ..lease.quorum import reached
from ..log.configuration import Configuration
from ..log.entry import Position
from .follower import Follower
from .kernel import Kernel
from .messages import Fetch, Fetched


class Candidacy:
    """One attempt to lead. `phase` is "probe" or "prepare"; `ended` says why an attempt is over, "" while it is not."""

    def __init__(
        self, kernel: Kernel, follower: Follower, above_epoch: int, lead: Callable[[int, dict[str, int]], None]
    ) -> None:
        self.kernel = kernel
        self.follower = follower
        self.above_epoch = above_epoch
        self.lead = lead
        self.phase = "probe"
        self.ended = ""
        self.epoch = 0
        self.released_epoch = 0
        self.is_split = False
        self.asked_at_us = kernel.now_us
        self.deadline_us = kernel.now_us + kernel.settings.candidacy_us
        self.grants: dict[str, Position] = {}
        self.asked: dict[int, int] = {}
        self.granted_at_us: dict[str, int] = {}
        self.walls_us: dict[str, int] = {}
        self.promised: dict[str, int] = {}
        self.fetch: Fetch | None = None
        self.fetch_from = ""
        self.fetched_at_us = 0
        self.low = self.high = 0

    @property
    def configuration(self) -> Configuration:
        """The configuration that R is counted in: that of the log as adopted so far (*adopted-quorum*)."""
        configuration = self.kernel.configuration
        assert configuration is not None, "a node without a configuration was let to try"
        return configuration

    @property
    def next_us(self) -> int:
        """When this attempt wants to ask again or give up."""
        return min(self.deadline_us, self.asked_at_us + self._pause_us)

    @property
    def _pause_us(self) -> int:
        """A probe is cheap and waits for grants that are about to run out; a prepare costs its receiver a write."""
        settings = self.kernel.settings
        return settings.probe_retry_us if self.phase == "probe" else settings.retry_us

    # --- probe ---

    def begin(self) -> None:
        """Ask everyone whether a new epoch would be granted."""
        kernel = self.kernel
        obstacle = kernel.acceptor.obstacle(kernel.me, self.configuration, self.configuration, kernel.now_us)
        if obstacle:
            self.ended = obstacle
            return
        kernel.rule("probe-first")
        self._note_own()
        self._ask_probe()
        self._judge_probes()

    def _note_own(self) -> None:
        kernel = self.kernel
        self.promised[kernel.me.node] = kernel.acceptor.promised_epoch
        self.walls_us[kernel.me.node] = kernel.wall_us

    def _ask_probe(self) -> None:
        kernel = self.kernel
        self.asked_at_us = kernel.now_us
        request = kernel.request()
        self.asked[request] = kernel.now_us
        for peer in self._electorate():
            kernel.send(peer, Probe(request, kernel.me, self.configuration))

    def _electorate(self) -> list[str]:
        return [peer for peer in self.kernel.peers if peer in self.configuration.voters]

    def on_probe_reply(self, sender: str, reply: ProbeReply) -> None:
        """A member says whether it would grant."""
        if self.phase != "probe" or reply.request not in self.asked:
            return
        self.above_epoch = max(self.above_epoch, reply.promised_epoch)
        if reply.would_grant:
            self.promised[sender] = reply.promised_epoch
            self.walls_us[sender] = reply.wall_time_us
        else:
            self.promised.pop(sender, None)
        self._judge_probes()

    def _judge_probes(self) -> None:
        if reached(self.promised, self.configuration.voters, self.configuration.recovery_quorum):
            self.prepare()

    # --- prepare ---

    def prepare(self, released_epoch: int = 0) -> None:
        """Promise a new epoch to oneself, and ask the others for it."""
        kernel = self.kernel
        if self.is_wall_clock_off():
            self.ended = "wall clock"
            return
        self.phase = "prepare"
        self.released_epoch = released_epoch
        self.epoch = max(self.above_epoch, kernel.acceptor.promised_epoch, *self.promised.values(), 0) + 1
        kernel.acceptor.bind(self.epoch, kernel.me, kernel.now_us)
        self._ask_prepare()
        kernel.reply_after(self._own_token(), kernel.me.node, self._grant_self)

    def is_wall_clock_off(self) -> bool:
        """Whether this node's wall clock is more than a minute off the median of those that would grant."""
        known = list(self.walls_us.values())
        return abs(self.kernel.wall_us - median_low(known)) > self.kernel.settings.wall_skew_us if known else False

    def _own_token(self) -> int:
        return self.kernel.persist_promise()

    def _grant_self(self) -> None:
        self.grants[self.kernel.me.node] = self.kernel.tail.durable
        self.granted_at_us[self.kernel.me.node] = self.asked_at_us
        self.advance()

    def _ask_prepare(self) -> None:
        kernel = self.kernel
        kernel.acceptor.renew(kernel.now_us)
        self.asked_at_us = kernel.now_us
        request = kernel.request()
        self.asked[request] = kernel.now_us
        for peer in self._electorate():
            kernel.send(peer, Prepare(request, self.epoch, kernel.me, self.configuration, self.released_epoch))

    def on_grant(self, sender: str, grant: Grant) -> None:
        """A member promised the epoch; its position was taken after that."""
        if self.phase != "prepare" or grant.epoch != self.epoch or grant.request not in self.asked:
            return
        self.grants[sender] = grant.position
        self.granted_at_us[sender] = self.asked[grant.request]
        self.advance()

    def on_refusal(self, refusal: Refusal) -> None:
        """A member will not grant; if it has promised more than was asked for, this attempt is over."""
        if self.phase == "prepare" and refusal.promised_epoch > self.epoch:
            self.above_epoch = max(self.above_epoch, refusal.promised_epoch)
            self.give_up("epoch")
        elif self.phase == "prepare" and refusal.promised_epoch == self.epoch:
            self.is_split = True

    # --- adoption ---

    def advance(self) -> None:
        """Go on with whatever is missing: grants, the best log, its durability. Then lead."""
        if self.ended or self.phase != "prepare":
            return
        if self.kernel.me.node not in self.configuration.voters:
            self.give_up("outside")
        elif self._has_quorum():
            self._adopt()

    def _has_quorum(self) -> bool:
        own = self.kernel.me.node in self.grants
        return own and reached(self.grants, self.configuration.voters, self.counted_quorum())

    def counted_quorum(self) -> int:
        """R of the configuration of the log as adopted so far."""
        return self.configuration.recovery_quorum

    def _adopt(self) -> None:
        kernel = self.kernel
        best = self.best_grant()
        if self.grants[best] > kernel.tail.last:
            self._fetch(best)
        elif kernel.tail.durable_index == kernel.tail.last_index and kernel.is_whole:
            self._win()

    def _win(self) -> None:
        if self.is_wall_clock_off():
            self.give_up("wall clock")
            return
        self.ended = "elected"
        self.lead(self.epoch, self.granted_at_us)

    def best_grant(self) -> str:
        """*adopt-the-best*: the member whose log ends highest, by epoch first, never by length."""
        voters = self.configuration.voters
        return max((node for node in self.grants if node in voters), key=lambda node: self.rank(self.grants[node]))

    def rank(self, position: Position) -> tuple[int, int]:
        """What logs are compared by."""
        return (position.epoch, position.index)

    def _fetch(self, node: str) -> None:
        if self.fetch is not None and self.fetch_from == node:
            return
        kernel = self.kernel
        kernel.rule("adopt-the-best")
        self.fetch_from = node
        self.low, self.high = kernel.commit_index, min(kernel.tail.last_index, self.grants[node].index)
        self._ask_fetch(self.high)

    def _ask_fetch(self, prev_index: int) -> None:
        kernel = self.kernel
        self.fetched_at_us = kernel.now_us
        prev_hash = kernel.tail.hash_at(prev_index)
        self.fetch = Fetch(self.epoch, kernel.me, kernel.request(), prev_index, prev_hash)
        kernel.send(self.fetch_from, self.fetch)

    def on_fetched(self, sender: str, fetched: Fetched) -> None:
        """Entries of the best log came, or the word that the logs part earlier."""
        if not self.is_expected(sender, fetched):
            self.kernel.rule("late-fetch")
            return
        assert self.fetch is not None
        prev_index, self.fetch = self.fetch.prev_index, None
        if not fetched.matched:
            self._search_earlier(prev_index)
        elif not fetched.entries or not self._take(prev_index, fetched):
            self.drop(sender)

    def is_expected(self, sender: str, fetched: Fetched) -> bool:
        """Whether this answers the one fetch under way."""
        fetch = self.fetch
        return fetch is not None and (sender, fetched.epoch, fetched.request) == (
            self.fetch_from, self.epoch, fetch.request,
        )  # fmt: skip

    def _search_earlier(self, prev_index: int) -> None:
        self.high = prev_index - 1
        if self.high < self.low:
            self.kernel.halt(f"{self.fetch_from} granted a log without entry {self.low}, which is committed here")
            return
        self._ask_fetch((self.low + self.high + 1) // 2 if self.high > self.low else self.low)

    def _take(self, prev_index: int, fetched: Fetched) -> bool:
        """Write the entries; when they are durable `advance` goes on. False if they are not sound."""
        tail = self.kernel.tail
        known = prev_index
        while known - prev_index < len(fetched.entries) and tail.holds(known + 1):
            if tail.hash_at(known + 1) != fetched.entries[known - prev_index].hash:
                break
            known += 1
        fresh = fetched.entries[known - prev_index :]
        self.deadline_us = self.kernel.now_us + self.kernel.settings.candidacy_us
        if not fresh:
            self.low = self.high = known
            self._ask_fetch(known)
            return True
        return self.follower.take_over(known, fresh, fetched.seals) is not None

    def drop(self, node: str) -> None:
        """That member is gone, or its log is unsound: do without its grant, or wait for it to grant again."""
        self.kernel.rule("drop-grant")
        self.fetch = None
        self.grants.pop(node, None)
        self.advance()

    # --- time ---

    def on_tick(self) -> None:
        """Ask again those that did not answer, or give up."""
        kernel = self.kernel
        if self.ended:
            return
        if kernel.now_us >= self.deadline_us or kernel.full:
            self.give_up("time")
        elif self.is_split and kernel.now_us >= self.asked_at_us + kernel.settings.retry_us:
            self.give_up("split")
        elif kernel.now_us >= self.asked_at_us + self._pause_us:
            self._ask_probe() if self.phase == "probe" else self._ask_prepare()
            if self.fetch and kernel.now_us >= self.fetched_at_us + 2 * kernel.settings.retry_us:
                self.drop(self.fetch_from)

    def give_up(self, reason: str) -> None:
        """End the attempt; a failed candidate *releases* the epoch that some may have granted."""
        self.ended = reason
        kernel = self.kernel
        if self.phase == "prepare":
            kernel.rule("release")
            kernel.acceptor.release(self.epoch, kernel.me)
            for peer in kernel.peers:
                kernel.send(peer, Release(self.epoch, kernel.me))
