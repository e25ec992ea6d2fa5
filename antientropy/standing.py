"""What a node tells of its anti-entropy: when it last compared, how far it has looked, what it found and repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..log.value import value

NOTES_KEPT = 16


@value()
class PeerStanding:
    """The last comparison with one peer: at which index (0: never at one), how many buckets differed, or why none was.

    `judged` says that this node folded its own log again and found its own rows right. Where it is not as here,
    `embedder` says who makes the vectors there (the two rank differently), and `runner` whose receipts count there: a
    key in hex, or "nobody".
    """

    name: str
    index: int = 0
    differing: int = 0
    reason: str = ""
    judged: bool = False
    embedder: str = ""
    runner: str = ""


@value()
class ScrubStanding:
    """The pass under way: parts done of how many; passes ended since the start, and when the last one did."""

    done: int = 0
    total: int = 0
    rows: int = 0
    passes: int = 0
    finished_wall_us: int = 0


@value()
class Note:
    """Something that was found or repaired, and when."""

    wall_us: int
    text: str


@value()
class Standing:
    """All of it. `doing` is empty, or says what is being repaired; `repairs` counts by kind since the start."""

    compared_wall_us: int = 0
    peers: tuple[PeerStanding, ...] = ()
    scrub: ScrubStanding = field(default_factory=ScrubStanding)
    differences: int = 0
    findings: int = 0
    repairs: Mapping[str, int] = field(default_factory=dict[str, int])
    doing: str = ""
    notes: tuple[Note, ...] = ()
