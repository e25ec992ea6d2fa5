"""The leader's half: append, count, commit, renew, confirm, hand over (PROTOCOL §§ 3 to 5 and 10)."""

from __future__ import annotations

from collections.abc import Sequence

from ..lease.messages import Release
from ..lease.quorum import overlap_fault, quorum_value, reached
from ..lease.tenure import Tenure
from ..log.configuration import Configuration
from ..log.entry import Entry
from ..log.seal import Seal
from .kernel import Fields, Kernel
from .messages import (
    Accepted,
    Append,
    Appended,
    Declined,
    Draft,
    Handover,
    Heartbeat,
    HeartbeatReply,
    LogRead,
    Propose,
    Reconfigure,
    Sighting,
    TransferEnded,
)
from .progress import Progress

HEARD_BEATS = 3
"""Who was silent for so many heartbeats is not asked to take over, unless by name."""


class Leadership:
    """One epoch of one leader, from its `leader.elected` entry until `ended` says why it is over."""

    def __init__(self, kernel: Kernel, epoch: int, granted_at_us: dict[str, int]) -> None:
        self.kernel = kernel
        self.epoch = epoch
        self.ended = ""
        acceptor = kernel.acceptor
        self.tenure = Tenure(kernel.me.node, acceptor.ttl_us, acceptor.margin_us, kernel.now_us)
        for member, sent_at_us in granted_at_us.items():
            self.tenure.renewed(member, sent_at_us)
        self.own_match = 0
        self.elected_index = 0
        self.progress: dict[str, Progress] = {}
        self.read_round = 0
        self.confirmed: dict[str, int] = {}
        self.beat_at_us = 0
        self.transfer_to = ""
        self.transfer_until_us = 0
        self.handed_over = False

    @property
    def configuration(self) -> Configuration:
        """The configuration in force, from the moment it was appended."""
        configuration = self.kernel.configuration
        assert configuration is not None, "a leader without a configuration"
        return configuration

    @property
    def is_established(self) -> bool:
        """Whether the entry that opened this epoch is committed: nothing is answered before."""
        return 0 < self.elected_index <= self.kernel.commit_index

    @property
    def serves(self) -> bool:
        """Whether commands can be decided here: established, and everything adopted is applied."""
        return self.is_established and self.kernel.applied_index >= self.elected_index

    # --- opening ---

    def open(self) -> None:
        """Append `leader.elected`, after the founding configuration if this is the first epoch of a history."""
        kernel = self.kernel
        founding = self.configuration if kernel.tail.last_index == 0 else None
        drafts: list[Fields] = []
        if founding:
            kernel.rule("founding")
            drafts.append(kernel.notary.configured(founding, kernel.wall_us))
        drafts.append(kernel.notary.elected(self.epoch, kernel.wall_us))
        kernel.rule("leader-elected")
        before = kernel.tail.last_index
        self._append([Draft(*draft) for draft in drafts])
        self.elected_index = self.own_entry_index()
        self._track_members(before)
        self.beat()
        self.replicate()

    def own_entry_index(self) -> int:
        """The entry that opens the epoch: what commits it commits all before (*own-epoch commit*)."""
        return self.kernel.tail.last_index

    def _track_members(self, last_common: int) -> None:
        peers = self.kernel.peers
        self.progress = {peer: self.progress.get(peer) or Progress(low=last_common, high=last_common) for peer in peers}

    # --- append ---

    def _append(self, drafts: Sequence[Draft]) -> tuple[int, int]:
        """Chain the drafts, seal the batch, send it to the disk; first and last index."""
        tail, entries = self.kernel.tail, list[Entry]()
        prev_hash, index, time_us = tail.last_hash, tail.last_index, tail.last_time_us
        for draft in drafts:
            index, time_us = index + 1, max(time_us, draft.time_us)
            entry = Entry.chain(
                prev_hash, index, self.epoch, time_us, draft.envelope, draft.signature, draft.events, draft.bodies
            )
            prev_hash = entry.hash
            entries.append(entry)
        seals = self.seals(entries)
        tail.append(entries, seals)
        self.kernel.learn_configuration()
        self.kernel.persist(entries=entries, seals=seals)
        return entries[0].index, index

    def seals(self, entries: Sequence[Entry]) -> list[Seal]:
        """The seal of a batch: this leader's signature over its last entry."""
        return [self.kernel.notary.seal(self.epoch, entries[-1].index, entries[-1].hash)]

    def propose(self, proposal: Propose) -> None:
        """Append what was decided in this epoch on top of the present end of the log; anything else leaves no trace."""
        reason = self._objection(proposal)
        if reason:
            self.kernel.emit(Declined(proposal.token, reason, self.kernel.me.node))
            return
        first, last = self._append(proposal.drafts)
        self.kernel.emit(Accepted(proposal.token, self.epoch, first, last))
        self.replicate()

    def _objection(self, proposal: Propose) -> str:
        if self.transfer_to:
            return "transfer"
        if not self.serves:
            return "leader"
        if (proposal.epoch, proposal.after_index) != (self.epoch, self.kernel.tail.last_index):
            self.kernel.rule("decided-in-another-epoch")
            return "epoch"
        return ""

    def replicate(self) -> None:
        """Give every follower that has nothing in flight what it lacks."""
        for peer, progress in self.progress.items():
            self._feed(peer, progress)

    def _feed(self, peer: str, progress: Progress) -> None:
        kernel = self.kernel
        waits = progress.round and kernel.now_us < progress.sent_at_us + kernel.settings.retry_us
        idle = progress.is_found and progress.low >= kernel.tail.last_index
        if waits or idle or progress.reading:
            return
        if not progress.is_found and progress.probe_index < kernel.tail.anchor.index:
            progress.agree_from(progress.low)
        if progress.probe_index < kernel.tail.anchor.index:
            progress.reading = True
            kernel.read_log(progress.low + 1, lambda read: self._feed_older(peer, read))
            return
        entries, seals = self._batch(progress)
        self._send_append(peer, progress, kernel.tail.hash_at(progress.probe_index), entries, seals)

    def _batch(self, progress: Progress) -> tuple[tuple[Entry, ...], tuple[Seal, ...]]:
        if not progress.is_found:
            return (), ()
        return self.kernel.tail.slice(progress.low + 1, self.kernel.settings.append_bytes)

    def _feed_older(self, peer: str, read: LogRead) -> None:
        progress = self.progress.get(peer)
        if progress is None:
            return
        progress.reading = False
        if read.entries and read.entries[0].index == progress.low + 1 and not self.ended:
            self._send_append(peer, progress, read.entries[0].prev_hash, read.entries, read.seals)

    def _send_append(
        self, peer: str, progress: Progress, prev_hash: bytes, entries: tuple[Entry, ...], seals: tuple[Seal, ...]
    ) -> None:
        kernel = self.kernel
        progress.round, progress.sent_at_us = kernel.request(), kernel.now_us
        progress.commit_sent = kernel.commit_index
        index, commit = progress.probe_index, kernel.commit_index
        append = Append(self.epoch, kernel.me, progress.round, index, prev_hash, entries, seals, commit, kernel.now_us)
        kernel.send(peer, append)

    def on_appended(self, sender: str, reply: Appended) -> None:
        """A follower has something durable, or differs; count it, and give it more."""
        progress = self.progress.get(sender)
        if progress is None or reply.epoch != self.epoch:
            return
        self._heard(sender, reply.stamp_us)
        progress.applied_index = max(progress.applied_index, reply.applied_index)
        in_time = progress.round == reply.round
        probed = progress.probe_index
        progress.answered(reply.round)
        if reply.matched:
            self._matched(sender, progress, reply)
        elif in_time:
            self.kernel.rule("search-by-hash")
            progress.differed(probed, reply.commit_index, reply.last_index)
        self.advance_commit()
        self._feed(sender, progress)
        self.tell_commit()

    def _matched(self, sender: str, progress: Progress, reply: Appended) -> None:
        progress.matched(min(reply.match, self.kernel.tail.last_index))
        if reply.counts:
            progress.match = max(progress.match, reply.match)
            self.kernel.sightings.see(sender, self.epoch, reply.match)

    def _heard(self, sender: str, stamp_us: int) -> None:
        self.tenure.heard(sender, self.kernel.now_us)
        if stamp_us:
            self.tenure.renewed(sender, stamp_us)
            self.kernel.sightings.see(sender, self.epoch)

    # --- commit ---

    def own_durable(self, epoch: int) -> None:
        """A write of this node ended; it counts itself only while it still leads the epoch the write was asked in."""
        if self.kernel.is_current(epoch):
            self.own_match = self.kernel.tail.durable_index
            self.advance_commit()
            self.tell_commit()

    def matches(self) -> dict[str, int]:
        """How far each voter's durable log is known to equal this one."""
        matches = {peer: progress.match for peer, progress in self.progress.items()}
        matches[self.kernel.me.node] = self.own_match
        return matches

    def advance_commit(self) -> None:
        """*own-epoch commit*: what W voters hold is committed once that covers an entry of this epoch."""
        configuration, kernel = self.configuration, self.kernel
        index = quorum_value(self.matches(), configuration.voters, configuration.write_quorum)
        if index <= kernel.commit_index or not self.covers_own_entry(index):
            return
        kernel.commit(index)
        if not self.is_member():
            self.resign("removed")

    def is_member(self) -> bool:
        """Whether the leader is still in the configuration that is committed by now."""
        configuration = self.configuration
        return configuration.index > self.kernel.commit_index or self.kernel.me.node in configuration.voters

    def covers_own_entry(self, index: int) -> bool:
        """Entries of earlier epochs become committed only through one of the current epoch."""
        return index >= self.elected_index

    def tell_commit(self) -> None:
        """Tell idle followers the new commit index at once; the others learn it from the append that follows."""
        for peer, progress in self.progress.items():
            is_idle = not progress.round and progress.low >= self.kernel.tail.last_index
            if is_idle and progress.commit_sent < self.kernel.commit_index:
                self._send_beat(peer, progress, stamp_us=0)

    # --- heartbeats, renewal, confirmation ---

    def beat(self) -> None:
        """Renew with everybody, and with oneself."""
        kernel = self.kernel
        self.beat_at_us = kernel.now_us
        if not kernel.is_stalled(kernel.now_us):
            kernel.acceptor.renew(kernel.now_us)
            self.tenure.renewed(kernel.me.node, kernel.now_us)
        seen = (*kernel.sightings.all, Sighting(kernel.me.node, self.epoch, self.own_match))
        for peer, progress in self.progress.items():
            self._send_beat(peer, progress, kernel.now_us, seen)

    def _send_beat(self, peer: str, progress: Progress, stamp_us: int, seen: tuple[Sighting, ...] = ()) -> None:
        kernel = self.kernel
        progress.commit_sent = kernel.commit_index
        kernel.send(peer, Heartbeat(self.epoch, kernel.me, kernel.commit_index, stamp_us, self.read_round, seen))

    def on_heartbeat_reply(self, sender: str, reply: HeartbeatReply) -> None:
        """A follower renewed, and confirmed a read round."""
        progress = self.progress.get(sender)
        if progress is None or reply.epoch != self.epoch:
            return
        self._heard(sender, reply.stamp_us)
        progress.applied_index = max(progress.applied_index, reply.applied_index)
        self.confirmed[sender] = max(reply.read_round, self.confirmed.get(sender, 0))
        self._feed(sender, progress)
        does_not_count_yet = reply.stamp_us and progress.match < progress.low
        if reply.applied_index < self.kernel.commit_index or does_not_count_yet:
            self._remind(sender, progress)

    def _remind(self, peer: str, progress: Progress) -> None:
        """Have a follower that lacks no entry check its prefix again: after a restart it has forgotten that it matched,
        and would learn no commit index before the next write.
        """
        tail = self.kernel.tail
        is_idle = not progress.round and not progress.reading and progress.is_found
        if is_idle and progress.low >= tail.last_index:
            self._send_append(peer, progress, tail.hash_at(progress.low), (), ())

    def begin_round(self) -> int:
        """Start a round that confirms, to all reads that wait, that this node still leads."""
        self.read_round += 1
        self.confirmed[self.kernel.me.node] = self.read_round
        self.beat()
        return self.read_round

    def confirmed_round(self) -> int:
        """The last round that R voters confirmed."""
        configuration = self.configuration
        return quorum_value(self.confirmed, configuration.voters, configuration.recovery_quorum)

    def lease_is_valid(self) -> bool:
        """*fresh-clock*: whether the lease covers this very moment."""
        configuration = self.configuration
        until_us = self.tenure.valid_until_us(configuration.voters, configuration.recovery_quorum)
        return self.kernel.now_us < until_us

    # --- stepping down ---

    @property
    def next_us(self) -> int:
        """When this leader next has something to do without being asked."""
        due = [self.beat_at_us + self.kernel.settings.heartbeat_us, self._contact_lost_at_us()]
        if self.transfer_to:
            due.append(self.transfer_until_us)
        return min(due)

    def _contact_lost_at_us(self) -> int:
        configuration = self.configuration
        timeout_us = self.kernel.acceptor.ttl_us
        return self.tenure.contact_lost_at_us(configuration.voters, configuration.recovery_quorum, timeout_us)

    def on_tick(self) -> None:
        """Beat, retry, and notice when it is time to go."""
        kernel = self.kernel
        if kernel.is_stalled(kernel.now_us):
            kernel.rule("lease-follows-progress")
            self.resign("stalled disk")
        elif kernel.now_us >= self._contact_lost_at_us():
            kernel.rule("quorum-contact")
            self.resign("lost quorum")
        elif self.transfer_to and kernel.now_us >= self.transfer_until_us:
            self.end_transfer("the target did not take over in time")
        if not self.ended and kernel.now_us >= self.beat_at_us + kernel.settings.heartbeat_us:
            self.beat()
            self.replicate()

    def resign(self, reason: str) -> None:
        """Step down by oneself, and *release* the epoch so that nobody needs to wait for the lease to end."""
        self.ended = reason
        self.tenure.drop()
        self._release()

    def _release(self, target: str = "") -> None:
        kernel = self.kernel
        kernel.rule("release")
        kernel.acceptor.release(self.epoch, kernel.me)
        for peer in kernel.peers:
            if peer != target:
                kernel.send(peer, Release(self.epoch, kernel.me))

    # --- transfer ---

    def transfer(self, target: str | None) -> None:
        """Hand leadership to `target`, or to the follower that holds most; nothing new is appended meanwhile."""
        if target == self.kernel.me.node:
            self.kernel.emit(TransferEnded(""))
            return
        chosen = target or self._most_advanced()
        refusal = self._transfer_refusal(chosen)
        if refusal:
            self.kernel.emit(TransferEnded(refusal))
            return
        self.transfer_to = chosen
        self.transfer_until_us = self.kernel.now_us + self.kernel.settings.transfer_us
        self.drop_lease()
        self.hand_over_when_ready()

    def drop_lease(self) -> None:
        """*transfer-drops-the-lease*: no lease reads for the rest of the epoch."""
        self.kernel.rule("transfer-drops-the-lease")
        self.tenure.drop()

    def _most_advanced(self) -> str:
        """The voter that holds most, of those that were heard lately; of equals, the one heard last."""
        since_us = self.kernel.now_us - HEARD_BEATS * self.kernel.settings.heartbeat_us
        heard_at_us = {peer: at_us for peer, at_us in self.tenure.heard_at_us.items() if at_us >= since_us}
        voters = [peer for peer in self.progress if peer in self.configuration.voters and peer in heard_at_us]
        return max(voters, key=lambda peer: (self.progress[peer].match, heard_at_us[peer]), default="")

    def _transfer_refusal(self, chosen: str) -> str:
        if self.transfer_to:
            return f"a transfer to {self.transfer_to} is under way"
        if not chosen:
            return "no other voting member answers"
        if chosen not in self.progress or chosen not in self.configuration.voters:
            return f"{chosen} is not another voting member"
        lag = self.kernel.tail.last_index - self.progress[chosen].match
        limit = self.kernel.settings.transfer_lag_limit
        return f"{chosen} lags {lag} entries behind, the limit is {limit}" if lag > limit else ""

    def hand_over_when_ready(self) -> None:
        """Once the target holds everything, release the epoch and ask it to take over."""
        if not self.transfer_to or self.handed_over:
            return
        if self.progress[self.transfer_to].match >= self.kernel.tail.last_index and self.is_established:
            self.handed_over = True
            self._release(self.transfer_to)
            self.kernel.send(self.transfer_to, Handover(self.epoch, self.kernel.me))

    def end_transfer(self, reason: str) -> None:
        """The transfer failed: serve on, without lease reads."""
        self.transfer_to, self.handed_over = "", False
        self.kernel.emit(TransferEnded(reason))

    # --- membership ---

    def reconfigure(self, request: Reconfigure) -> None:
        """Append a configuration, in force from this moment; refused when it could make two majorities."""
        reason = self._reconfigure_objection(request.configuration)
        if reason:
            self.kernel.emit(Declined(request.token, reason, self.kernel.me.node))
            return
        self.kernel.rule("overlapping-change")
        before = self.kernel.tail.last_index
        fields = self.kernel.notary.configured(request.configuration, self.kernel.wall_us)
        first, last = self._append([Draft(*fields)])
        self._track_members(before)
        self.kernel.emit(Accepted(request.token, self.epoch, first, last))
        self.replicate()

    def _reconfigure_objection(self, proposed: Configuration) -> str:
        if self.transfer_to:
            return "transfer"
        if not self.is_established:
            return "leader"
        if self.configuration.index > self.kernel.commit_index:
            return "configuration: one change at a time"
        if self.configuration.lease_ttl_ms != proposed.lease_ttl_ms:
            return "configuration: the lease's time to live is that of the founding"
        if fault := overlap_fault(self.configuration, proposed):
            return f"configuration: {fault}"
        if lagging := self._lagging_voters(proposed):
            return f"configuration: {', '.join(lagging)} must catch up first"
        return ""

    def _lagging_voters(self, proposed: Configuration) -> list[str]:
        """New voters that have not caught up, or all that are silent when too few of the others would answer."""
        committed = self.kernel.commit_index
        matches = self.matches()
        new = proposed.voters - self.configuration.voters
        lagging = sorted(voter for voter in new if matches.get(voter, 0) < committed)
        timeout_us = self.kernel.acceptor.ttl_us
        heard = self.tenure.heard_at_us
        live = [node for node, at_us in heard.items() if at_us > self.kernel.now_us - timeout_us]
        quorum = max(proposed.write_quorum, proposed.recovery_quorum)
        if not lagging and not reached([*live, self.kernel.me.node], proposed.voters, quorum):
            return sorted(proposed.voters - set(live) - {self.kernel.me.node})
        return lagging
