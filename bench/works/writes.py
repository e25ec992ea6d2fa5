"""Facts written one a call and in bulk, beside the same number of bytes at the peers."""

from __future__ import annotations

import names
from load import Operation, closed_loop
from peers import sqlite, syncobj
from peers.sqlite import SqliteFacts
from peers.syncobj import PySyncObj
from rig import Rig

IN_FLIGHT = (1, 8, 64)
BULKS_IN_FLIGHT = 16


async def run(rig: Rig) -> None:
    """Every system in turn."""
    await _pysyncobj(rig)
    for peer in rig.peers():
        async with rig.started(peer):
            await _singles(rig, peer.name, peer.put)
            await _bulks(rig, peer.name, names.bulk(rig.scale), peer.put_many)
    await _sqlite(rig)


async def on_slow_disk(rig: Rig) -> None:
    """Ours on a disk whose fsync takes longer: what grouping commits is for."""
    scale = rig.scale
    peer = rig.ours(scale.simulated_fsync_ms)
    async with rig.started(peer):
        measured = await closed_loop([peer.put] * 64, scale, rig.block())
        rig.figures.note(peer.name, names.on_slow_disk(scale, names.singles(64)), measured.per_second)
        await _bulks(rig, peer.name, names.on_slow_disk(scale, names.bulk(scale)), peer.put_many)


async def _singles(rig: Rig, system: str, put: Operation) -> None:
    for in_flight in IN_FLIGHT:
        measured = await closed_loop([put] * in_flight, rig.scale, rig.block())
        rig.figures.note(system, names.singles(in_flight), measured.per_second)
        rig.figures.note(system, names.latency(in_flight), measured.p50_ms)


async def _bulks(rig: Rig, system: str, work: str, put_many: Operation) -> None:
    scale = rig.scale
    measured = await closed_loop([put_many] * BULKS_IN_FLIGHT, scale, rig.block() // scale.bulk)
    rig.figures.note(system, work, measured.per_second * scale.bulk)


async def _pysyncobj(rig: Rig) -> None:
    if not PySyncObj.is_installed():
        rig.figures.skip(syncobj.NAME, syncobj.MISSING)
        return
    rig.figures.machine[syncobj.NAME] = PySyncObj.version()
    peer = PySyncObj(rig.folder())
    try:
        await peer.start()
        await _singles(rig, peer.name, peer.put)
    finally:
        await peer.stop()


async def _sqlite(rig: Rig) -> None:
    """What bulk has to beat: one machine on which each fact waits for the disk."""
    facts = SqliteFacts(rig.folder(), rig.texts)
    try:
        measured = await closed_loop([facts.put], rig.scale)
        rig.figures.note(sqlite.NAME, names.bulk(rig.scale), measured.per_second)
    finally:
        facts.close()
