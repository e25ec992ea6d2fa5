"""Arguments as callers give them, made into commands and questions; what is wrong is said before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

from ..memory.errors import Invalid, TooLarge
from ..memory.scope import normal_scope
from ..memory.view import MemoryKind, Trust, microseconds
from ..proto.generated import memory_pb2
from .envelope import (
    COMMAND_BYTES_LIMIT,
    COMMAND_OVERHEAD_BYTES,
    COMMANDS_LIMIT,
    ENVELOPE_BYTES_LIMIT,
    Command,
)

ID_BYTES: Final = 16
COUNT_LIMIT: Final = (1 << 32) - 1
MOMENT_LIMIT_US: Final = 1 << 62


class Consistency(StrEnum):
    """How fresh reads are (PROTOCOL § 7). `eventual` is another word for `local`."""

    LOCAL = "local"
    EVENTUAL = "eventual"
    SESSION = "session"
    STRONG = "strong"
    LEASE = "lease"
    QUORUM = "quorum"


MODES: Final = {
    Consistency.LOCAL: memory_pb2.READ_MODE_LOCAL,
    Consistency.EVENTUAL: memory_pb2.READ_MODE_LOCAL,
    Consistency.SESSION: memory_pb2.READ_MODE_SESSION,
    Consistency.STRONG: memory_pb2.READ_MODE_STRONG,
    Consistency.LEASE: memory_pb2.READ_MODE_LEASE,
    Consistency.QUORUM: memory_pb2.READ_MODE_QUORUM,
}


def endpoints_of(endpoints: str | Sequence[str]) -> tuple[str, ...]:
    """A list of endpoints, also given as one string with commas. Raises `Invalid` for none."""
    listed = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    cleaned = tuple(endpoint.strip() for endpoint in listed if endpoint.strip())
    if not cleaned:
        raise Invalid("endpoints", "none given; name at least one node as host:port")
    return cleaned


def mode_of(consistency: str) -> memory_pb2.ReadMode.ValueType:
    """The wire's word for a consistency. Raises `Invalid` for anything else."""
    try:
        return MODES[Consistency(consistency)]
    except ValueError:
        raise Invalid("consistency", f"{consistency!r} is none of {', '.join(Consistency)}") from None


def positive(field: str, seconds: float) -> float:
    """A time-out. Raises `Invalid` unless it is a positive, finite number of seconds."""
    if not 0 < seconds < float("inf"):
        raise Invalid(field, f"{seconds} is not a positive number of seconds")
    return seconds


def count(field: str, number: int) -> int:
    """How many answers are wanted. Raises `Invalid` unless it is a whole number that the wire can carry, at least 1."""
    if not 1 <= number <= COUNT_LIMIT:
        raise Invalid(field, f"{number} is not between 1 and {COUNT_LIMIT}")
    return number


Moment: TypeAlias = "datetime | float | None"
"""A time that is asked about: an aware datetime, or seconds since 1970. None: now, and whatever is valid."""


def moment_us(field: str, moment: Moment) -> int | None:
    """Microseconds since 1970. Raises `Invalid` for a naive datetime, and for a time that no database holds."""
    if moment is None:
        return None
    try:
        time_us = microseconds(moment)
    except Invalid as error:
        raise Invalid(field, "a datetime needs a timezone, as in datetime(2024, 3, 1, tzinfo=UTC)") from error
    except (ValueError, OverflowError) as error:
        raise Invalid(field, f"{moment!r} is no time") from error
    if not -MOMENT_LIMIT_US < time_us < MOMENT_LIMIT_US:
        raise Invalid(field, f"{moment!r} is no time that can be asked about")
    return time_us


def filters_of(
    scope: str | Sequence[str] | None,
    kind: MemoryKind | None,
    trust: Trust | None,
    as_of: Moment = None,
    valid_at: Moment = None,
) -> memory_pb2.Filters:
    """What a question is bounded by. An empty sequence of scopes is meant as such: it finds nothing."""
    scopes = (scope,) if isinstance(scope, str) else scope or ()
    return memory_pb2.Filters(
        scopes=dict.fromkeys(map(normal_scope, scopes)),
        has_scopes=scope is not None,
        kind=None if kind is None else MemoryKind(kind).value,
        trust=None if trust is None else Trust(trust).value,
        as_of_us=moment_us("as_of", as_of),
        valid_at_us=moment_us("valid_at", valid_at),
    )


def record_id(id: str) -> bytes:
    """A record's id. An id that no record can have is wrong in itself."""
    try:
        raw = bytes.fromhex(id)
    except (ValueError, TypeError):
        raw = b""
    if len(raw) != ID_BYTES:
        raise Invalid("id", f"{id!r} is not 32 hex digits")
    return raw


def optional_value(value: str) -> bytes:
    """The digest of a contending value, or nothing for the value that is held. Raises `Invalid`."""
    try:
        return record_id(value) if value else b""
    except Invalid as error:
        raise Invalid("value", error.reason) from None


def given_command_id(given: str) -> bytes:
    try:
        return record_id(given)
    except Invalid as error:
        raise Invalid("command_id", error.reason) from None


def command_of(id: bytes, kind: str, content: bytes) -> Command:
    if len(content) + COMMAND_OVERHEAD_BYTES > COMMAND_BYTES_LIMIT:
        raise TooLarge("command", len(content), COMMAND_BYTES_LIMIT - COMMAND_OVERHEAD_BYTES)
    return Command(id, kind, content)


def chunks_of(made: Sequence[Command]) -> list[list[Command]]:
    """Consecutive commands, in pieces that one envelope holds."""
    chunks: list[list[Command]] = []
    size = 0
    for command in made:
        weight = len(command.content) + COMMAND_OVERHEAD_BYTES
        if not chunks or len(chunks[-1]) == COMMANDS_LIMIT or size + weight > ENVELOPE_BYTES_LIMIT:
            chunks.append([])
            size = 0
        chunks[-1].append(command)
        size += weight
    return chunks
