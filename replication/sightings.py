"""How far each member was seen to have promised and acknowledged: so an older copy of a disk is known (PROTOCOL § 5).

Every byte of such a copy was right once, so that nothing in it tells. The other members remember: each keeps, durably,
the highest epoch that a member was seen in and how much it had acknowledged there. Both only grow, since promises do,
and nobody cuts what was acknowledged to a leader as long as that leader's epoch is the highest one promised.

*ask-before-taking-part*: a member that starts on a disk that is not empty asks the others what they have seen of it.
Until all of them have answered, or R of the newest configuration that is heard of and as much time has passed as old
grants may live, it grants, confirms and acknowledges nothing. One that hears of more than its disk holds is lost
(*lost-disk-is-a-new-member*).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..lease.quorum import reached
from .messages import Lost, SeenQuery, SeenReply, Sighting

if TYPE_CHECKING:
    from ..log.configuration import Configuration
    from .kernel import Kernel

IDLE_US = 1_000_000
"""What was seen is stored with the next write of any kind, and by itself when there was none for so long."""

NEVER_US = 1 << 62


class Sightings:
    """What this member has seen of the others, and whether they let it take part: `is_open`."""

    def __init__(self, kernel: Kernel, stored: Iterable[Sighting], is_blank: bool) -> None:
        self._kernel = kernel
        self._seen = {known.node: known for known in stored}
        self._found = self._own()
        self.is_open = is_blank
        self.is_lost = False
        self._answered: set[str] = set()
        self._heard: Configuration | None = None
        self._request = 0
        self._asked_at_us = -NEVER_US
        self._since_us = kernel.now_us
        self._unstored_since_us: int | None = None

    def of(self, node: str) -> Sighting | None:
        """The farthest that this member was seen at, as far as is known here."""
        return self._seen.get(node)

    @property
    def all(self) -> tuple[Sighting, ...]:
        """What there is to tell others: of members only, so that it stays small."""
        configuration = self._kernel.configuration
        members = {member.id for member in configuration.members} if configuration else set[str]()
        return tuple(self._seen[node] for node in sorted(self._seen) if node in members)

    # --- seeing ---

    def see(self, node: str, epoch: int, index: int = 0) -> None:
        """This member has durably promised that epoch, and acknowledged so much to its leader."""
        known = self._seen.get(node)
        if node != self._kernel.me.node and (known is None or (known.epoch, known.index) < (epoch, index)):
            self._seen[node] = Sighting(node, epoch, index)
            if self._unstored_since_us is None:
                self._unstored_since_us = self._kernel.now_us

    def hear(self, told: Iterable[Sighting]) -> None:
        """Another member says what it has seen; of this one too."""
        for sighting in told:
            if sighting.node == self._kernel.me.node:
                self._judge(sighting)
            else:
                self.see(*sighting)

    # --- storing ---

    def to_store(self) -> tuple[Sighting, ...] | None:
        """What the write that is being asked for has to take along; None: nothing is news."""
        if self._unstored_since_us is None:
            return None
        self._unstored_since_us = None
        return self.all

    def not_stored(self) -> None:
        """Writes were lost: whatever they took along has to be stored again."""
        if self._seen:
            self._unstored_since_us = self._kernel.now_us

    @property
    def store_at_us(self) -> int:
        """When what was seen has to be stored by a write of its own."""
        return NEVER_US if self._unstored_since_us is None else self._unstored_since_us + IDLE_US

    # --- being seen ---

    def begin_again(self) -> None:
        """A configuration came from outside: others in it may know this member, also where its disk is empty."""
        self.is_open, self._since_us = False, self._kernel.now_us

    def on_query(self, sender: str, query: SeenQuery) -> None:
        """Tell a member that has started what was seen of it, and of the others."""
        if (configuration := self._kernel.configuration) is not None:
            self._kernel.send(sender, SeenReply(query.request, self.all, configuration))

    def on_reply(self, sender: str, reply: SeenReply) -> None:
        """A member says what it has seen."""
        if reply.request == self._request and self._request:
            self.hear(reply.seen)
            self._answered.add(sender)
            self._heard = max(self._heard or reply.configuration, reply.configuration, key=_version)
            self.advance()

    @property
    def next_us(self) -> int:
        """When this member has to ask again, or need wait no more."""
        if not self._asks:
            return NEVER_US
        again_us = self._asked_at_us + self._kernel.settings.retry_us
        return min(again_us, self._until_us) if self._kernel.now_us < self._until_us else again_us

    @property
    def _asks(self) -> bool:
        """A damaged node is started again once it is repaired, and asks then."""
        kernel = self._kernel
        return not (self.is_open or self.is_lost or kernel.damaged) and kernel.configuration is not None

    @property
    def _until_us(self) -> int:
        acceptor = self._kernel.acceptor
        return self._since_us + acceptor.ttl_us + acceptor.margin_us

    def advance(self) -> None:
        """Take part, if that is allowed by now; else ask those that have not answered."""
        kernel, own = self._kernel, self._kernel.configuration
        if own is None or not self._asks:
            return
        configuration = max(own, self._heard or own, key=_version)
        others = configuration.voters - {kernel.me.node}
        enough = reached({*self._answered, kernel.me.node}, configuration.voters, configuration.recovery_quorum)
        if others <= self._answered or (enough and kernel.now_us >= self._until_us):
            kernel.rule("ask-before-taking-part")
            self.is_open = True
        elif kernel.now_us >= self._asked_at_us + kernel.settings.retry_us:
            self._asked_at_us = kernel.now_us
            self._request = self._request or kernel.request()
            for peer in sorted((others | own.voters) - self._answered - {kernel.me.node}):
                kernel.send(peer, SeenQuery(self._request))

    def _own(self) -> tuple[int, int]:
        """How far this member is itself. What it must reach before it counts again is as good as held.

        The promise counts as it binds in memory: what is cut for a new leader is gone from the tail before the promise
        to it is on disk, and nobody may be called older for the moment between the two.
        """
        kernel = self._kernel
        return kernel.acceptor.promised_epoch, max(kernel.tail.durable_index, kernel.must_reach)

    def _judge(self, sighting: Sighting) -> None:
        """Before it takes part, what counts is what was found on the disk: since then others may have filled it up."""
        own = self._own() if self.is_open else self._found
        if self.is_lost or not self.is_older(own, sighting):
            return
        self.is_lost = True
        self._kernel.rule("older-disk")
        self._kernel.emit(
            Lost(
                f"this disk holds epoch {own[0]} and {own[1]} entries, other members have seen this node in epoch "
                f"{sighting.epoch} with {sighting.index} acknowledged: it is an older copy"
            )
        )

    def is_older(self, own: tuple[int, int], sighting: Sighting) -> bool:
        """Whether who stands there has forgotten what it was seen to promise or to acknowledge."""
        return own < (sighting.epoch, sighting.index)


def _version(configuration: Configuration) -> tuple[int, int]:
    return configuration.version
