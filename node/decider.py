"""Decides envelopes on the newest state: what is folded, and everything that is in the log but not folded yet.

Pure: the node runs one on a thread of its own, and the simulator runs the same class. The state that a decision stands
on is the projection with *layers* of changes above it. The newest layer takes the changes of what is decided; once it
has grown, another one is begun. A layer is dropped when all of its entries are folded: the projection has them then.
Reading a projection that is ahead of a layer does no harm: the layer covers whatever it changed with something at least
as new, or the layer above it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..log.canonical import encode
from ..log.entry import ORIGIN, SALT_BYTES, Envelope
from ..log.value import value
from ..memory.context import Context
from ..memory.machine import Command, Outcome, decide_envelope, is_denied, outcomes
from ..memory.record import Record
from ..memory.state import State, Workspace
from ..replication.messages import Draft

LAYER_COMMANDS = 1024
FOR_THE_CLUSTER = "cluster"
"""On whose behalf a node signs what it says itself."""
UNDER_TOKEN: Final = "token:"
"""What stands before the digest (hex) of the bearer token under which a command came, in place of who says it."""
NOWHERE = ORIGIN
"""Where a denial stands: at no entry."""


@value()
class Proposal:
    """An envelope whose signature was verified, as it is to be decided. `raw` are its exact bytes."""

    envelope: Envelope
    raw: bytes
    signature: bytes
    bodies: tuple[bytes, ...]

    @property
    def author(self) -> bytes | None:
        """The principal behind the commands; None when a node signed for somebody who came without one."""
        return None if self.envelope.on_behalf else self.envelope.author

    @property
    def claim(self) -> bytes | None:
        """The digest of the bearer token under which it came to the node that signed it; None without one."""
        token = self.envelope.on_behalf.removeprefix(UNDER_TOKEN)
        return None if token == self.envelope.on_behalf else bytes.fromhex(token)

    @property
    def of_node(self) -> bool:
        """Whether a node says it for the cluster; only a member's key may sign on behalf of anything."""
        return self.envelope.on_behalf == FOR_THE_CLUSTER


@value()
class Decision:
    """What an envelope came to: the entry to be at `index`, its outcomes, and the records they are about."""

    index: int
    draft: Draft
    outcomes: tuple[Outcome, ...]
    records: tuple[Record | None, ...]


@value()
class Denial:
    """An envelope of which nothing was granted: it gets no entry, and its outcomes name none."""

    outcomes: tuple[Outcome, ...]


@dataclass(slots=True)
class _Layer:
    """Changes of entries up to `last_index`, not yet dropped. `commands` is how much went into it."""

    workspace: Workspace
    last_index: int
    commands: int = 0


class Decider:
    """Decides in one epoch, from the moment that its leader serves. Everything up to `after_index` must be folded then.

    `base` reads the projection. Not for several threads at once.
    """

    def __init__(self, base: State, context: Context, after_index: int) -> None:
        self.context = context
        self.after_index = after_index
        self.base = base
        self._last_time_us = base.time_us()
        self._begun_us: int | None = None
        self._layers: deque[_Layer] = deque([_Layer(Workspace(base), after_index)])

    @property
    def epoch(self) -> int:
        """The epoch that the decisions are made in."""
        return self.context.epoch

    @property
    def layer_count(self) -> int:
        """How many layers stand on the projection."""
        return len(self._layers)

    def decide(
        self, proposals: Sequence[Proposal], wall_us: int, applied_index: int, elapsed_us: int = 0
    ) -> list[Decision | Denial]:
        """Decide these envelopes in order, one entry each, on top of all that was decided before.

        One of which nothing is granted leaves no trace: neither an entry nor a change.

        `applied_index` says how far the projection has come. Time is `wall_us`, but never before the last entry: it
        stands still after a step back. `elapsed_us` goes on, and command ids are ahead of time as it counts it from the
        first decision, or of none: a client whose clock is right is not refused because ours is not.
        """
        self._drop_folded(applied_index)
        self._last_time_us = time_us = max(self._last_time_us, wall_us)
        if self._begun_us is None:
            self._begun_us = time_us - elapsed_us
        present_us = self._begun_us + elapsed_us
        return [self._decide_one(proposal, time_us, present_us) for proposal in proposals]

    def _decide_one(self, proposal: Proposal, time_us: int, present_us: int) -> Decision | Denial:
        layer = self._open_layer()
        index = self.after_index + 1
        commands = _commands(proposal)
        items = decide_envelope(layer.workspace, commands, time_us, self.context, index, present_us)
        if is_denied(items):
            return Denial(tuple(outcomes(items, *NOWHERE)))
        self.after_index = layer.last_index = index
        layer.commands += len(commands)
        found = outcomes(items, self.epoch, index)
        records = [layer.workspace.record(outcome.record_id) if outcome.record_id else None for outcome in found]
        events: list[Any] = items
        draft = Draft(time_us, proposal.raw, proposal.signature, encode(events), proposal.bodies)
        return Decision(index, draft, tuple(found), tuple(records))

    def _open_layer(self) -> _Layer:
        newest = self._layers[-1]
        if newest.commands >= LAYER_COMMANDS:
            newest = _Layer(Workspace(newest.workspace), self.after_index)
            self._layers.append(newest)
        return newest

    def _drop_folded(self, applied_index: int) -> None:
        """Drop the oldest layers that the projection holds by now, and let the one above stand on the projection."""
        layers = self._layers
        while len(layers) > 1 and layers[0].last_index <= applied_index:
            layers.popleft()
            layers[0].workspace.base = self.base
        if layers[0].commands and layers[0].last_index <= applied_index:
            layers[0] = _Layer(Workspace(self.base), self.after_index)


def _commands(proposal: Proposal) -> list[Command]:
    author, claim = proposal.author, proposal.claim
    return [
        Command(head.id, head.kind, body[SALT_BYTES:], author, proposal.of_node, claim)
        for head, body in zip(proposal.envelope.commands, proposal.bodies, strict=True)
    ]
