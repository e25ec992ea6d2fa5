"""Errors on the wire: each kind of the tree has one `Failure` and one gRPC status code, said here and nowhere else.

A failure has one field for each argument of its error's constructor, under the same name, so that the error that a
caller catches holds what the error that was raised held.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

import grpc
import grpc.aio

from ..log.errors import LogError
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
)
from ..proto.generated.failure_pb2 import Failure

FAILURE_METADATA: Final = "veridical-failure-bin"
UNPRINTABLE_REASON: Final = "the node has written what happened to its log"

KINDS: Final = {
    Bug: Failure.BUG,
    Retry: Failure.RETRY,
    NotLeader: Failure.NOT_LEADER,
    OutcomeUnknown: Failure.OUTCOME_UNKNOWN,
    Refused: Failure.REFUSED,
    Invalid: Failure.INVALID,
    TooLarge: Failure.TOO_LARGE,
    Conflict: Failure.CONFLICT,
    Unavailable: Failure.UNAVAILABLE,
    Compacted: Failure.COMPACTED,
    HistoryChanged: Failure.HISTORY_CHANGED,
}
ERRORS: Final = {kind: error for error, kind in KINDS.items()}

CODES: Final = {
    Failure.BUG: grpc.StatusCode.INTERNAL,
    Failure.RETRY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Failure.NOT_LEADER: grpc.StatusCode.FAILED_PRECONDITION,
    Failure.OUTCOME_UNKNOWN: grpc.StatusCode.UNKNOWN,
    Failure.REFUSED: grpc.StatusCode.PERMISSION_DENIED,
    Failure.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Failure.TOO_LARGE: grpc.StatusCode.OUT_OF_RANGE,
    Failure.CONFLICT: grpc.StatusCode.ALREADY_EXISTS,
    Failure.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Failure.COMPACTED: grpc.StatusCode.NOT_FOUND,
    Failure.HISTORY_CHANGED: grpc.StatusCode.ABORTED,
}


def failed(error: Exception) -> Failure:
    """The failure that stands for `error`: by its nearest class in the tree; anything outside the tree is a bug."""
    for kind in type(error).__mro__:
        if kind is not Bug and issubclass(kind, VeridicalError) and kind in KINDS:
            fields = {name: value for name in _fields(kind) if (value := getattr(error, name)) is not None}
            return Failure(kind=KINDS[kind], **fields)
    if isinstance(error, LogError):
        return Failure(kind=Failure.UNAVAILABLE, reason=str(error))
    return Failure(kind=Failure.BUG, reason=UNPRINTABLE_REASON)


def raised(failure: Failure) -> VeridicalError:
    """The error that `failure` stands for, to be raised here. A kind of a later release is a bug to this one."""
    kind = ERRORS.get(failure.kind, Bug)
    if kind is Bug:
        return Bug(failure.reason)
    if kind is NotLeader:
        return NotLeader(failure.leader or None)
    fields: dict[str, Any] = {name: getattr(failure, name) for name in _fields(kind)}
    return kind(**fields)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
    """End a call that has no room for a failure in its answer. Does not return."""
    failure = failed(error)
    metadata = ((FAILURE_METADATA, failure.SerializeToString()),)
    await context.abort(CODES[failure.kind], failure.reason or str(error), metadata)


def failure_of(error: grpc.aio.AioRpcError) -> Failure | None:
    """The failure that came with a status, or None when the call never reached a node's own code."""
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_METADATA and isinstance(value, bytes):
            return Failure.FromString(value)
    return None


def _fields(kind: type[VeridicalError]) -> list[str]:
    return list(inspect.signature(kind).parameters)
