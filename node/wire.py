"""What members say to each other, as protobuf and back (`proto/replication.proto`).

Values pass through as the exact bytes they came in; only hashes are computed anew, so that no peer's word is taken for
one. Whatever is not a message of this protocol raises `Malformed`: the stream that brought it is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..lease.messages import Grant, Holder, Prepare, Probe, ProbeReply, Refusal, Release
from ..log.canonical import NotCanonical
from ..log.configuration import Configuration, Member, QuorumError
from ..log.entry import COMMANDS_PER_ENVELOPE_LIMIT, Entry, Position
from ..log.seal import Seal
from ..proto.generated import log_pb2
from ..proto.generated import replication_pb2 as wire
from ..replication.messages import (
    Append,
    Appended,
    Fenced,
    Fetch,
    Fetched,
    Handover,
    Heartbeat,
    HeartbeatReply,
    Message,
    QuorumQuery,
    QuorumState,
    ReadIndexQuery,
    ReadIndexReply,
    SeenQuery,
    SeenReply,
    Sighting,
)

HASH_BYTES = 32
KEY_BYTES = 32
MEMBERS_LIMIT = 64
NUMBER_LIMIT = 1 << 62
"""No epoch, index or time comes near it: a number above is made up, and neither the log nor the core could hold it."""


class Malformed(ValueError):
    """The bytes are not a message of this protocol: end the stream, and look at the version of whoever sent them."""


def encode(message: Message) -> wire.Message:
    """The message in its envelope for a parcel."""
    name, fields = _ENCODERS[type(message)]
    return wire.Message(**{name: fields(message)})


def decode(raw: wire.Message) -> Message:
    """The message inside. Raises `Malformed` when it is none, or breaks a rule that holds for every message."""
    name = raw.WhichOneof("kind")
    if name is None:
        raise Malformed("a message of an unknown kind")
    fields = getattr(raw, name)
    _check_numbers(name, fields)
    try:
        return _DECODERS[name](fields)
    except (QuorumError, NotCanonical) as error:
        raise Malformed(f"{name}: {error}") from error


def _check_numbers(name: str, fields: Any) -> None:
    for field, value in fields.ListFields():
        if type(value) is int and not -1 <= value <= NUMBER_LIMIT:
            raise Malformed(f"{name}: {field.name} is {value}, which no member says")


def parcel_of(messages: Iterable[Message]) -> wire.Parcel:
    """One parcel with all these messages, in order."""
    return wire.Parcel(messages=[encode(message) for message in messages])


# --- what is common to several messages -------------------------------------------------------------------------------


def entry_to_wire(entry: Entry) -> log_pb2.Entry:
    """An entry with its bodies; an erased body travels as empty bytes and is named in `erased`."""
    bodies = entry.bodies
    erased = [place for place, body in enumerate(bodies) if body is None] if None in bodies else ()
    return log_pb2.Entry(
        index=entry.index,
        epoch=entry.epoch,
        prev_hash=entry.prev_hash,
        time_us=entry.time_us,
        envelope=entry.envelope,
        signature=entry.signature,
        events=entry.events,
        bodies=[body or b"" for body in bodies],
        erased=erased,
        erased_by=entry.erased_by,
    )


def entry_from_wire(raw: log_pb2.Entry) -> Entry:
    """The entry, its hash computed here from what arrived."""
    if max(raw.epoch, raw.index, abs(raw.time_us), raw.erased_by) > NUMBER_LIMIT:
        raise Malformed("an entry beyond the end of any log")
    bodies: list[bytes | None] = list(raw.bodies)
    if len(bodies) > COMMANDS_PER_ENVELOPE_LIMIT:
        raise Malformed(f"entry {raw.index} has {len(bodies)} bodies, over {COMMANDS_PER_ENVELOPE_LIMIT}")
    for place in raw.erased:
        if place >= len(bodies) or bodies[place]:
            raise Malformed(f"entry {raw.index} names body {place} as erased, which it is not")
        bodies[place] = None
    prev_hash = _hash(raw.prev_hash, "prev_hash")
    return Entry.chain(
        prev_hash,
        raw.index,
        raw.epoch,
        raw.time_us,
        raw.envelope,
        raw.signature,
        raw.events,
        tuple(bodies),
        raw.erased_by,
    )


def seal_to_wire(seal: Seal) -> log_pb2.Seal:
    """A seal, field by field."""
    return log_pb2.Seal(
        epoch=seal.epoch, index=seal.index, hash=seal.hash, sealer=seal.sealer, signature=seal.signature
    )


def seal_from_wire(raw: log_pb2.Seal) -> Seal:
    """A seal; whether its signature holds is for the receiver to check."""
    if max(raw.epoch, raw.index) > NUMBER_LIMIT:
        raise Malformed("a seal beyond the end of any log")
    return Seal(raw.epoch, raw.index, _hash(raw.hash, "hash of a seal"), raw.sealer, raw.signature)


def configuration_to_wire(configuration: Configuration) -> log_pb2.Configuration:
    """A configuration with its members."""
    return log_pb2.Configuration(
        members=[
            log_pb2.Member(id=m.id, name=m.name, public_key=m.public_key, endpoint=m.endpoint, voting=m.voting)
            for m in configuration.members
        ],
        write_quorum=configuration.write_quorum,
        recovery_quorum=configuration.recovery_quorum,
        version=log_pb2.Position(epoch=configuration.epoch, index=configuration.index),
        lease_ttl_ms=configuration.lease_ttl_ms,
    )


def configuration_from_wire(raw: log_pb2.Configuration) -> Configuration:
    """A configuration. Raises `QuorumError` when its quorums could miss each other."""
    if len(raw.members) > MEMBERS_LIMIT:
        raise Malformed(f"a configuration of {len(raw.members)} members, over {MEMBERS_LIMIT}")
    members = tuple(Member(m.id, m.name, _key(m.public_key), m.endpoint, m.voting) for m in raw.members)
    version = position_from_wire(raw.version)
    return Configuration(
        members, raw.write_quorum, raw.recovery_quorum, version.epoch, version.index, lease_ttl_ms=raw.lease_ttl_ms
    )


def position_to_wire(position: Position) -> log_pb2.Position:
    """A position."""
    return log_pb2.Position(epoch=position.epoch, index=position.index)


def position_from_wire(raw: log_pb2.Position) -> Position:
    """A position; the origin when it is absent."""
    if max(raw.epoch, raw.index) > NUMBER_LIMIT:
        raise Malformed("a position beyond the end of any log")
    return Position(raw.epoch, raw.index)


def _holder_to_wire(holder: Holder) -> wire.Holder:
    return wire.Holder(node=holder.node, run=holder.run)


def _holder(raw: wire.Holder) -> Holder:
    if not raw.node or not raw.run:
        raise Malformed("a holder without node or run")
    return Holder(raw.node, raw.run)


def _hash(raw: bytes, what: str) -> bytes:
    if len(raw) != HASH_BYTES:
        raise Malformed(f"{what} has {len(raw)} bytes instead of {HASH_BYTES}")
    return raw


def _key(raw: bytes) -> bytes:
    if len(raw) != KEY_BYTES:
        raise Malformed(f"a public key has {len(raw)} bytes instead of {KEY_BYTES}")
    return raw


# --- lease ------------------------------------------------------------------------------------------------------------


def _probe_to_wire(m: Probe) -> wire.Probe:
    return wire.Probe(
        request=m.request,
        candidate=_holder_to_wire(m.candidate),
        configuration=configuration_to_wire(m.configuration),
    )


def _probe(raw: wire.Probe) -> Probe:
    return Probe(raw.request, _holder(raw.candidate), configuration_from_wire(raw.configuration))


def _probe_reply_to_wire(m: ProbeReply) -> wire.ProbeReply:
    return wire.ProbeReply(
        request=m.request,
        would_grant=m.would_grant,
        promised_epoch=m.promised_epoch,
        position=position_to_wire(m.position),
        wall_time_us=m.wall_time_us,
    )


def _probe_reply(raw: wire.ProbeReply) -> ProbeReply:
    position = position_from_wire(raw.position)
    return ProbeReply(raw.request, raw.would_grant, raw.promised_epoch, position, raw.wall_time_us)


def _prepare_to_wire(m: Prepare) -> wire.Prepare:
    return wire.Prepare(
        request=m.request,
        epoch=m.epoch,
        candidate=_holder_to_wire(m.candidate),
        configuration=configuration_to_wire(m.configuration),
        released_epoch=m.released_epoch,
    )


def _prepare(raw: wire.Prepare) -> Prepare:
    configuration = configuration_from_wire(raw.configuration)
    return Prepare(raw.request, raw.epoch, _holder(raw.candidate), configuration, raw.released_epoch)


def _grant_to_wire(m: Grant) -> wire.Grant:
    return wire.Grant(
        request=m.request,
        epoch=m.epoch,
        position=position_to_wire(m.position),
        commit_index=m.commit_index,
        configuration=configuration_to_wire(m.configuration),
        wall_time_us=m.wall_time_us,
    )


def _grant(raw: wire.Grant) -> Grant:
    return Grant(
        raw.request,
        raw.epoch,
        position_from_wire(raw.position),
        raw.commit_index,
        configuration_from_wire(raw.configuration),
        raw.wall_time_us,
    )


def _refusal_to_wire(m: Refusal) -> wire.Refusal:
    return wire.Refusal(request=m.request, epoch=m.epoch, promised_epoch=m.promised_epoch, reason=m.reason)


def _refusal(raw: wire.Refusal) -> Refusal:
    return Refusal(raw.request, raw.epoch, raw.promised_epoch, raw.reason)


def _release_to_wire(m: Release) -> wire.Release:
    return wire.Release(epoch=m.epoch, holder=_holder_to_wire(m.holder))


def _release(raw: wire.Release) -> Release:
    return Release(raw.epoch, _holder(raw.holder))


# --- replication ------------------------------------------------------------------------------------------------------


def _append_to_wire(m: Append) -> wire.Append:
    return wire.Append(
        epoch=m.epoch,
        leader=_holder_to_wire(m.leader),
        round=m.round,
        prev_index=m.prev_index,
        prev_hash=m.prev_hash,
        entries=map(entry_to_wire, m.entries),
        seals=map(seal_to_wire, m.seals),
        commit_index=m.commit_index,
        stamp_us=m.stamp_us,
    )


def _append(raw: wire.Append) -> Append:
    return Append(
        raw.epoch,
        _holder(raw.leader),
        raw.round,
        raw.prev_index,
        _hash(raw.prev_hash, "prev_hash"),
        tuple(map(entry_from_wire, raw.entries)),
        tuple(map(seal_from_wire, raw.seals)),
        raw.commit_index,
        raw.stamp_us,
    )


def _appended_to_wire(m: Appended) -> wire.Appended:
    return wire.Appended(
        epoch=m.epoch,
        round=m.round,
        matched=m.matched,
        match=m.match,
        last_index=m.last_index,
        commit_index=m.commit_index,
        applied_index=m.applied_index,
        stamp_us=m.stamp_us,
        counts=m.counts,
    )


def _appended(raw: wire.Appended) -> Appended:
    return Appended(
        raw.epoch,
        raw.round,
        raw.matched,
        raw.match,
        raw.last_index,
        raw.commit_index,
        raw.applied_index,
        raw.stamp_us,
        raw.counts,
    )


def _heartbeat_to_wire(m: Heartbeat) -> wire.Heartbeat:
    return wire.Heartbeat(
        epoch=m.epoch,
        leader=_holder_to_wire(m.leader),
        commit_index=m.commit_index,
        stamp_us=m.stamp_us,
        read_round=m.read_round,
        seen=_sightings_to_wire(m.seen),
    )


def _heartbeat(raw: wire.Heartbeat) -> Heartbeat:
    return Heartbeat(
        raw.epoch, _holder(raw.leader), raw.commit_index, raw.stamp_us, raw.read_round, _sightings(raw.seen)
    )


def _heartbeat_reply_to_wire(m: HeartbeatReply) -> wire.HeartbeatReply:
    return wire.HeartbeatReply(
        epoch=m.epoch, stamp_us=m.stamp_us, read_round=m.read_round, applied_index=m.applied_index
    )


def _heartbeat_reply(raw: wire.HeartbeatReply) -> HeartbeatReply:
    return HeartbeatReply(raw.epoch, raw.stamp_us, raw.read_round, raw.applied_index)


def _fenced_to_wire(m: Fenced) -> wire.Fenced:
    return wire.Fenced(epoch=m.epoch, promised_epoch=m.promised_epoch)


def _fenced(raw: wire.Fenced) -> Fenced:
    return Fenced(raw.epoch, raw.promised_epoch)


def _fetch_to_wire(m: Fetch) -> wire.Fetch:
    return wire.Fetch(
        epoch=m.epoch,
        candidate=_holder_to_wire(m.candidate),
        request=m.request,
        prev_index=m.prev_index,
        prev_hash=m.prev_hash,
    )


def _fetch(raw: wire.Fetch) -> Fetch:
    prev_hash = _hash(raw.prev_hash, "prev_hash")
    return Fetch(raw.epoch, _holder(raw.candidate), raw.request, raw.prev_index, prev_hash)


def _fetched_to_wire(m: Fetched) -> wire.Fetched:
    return wire.Fetched(
        epoch=m.epoch,
        request=m.request,
        matched=m.matched,
        entries=map(entry_to_wire, m.entries),
        seals=map(seal_to_wire, m.seals),
        last_index=m.last_index,
        commit_index=m.commit_index,
    )


def _fetched(raw: wire.Fetched) -> Fetched:
    return Fetched(
        raw.epoch,
        raw.request,
        raw.matched,
        tuple(map(entry_from_wire, raw.entries)),
        tuple(map(seal_from_wire, raw.seals)),
        raw.last_index,
        raw.commit_index,
    )


def _handover_to_wire(m: Handover) -> wire.Handover:
    return wire.Handover(epoch=m.epoch, leader=_holder_to_wire(m.leader))


def _handover(raw: wire.Handover) -> Handover:
    return Handover(raw.epoch, _holder(raw.leader))


def _read_index_query_to_wire(m: ReadIndexQuery) -> wire.ReadIndexQuery:
    return wire.ReadIndexQuery(request=m.request)


def _read_index_query(raw: wire.ReadIndexQuery) -> ReadIndexQuery:
    return ReadIndexQuery(raw.request)


def _read_index_reply_to_wire(m: ReadIndexReply) -> wire.ReadIndexReply:
    return wire.ReadIndexReply(request=m.request, epoch=m.epoch, index=m.index)


def _read_index_reply(raw: wire.ReadIndexReply) -> ReadIndexReply:
    return ReadIndexReply(raw.request, raw.epoch, raw.index)


def _quorum_query_to_wire(m: QuorumQuery) -> wire.QuorumQuery:
    return wire.QuorumQuery(request=m.request)


def _quorum_query(raw: wire.QuorumQuery) -> QuorumQuery:
    return QuorumQuery(raw.request)


def _quorum_state_to_wire(m: QuorumState) -> wire.QuorumState:
    return wire.QuorumState(
        request=m.request,
        position=position_to_wire(m.position),
        applied=position_to_wire(m.applied),
        configuration=configuration_to_wire(m.configuration),
    )


def _quorum_state(raw: wire.QuorumState) -> QuorumState:
    return QuorumState(
        raw.request,
        position_from_wire(raw.position),
        position_from_wire(raw.applied),
        configuration_from_wire(raw.configuration),
    )


def _seen_query_to_wire(m: SeenQuery) -> wire.SeenQuery:
    return wire.SeenQuery(request=m.request)


def _seen_query(raw: wire.SeenQuery) -> SeenQuery:
    return SeenQuery(raw.request)


def _seen_reply_to_wire(m: SeenReply) -> wire.SeenReply:
    return wire.SeenReply(
        request=m.request, seen=_sightings_to_wire(m.seen), configuration=configuration_to_wire(m.configuration)
    )


def _seen_reply(raw: wire.SeenReply) -> SeenReply:
    return SeenReply(raw.request, _sightings(raw.seen), configuration_from_wire(raw.configuration))


def _sightings_to_wire(seen: Iterable[Sighting]) -> list[wire.Sighting]:
    return [wire.Sighting(node=node, epoch=epoch, index=index) for node, epoch, index in seen]


def _sightings(raw: Sequence[wire.Sighting]) -> tuple[Sighting, ...]:
    if len(raw) > MEMBERS_LIMIT:
        raise Malformed(f"{len(raw)} members were seen; the limit is {MEMBERS_LIMIT}")
    if any(max(each.epoch, each.index) > NUMBER_LIMIT for each in raw):
        raise Malformed("a member was seen beyond the end of any log")
    return tuple(Sighting(each.node, each.epoch, each.index) for each in raw)


_ENCODERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Probe: ("probe", _probe_to_wire),
    ProbeReply: ("probe_reply", _probe_reply_to_wire),
    Prepare: ("prepare", _prepare_to_wire),
    Grant: ("grant", _grant_to_wire),
    Refusal: ("refusal", _refusal_to_wire),
    Release: ("release", _release_to_wire),
    Append: ("append", _append_to_wire),
    Appended: ("appended", _appended_to_wire),
    Heartbeat: ("heartbeat", _heartbeat_to_wire),
    HeartbeatReply: ("heartbeat_reply", _heartbeat_reply_to_wire),
    Fenced: ("fenced", _fenced_to_wire),
    Fetch: ("fetch", _fetch_to_wire),
    Fetched: ("fetched", _fetched_to_wire),
    Handover: ("handover", _handover_to_wire),
    ReadIndexQuery: ("read_index_query", _read_index_query_to_wire),
    ReadIndexReply: ("read_index_reply", _read_index_reply_to_wire),
    QuorumQuery: ("quorum_query", _quorum_query_to_wire),
    QuorumState: ("quorum_state", _quorum_state_to_wire),
    SeenQuery: ("seen_query", _seen_query_to_wire),
    SeenReply: ("seen_reply", _seen_reply_to_wire),
}

_DECODERS: dict[str, Callable[[Any], Message]] = {
    "probe": _probe,
    "probe_reply": _probe_reply,
    "prepare": _prepare,
    "grant": _grant,
    "refusal": _refusal,
    "release": _release,
    "append": _append,
    "appended": _appended,
    "heartbeat": _heartbeat,
    "heartbeat_reply": _heartbeat_reply,
    "fenced": _fenced,
    "fetch": _fetch,
    "fetched": _fetched,
    "handover": _handover,
    "read_index_query": _read_index_query,
    "read_index_reply": _read_index_reply,
    "quorum_query": _quorum_query,
    "quorum_state": _quorum_state,
    "seen_query": _seen_query,
    "seen_reply": _seen_reply,
}
