"""Faults: what can go wrong, each with its end. A schedule of them follows from the seed; any of them can be left out.

What would leave a cluster without a quorum of whole members for ever is not done: at most as many members are damaged
or wiped at one time as R allows to be missing. Everything else may coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..replication.messages import Append, Fetched, Transfer
from .checkers import FORGED
from .disk import Disk
from .network import CHANGEABLE, Weather
from .operator import Operator
from .profiles import Profile
from .rifts import Rifts
from .world import MILLISECOND, SECOND

if TYPE_CHECKING:
    from .cluster import Cluster
    from .host import Host
    from .process import Process

HOUR_US = 3600 * SECOND
IMPOSSIBLE_US = 60 * MILLISECOND


class Faults:
    """Strikes the cluster by schedule until `stop`. `without` names places of the schedule that are left out; `struck`
    is how many faults there were.
    """

    def __init__(self, cluster: Cluster, profile: Profile, operator: Operator, without: Collection[int] = ()) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._network = cluster.network
        self._profile = profile
        self._operator = operator
        self._choices = cluster.world.stream("faults")
        self._without = without
        self._stopped = False
        self._place = 0
        self.struck = 0
        self._generation = 0
        self._added = 0
        self._copies: dict[str, Disk] = {}
        cluster.on_lost = self._replace
        self._rifts = rifts = Rifts(cluster, operator, self._choices, self._mend_later)
        self._strikes: dict[str, Callable[[], bool]] = {
            "crash": self._crash,
            "crash between effects": self._crash_between_effects,
            "crash after a grant": self._crash_after_a_grant,
            "followers restart": self._followers_restart,
            "power cut": self._power_cut,
            "torn write": self._torn_write,
            "lost projection": self._lost_projection,
            "leader cut off": self._leader_cut_off,
            "leader cut off in transfer": self._leader_cut_off_in_transfer,
            "new leaders cut off": self._new_leaders_cut_off,
            "split": self._split,
            "one-way partition": self._one_way,
            "lossy network": lambda: self._weather(Weather(loss=0.15, reordering=0.3)),
            "doubling network": lambda: self._weather(Weather(duplication=0.3, reordering=0.3)),
            "reordering network": lambda: self._weather(Weather(reordering=1.0, delay_us=(100, 20_000))),
            "delaying network": lambda: self._weather(Weather(spike=0.25, reordering=1.0, delay_us=(100, 20_000))),
            "slow link": self._slow_link,
            "forged history": self._forged_history,
            "pause": lambda: self._pause(self._someone(), 50, 1_500),
            "leader paused beyond its lease": lambda: self._pause(self._leader(), 700, 3_000),
            "leader paused and cut off": self._leader_paused_and_cut_off,
            "leader paused with writes under way": self._leader_paused_with_writes_under_way,
            "pause between effects": self._pause_between_effects,
            "slow fold": self._slow_fold,
            "slow disk": self._slow_disk,
            "stalled disk": self._stalled_disk,
            "full disk": self._full_disk,
            "full disk at a cut": self._full_disk_at_a_cut,
            "bit rot": self._bit_rot,
            "log older than its projection": self._log_older_than_its_projection,
            "wiped disk": lambda: self._wipe(self._someone()),
            "older disk": self._older_disk,
            "wiped disk while another lags": self._wiped_disk_while_another_lags,
            "clock rate": self._clock_rate,
            "clocks apart": self._clocks_apart,
            "wall clock step": self._wall_clock_step,
            "machine suspended": self._machine_suspended,
            "election storm": self._election_storm,
            "transfer": self._transfer,
            "member added": lambda: self._member_added(lagging=False),
            "member added while it lags": lambda: self._member_added(lagging=True),
            "member removed": self._member_removed,
            "old members miss a change": self._old_members_miss_a_change,
            "restarts behind a slow link": rifts.restarts_behind_a_slow_link,
            "change that nobody takes over": rifts.change_that_nobody_takes_over,
            "leader removes itself apart": rifts.leader_removes_itself_apart,
        }
        self._world.at(profile.first_fault_us, self._next)

    @property
    def places(self) -> int:
        """How many faults were planned so far, those that were left out or impossible included."""
        return self._place

    def stop(self) -> None:
        """No more faults."""
        self._stopped = True
        self._rifts.stop()
        self._cluster.ambush = self._operator.ambush = self._cluster.forger = None

    def _next(self) -> None:
        if self._stopped:
            return
        names = list(self._profile.weights)
        if "older disk" in names:
            self._copy_a_disk()
        [name] = self._choices.choices(names, weights=[self._profile.weights[name] for name in names])
        self._place += 1
        pace_us = self._choices.randint(*self._profile.pace_us)
        if self._place not in self._without and self._strikes[name]():
            self.struck += 1
            self._cluster.faults_seen.count(name)
            self._world.note(f"fault {self._place}: {name}")
        elif self._place not in self._without:
            pace_us = IMPOSSIBLE_US  # nothing to strike just now: think of something else soon
        self._world.after(pace_us, self._next)

    # --- choosing ---

    def _someone(self) -> Host | None:
        alive = [host for host in self._cluster.hosts.values() if host.process is not None]
        return self._choices.choice(alive) if alive else None

    def _leader(self) -> Host | None:
        """The serving leader; anybody when there is none."""
        leader = self._cluster.leader
        return leader.host if leader else self._someone()

    def _victim(self) -> Host | None:
        return self._leader() if self._choices.random() < 0.4 else self._someone()

    def _duration_us(self, low_ms: int, high_ms: int) -> int:
        return self._choices.randint(low_ms, high_ms) * MILLISECOND

    def _restart_later(self, host: Host) -> None:
        self._world.after(self._duration_us(50, 2_500), host.start)

    # --- processes ---

    def _crash(self) -> bool:
        host = self._victim()
        if host is None:
            return False
        host.crash()
        if self._choices.random() < 0.3:
            host.clock.reboot(self._choices.randrange(SECOND, 30 * SECOND))
        self._restart_later(host)
        return True

    def _crash_between_effects(self) -> bool:
        host = self._victim()
        if host is None or host.process is None:
            return False
        host.process.fuse = self._choices.randint(1, 40)
        host.process.fuse_pauses_us = 0
        self._world.after(self._duration_us(800, 2_500), host.start)
        return True

    def _crash_after_a_grant(self) -> bool:
        """The leader restarts between rivals that do not hear each other, and dies again once it grants one of them."""
        leader = self._cluster.leader
        if leader is None:
            return False
        rivals = [id for id in self._cluster.hosts if id != leader.me]
        leader.host.crash()
        for place, rival in enumerate(rivals):
            self._network.isolate([rival], rivals[place + 1 :])
        leader.host.dies_after_granting = True
        self._keep_starting(leader.host, 60)
        self._cluster.ambush = self._silence
        self._mend_later(2_200, 2_800)
        return True

    def _silence(self, process: Process) -> None:
        """A new leader is heard by nobody from now on, but for what is on its way."""
        self._cluster.ambush = None
        others = [id for id in self._cluster.hosts if id != process.me]
        self._world.after(self._choices.randint(0, 1_500), lambda: self._network.isolate([process.me], others))

    def _keep_starting(self, host: Host, times: int) -> None:
        host.start()
        if times:
            self._world.after(self._duration_us(5, 60), lambda: self._keep_starting(host, times - 1))

    def _followers_restart(self) -> bool:
        """All but the leader restart within its lease, while they cannot hear it."""
        leader = self._cluster.leader
        if leader is None or not self._leader_cut_off():
            return False
        for host in self._cluster.hosts.values():
            if host is not leader.host:
                host.crash()
                self._world.after(self._duration_us(1, 60), host.start)
        return True

    def _power_cut(self) -> bool:
        for host in self._cluster.hosts.values():
            if host.process is not None:
                host.crash()
                host.clock.reboot(self._choices.randrange(SECOND, 30 * SECOND))
                self._restart_later(host)
        return True

    def _torn_write(self) -> bool:
        host = self._victim()
        if host is None:
            return False
        host.disk.tears = True
        return True

    def _lost_projection(self) -> bool:
        host = self._someone()
        if host is None:
            return False
        host.crash()
        host.lose_projection()
        self._restart_later(host)
        return True

    def _pause(self, host: Host | None, low_ms: int, high_ms: int) -> bool:
        if host is None or host.is_paused:
            return False
        host.pause(self._duration_us(low_ms, high_ms))
        return True

    def _leader_paused_and_cut_off(self) -> bool:
        """Clients reach the leader when it goes on, the next leader's messages do not."""
        leader = self._cluster.leader
        if leader is None:
            return False
        self._network.isolate([leader.me], [id for id in self._cluster.hosts if id != leader.me])
        self._mend_later(1_500, 3_000)
        return self._pause(leader.host, 600, 1_400)

    def _leader_paused_with_writes_under_way(self) -> bool:
        """One follower has the leader's last entries on their way to a stuck disk, the others never get them."""
        leader = self._cluster.leader
        followers = [id for id in sorted(self._cluster.configuration.voters) if leader and id != leader.me]
        if leader is None or not followers:
            return False
        stuck = self._cluster.hosts[self._choices.choice(followers)]
        self._network.sever([leader.me], [id for id in followers if id != stuck.id])
        self._for_a_while(stuck, "is_stalled", 900, 1_300)
        self._world.after(self._duration_us(20, 120), lambda: leader.host.pause(self._duration_us(1_300, 1_900)))
        self._mend_later(300, 500)
        return True

    def _pause_between_effects(self) -> bool:
        host = self._victim()
        if host is None or host.process is None:
            return False
        host.process.fuse = self._choices.randint(1, 40)
        host.process.fuse_pauses_us = self._duration_us(100, 2_000)
        return True

    def _slow_fold(self) -> bool:
        host = self._someone()
        if host is None:
            return False
        host.applies_slowly = True
        self._world.after(self._duration_us(300, 2_000), lambda: setattr(host, "applies_slowly", False))
        return True

    # --- network ---

    def _mend_later(self, low_ms: int, high_ms: int) -> None:
        self._generation += 1
        generation = self._generation

        def mend() -> None:
            if generation == self._generation:
                self._network.mend()

        self._world.after(self._duration_us(low_ms, high_ms), mend)

    def _places(self) -> list[str]:
        return [*self._cluster.hosts, *(f"c{number}" for number in range(1, self._profile.clients + 1))]

    def _leader_cut_off(self) -> bool:
        host = self._leader()
        if host is None:
            return False
        places = self._places() if self._choices.random() < 0.3 else list(self._cluster.hosts)
        self._network.isolate([host.id], [place for place in places if place != host.id])
        self._mend_later(200, 2_500)
        return True

    def _leader_cut_off_in_transfer(self) -> bool:
        """The word that hands leadership over gets through, and nothing after it."""
        leader = self._cluster.leader
        if leader is None:
            return False
        leader.feed(Transfer(None))
        self._world.after(self._choices.randint(500, 4_000), self._cut_leader_off)
        return True

    def _cut_leader_off(self) -> None:
        self._leader_cut_off()

    def _new_leaders_cut_off(self) -> bool:
        """For some seconds every new leader soon loses some of the others, and has hardly spread its first entries."""
        self._cluster.ambush = self._cut_off_soon
        self._world.after(self._duration_us(2_500, 6_000), lambda: setattr(self._cluster, "ambush", None))
        return self._leader_cut_off()

    def _cut_off_soon(self, process: Process) -> None:
        others = [id for id in self._cluster.hosts if id != process.me]
        fewest = len(others) if self._choices.random() < 0.5 else len(others) // 2
        lost = self._choices.sample(others, self._choices.randint(fewest, len(others)))
        self._network.mend()
        self._world.after(self._choices.randint(0, 12_000), lambda: self._network.isolate([process.me], lost))
        self._mend_later(2_000, 4_000)

    def _split(self) -> bool:
        places = self._places()
        left = [place for place in places if self._choices.random() < 0.5]
        self._network.isolate(left, [place for place in places if place not in left])
        self._mend_later(200, 2_500)
        return True

    def _one_way(self) -> bool:
        host = self._victim()
        if host is None:
            return False
        others = [id for id in self._cluster.hosts if id != host.id]
        some = others if self._choices.random() < 0.5 else [self._choices.choice(others)]
        pair = ([host.id], some) if self._choices.random() < 0.5 else (some, [host.id])
        self._network.sever(*pair)
        self._mend_later(200, 2_500)
        return True

    def _weather(self, weather: Weather) -> bool:
        self._network.weather = weather

        def clear_up() -> None:
            if self._network.weather is weather:
                self._network.weather = CHANGEABLE

        self._world.after(self._duration_us(300, 2_500), clear_up)
        return True

    def _slow_link(self) -> bool:
        host = self._someone()
        if host is None:
            return False
        self._network.slow_down(host.id, self._places(), self._duration_us(20, 250))
        self._mend_later(300, 2_000)
        return True

    def _forged_history(self) -> bool:
        """For a while somebody on the wire changes entries and seals."""
        self._cluster.forger = self._forge
        self._world.after(self._duration_us(200, 1_500), lambda: setattr(self._cluster, "forger", None))
        return True

    def _forge(self, message: Any) -> Any:
        if not isinstance(message, Append | Fetched) or not message.entries or self._choices.random() < 0.6:
            return message
        self._cluster.faults_seen.count("messages forged")
        if self._choices.random() < 0.5:
            seals = list(message.seals)
            place = self._choices.randrange(len(seals))
            seals[place] = replace(seals[place], signature=seals[place].signature[::-1])
            return replace(message, seals=tuple(seals))
        place = self._choices.randrange(len(message.entries))
        forged = replace(message.entries[place], signature=FORGED)
        return replace(message, entries=(*message.entries[:place], forged, *message.entries[place + 1 :]))

    # --- disks ---

    def _for_a_while(self, host: Host, flag: str, low_ms: int, high_ms: int) -> bool:
        setattr(host.disk, flag, True)

        def end() -> None:
            setattr(host.disk, flag, False)
            host.wake_disk()

        self._world.after(self._duration_us(low_ms, high_ms), end)
        return True

    def _slow_disk(self) -> bool:
        host = self._victim()
        return host is not None and self._for_a_while(host, "is_slow", 300, 3_000)

    def _stalled_disk(self) -> bool:
        host = self._victim()
        bounds_ms = (10_200, 12_000) if self._choices.random() < 0.3 else (200, 2_500)
        return host is not None and self._for_a_while(host, "is_stalled", *bounds_ms)

    def _full_disk(self) -> bool:
        host = self._victim()
        return host is not None and self._for_a_while(host, "is_full", 200, 2_500)

    def _full_disk_at_a_cut(self) -> bool:
        """A leader that was cut off finds no room just when it has to drop what nobody else took over."""
        leader = self._cluster.leader
        if leader is None:
            return False
        host = leader.host
        self._network.isolate([host.id], [id for id in self._cluster.hosts if id != host.id])
        self._mend_later(1_200, 2_000)
        host.disk.fills_at_a_cut = True

        def end() -> None:
            host.disk.fills_at_a_cut = host.disk.is_full = False
            host.wake_disk()

        self._world.after(self._duration_us(2_500, 3_500), end)
        return True

    def _may_lose_one_more(self) -> bool:
        """Whether R whole members would be left if another one were damaged or wiped."""
        configuration, hosts = self._cluster.configuration, self._cluster.hosts
        whole = [id for id in configuration.voters if hosts[id].is_whole]
        return len(whole) > configuration.recovery_quorum and self._operator.is_idle

    def _bit_rot(self) -> bool:
        host = self._someone()
        if host is None or not host.disk.entries or not self._may_lose_one_more():
            return False
        last = min(host.disk.last_index, self._cluster.checks.history.length)
        index = self._choices.randint(1, last) if last else 0
        if not index or host.disk.hash_at(index) != self._cluster.checks.history.entries[index - 1].hash:
            return False
        host.disk.damaged.add(index)
        if self._choices.random() < 0.6:
            host.crash()
            self._restart_later(host)
        else:
            self._world.after(self._duration_us(100, 1_000), host.scrub)
        return True

    def _log_older_than_its_projection(self) -> bool:
        """Somebody puts an earlier copy of the log in place; the projection tells that there was more.

        If it had not applied all that the log held, nobody could tell: such a node is one that lost its disk.
        """
        host = self._someone()
        if host is None or not self._may_lose_one_more():
            return False
        if not host.disk.last_index or host.fold.applied.index < host.disk.last_index:
            return False
        host.crash()
        if host.fold.applied.index < host.disk.last_index:
            self._restart_later(host)
            return True
        earlier = max(0, host.disk.last_index - self._choices.randint(1, 60))
        host.disk.go_back_to(earlier, self._cluster.checks.history.entries)
        self._restart_later(host)
        return True

    def _wipe(self, host: Host | None) -> bool:
        """*lost-disk-is-a-new-member*: the machine comes back empty, under a new id, and the old id is removed."""
        if host is None or host.id not in self._cluster.configuration.voters or not self._may_lose_one_more():
            return False
        host.wipe()
        self._replace(host)
        return True

    def _replace(self, host: Host) -> None:
        self._enter_new_member()
        self._operator.remove(host.id)

    def _copy_a_disk(self) -> None:
        host = self._someone()
        if host is not None and not host.disk.is_empty and not host.disk.damaged and not host.is_older:
            self._copies[host.id] = host.disk.copied()

    def _older_disk(self) -> bool:
        """A member is set back to a copy that was made while it ran, or stood still.

        All other voters have stored that they saw it farther; where nobody could tell, nobody is to blame.
        """
        voters, hosts = self._cluster.configuration.voters, self._cluster.hosts
        someone = [id for id in sorted(self._copies) if id in voters and self._is_known_to_be_older(id)]
        if not someone or not self._may_lose_one_more():
            return False
        host = hosts[self._choices.choice(someone)]
        host.set_back(self._copies.pop(host.id).copied())
        self._restart_later(host)
        return True

    def _is_known_to_be_older(self, id: str) -> bool:
        copy, hosts = self._copies[id], self._cluster.hosts
        own = copy.hard_state.promised_epoch, max(copy.last_index, copy.commit_index)
        others = self._cluster.configuration.voters - {id}
        seen = [(known.epoch, known.index) for other in others for known in hosts[other].disk.seen if known.node == id]
        whole = hosts[id].is_whole and all(hosts[other].is_whole for other in others)
        return whole and len(seen) == len(others) and all(own < known for known in seen)

    def _wiped_disk_while_another_lags(self) -> bool:
        """The only follower that has the newest entries loses its disk, and then the leader falls silent."""
        leader = self._cluster.leader
        followers = [id for id in sorted(self._cluster.configuration.voters) if leader and id != leader.me]
        if leader is None or not followers or not self._may_lose_one_more():
            return False
        holder = self._cluster.hosts[self._choices.choice(followers)]
        self._network.isolate([leader.me], [id for id in followers if id != holder.id])

        def wipe() -> None:
            self._wipe(holder)
            self._world.after(self._duration_us(10, 200), fall_silent)

        def fall_silent() -> None:
            self._network.mend()
            self._network.isolate([leader.me], [id for id in self._cluster.hosts if id != leader.me])
            self._mend_later(1_500, 3_000)

        self._world.after(self._duration_us(100, 400), wipe)
        return True

    # --- clocks ---

    def _clock_rate(self) -> bool:
        host = self._someone()
        if host is None:
            return False
        host.clock.change_rate(self._choices.choice((-1, 1)) * self._choices.randint(0, self._profile.rate_ppm))
        if host.running is not None:
            host.running.rearm()
        return True

    def _clocks_apart(self) -> bool:
        """The leader's clock is as slow as is allowed, all others as fast, its answers late; then it is cut off."""
        leader = self._cluster.leader
        if leader is None:
            return False
        for host in self._cluster.hosts.values():
            host.clock.change_rate(self._profile.rate_ppm * (-1 if host is leader.host else 1))
            if host.running is not None:
                host.running.rearm()
        others = [id for id in self._cluster.hosts if id != leader.me]
        if self._choices.random() < 0.5:
            self._network.slow_down(leader.me, others, self._duration_us(20, 120))
        self._world.after(self._duration_us(700, 1_000), lambda: self._network.isolate([leader.me], others))
        self._mend_later(2_000, 3_000)
        return True

    def _wall_clock_step(self) -> bool:
        host = self._victim()
        if host is None:
            return False
        host.clock.wall_offset_us = self._choices.choice((-HOUR_US, HOUR_US, -40 * SECOND, 40 * SECOND))
        self._world.after(self._duration_us(500, 4_000), lambda: setattr(host.clock, "wall_offset_us", 0))
        return True

    def _machine_suspended(self) -> bool:
        """The machine stops and its clock with it: this breaks the assumption of lease reads, and nothing else."""
        host = self._victim()
        if host is None or host.is_paused:
            return False
        duration_us = self._duration_us(300, 3_000)
        host.pause(duration_us)
        self._world.after(duration_us - 1, lambda: host.clock.freeze(duration_us))
        return True

    # --- elections ---

    def _transfer(self) -> bool:
        leader = self._cluster.leader
        if leader is None:
            return False
        target = self._choices.choice([None, *self._cluster.hosts])
        leader.feed(Transfer(target))
        return True

    def _election_storm(self) -> bool:
        ends_us = self._world.now_us + self._duration_us(1_500, 4_000)

        def gust() -> None:
            if self._stopped or self._world.now_us > ends_us:
                return
            strike = self._choices.choice(
                (self._leader_cut_off, self._transfer, self._nudge, self._crash_between_effects)
            )
            strike()
            self._world.after(self._duration_us(80, 500), gust)

        gust()
        return True

    def _nudge(self) -> bool:
        return self._pause(self._leader(), 100, 900)

    # --- membership ---

    def _enter_new_member(self) -> str:
        self._added += 1
        id = f"m{self._added}"
        self._cluster.add_host(id).start()
        self._operator.add(id)
        return id

    def _member_added(self, lagging: bool) -> bool:
        if not self._operator.is_idle or len(self._cluster.configuration.voters) > self._profile.size + 1:
            return False
        id = self._enter_new_member()
        if lagging:
            self._network.slow_down(id, self._cluster.hosts, self._duration_us(100, 300))
            self._mend_later(1_000, 3_000)
        return True

    def _member_removed(self) -> bool:
        voters = sorted(self._cluster.configuration.voters)
        if not self._operator.is_idle or len(voters) <= 3:
            return False
        self._operator.remove(self._choices.choice(voters))
        return True

    def _old_members_miss_a_change(self) -> bool:
        """As many old members as may be missing do not hear of the next new voter, and can talk to each other."""
        self._operator.ambush = self._cut_off_old_members
        return True

    def _cut_off_old_members(self, leader: str, voters: Collection[str]) -> None:
        spare = (len(voters) - 1) // 2
        old = [id for id in self._cluster.first_members if id in voters and id != leader][:spare]
        self._network.isolate(old, [id for id in self._cluster.hosts if id not in old])
        self._mend_later(1_500, 4_000)
