"""A log whose entries are damaged becomes whole again from other members' (*damage-is-not-truncation*).

What comes is proven before it is written: entries by the hash chain, from the whole entry behind them; seals by the
key of the member who sealed. Nothing is ever removed, and until all is whole the node takes no part in anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..antientropy.gaps import Gap, beyond_entries, gaps_of, misfit
from ..log.entry import Entry
from ..log.errors import LogDamaged, LogFull, LogOrder
from ..log.seal import Seal, sealed_bytes
from ..log.store import LogStore
from ..memory.errors import Unavailable, VeridicalError
from ..security.keys import verify
from .chronicle import Chronicle
from .ports import RefetchRequest, Transport
from .proofs import Proofs

SECOND_US: Final = 1_000_000
ASK_TIMEOUT_US: Final = 5 * SECOND_US
ANSWER_BYTES: Final = 1 << 20
"""About so much a member sends at a time: the asker asks again for the rest."""


@dataclass(frozen=True, slots=True)
class RefetchPort:
    """Where to ask (endpoints by name), and who hears what still is missing."""

    sources: Callable[[], Sequence[tuple[str, str]]]
    says: Callable[[str], None]


class Refetch:
    """Repairs one log that nobody else writes meanwhile."""

    def __init__(
        self,
        store: LogStore,
        cluster_id: str,
        transport: Transport,
        proofs: Proofs,
        chronicle: Chronicle,
        pause_s: float,
        port: RefetchPort,
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._transport = transport
        self._proofs = proofs
        self._chronicle = chronicle
        self._pause_s = pause_s
        self._port = port

    async def until_whole(self, damages: Sequence[LogDamaged]) -> None:
        """Fetch and put back until nothing is damaged any more, however long it takes. Raises `LogDamaged` for damage
        that no entry of a member repairs.
        """
        while damages:
            if hopeless := beyond_entries(damages):
                raise hopeless[0]
            missing = [text for gap in gaps_of(damages, self._store.last.index) if (text := await self._filled(gap))]
            if missing:
                self._port.says("; ".join(missing))
                await asyncio.sleep(self._pause_s)
            damages = await asyncio.to_thread(self._store.check)

    async def _filled(self, gap: Gap) -> str:
        """Fill a gap from the first member that has what belongs there; empty, or why nobody had."""
        refusals: list[str] = []
        for name, endpoint in self._port.sources():
            try:
                entries, seals = await self._fetched(endpoint, gap)
                await asyncio.to_thread(self._put_back, entries, seals)
            except (VeridicalError, LogOrder, LogFull) as error:
                refusals.append(f"{name}: {error}")
                continue
            self._chronicle.repaired("log", f"{gap} fetched from {name}")
            return ""
        return f"{gap} cannot be had ({'; '.join(refusals) or 'no other member is known'})"

    async def _fetched(self, endpoint: str, gap: Gap) -> tuple[list[Entry], list[Seal]]:
        entries: list[Entry] = []
        seals: list[Seal] = []
        while not entries or entries[-1].index < gap.last:
            first = entries[-1].index + 1 if entries else gap.first
            request = RefetchRequest(self._proofs.made(RefetchRequest.PURPOSE), first, gap.last)
            more, their_seals = await self._transport.refetch(endpoint, request, ASK_TIMEOUT_US)
            if not more or more[0].index != first:
                raise Unavailable(f"it does not hold entry {first}")
            entries += more
            seals += their_seals
        if why := misfit(gap, entries):
            raise Unavailable(why)
        return entries, seals

    def _put_back(self, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Entries first: they may hold the configurations that name the keys by which seals are checked."""
        self._store.repair(entries, ())
        known = self._store.configurations() if seals else []
        keys = {member.id: member.public_key for each in known for member in each.members}
        for seal in seals:
            message = sealed_bytes(self._cluster_id, seal.epoch, seal.index, seal.hash)
            if not verify(keys.get(seal.sealer, b""), message, seal.signature):
                raise Unavailable(f"its seal on entry {seal.index} does not verify")
        self._store.repair(entries, seals)
