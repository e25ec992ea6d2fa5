"""What simulated clients ask of their memory, beside writing registers: about a few topics that all of them share.

Everything that moves more than one record is there: values derived from others, what falls with them, corrections that
join several, episodes and what was said in them, undoing, and erasing.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ..memory import commands, events
from ..memory.keys import make_key, record_id
from ..memory.machine import Outcome
from ..memory.record import EPISODE
from ..memory.trust_commands import ERASE, UNDO, EraseBody, UndoBody

SCOPE: Final = "simulation"
REGISTERS: Final = 6
TOPICS: Final = 8
NOTES: Final = 6
KEPT: Final = 6
"""So many episodes, and so many outcomes that could be undone, are remembered."""

Command: TypeAlias = tuple[str, commands.Body]


def register_id(number: int) -> bytes:
    """The record that holds register `number`."""
    return record_id(make_key(f"register {number}", "value", SCOPE))


def register_write(number: int, value: str) -> Command:
    """Write `value` to a register."""
    return commands.WRITE, commands.WriteBody("fact", f"register {number}", "value", SCOPE, value)


def topic_id(number: int) -> bytes:
    """The record about topic `number`."""
    return record_id(make_key(f"topic {number}", "status", SCOPE))


def note_id(number: int) -> bytes:
    """The record of note `number`, which rests on others."""
    return record_id(make_key(f"note {number}", "gist", SCOPE))


_REGISTERS: Final = frozenset(map(register_id, range(REGISTERS))) | {b""}
_KEYED: Final = _REGISTERS | set(map(topic_id, range(TOPICS))) | set(map(note_id, range(NOTES)))


class Workload:
    """Makes commands; all clients of a run share what it remembers of their outcomes."""

    def __init__(self) -> None:
        self._episodes: deque[bytes] = deque(maxlen=KEPT)
        self._outcomes: deque[Outcome] = deque(maxlen=KEPT)

    def heard(self, outcomes: Sequence[Outcome]) -> None:
        """These commands were done."""
        for outcome in outcomes:
            if outcome.code == events.ASSERTED and outcome.record_id not in _KEYED:
                self._episodes.append(outcome.record_id)
            elif outcome.record_id not in _REGISTERS and outcome.code not in (events.REFUSED, events.UNCHANGED):
                self._outcomes.append(outcome)

    def command(self, name: str, number: int, choices: random.Random) -> Command:
        """Anything that memories are asked to do, by the client of that name, as its `number`th request."""
        return choices.choice(_MAKERS)(_Asking(self, name, number, choices))

    @property
    def episodes(self) -> Sequence[bytes]:
        """Ids of the newest episodes."""
        return self._episodes

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """The newest outcomes."""
        return self._outcomes


class _Asking:
    """One request in the making."""

    def __init__(self, workload: Workload, name: str, number: int, choices: random.Random) -> None:
        self.workload = workload
        self.name = name
        self.number = number
        self.choices = choices
        self.topic = choices.randrange(TOPICS)
        self.id = topic_id(self.topic)
        self.anything = choices.choice((self.id, note_id(choices.randrange(NOTES)), *workload.episodes))

    @property
    def said(self) -> str:
        """One of few values, so that clients agree and disagree."""
        return f"state {self.choices.randrange(3)}"


def _write(asking: _Asking) -> Command:
    return commands.WRITE, commands.WriteBody("fact", f"topic {asking.topic}", "status", SCOPE, asking.said)


def _derive(asking: _Asking) -> Command:
    note, sources = asking.choices.randrange(NOTES), dict.fromkeys((asking.id, asking.anything))
    body = commands.WriteBody(
        "fact", f"note {note}", "gist", SCOPE, asking.said,
        derived_from=tuple(id for id in sources if id != note_id(note)),
    )  # fmt: skip
    return commands.WRITE, body


def _episode(asking: _Asking) -> Command:
    return commands.WRITE, commands.WriteBody(EPISODE, "", "", SCOPE, f"{asking.name} was told {asking.number}")


def _correct(asking: _Asking) -> Command:
    ids = dict.fromkeys((asking.id, topic_id(asking.choices.randrange(TOPICS))))
    return commands.CORRECT, commands.CorrectBody(tuple(ids), asking.said, reason="it is so")


def _undo(asking: _Asking) -> Command:
    if not asking.workload.outcomes:
        return _write(asking)
    last = asking.choices.choice(asking.workload.outcomes)
    epoch, index, place = last.version
    return UNDO, UndoBody(last.record_id, (epoch, index, place), "was wrong")


_MAKERS: Sequence[Callable[[_Asking], Command]] = (
    *(3 * (_write,)),
    *(4 * (_derive,)),
    *(2 * (_episode,)),
    _correct,
    _undo,
    lambda asking: (ERASE, EraseBody(asking.anything, "asked to")),
    lambda asking: (commands.WITHDRAW, commands.WithdrawBody(asking.anything)),
    lambda asking: (commands.FORGET, commands.ForgetBody(asking.anything)),
    lambda asking: (commands.CORROBORATE, commands.CorroborateBody(asking.anything)),
    lambda asking: (commands.CONTRADICT, commands.ContradictBody(asking.id, asking.name)),
    lambda asking: (commands.PROMOTE, commands.PromoteBody(asking.id, "looked at it")),
    lambda asking: (commands.DEMOTE, commands.DemoteBody(asking.anything, "", "not so sure")),
    lambda asking: (commands.ANNOTATE, commands.AnnotateBody(asking.id, f'{{"seen":{asking.number}}}')),
    lambda asking: (commands.SET_FLAGS, commands.FlagsBody(asking.id, volatile=True)),
    lambda asking: (commands.PIN, commands.PinBody(asking.id)),
    lambda asking: (commands.UNPIN, commands.PinBody(asking.id)),
    lambda asking: (commands.REINFORCE, commands.ReinforceBody((asking.id,))),
)
