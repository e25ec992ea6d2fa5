"""One entry, spelled out for people and programs."""

from __future__ import annotations

from typing import Any, cast

from ..log.canonical import decode
from ..log.entry import SALT_BYTES, CommandHead, Entry, Envelope
from ..log.seal import Seal
from ..memory.commands import BODIES, decode_body
from ..memory.errors import Invalid
from ..memory.machine import outcomes
from ..memory.view import datetime_of


def entry_fields(entry: Entry, seal: Seal | None) -> dict[str, Any]:
    """The fields of an entry, of its envelope, its commands with their bodies and outcomes, and its seal."""
    envelope = Envelope.parse(entry.envelope)
    items = cast("list[Any]", decode(entry.events))
    return {
        "index": entry.index,
        "epoch": entry.epoch,
        "time": datetime_of(entry.time_us).isoformat(),
        "hash": entry.hash.hex(),
        "prev_hash": entry.prev_hash.hex(),
        "cluster": envelope.cluster,
        "author": envelope.author.hex(),
        "on_behalf": envelope.on_behalf or None,
        "issued_at": datetime_of(envelope.issued_at_us).isoformat(),
        "signature": entry.signature.hex(),
        "sealed_by": None if seal is None else seal.sealer,
        "seal": None if seal is None else seal.signature.hex(),
        "commands": [
            _command_fields(entry, place, head, item)
            for place, (head, item) in enumerate(zip(envelope.commands, items, strict=True))
        ],
    }


def _command_fields(entry: Entry, place: int, head: CommandHead, item: Any) -> dict[str, Any]:
    body = entry.bodies[place]
    is_memory = head.kind in BODIES
    outcome = outcomes([item], entry.epoch, entry.index)[0] if is_memory else None
    return {
        "id": head.id.hex(),
        "kind": head.kind,
        "outcome": outcome.code if outcome else head.kind,
        "rule": outcome.rule if outcome else "",
        "record_id": outcome.record_id.hex() if outcome else "",
        "body": _body_fields(head.kind, body) if is_memory else {},
        "events": _readable(item),
    }


def _body_fields(kind: str, body: bytes | None) -> dict[str, Any] | None:
    """The fields that the body sets, or None where it was erased."""
    if body is None:
        return None
    try:
        fields: dict[str, Any] = decode_body(kind, body[SALT_BYTES:])._asdict()
    except Invalid as error:
        return {"unreadable": str(error)}
    return {name: _readable(value) for name, value in fields.items() if value not in ("", b"", (), None, "{}")}


def _readable(value: Any) -> Any:
    """The same with hex in the place of bytes."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_readable(item) for item in cast("list[Any]", value)]
    return value
