"""A fake network: directed links that lose, delay, double and reorder messages, or stay silent in one direction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .world import MILLISECOND, SECOND, Action, World


@dataclass(frozen=True, slots=True)
class Weather:
    """How messages fare: the chances of loss, of a second copy, of being overtaken by later ones, and of a delay far
    outside `delay_us` (lowest, highest).
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    spike: float = 0.0
    delay_us: tuple[int, int] = (100, 1_500)
    longest_spike_us: int = 1_500 * MILLISECOND


FAIR = Weather()
CHANGEABLE = Weather(loss=0.002, duplication=0.002, reordering=0.1, spike=0.002)


class Network:
    """Carries actions ("hand this message over") from a place to a place, each at most twice, in any order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("network")
        self.weather = CHANGEABLE
        self.severed: set[tuple[str, str]] = set()
        self.slow_us: dict[tuple[str, str], int] = {}
        self.counts: dict[str, int] = {"lost": 0, "doubled": 0, "reordered": 0, "delayed": 0, "severed": 0}
        self._latest_us: dict[tuple[str, str], int] = {}

    def carry(self, sender: str, receiver: str, deliver: Action) -> None:
        """Let `deliver` happen after the link's delay, unless the message is lost on the way."""
        if (sender, receiver) in self.severed:
            self.counts["severed"] += 1
            return
        weather, choice = self.weather, self._random.random()
        if choice < weather.loss:
            self.counts["lost"] += 1
            return
        self._fly(sender, receiver, deliver)
        if choice > 1.0 - weather.duplication:
            self.counts["doubled"] += 1
            self._fly(sender, receiver, deliver)

    def _fly(self, sender: str, receiver: str, deliver: Action) -> None:
        """A partition loses about half of what is on its way when it begins; the rest arrives, maybe long after."""

        def arrive() -> None:
            if (sender, receiver) in self.severed and self._random.random() < 0.5:
                self.counts["severed"] += 1
            else:
                deliver()

        self._world.at(self._arrival_us(sender, receiver), arrive)

    def _arrival_us(self, sender: str, receiver: str) -> int:
        """A link is a stream: what was sent first arrives first, unless the weather lets it be overtaken."""
        link = (sender, receiver)
        arrival_us = self._world.now_us + self._delay_us(sender, receiver)
        latest_us = self._latest_us.get(link, 0)
        if arrival_us <= latest_us and self._random.random() < self.weather.reordering:
            self.counts["reordered"] += 1
            return arrival_us
        self._latest_us[link] = arrival_us = max(arrival_us, latest_us + 1)
        return arrival_us

    def sever(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """Cut every link from one of `senders` to one of `receivers`: one direction only."""
        listed = tuple(receivers)
        self.severed.update((sender, receiver) for sender in senders for receiver in listed if sender != receiver)

    def isolate(self, places: Iterable[str], others: Iterable[str]) -> None:
        """Cut both directions between two groups."""
        left, right = tuple(places), tuple(others)
        self.sever(left, right)
        self.sever(right, left)

    def slow_down(self, place: str, others: Iterable[str], delay_us: int) -> None:
        """Delay everything between `place` and `others`, in both directions."""
        for other in others:
            self.slow_us[place, other] = self.slow_us[other, place] = delay_us

    def mend(self) -> None:
        """Join every link again, at its usual speed."""
        self.severed.clear()
        self.slow_us.clear()

    def _delay_us(self, sender: str, receiver: str) -> int:
        low, high = self.weather.delay_us
        delay = low + int(self._random.random() * (high - low))
        if self.slow_us:
            delay += self.slow_us.get((sender, receiver), 0)
        if self.weather.spike and self._random.random() < self.weather.spike:
            self.counts["delayed"] += 1
            delay += int(self._random.paretovariate(1.2) * 20 * MILLISECOND) % self.weather.longest_spike_us
        return min(delay, 5 * SECOND)
