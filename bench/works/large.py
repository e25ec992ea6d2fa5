"""A million facts in one projection, without a cluster around it: what a question costs there."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Iterator
from typing import cast

import names
from figures import say
from ours import Ours
from rig import Rig
from texts import SCOPE, Texts
from works.recall import HITS

from veridical.log.canonical import Canonical, encode
from veridical.log.entry import GENESIS_HASH, SALT_BYTES, CommandHead, Entry, Envelope, body_hash
from veridical.log.identifier import uuid7
from veridical.memory.commands import WRITE, Command, encode_body
from veridical.memory.context import Context, OperatorRights
from veridical.memory.machine import decide_envelope
from veridical.memory.state import Workspace
from veridical.projection.answers import Filters
from veridical.projection.projection import Projection
from veridical.projection.reader import Reader
from veridical.security.digests import DigestKey

ENTRY_FACTS = 256
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
AUTHOR = bytes(range(32))
SALT, SIGNATURE = bytes(SALT_BYTES), bytes(64)
"""Nobody looks at them here: they were checked, so to say, when the entries came into the log."""

WARM_UP_QUESTIONS = 50
QUESTIONS = 400
PROGRESS_FACTS = 100_000


async def run(rig: Rig) -> None:
    """Fold facts until there are enough, and ask one question after the other."""
    facts = rig.scale.most_facts
    projection = Projection.open(rig.folder() / "projection.db")
    try:
        began = time.perf_counter()
        for number, entry in enumerate(_history(projection, rig.texts, facts), 1):
            projection.apply([entry])
            if number * ENTRY_FACTS % PROGRESS_FACTS < ENTRY_FACTS:
                say(f"  {number * ENTRY_FACTS} facts folded")
        rig.figures.note(Ours.name, names.loaded(rig.scale), facts / (time.perf_counter() - began))
        rig.figures.note(Ours.name, names.recall_in_process(rig.scale), _median_ms(projection, rig.texts))
    finally:
        projection.close()


def _history(projection: Projection, texts: Texts, facts: int) -> Iterator[Entry]:
    """Entries of facts, each decided on the state that the ones before it led to."""
    context = Context(DigestKey(bytes(32)), OperatorRights(), 1)
    hash = GENESIS_HASH
    for index, first in enumerate(range(0, facts, ENTRY_FACTS), 1):
        time_us = START_US + index * SECOND_US
        asked = [_command(texts, number, time_us) for number in range(first, min(first + ENTRY_FACTS, facts))]
        items = decide_envelope(Workspace(projection.state), asked, time_us, context, index)
        bodies = tuple(SALT + command.content for command in asked)
        heads = tuple(
            CommandHead(command.id, command.kind, body_hash(body)) for command, body in zip(asked, bodies, strict=True)
        )
        envelope = Envelope("bench", AUTHOR, time_us, heads).raw
        entry = Entry.chain(hash, index, 1, time_us, envelope, SIGNATURE, encode(cast(Canonical, items)), bodies)
        hash = entry.hash
        yield entry


def _command(texts: Texts, number: int, time_us: int) -> Command:
    id = uuid7(time_us, hashlib.sha256(number.to_bytes(8, "big")).digest())
    return Command(id, WRITE, encode_body(WRITE, texts.fact(number).write_body()), AUTHOR)


def _median_ms(projection: Projection, texts: Texts) -> float:
    reader = projection.reader()
    filters = Filters(scopes=(SCOPE,))
    taken = [_asked_ms(reader, question, filters) for question in texts.questions(WARM_UP_QUESTIONS + QUESTIONS)]
    return statistics.median(taken[WARM_UP_QUESTIONS:])


def _asked_ms(reader: Reader, question: str, filters: Filters) -> float:
    began = time.perf_counter()
    reader.recall(question, reader.standing().time_us, k=HITS, filters=filters)
    return 1000 * (time.perf_counter() - began)
