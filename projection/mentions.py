"""Which commands say something of which record: where the bodies are that an erasure has to destroy.

A row for each command, in the order of the log, so that it costs an append. Who is looked for is found by walking all
rows (a tenth of a second for a million): erasures are rare, and a second index by id would be a random page for each
fact. A row names a record by half of its id; whoever finds one reads the entry to be sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..log.entry import Entry
from ..memory.changes import ABOUT_OTHERS, ID_BYTES, erased_by, subjects_of
from ..memory.events import ERASED
from .rows import mark_of, mention_number


class Mentions(NamedTuple):
    """Rows of the tables `mention` and `erasure`."""

    rows: list[tuple[int, int]]
    erasures: list[tuple[int, bytes, bool]]


def mentions_of(entries: Sequence[Entry], items: Sequence[Sequence[Any]]) -> Mentions:
    """What these entries lead to, `items` being their decoded events."""
    found = Mentions([], [])
    for entry, commands in zip(entries, items, strict=True):
        for place, item in enumerate(commands):
            if len(item) == 2 and type(item[0]) is bytes:  # nearly all: one event, about one record
                code, id, *_ = (*item[1], b"")
                if code not in ABOUT_OTHERS and code != ERASED and type(id) is bytes and len(id) == ID_BYTES:
                    found.rows.append((mention_number(entry.index, place), mark_of(id)))
                    continue
            number = mention_number(entry.index, place)
            found.rows.extend((number, mark_of(id)) for id in sorted(subjects_of(item))[:1])
            found.erasures.extend((entry.index, id, False) for id in erased_by(item))
    return found
