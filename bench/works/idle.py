"""What a node takes while nobody asks for anything."""

from __future__ import annotations

import asyncio
import time

import names
from peers.peer import Peer
from peers.processes import cpu_seconds, resident_mb
from rig import Rig

SETTLE_S = 1.0


async def run(rig: Rig) -> None:
    """Empty stores; ours also when it is full."""
    for peer in rig.peers():
        async with rig.started(peer):
            await _note(rig, peer, names.IDLE_CORE, names.IDLE_MEMORY)
    full = await rig.filled(rig.scale.many_facts)
    await _note(rig, full, names.idle_full(rig.scale, names.IDLE_CORE), names.idle_full(rig.scale, names.IDLE_MEMORY))


async def _note(rig: Rig, peer: Peer, core: str, memory: str) -> None:
    await asyncio.sleep(SETTLE_S)
    pids = peer.pids()
    used, began = sum(map(cpu_seconds, pids)), time.perf_counter()
    await asyncio.sleep(rig.scale.idle_s)
    used = sum(map(cpu_seconds, pids)) - used
    rig.figures.note(peer.name, core, 100 * used / (time.perf_counter() - began) / len(pids))
    rig.figures.note(peer.name, memory, max(map(resident_mb, pids)))
