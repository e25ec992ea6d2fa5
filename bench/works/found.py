"""How well recall finds in the invented conversations, beside SQLite's full text by itself. See `retrieval`."""

from __future__ import annotations

import names
from ours import Ours
from peers import sqlite
from retrieval.run import EMBEDDERS, figures
from retrieval.talks import talks
from rig import Rig

DEPTH = 10


async def run(rig: Rig) -> None:
    """Over all of them; over the first in a quick run."""
    found = talks()
    plain, *ours = figures(found[:1] if rig.scale.quick else found)
    for embedder, way in zip(EMBEDDERS, ours, strict=True):
        rig.figures.note(Ours.name, names.found(DEPTH, embedder), way.whole.at[DEPTH])
        rig.figures.note(sqlite.NAME, names.found(DEPTH, embedder), plain.whole.at[DEPTH])
