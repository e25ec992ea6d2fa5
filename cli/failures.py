"""Exit codes of the command line, and the one line that says what went wrong.

    0   done; `status`: healthy                 20  Retry            try again
    1   no such record, or not all of it        21  NotLeader        try again
    2   the command line itself is wrong        22  OutcomeUnknown   send it again with the same command id
    10  Invalid: the request is wrong           23  Unavailable      too few nodes answered
    11  TooLarge                                30  a history is damaged, or not what its signatures say
    12  Refused: a rule stands against it       31  a log or projection cannot be used
    13  Conflict                                32  a node cannot start, or a key is unusable
    24  Compacted: the log begins later         40  a file cannot be read or written
    25  HistoryChanged: begin anew              70  Bug

`status` alone answers with its own four: 0 healthy, 1 degraded, 2 no quorum, 3 cannot tell.
"""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
NEGATIVE: Final = 1
USAGE: Final = 2
INVALID: Final = 10
DAMAGED: Final = 30
FILE: Final = 40

_CODES: Final[dict[str, int]] = {
    "veridical.memory.errors:TooLarge": 11,
    "veridical.memory.errors:Invalid": INVALID,
    "veridical.memory.errors:Refused": 12,
    "veridical.memory.errors:Conflict": 13,
    "veridical.memory.errors:Retry": 20,
    "veridical.memory.errors:NotLeader": 21,
    "veridical.memory.errors:OutcomeUnknown": 22,
    "veridical.memory.errors:Unavailable": 23,
    "veridical.memory.errors:Compacted": 24,
    "veridical.memory.errors:HistoryChanged": 25,
    "veridical.memory.errors:Bug": 70,
    "veridical.log.errors:LogDamaged": DAMAGED,
    "veridical.log.errors:LogError": 31,
    "veridical.projection.errors:ProjectionError": 31,
    "veridical.node.identity:StartRefused": 32,
    "veridical.security.keys:KeyFileError": 32,
    "builtins:OSError": FILE,
}
"""By the first class of an error's family that stands here. Names, so that no room is loaded before it has failed."""


def exit_code(error: BaseException) -> int | None:
    """The exit code of an error that a user can do something about; None for one that only a programmer can."""
    for kind in type(error).__mro__:
        code = _CODES.get(f"{kind.__module__}:{kind.__qualname__}")
        if code is not None:
            return code
    return None


_ADVICE: Final[dict[str, str]] = {
    "veridical.log.errors:LogDamaged": "leave the file as it is; a node that runs mends single entries from other "
    "members by itself; `veridical audit verify` names all that is wrong; docs/operations.md says what to do else",
}
"""The safe next step, where an error itself does not say it."""


def advice(error: BaseException) -> str:
    """What to do about it, for errors that do not say so; else empty."""
    kind = type(error)
    return _ADVICE.get(f"{kind.__module__}:{kind.__qualname__}", "")


def sentence(error: BaseException) -> str:
    """What the error says, in one line: its kind where that tells what to do, and its own words."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror or type(error).__name__}"
    return "".join(character for character in text if character.isprintable())
