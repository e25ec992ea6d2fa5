"""What the functions of this room ask of a memory beyond what every store offers, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..memory.errors import Refused
from ..memory.view import MemoryRecord, MemoryView

if TYPE_CHECKING:
    from ..verdict import GateReceipt

Evidence: TypeAlias = "GateReceipt | Mapping[str, Any]"
"""A gate receipt, or its `model_dump()`."""


class TrustedMemory(MemoryView, Protocol):
    """A `MemoryView` whose store knows evidence, vouched writes, failures and siblings."""

    def write_vouched(self, records: Sequence[MemoryRecord], speaker: str) -> list[MemoryRecord | Refused]:
        """`write_many` in the name of `speaker`, whom the caller has authenticated; needs the right `vouch`."""
        ...

    def remember_episode(self, text: str, *, scope: str, source: str = "") -> MemoryRecord:
        """Keep what was said as it was said; facts that are taken from it name it in `derived_from`."""
        ...

    def attest(self, id: str, receipt: Evidence) -> MemoryRecord:
        """Bring a receipt about this very claim: a pass verifies it, a fail rejects it."""
        ...

    def mark_fixed(self, id: str) -> MemoryRecord:
        """Of a failure: it was fixed. Verified and pinned from then on."""
        ...

    def graduate(self, parent: str, children: Sequence[str], *, min_scopes: int = 2) -> list[MemoryRecord | Refused]:
        """Lift to `parent`, as candidates, what is verified in at least `min_scopes` of the scopes below it."""
        ...
