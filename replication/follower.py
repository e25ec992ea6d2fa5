"""The follower's half of an append: fence, prefix, seal, fsync, acknowledge, fold (PROTOCOL § 5)."""

from __future__ import annotations

from collections.abc import Sequence

from ..lease.messages import Holder
from ..log.entry import Entry
from ..log.seal import Seal
from .kernel import Kernel
from .messages import Append, Appended, Discarded, Fenced, Fetch, Fetched, Heartbeat, HeartbeatReply
from .tail import chain_fault


class Follower:
    """What a replica does with the messages of whoever leads the epoch it has promised."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.match_epoch = 0
        self.match_index = 0
        self.leader: Holder | None = None

    # --- fence ---

    def admits(self, sender: str, epoch: int, leader: Holder) -> bool:
        """*fence*: whether a message of `epoch` may change anything here; a higher one is promised first."""
        kernel = self.kernel
        if self.is_fenced(epoch):
            kernel.rule("fence")
            kernel.send(sender, Fenced(epoch, kernel.acceptor.promised_epoch))
            return False
        if (epoch, leader) != (kernel.acceptor.promised_epoch, kernel.acceptor.holder):
            self.promise(epoch, leader)
        return True

    def is_fenced(self, epoch: int) -> bool:
        """Whether a higher epoch than this was promised here."""
        return epoch < self.kernel.acceptor.promised_epoch

    def promise(self, epoch: int, leader: Holder) -> None:
        """Its leader was granted this epoch by others; from now on it is promised here too."""
        self.kernel.rule("promise-before-append")
        self.kernel.acceptor.bind(epoch, leader, self.kernel.now_us)

    def follow(self, epoch: int, leader: Holder) -> None:
        """Take `leader` for the leader of `epoch`, and forget what matched the leader before it."""
        self.leader = leader
        if self.match_epoch != epoch:
            self.match_epoch, self.match_index = epoch, self.kernel.commit_index

    def renewal(self, stamp_us: int) -> int:
        """Renew the grant unless this node's own disk is stuck; the stamp to echo, 0 when it does not renew.

        A node that has no configuration yet does not know for how long it would have to hold a grant.
        """
        kernel = self.kernel
        if kernel.configuration is None:
            return 0
        if kernel.is_stalled(kernel.now_us) or not kernel.is_whole:
            kernel.rule("lease-follows-progress")
            return 0
        kernel.acceptor.renew(kernel.now_us)
        return stamp_us

    # --- heartbeat ---

    def on_heartbeat(self, sender: str, beat: Heartbeat) -> None:
        """Renew, learn the commit index, confirm the read round; reply once the promise is durable.

        A node that misses what it once acknowledged may miss promises too: it confirms nothing. One whose log is
        shorter than its projection does not claim what the log lacks: so the leader sends it, also where nobody writes.
        """
        kernel = self.kernel
        self.learn_commit(beat.commit_index)
        self.kernel.sightings.hear(beat.seen)
        if not beat.stamp_us or self.kernel.sightings.is_lost:
            return
        stamp_us = self.renewal(beat.stamp_us)
        confirmed = beat.read_round if kernel.is_whole else 0
        applied = min(kernel.applied_index, kernel.tail.last_index)
        reply = HeartbeatReply(beat.epoch, stamp_us, confirmed, applied)
        kernel.reply_after(self.promise_token(), sender, lambda: reply)

    def promise_token(self) -> int:
        """The write that a reply must wait for so that the promise it rests on is durable."""
        return self.kernel.persist_promise()

    # --- append ---

    def on_append(self, sender: str, append: Append) -> None:
        """Check prefix and seal, write what is new, and acknowledge what matches once it is durable."""
        stamp_us = self.renewal(append.stamp_us)
        matched = self.prefix_matches(append)
        token = self._take(append) if matched else self.promise_token()
        if token is None:
            return
        kernel, epoch = self.kernel, append.epoch
        kernel.reply_after(token, sender, lambda: self.acknowledgement(epoch, append.round, matched, stamp_us))
        if matched:
            self.learn_commit(append.commit_index)

    def acknowledgement(self, epoch: int, round: int, matched: bool, stamp_us: int) -> Appended:
        """The reply to an append as things stand now."""
        kernel = self.kernel
        match = self.acknowledged_index()
        commit, applied, whole = kernel.commit_index, kernel.applied_index, kernel.is_whole
        return Appended(epoch, round, matched, match, kernel.tail.last_index, commit, applied, stamp_us, whole)

    def acknowledged_index(self) -> int:
        """*ack-what-matches*: durable here, and known to equal the log of this epoch's leader."""
        return min(self.match_index, self.kernel.tail.durable_index)

    def prefix_matches(self, append: Append) -> bool:
        """*prefix-check*: whether the log here has the entry that the append builds on."""
        tail, prev_index = self.kernel.tail, append.prev_index
        if prev_index < self.kernel.commit_index:
            return True
        matches = tail.holds(prev_index) and tail.hash_at(prev_index) == append.prev_hash
        if not matches:
            self.kernel.rule("prefix-check")
        return matches

    def _take(self, append: Append) -> int | None:
        """Take over what the append holds beyond the log here; the token to wait for, None if it is not acceptable."""
        end = append.entries[-1].index if append.entries else append.prev_index
        agreed, fresh = self._what_is_new(append.entries)
        if not fresh:
            self.match_index = max(self.match_index, end)
            return self.promise_token()
        token = self.take_over(agreed, fresh, append.seals)
        if token is not None:
            self.match_index = max(self.match_index, end)
        return token

    def _what_is_new(self, entries: Sequence[Entry]) -> tuple[int, Sequence[Entry]]:
        """Up to where the log here agrees with `entries`, and those of them that come after."""
        tail, committed = self.kernel.tail, self.kernel.commit_index
        for place, entry in enumerate(entries):
            known = entry.index <= committed or (tail.holds(entry.index) and tail.hash_at(entry.index) == entry.hash)
            if not known:
                return entry.index - 1, entries[place:]
        return entries[-1].index if entries else 0, ()

    def take_over(self, agreed: int, fresh: Sequence[Entry], seals: Sequence[Seal]) -> int | None:
        """Write `fresh` behind `agreed`, cutting what differs; None if it is unsound or cannot be written."""
        kernel = self.kernel
        if kernel.full or not self.is_sound(agreed, fresh, seals):
            return None
        cut_after = self._cut(agreed)
        if cut_after is None and agreed != kernel.tail.last_index:
            return None
        kept = [seal for seal in seals if seal.index > agreed]
        kernel.tail.append(fresh, kept)
        kernel.learn_configuration()
        return kernel.persist(cut_after=cut_after, entries=fresh, seals=kept)

    def is_sound(self, agreed: int, fresh: Sequence[Entry], seals: Sequence[Seal]) -> bool:
        """*seal-check*: the entries continue the chain, the last is sealed, and every seal is a known member's word."""
        kernel = self.kernel
        prev_time_us = kernel.tail.entry(agreed).time_us if agreed > kernel.tail.anchor.index else 0
        if chain_fault(fresh, agreed, kernel.tail.hash_at(agreed), prev_time_us):
            kernel.rule("chain-check")
            return False
        entries = {entry.index: entry for entry in fresh}
        kept = [seal for seal in seals if seal.index > agreed]
        sealed = fresh[-1].index in {seal.index for seal in kept}
        if not sealed or not all(self.is_true(seal, entries.get(seal.index), fresh) for seal in kept):
            kernel.rule("seal-check")
            return False
        return True

    def is_true(self, seal: Seal, entry: Entry | None, fresh: Sequence[Entry]) -> bool:
        """Whether the seal is about that entry, and signed."""
        return entry is not None and seal.hash == entry.hash and self.is_signed(seal, fresh)

    def is_signed(self, seal: Seal, fresh: Sequence[Entry]) -> bool:
        """Whether the sealing leader's own key made the seal; the first entries bring their founders' keys along."""
        key = self.kernel.key_of(seal.sealer)
        for entry in fresh if key is None else ():
            member = entry.configuration.member(seal.sealer) if entry.configuration else None
            key = member.public_key if member else key
        return key is not None and self.kernel.notary.check(seal, key)

    def _cut(self, agreed: int) -> int | None:
        """*cut-uncommitted-only*: drop what differs behind `agreed`; the index cut after, None when nothing was cut."""
        kernel = self.kernel
        if agreed >= kernel.tail.last_index:
            return None
        if agreed < kernel.commit_index:
            kernel.halt(f"asked to cut after {agreed}, but {kernel.commit_index} is committed here")
            return None
        kernel.rule("cut-uncommitted-only")
        kernel.emit(Discarded(agreed + 1, kernel.tail.last_index))
        kernel.tail.cut(agreed)
        self.match_index = min(self.match_index, agreed)
        return agreed

    def learn_commit(self, commit_index: int) -> None:
        """Take over the leader's commit index as far as this log is known to equal the leader's."""
        self.kernel.commit(max(self.kernel.commit_index, self.known_commit(commit_index)))

    def known_commit(self, commit_index: int) -> int:
        """Never the node's own unverified tail: no more than what matches."""
        return min(commit_index, self.match_index)

    # --- fetch ---

    def on_fetch(self, sender: str, fetch: Fetch) -> None:
        """A candidate adopts from this log: entries behind what it has, or a hint where to look earlier."""
        kernel = self.kernel
        if not kernel.is_whole:
            return
        if fetch.prev_index < kernel.tail.anchor.index:
            kernel.read_log(fetch.prev_index + 1, lambda read: self._answer(sender, fetch, read.entries, read.seals))
        elif not kernel.tail.holds(fetch.prev_index) or kernel.tail.hash_at(fetch.prev_index) != fetch.prev_hash:
            self._answer(sender, fetch, (), (), matched=False)
        else:
            self._answer(sender, fetch, *kernel.tail.slice(fetch.prev_index + 1, kernel.settings.append_bytes))

    def _answer(
        self, sender: str, fetch: Fetch, entries: tuple[Entry, ...], seals: tuple[Seal, ...], matched: bool = True
    ) -> None:
        kernel = self.kernel
        if entries and entries[0].prev_hash != fetch.prev_hash:
            entries, seals, matched = (), (), False
        reply = Fetched(
            fetch.epoch, fetch.request, matched, entries, seals, kernel.tail.last_index, kernel.commit_index
        )
        kernel.reply_after(self.promise_token(), sender, lambda: reply)
