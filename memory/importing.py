"""Beliefs of other stores: they come in as what somebody said, never as what is so (MEMORY § 3)."""

from __future__ import annotations

from typing import Final

from .commands import WriteBody
from .errors import Invalid
from .scope import normal_scope
from .view import MemoryRecord, Trust

IMPORTED: Final = "import:"
EARNED: Final = ("trust", "epistemic_confidence", "support_count", "author", "pinned")
"""What a record has earned where it comes from, and must earn anew here."""


def imported_belief(record: MemoryRecord, peer: str, scope: str | None = None) -> WriteBody:
    """The write that brings a peer's record in, into its own scope or another one.

    It enters as a candidate of that one source, however sure the peer was: what is left behind is named in `ignored`.
    Raises `Invalid` for what the peer rejected, and for a peer without a name.
    """
    if record.trust == Trust.REJECTED:
        raise Invalid("trust", "the peer rejected this itself")
    if not peer.strip():
        raise Invalid("peer", "is empty")
    said = record.write_body()
    return said._replace(
        scope=said.scope if scope is None else normal_scope(scope),
        source=IMPORTED + peer.strip(),
        provenance=(f"{IMPORTED}{peer.strip()}:{record.id}",),
        ttl_us=None,
        volatile=False,
        ignored=_left_behind(said),
        derived_from=(),
        follows=b"",
    )


def _left_behind(said: WriteBody) -> tuple[str, ...]:
    earned = [name for name in said.ignored if name in EARNED]
    return (*earned, *(name for name in ("derived_from", "follows") if getattr(said, name)))
