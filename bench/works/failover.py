"""Leaders killed, and leaders asked to end: for how long nothing is acknowledged."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time

import names
from load import Acknowledgements, Operation, first_success_after
from peers.peer import Peer
from rig import Rig

CALLERS = 8
BEFORE_S = 0.5
AFTER_S = 1.5


async def run(rig: Rig) -> None:
    """Both, at every cluster that has leaders."""
    for peer in rig.peers():
        async with rig.started(peer):
            killed = [await _killed(rig, peer) for _ in range(rig.scale.trials)]
            rig.figures.note(peer.name, names.FAILOVER_MEDIAN, statistics.median(killed))
            rig.figures.note(peer.name, names.FAILOVER_WORST, max(killed))
            gaps = [await _asked_to_end(rig, peer) for _ in range(rig.scale.trials)]
            rig.figures.note(peer.name, names.HANDOVER_MEDIAN, statistics.median(gaps))
            rig.figures.note(peer.name, names.HANDOVER_WORST, max(gaps))


async def _killed(rig: Rig, peer: Peer) -> float:
    """Seconds without acknowledgement."""
    leader = await peer.leader_pid()
    await peer.put(rig.block())
    taken_s = await first_success_after(lambda: os.kill(leader, signal.SIGKILL), _new_facts(rig, peer))
    await peer.revive(leader)
    return taken_s


async def _asked_to_end(rig: Rig, peer: Peer) -> float:
    """Milliseconds of the longest gap between two acknowledgements to any caller."""
    leader = await peer.leader_pid()
    acknowledgements = Acknowledgements(_new_facts(rig, peer))
    calling = asyncio.create_task(acknowledgements.run(CALLERS))
    await asyncio.sleep(BEFORE_S)
    asked_at = time.perf_counter()
    os.kill(leader, signal.SIGTERM)
    await asyncio.sleep(AFTER_S)
    acknowledgements.done = True
    await calling
    await peer.revive(leader)
    return acknowledgements.longest_gap_ms(asked_at, asked_at + AFTER_S)


def _new_facts(rig: Rig, peer: Peer) -> Operation:
    first = rig.block()
    return lambda number: peer.put_anywhere(first + number)
