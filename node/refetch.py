"""A log whose entries are damaged becomes whole again from other members' (*damage-is-not-truncation*).

What comes is proven before it is written: entries by the hash chain, from the whole entry behind them; seals by the
key of the member who sealed. Nothing is ever removed, and until all is whole the node takes no part in anything.

Bodies are proven by what their authors signed, and may be missing: where an entry is known that erased them. And what
this node has erased does not come back with an entry from a member that has not done so yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ..antientropy.erasures import Erasures
from ..antientropy.gaps import Gap, beyond_entries, gaps_of, misfit
from ..log.entry import Entry
from ..log.errors import LogDamaged, LogFull, LogOrder
from ..log.notary import Notary
from ..log.seal import Seal
from ..log.store import LogStore
from ..memory.errors import Unavailable, VeridicalError
from .chronicle import Chronicle
from .ports import RefetchRequest, Transport
from .proofs import Proofs

SECOND_US: Final = 1_000_000
ASK_TIMEOUT_US: Final = 5 * SECOND_US
WITNESS_ENTRIES: Final = 1 << 12
"""An erasing entry beyond the end of this log is fetched with what follows it, up to a seal, but no more than this."""

ANSWER_BYTES: Final = 1 << 20
"""About so much a member sends at a time: the asker asks again for the rest."""


@dataclass(frozen=True, slots=True)
class RefetchPort:
    """Where to ask (endpoints by name), what this node has erased, and who hears what still is missing.

    `erased` gives every erasing entry that is folded here, with each record; later ones are carried out when they are.
    """

    sources: Callable[[], Sequence[tuple[str, str]]]
    erased: Callable[[], Sequence[tuple[int, bytes]]]
    says: Callable[[str], None]


class Refetch:
    """Repairs one log that nobody else writes meanwhile."""

    def __init__(
        self,
        store: LogStore,
        notary: Notary,
        transport: Transport,
        proofs: Proofs,
        chronicle: Chronicle,
        pause_s: float,
        port: RefetchPort,
    ) -> None:
        self._store = store
        self._notary = notary
        self._transport = transport
        self._proofs = proofs
        self._chronicle = chronicle
        self._pause_s = pause_s
        self._port = port
        self._erased = Erasures()

    async def until_whole(self, damages: Sequence[LogDamaged]) -> None:
        """Fetch and put back until nothing is damaged any more, however long it takes. Raises `LogDamaged` for damage
        that no entry of a member repairs.
        """
        self._erased = Erasures(await asyncio.to_thread(self._port.erased))
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
            more, their_seals = await self._asked(endpoint, entries[-1].index + 1 if entries else gap.first, gap.last)
            entries += more
            seals += their_seals
        if why := misfit(gap, entries, await self._known_to_erase(endpoint, entries)):
            raise Unavailable(why)
        return [self._erased.without_erased(entry) for entry in entries], seals

    async def _asked(self, endpoint: str, first: int, last: int) -> tuple[list[Entry], list[Seal]]:
        request = RefetchRequest(self._proofs.made(RefetchRequest.PURPOSE), first, last)
        entries, seals = await self._transport.refetch(endpoint, request, ASK_TIMEOUT_US)
        if not entries or entries[0].index != first:
            raise Unavailable(f"it does not hold entry {first}")
        return entries, seals

    async def _known_to_erase(self, endpoint: str, entries: Sequence[Entry]) -> Erasures:
        """All that is known to be erased, so far as these entries need it: what is folded here, what this log holds
        beyond that, and entries behind its end that their seals prove.
        """
        named = {entry.erased_by for entry in entries if None in entry.bodies}
        if all(index in self._erased for index in named):
            return self._erased
        known = Erasures(await asyncio.to_thread(self._port.erased))
        for entry in entries:
            known.note(entry)
        await asyncio.to_thread(self._note_own, min(entry.index for entry in entries), known)
        for index in sorted(named):
            if index > self._store.last.index and index not in known:
                known.note(await self._witness(endpoint, index))
        return known

    def _note_own(self, after: int, known: Erasures) -> None:
        """What entries of this log behind `after` erase, as far as they can be read."""
        for index in range(after + 1, self._store.last.index + 1):
            with suppress(LogDamaged):
                if (entry := self._store.entry(index)) is not None:
                    known.note(entry)

    async def _witness(self, endpoint: str, index: int) -> Entry:
        """An entry behind the end of this log, proven by the seal of a member on it or on what follows it."""
        entries, seals = await self._asked(endpoint, index, index + WITNESS_ENTRIES)
        sealed = {seal.index: seal for seal in seals}
        keys = await asyncio.to_thread(self._keys)
        for place, entry in enumerate(entries):
            if place and entry.prev_hash != entries[place - 1].hash:
                break
            if (seal := sealed.get(entry.index)) is not None and seal.hash == entry.hash:
                self._require_signed(seal, keys)
                return entries[0]
        raise Unavailable(f"no seal proves its entry {index}, which it says has erased something")

    def _put_back(self, entries: Sequence[Entry], seals: Sequence[Seal]) -> None:
        """Entries first: they may hold the configurations that name the keys by which seals are checked."""
        self._store.repair(entries, ())
        keys = self._keys() if seals else {}
        for seal in seals:
            self._require_signed(seal, keys)
        self._store.repair(entries, seals)

    def _keys(self) -> dict[str, bytes]:
        known = self._store.configurations()
        return {member.id: member.public_key for each in known for member in each.members}

    def _require_signed(self, seal: Seal, keys: Mapping[str, bytes]) -> None:
        if not self._notary.check(seal, keys.get(seal.sealer, b"")):
            raise Unavailable(f"its seal on entry {seal.index} does not verify")
