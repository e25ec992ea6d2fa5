"""Mutants: the protocol with one rule taken away each. A simulator that cannot tell them apart proves nothing.

Each mutant replaces a few methods of the core (or of the machine under it) by the mistake that somebody could have
made, names the profile under which it shows, and how many seeds that may take at most. *Safety* mutants break an
invariant; *liveness* mutants are caught when the cluster is healed, or in the drill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..lease.acceptor import Acceptor
from ..lease.quorum import overlap_fault
from ..lease.tenure import Tenure
from ..log.configuration import Configuration, founding
from ..memory.state import MemoryState, Workspace
from ..node.decider import Decider
from ..replication import follower, kernel, leadership
from ..replication.candidacy import Candidacy
from ..replication.follower import Follower
from ..replication.kernel import Kernel
from ..replication.leadership import Leadership
from ..replication.messages import Found, HardState
from ..replication.reads import ReadBarriers
from ..replication.replica import Replica
from ..replication.sightings import Sightings
from ..replication.tail import Tail
from . import cluster
from .desk import Desk
from .disk import Disk
from .eraser import Eraser
from .fold import Erasure, Fold, context
from .host import Host
from .process import Process
from .report import Report
from .violations import LIVENESS

Patch = tuple[Any, str, Any]
MISFITS = ("AttributeError", "NameError", "TypeError")


@dataclass(frozen=True, slots=True)
class Mutant:
    """`patches` are (owner, attribute, replacement). It must be killed by one of `seeds` runs under `profile`."""

    name: str
    profile: str
    seeds: int
    patches: tuple[Patch, ...]
    is_slow_or_restless: bool = False

    def is_killed_by(self, report: Report) -> bool:
        """Whether that run shows the mistake: a broken promise of safety, or for a liveness mutant of liveness.

        A mutant that no longer fits the code that it changes has not been killed.
        """
        last_line = report.violation.rstrip().rpartition("\n")[2]
        if not last_line or last_line.startswith(MISFITS):
            return False
        return (report.broken_rule in LIVENESS) == self.is_slow_or_restless

    @contextmanager
    def alive(self) -> Generator[None, None, None]:
        """Within this context the mistake is in force, in this process."""
        kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        try:
            for owner, name, mistake in self.patches:
                setattr(owner, name, mistake)
            yield
        finally:
            for owner, name, original in kept:
                setattr(owner, name, original)


def _always(answer: Any) -> Callable[..., Any]:
    def mistake(*_: Any, **__: Any) -> Any:
        return answer

    return mistake


def _nothing(*_: Any, **__: Any) -> None:
    """A step that was forgotten."""


# --- promises ---------------------------------------------------------------------------------------------------------


def _forgetful_promise(self: Kernel) -> HardState:
    return HardState(self.acceptor.promised_epoch, None)


def _anybody_is_the_holder(self: Acceptor, candidate: Any) -> bool:
    return self.holder is None or candidate == self.holder


def _holder_is_a_node(self: Acceptor, candidate: Any) -> bool:
    return self.holder is not None and candidate.node == self.holder.node


_prepare = Candidacy.prepare


def _renew_what_the_last_run_held(self: Candidacy, released_epoch: int = 0) -> None:
    acceptor = self.kernel.acceptor
    if acceptor.holder and acceptor.holder.node == self.kernel.me.node and acceptor.holder != self.kernel.me:
        self.above_epoch = min(self.above_epoch, acceptor.promised_epoch - 1)
        acceptor.promised_epoch -= 1
        self.promised.clear()
    _prepare(self, released_epoch)


_on_prepare = Replica._on_prepare  # pyright: ignore[reportPrivateUsage]
_grant = Replica._grant  # pyright: ignore[reportPrivateUsage]


def _note_position(self: Replica, sender: str, prepare: Any) -> None:
    self.__dict__.setdefault("noted", {}).setdefault(prepare.epoch, self.kernel.tail.durable)
    _on_prepare(self, sender, prepare)


def _grant_noted(self: Replica, prepare: Any) -> Any:
    grant = _grant(self, prepare)
    return grant and replace(grant, position=self.__dict__["noted"][prepare.epoch])


# --- lease ------------------------------------------------------------------------------------------------------------


def _lease_without_margin(self: Tenure, voters: Any, quorum: int) -> int:
    if self.is_dropped:
        return 0
    renewed = sorted((self.renewed_at_us.get(voter, 0) for voter in voters), reverse=True)[quorum - 1]
    return renewed + self.ttl_us if renewed else 0


def _grant_without_margin(self: Acceptor, now_us: int) -> None:
    self.granted_until_us = now_us + self.ttl_us


def _lease_from_the_answer(self: Leadership, sender: str, stamp_us: int) -> None:
    self.tenure.heard(sender, self.kernel.now_us)
    if stamp_us:
        self.tenure.renewed(sender, self.kernel.now_us)


def _lease_by_ticks(self: Leadership) -> bool:
    configuration = self.configuration
    until_us = self.tenure.valid_until_us(configuration.voters, configuration.recovery_quorum)
    return self.beat_at_us < until_us


# --- recovery ---------------------------------------------------------------------------------------------------------


def _longest_first(self: Candidacy, position: Any) -> tuple[int, int]:
    del self
    return (position.index, position.epoch)


def _keep_own_log(self: Candidacy) -> str:
    return self.kernel.me.node


def _configuration_before_adoption(self: Candidacy) -> Any:
    if "first_configuration" not in self.__dict__:
        self.__dict__["first_configuration"] = self.kernel.configuration
    return self.__dict__["first_configuration"]


def _any_fetch_will_do(self: Candidacy, sender: str, fetched: Any) -> bool:
    del sender, fetched
    return self.fetch is not None


# --- append and commit ------------------------------------------------------------------------------------------------


def _acknowledge_the_durable(self: Follower) -> int:
    return self.kernel.tail.durable_index


def _acknowledge_the_matching(self: Follower) -> int:
    return self.match_index


_take_over = Follower.take_over


def _take_part_at_once(self: Sightings) -> None:
    self.is_open = True


def _do_not_wait_for_the_disk(self: Follower, agreed: int, fresh: Any, seals: Any) -> int | None:
    token = _take_over(self, agreed, fresh, seals)
    return None if token is None else 0


def _trust_own_tail(self: Follower, commit_index: int) -> int:
    return min(commit_index, self.kernel.tail.last_index)


def _count_oneself_early(self: Leadership) -> dict[str, int]:
    matches = {peer: progress.match for peer, progress in self.progress.items()}
    matches[self.kernel.me.node] = self.kernel.tail.last_index
    return matches


def _check_only_the_last_seal(self: Follower, seal: Any, entry: Any, fresh: Any) -> bool:
    return seal.index != fresh[-1].index or _is_true(self, seal, entry, fresh)


_is_true = Follower.is_true
_objection = Leadership._objection  # pyright: ignore[reportPrivateUsage]


def _take_what_was_decided_elsewhere(self: Leadership, proposal: Any) -> str:
    reason = _objection(self, proposal)
    return "" if reason == "epoch" else reason


_lose_writes = Kernel.lose_writes


def _owe_no_cut(self: Kernel) -> None:
    _lose_writes(self)
    self._owes_cut = False  # pyright: ignore[reportPrivateUsage]


_cut = Tail.cut


def _keep_seals_on_disk(self: Disk, after: int) -> None:
    del self.entries[after:]


def _keep_seals(self: Tail, after: int) -> None:
    seals = self.seals
    _cut(self, after)
    self.seals = seals


# --- membership and quorums -------------------------------------------------------------------------------------------

TWO = 2


def _quorum_from_flags(self: Any) -> Configuration:
    configuration: Configuration = self.kernel.configuration
    if len(configuration.voters) <= TWO * TWO:
        return _unchecked(configuration, TWO, TWO)
    return configuration


def _unchecked(configuration: Configuration, write_quorum: int, recovery_quorum: int) -> Configuration:
    fields = {"write_quorum": write_quorum, "recovery_quorum": recovery_quorum}
    twin = object.__new__(Configuration)
    for name in Configuration.__dataclass_fields__:
        object.__setattr__(twin, name, fields.get(name, getattr(configuration, name)))
    return twin


def _only_count_voters(self: Configuration) -> None:
    object.__setattr__(self, "voters", frozenset(member.id for member in self.members if member.voting))


def _founding_with(write_quorum: int, recovery_quorum: int) -> Callable[..., Configuration]:
    def found(members: Any, _: int | None = None) -> Configuration:
        chosen = tuple(sorted(members, key=lambda member: member.name))
        return _unchecked(Configuration(chosen, len(chosen), len(chosen)), write_quorum, recovery_quorum)

    return found


_reconfigure_objection = Leadership._reconfigure_objection  # pyright: ignore[reportPrivateUsage]


def _but_for(objection: str) -> Callable[[Leadership, Configuration], str]:
    """A change of the configuration passes in spite of that objection."""

    def mistake(self: Leadership, proposed: Configuration) -> str:
        reason = _reconfigure_objection(self, proposed)
        return overlap_fault(self.configuration, proposed) if reason.startswith(objection) else reason

    return mistake


_matches = Leadership.matches


def _counts_itself_though_removed(self: Leadership) -> dict[str, int]:
    """What it holds itself stands in for the voter that holds least."""
    matches, voters = _matches(self), self.configuration.voters
    if self.kernel.me.node not in voters:
        least = min(sorted(voters), key=lambda voter: matches.get(voter, 0))
        matches[least] = max(matches.get(least, 0), self.own_match)
    return matches


def _found_with_whoever_answers(self: Host, process: Process) -> None:
    if process is self.process and not self.disk.entries:
        first = (self, *(peer for peer in self.cluster.reachable_from(self.id) if peer.is_first))
        agreed = founding([host.member for host in first])
        self.whenever_runs(lambda: process.feed(Found(agreed)))


def _return_under_the_old_id(self: Host) -> None:
    self.crash()
    self.disk = Disk()
    self.lose_projection()
    self.start()


# --- reads ------------------------------------------------------------------------------------------------------------


def _an_older_round(self: ReadBarriers, leadership: Leadership) -> int:
    del self
    return leadership.confirmed_round() or leadership.begin_round()


def _one_less_than_the_quorum(self: ReadBarriers, states: Any, newest: Configuration) -> bool:
    del self
    return sum(voter in states for voter in newest.voters) >= newest.recovery_quorum - 1


def _answer_at_once(self: ReadBarriers, wait: Any, position: Any) -> str:
    del wait, position
    return self.kernel.me.node


def _newest_by_version(self: ReadBarriers, states: Any) -> Configuration:
    del self
    return max((state.configuration for state in states.values()), key=lambda known: known.version)


def _answer_without_waiting(self: ReadBarriers) -> None:
    waits, self.at_index = self.at_index, []
    for wait in waits:
        self._ready(wait.token)  # pyright: ignore[reportPrivateUsage]


_note_state = ReadBarriers._note_state  # pyright: ignore[reportPrivateUsage]


def _highest_index(self: ReadBarriers, wait: Any, member: str, state: Any) -> None:
    _note_state(self, wait, member, state)
    if wait.position is not None:
        wait.position = max((known.position for known in wait.states.values()), key=lambda position: position.index)


def _compare_indexes(self: ReadBarriers, wait: Any, position: Any) -> str:
    if self.kernel.applied_index >= position.index:
        return self.kernel.me.node
    return next((member for member, applied in sorted(wait.applied.items()) if applied.index >= position.index), "")


# --- commands ---------------------------------------------------------------------------------------------------------


def _serves_at_once(self: Leadership) -> bool:
    return self.is_established


def _decide_before_the_adopted_is_applied(self: Desk) -> Decider:
    process = self._process  # pyright: ignore[reportPrivateUsage]
    decider = self._decider  # pyright: ignore[reportPrivateUsage]
    if decider is None:
        decider = Decider(process.host.fold.state, context(process.role.epoch), len(process.log))
        self._decider = decider  # pyright: ignore[reportPrivateUsage]
    return decider


# --- damage -----------------------------------------------------------------------------------------------------------

_new_eraser = Eraser.__init__


def _knows_of_nothing_left(self: Eraser, process: Process) -> None:
    process.host.fold.left.clear()
    _new_eraser(self, process)


def _whenever_it_was_said(self: Erasure, index: int, place: int, subjects: frozenset[bytes]) -> bool:
    del index, place
    return self.id in subjects


_restored = Host.restored


def _truncate_damage(self: Host) -> Any:
    disk = self.disk
    if disk.damaged:
        first = min(disk.damaged)
        del disk.entries[first - 1 :]
        disk.seals = {index: seal for index, seal in disk.seals.items() if index < first}
        disk.damaged.clear()
        disk.commit_index = min(disk.commit_index, first - 1)
        if self.fold.applied.index >= first:
            self.lose_projection()
    return _restored(self)


# --- liveness ---------------------------------------------------------------------------------------------------------


def _campaign_at_once(self: Candidacy) -> None:
    self.prepare()


def _stay_in_transfer(self: Leadership, reason: str) -> None:
    del reason
    self.transfer_until_us += self.kernel.settings.transfer_us


MUTANTS = (
    Mutant("no fsync before a grant", "crashes", 4, ((Replica, "grant_token", _always(0)),)),
    Mutant(
        # A restarted acceptor waits for longer than a candidate keeps asking, and asks first: both would hide this one.
        "holder not durable", "duels", 40,
        ((Kernel, "promise", property(_forgetful_promise)), (Acceptor, "is_holder", _anybody_is_the_holder),
         (Acceptor, "_amnesia_ends", _always(0)), (Sightings, "advance", _take_part_at_once)),
    ),
    Mutant(
        "a restarted process renews", "crashes", 10,
        ((Acceptor, "is_holder", _holder_is_a_node), (Candidacy, "prepare", _renew_what_the_last_run_held)),
    ),
    Mutant("a higher epoch is not promised first", "network", 4, ((Follower, "promise_token", _always(0)),)),
    Mutant("acknowledge the durable", "network", 10, ((Follower, "acknowledged_index", _acknowledge_the_durable),)),
    Mutant("apply an unverified tail", "network", 20, ((Follower, "known_commit", _trust_own_tail),)),
    Mutant(
        "a late fsync counts that a grant left out", "slow grants", 40,
        ((Kernel, "is_current", _always(True)), (Replica, "_on_prepare", _note_position),
         (Replica, "_grant", _grant_noted)),
    ),
    Mutant("count replicas of old epochs", "storm", 240, ((Leadership, "covers_own_entry", _always(True)),)),
    Mutant("read before the epoch's own entry", "network", 40, ((ReadBarriers, "may_answer", _always(True)),)),
    Mutant("adopt by length", "storm", 60, ((Candidacy, "rank", _longest_first),)),
    Mutant("adopt nothing", "network", 10, ((Candidacy, "best_grant", _keep_own_log),)),
    Mutant(
        "count R in the candidate's old configuration", "laggards", 60,
        ((Candidacy, "configuration", property(_configuration_before_adoption)),),
    ),
    Mutant(
        "W and R from flags", "membership", 60,
        ((Leadership, "configuration", property(_quorum_from_flags)),
         (Candidacy, "configuration", property(_quorum_from_flags))),
    ),
    Mutant("founding with whoever answers", "founding", 4, ((Host, "_greet", _found_with_whoever_answers),)),
    Mutant("an older disk takes part", "wipes", 12, ((Sightings, "is_older", _always(False)),)),
    Mutant(
        "a wiped node under its old id", "wipes", 60,
        ((Host, "wipe", _return_under_the_old_id), (Sightings, "is_older", _always(False))),
    ),
    Mutant(
        "acknowledge before fsync", "crashes", 4,
        ((Follower, "acknowledged_index", _acknowledge_the_matching),
         (Follower, "take_over", _do_not_wait_for_the_disk)),
    ),
    Mutant("the leader counts itself early", "disks", 10, ((Leadership, "matches", _count_oneself_early),)),
    Mutant(
        "W + R = N", "five", 80,
        ((cluster, "founding", _founding_with(2, 3)), (Configuration, "__post_init__", _only_count_voters)),
    ),
    Mutant(
        "2R = N", "wide", 160,
        ((cluster, "founding", _founding_with(3, 2)), (Configuration, "__post_init__", _only_count_voters)),
    ),
    Mutant("read index is not confirmed", "leases", 60, ((ReadBarriers, "is_confirmed", _always(True)),)),
    Mutant("read index of an older round", "leases", 60, ((ReadBarriers, "round_after_arrival", _an_older_round),)),
    Mutant("quorum read from fewer than R", "network", 20, ((ReadBarriers, "has_quorum", _one_less_than_the_quorum),)),
    Mutant("no rinse", "network", 20, ((ReadBarriers, "member_that_applied", _answer_at_once),)),
    Mutant(
        "restart without waiting", "leases", 60,
        ((Acceptor, "_amnesia_ends", _always(0)), (Sightings, "advance", _take_part_at_once)),
    ),
    Mutant("no drift margin at the leader", "leases", 60, ((Tenure, "valid_until_us", _lease_without_margin),)),
    Mutant("no drift margin at the acceptor", "leases", 80, ((Acceptor, "renew", _grant_without_margin),)),
    Mutant("lease counted from the answer", "leases", 160, ((Leadership, "_heard", _lease_from_the_answer),)),
    Mutant("lease by ticks", "leases", 60, ((Leadership, "lease_is_valid", _lease_by_ticks),)),
    Mutant("transfer keeps the lease", "leases", 80, ((Leadership, "drop_lease", _nothing),)),
    Mutant("fence left out", "storm", 100, ((Follower, "is_fenced", _always(False)),)),
    Mutant("prefix check left out", "network", 20, ((Follower, "prefix_matches", _always(True)),)),
    Mutant("seal check left out", "network", 20, ((Follower, "is_signed", _always(True)),)),
    Mutant("fetch replies are not matched", "storm", 100, ((Candidacy, "is_expected", _any_fetch_will_do),)),
    Mutant("chain check left out", "network", 40, ((follower, "chain_fault", _always("")),)),
    Mutant("only the last seal is checked", "network", 40, ((Follower, "is_true", _check_only_the_last_seal),)),
    Mutant(
        "proposals decided elsewhere are taken", "membership", 40,
        ((Leadership, "_objection", _take_what_was_decided_elsewhere),),
    ),
    Mutant("a full disk forgets the cut it owes", "disks", 120, ((Kernel, "lose_writes", _owe_no_cut),)),
    Mutant(
        "a shortened log counts", "disks", 60,
        ((Kernel, "is_whole", property(lambda self: not self.damaged)),),
    ),
    Mutant("answers to an earlier run are taken", "echoes", 40, ((kernel, "first_request", _always(0)),)),
    Mutant(
        "reads do not wait for the fold", "network", 20,
        ((ReadBarriers, "_settle_indexes", _answer_without_waiting),),
    ),
    Mutant(
        "R of a quorum read in the newest configuration seen", "rifts", 80,
        ((ReadBarriers, "counted_configuration", _newest_by_version),),
    ),
    Mutant("changes that do not overlap", "rifts", 20, ((leadership, "overlap_fault", _always("")),)),
    Mutant(
        "a change while another is under way", "rifts", 20,
        ((Leadership, "_reconfigure_objection", _but_for("configuration: one change")),),
    ),
    Mutant(
        "a change before the epoch's own entry", "rifts", 80,
        ((Leadership, "_reconfigure_objection", _but_for("leader")),),
    ),
    Mutant(
        "a removed leader counts itself", "rifts", 40,
        ((Leadership, "matches", _counts_itself_though_removed),),
    ),
    Mutant("a voter that has not caught up", "membership", 20, ((Leadership, "_lagging_voters", _always(())),), True),
    Mutant(
        "duplicate ids are executed", "crashes", 10,
        ((Workspace, "outcome", _always(None)), (MemoryState, "outcome", _always(None))),
    ),
    Mutant(
        "duplicates in an adopted tail are executed", "storm", 100,
        ((Leadership, "serves", property(_serves_at_once)),
         (Desk, "_decider_on_newest_state", _decide_before_the_adopted_is_applied)),
    ),
    Mutant("damage in the middle is truncated", "disks", 60, ((Host, "restored", _truncate_damage),)),
    Mutant("what was erased comes back with a repair", "disks", 60, ((Fold, "reopen_erasures", _nothing),)),
    Mutant("erasing is not taken up after a restart", "crashes", 60, ((Eraser, "__init__", _knows_of_nothing_left),)),
    Mutant("erasing takes what came after it too", "crashes", 20, ((Erasure, "covers", _whenever_it_was_said),)),
    Mutant("texts that are missing are not missed", "laggards", 60, ((Fold, "is_whole", property(_always(True))),)),
    Mutant("cut without the seal", "storm", 60, ((Tail, "cut", _keep_seals), (Disk, "_cut", _keep_seals_on_disk))),
    Mutant("no probe", "drill", 4, ((Candidacy, "begin", _campaign_at_once),), True),
    Mutant(
        "quorum reads wait for an index", "drill", 4,
        ((ReadBarriers, "_note_state", _highest_index), (ReadBarriers, "member_that_applied", _compare_indexes)), True,
    ),
    Mutant("no release", "drill", 4, ((Leadership, "_release", _nothing),), True),
    Mutant("a transfer never ends", "drill", 4, ((Leadership, "end_transfer", _stay_in_transfer),), True),
    Mutant("a stalled disk keeps the lease", "drill", 4, ((Kernel, "is_stalled", _always(False)),), True),
    Mutant("no quorum contact", "drill", 4, ((Leadership, "_contact_lost_at_us", _always(1 << 62)),), True),
)  # fmt: skip


def mutant_named(name: str) -> Mutant:
    """The mutant of that name. Raises `KeyError` with the names there are."""
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    if name not in by_name:
        raise KeyError(f"no mutant {name!r}; there are: {', '.join(by_name)}")
    return by_name[name]
