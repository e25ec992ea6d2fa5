"""What a node's anti-entropy did since the start, for its status, its metrics and its log."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

import structlog

from ..antientropy.standing import NOTES_KEPT, Note, PeerStanding, ScrubStanding, Standing
from .metrics import Metrics
from .system import Clock

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.antientropy")


class Chronicle:
    """Lives as long as the node, over everything that is opened again. Belongs to the loop."""

    def __init__(self, name: str, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._log = _log.bind(node=name)
        self._repairs: Counter[str] = Counter()
        self._notes: deque[Note] = deque(maxlen=NOTES_KEPT)
        self._peers: dict[str, PeerStanding] = {}
        self._compared_wall_us = 0
        self._differences = self._findings = 0
        self.scrub = ScrubStanding()
        self.doing = ""

    @property
    def standing(self) -> Standing:
        """All of it, as it is now."""
        peers = tuple(peer for _, peer in sorted(self._peers.items()))
        return Standing(
            self._compared_wall_us, peers, self.scrub, self._differences, self._findings, dict(self._repairs),
            self.doing, tuple(self._notes),
        )  # fmt: skip

    def compared(self, peers: Mapping[str, PeerStanding]) -> None:
        """A comparison with these peers has ended; by id."""
        self._peers = dict(peers)
        self._compared_wall_us = self._clock.wall_us()

    def differed(self, peer: str, index: int, buckets: tuple[int, ...]) -> None:
        """A peer's state is another one."""
        self._differences += len(buckets)
        self._log.warning("states differ", peer=peer, index=index, buckets=list(buckets))
        self._note(f"at index {index} buckets {_listed(buckets)} differ from those of {peer}")

    def found(self, where: str, what: tuple[str, ...]) -> None:
        """Something in the files of this node is not as it was written."""
        self._findings += len(what)
        self._log.warning("damage found", where=where, findings=list(what))
        self._note(f"{where}: {_listed(what)}")

    def repaired(self, kind: str, what: str) -> None:
        """It is again, or its place in the file holds what it should."""
        self._repairs[kind] += 1
        self._metrics.repairs.labels(kind).inc()
        self._log.warning("repaired", kind=kind, what=what)
        self._note(f"repaired: {what}")

    def remarked(self, text: str) -> None:
        """Something else that an operator wants to know."""
        self._log.warning("anti-entropy", remark=text)
        self._note(text)

    def _note(self, text: str) -> None:
        self._notes.append(Note(self._clock.wall_us(), text))


SHOWN = 4


def _listed(items: tuple[object, ...]) -> str:
    """The first few, and how many more there are."""
    rest = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return "; ".join(map(str, items[:SHOWN])) + rest
