"""What members say to each other about who leads (PROTOCOL § 3). All values are immutable; times are microseconds.

`stamp_us` is a reading of the sender's own clock that the receiver only echoes; no two clocks are ever compared.
"""

from __future__ import annotations

from ..log.configuration import Configuration
from ..log.entry import Position
from ..log.value import value


@value()
class Holder:
    """A process run that may hold an epoch (*holder-is-a-run*): a restarted process is another holder."""

    node: str
    run: str


@value()
class Probe:
    """Would you grant me a new epoch? Binds nobody (*probe-first*)."""

    request: int
    candidate: Holder
    configuration: Configuration


@value()
class ProbeReply:
    """Answer to `Probe`: whether a grant would be given now, and the epoch promised so far."""

    request: int
    would_grant: bool
    promised_epoch: int
    position: Position
    wall_time_us: int


@value()
class Prepare:
    """Grant me this epoch. `configuration` is the newest in the candidate's log.

    `released_epoch` is the epoch that its holder gave up in favour of this candidate, or 0.
    """

    request: int
    epoch: int
    candidate: Holder
    configuration: Configuration
    released_epoch: int = 0


@value()
class Grant:
    """The epoch is yours: promised durably, and `position` was taken afterwards (*promise-before-grant*)."""

    request: int
    epoch: int
    position: Position
    commit_index: int
    configuration: Configuration
    wall_time_us: int


@value()
class Refusal:
    """The epoch is not yours. `reason` is one word for the log: epoch, held, waiting, damaged, member, founding."""

    request: int
    epoch: int
    promised_epoch: int
    reason: str


@value()
class Release:
    """The holder of `epoch`, or a candidate that failed, gives it back: nobody needs to wait for it to expire."""

    epoch: int
    holder: Holder


LeaseMessage = Probe | ProbeReply | Prepare | Grant | Refusal | Release
