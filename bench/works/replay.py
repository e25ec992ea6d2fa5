"""A projection deleted and folded again from the log of its node, in this process."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import names
from ours import Ours
from rig import Rig

from veridical.log.store import LogStore
from veridical.node.identity import Places
from veridical.projection.projection import Projection


async def run(rig: Rig) -> None:
    """Of a node that has stopped; the cluster is not there afterwards."""
    ours = await rig.filled(rig.scale.many_facts)
    await rig.close()
    places = Places.inside(ours.data / "n1")
    log = LogStore.open(places.log, read_only=True)
    try:
        last = log.commit_index
        facts = sum(len(entry.bodies) for entry, _ in log.history(last=last))
        rates = [facts / _rebuilt_in_s(places.projection, log, last) for _ in range(rig.scale.rounds)]
    finally:
        log.close()
    rig.figures.note(Ours.name, names.REPLAY, statistics.median(rates))


def _rebuilt_in_s(path: Path, log: LogStore, last: int) -> float:
    began = time.perf_counter()
    Projection.rebuild(path, log, last).close()
    return time.perf_counter() - began
