"""Beliefs of other stores: they come in as what somebody said, never as what is so (MEMORY § 3)."""

from __future__ import annotations

from typing import Final

from .commands import WriteBody
from .errors import Invalid
from .lifecycle import INITIAL_CONFIDENCE_PPM
from .record import CANDIDATE, REJECTED, Record
from .scope import normal_scope

IMPORTED: Final = "import:"


def imported_belief(record: Record, peer: str, scope: str | None = None) -> WriteBody:
    """The write that brings a peer's record in, into its own scope or another one.

    It enters as a candidate of that one source, however sure the peer was: what is left behind is named in `ignored`.
    Raises `Invalid` for what the peer rejected, and for a peer without a name.
    """
    if record.trust == REJECTED:
        raise Invalid("trust", "the peer rejected this itself")
    if not peer.strip():
        raise Invalid("peer", "is empty")
    return WriteBody(
        record.kind, record.subject, record.predicate,
        record.scope if scope is None else normal_scope(scope), record.text, record.metadata, record.detail,
        source=IMPORTED + peer.strip(),
        provenance=(f"{IMPORTED}{peer.strip()}:{record.id.hex()}",),
        valid_from_us=record.valid_from_us,
        valid_to_us=record.valid_to_us,
        ignored=_left_behind(record),
    )  # fmt: skip


def _left_behind(record: Record) -> tuple[str, ...]:
    earned = {
        "trust": record.trust != CANDIDATE,
        "epistemic_confidence": record.confidence_ppm != INITIAL_CONFIDENCE_PPM,
        "support_count": record.support != 1,
        "author": record.author != "",
        "pinned": record.pinned,
    }
    return tuple(name for name, is_earned in earned.items() if is_earned)
