"""From failures on the wire to the errors that a caller catches."""

from __future__ import annotations

import inspect
from typing import Any, Final

import grpc
import grpc.aio

from ..memory.errors import (
    Bug,
    Compacted,
    Conflict,
    HistoryChanged,
    Invalid,
    NotLeader,
    OutcomeUnknown,
    Refused,
    Retry,
    TooLarge,
    Unavailable,
    VeridicalError,
)  # fmt: skip
from ..proto.generated.failure_pb2 import Failure

FAILURE_METADATA: Final = "veridical-failure-bin"

ERRORS: Final = {
    Failure.RETRY: Retry,
    Failure.NOT_LEADER: NotLeader,
    Failure.OUTCOME_UNKNOWN: OutcomeUnknown,
    Failure.REFUSED: Refused,
    Failure.INVALID: Invalid,
    Failure.TOO_LARGE: TooLarge,
    Failure.CONFLICT: Conflict,
    Failure.UNAVAILABLE: Unavailable,
    Failure.COMPACTED: Compacted,
    Failure.HISTORY_CHANGED: HistoryChanged,
}


def raised(failure: Failure) -> VeridicalError:
    """The error that `failure` stands for: its fields are the arguments of the error's constructor, by name."""
    kind = ERRORS.get(failure.kind)
    if kind is None:
        return Bug(failure.reason)
    if kind is NotLeader:
        return NotLeader(failure.leader or None)
    fields: dict[str, Any] = {name: getattr(failure, name) for name in inspect.signature(kind).parameters}
    return kind(**fields)


def error_of(error: grpc.aio.AioRpcError, endpoint: str) -> VeridicalError:
    """The error behind a status: the node's own, or `Unavailable` when the call never got an answer from one."""
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_METADATA and isinstance(value, bytes):
            return raised(Failure.FromString(value))
    return Unavailable((error.details() or error.code().name).strip(), (endpoint,))
