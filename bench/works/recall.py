"""Three-term questions through gRPC, five hits each: idle and under writes, by one client and by eight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from time import perf_counter

import names
from load import Operation, closed_loop
from names import P50, P99, QUERIES
from ours import Ours
from rig import Rig
from texts import SCOPE

from veridical.client import AsyncReplicatedMemory

CLIENTS = (1, 8)
HITS = 5
QUESTIONS = 4096
WRITERS = 2


async def run(rig: Rig) -> None:
    """At two sizes of the store."""
    questions = rig.texts.questions(QUESTIONS)
    for facts in (rig.scale.some_facts, rig.scale.many_facts):
        ours = await rig.filled(facts)
        clients = [await ours.connect() for _ in range(max(CLIENTS))]
        await _asked(rig, facts, clients, questions, under_writes=False)
        async with _writing(rig, ours, facts):
            await _asked(rig, facts, clients, questions, under_writes=True)


async def _asked(
    rig: Rig, facts: int, clients: list[AsyncReplicatedMemory], questions: list[str], under_writes: bool
) -> None:
    for number in CLIENTS:
        measured = await closed_loop([_asker(client, questions) for client in clients[:number]], rig.scale)
        for figure, value in ((QUERIES, measured.per_second), (P50, measured.p50_ms), (P99, measured.p99_ms)):
            rig.figures.note(Ours.name, names.recall(facts, number, under_writes, figure), value)


def _asker(client: AsyncReplicatedMemory, questions: list[str]) -> Operation:
    return lambda number: client.recall(questions[number % QUESTIONS], scope=SCOPE, k=HITS)


@asynccontextmanager
async def _writing(rig: Rig, ours: Ours, facts: int) -> AsyncGenerator[None]:
    """Facts are written meanwhile, by callers who each wait for one to be acknowledged before they write the next."""
    numbers = count(first := rig.block())
    done = False

    async def writer() -> None:
        while not done:
            await ours.put(next(numbers))

    began = perf_counter()
    writers = [asyncio.create_task(writer()) for _ in range(WRITERS)]
    try:
        yield
    finally:
        done = True
        await asyncio.gather(*writers)
    rig.figures.note(Ours.name, names.meanwhile(facts), (next(numbers) - first) / (perf_counter() - began))
