"""Facts spread over fifty scopes in one local memory: what a question costs there, and whether writing slows down.

In this process, by words alone and by meaning too. A question looks at everything, at one scope, or at one scope and
the two that it lies within.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import cycle

import names
from figures import say
from names import P50, P99
from ours import Ours
from rig import Rig
from works.recall import HITS

from veridical.memory import LocalMemory, MemoryRecord, ScopeLattice, lattice_recall
from veridical.memory.errors import Refused

EMBEDDERS = ("lexical", "local")
TOP = "org:bench"
TEAMS = tuple(f"team:{number}" for number in range(5))
REPOSITORIES = tuple(f"repo:{number}" for number in range(44))
SCOPES = (TOP, *TEAMS, *REPOSITORIES)
LATTICE = ScopeLattice(
    dict.fromkeys(TEAMS, TOP)
    | {repository: TEAMS[number % len(TEAMS)] for number, repository in enumerate(REPOSITORIES)}
)

FILLED_AT_ONCE = 256
PROGRESS_FACTS = 20_000
SINGLES_SHARE = 8
"""One call after the other is slow: so small a share of what a round of a cluster writes 64 in flight."""
WARM_UP_QUESTIONS = 50
QUESTIONS = 400

Rates = Mapping[str, float]


async def run(rig: Rig) -> None:
    """With each embedder in turn."""
    for embedder in EMBEDDERS:
        await asyncio.to_thread(_measure, rig, embedder)


def _measure(rig: Rig, embedder: str) -> None:
    empty: list[Rates] = []
    full: list[Rates] = []
    with closing(_opened(rig, embedder)) as memory:
        _fill(rig, memory)
        _note_questions(rig, embedder, memory)
        for _ in range(rig.scale.rounds):  # in turn, so that what else the machine does weighs on both
            with closing(_opened(rig, embedder)) as fresh:
                empty.append(_round(rig, fresh))
            full.append(_round(rig, memory))
    for work in (names.singles(1), names.bulk(rig.scale)):
        at_size = statistics.median(rates[work] for rates in full)
        ratio = at_size / statistics.median(rates[work] for rates in empty)
        rig.figures.note(Ours.name, names.in_scopes(rig.scale, embedder, work), at_size)
        rig.figures.note(Ours.name, names.in_scopes(rig.scale, embedder, names.over(work)), ratio)


def _opened(rig: Rig, embedder: str) -> LocalMemory:
    return LocalMemory(rig.folder() / "memory.db", embedder=embedder)


def _fact(rig: Rig, number: int) -> MemoryRecord:
    return rig.texts.fact(number).model_copy(update={"scope": SCOPES[number % len(SCOPES)]})


def _fill(rig: Rig, memory: LocalMemory) -> None:
    facts = rig.scale.many_facts
    for first in range(0, facts, FILLED_AT_ONCE):
        _write(rig, memory, range(first, min(first + FILLED_AT_ONCE, facts)))
        if (first + FILLED_AT_ONCE) % PROGRESS_FACTS < FILLED_AT_ONCE:
            say(f"  {first + FILLED_AT_ONCE} facts written")


def _write(rig: Rig, memory: LocalMemory, numbers: Sequence[int]) -> None:
    for answer in memory.write_many([_fact(rig, number) for number in numbers]):
        if isinstance(answer, Refused):
            raise answer


def _round(rig: Rig, memory: LocalMemory) -> Rates:
    """Facts a second, after a few that are not counted: the first ones of a memory are slow."""
    scale, singles, bulk = rig.scale, rig.scale.round_singles // SINGLES_SHARE, rig.scale.bulk
    _write(rig, memory, range(first := rig.block(), first + bulk))
    return {
        names.singles(1): _rate(lambda number: memory.write(_fact(rig, number)), singles, rig.block()),
        names.bulk(scale): bulk * _rate(
            lambda number: _write(rig, memory, range(number * bulk, (number + 1) * bulk)),
            scale.round_bulks, rig.block() // bulk,
        ),
    }  # fmt: skip


def _rate(call: Callable[[int], object], calls: int, first: int) -> float:
    began = time.perf_counter()
    for number in range(first, first + calls):
        call(number)
    return calls / (time.perf_counter() - began)


def _note_questions(rig: Rig, embedder: str, memory: LocalMemory) -> None:
    somewhere = cycle(REPOSITORIES)
    ways: dict[str, Callable[[str], object]] = {
        names.RECALL: lambda question: memory.recall(question, k=HITS),
        names.RECALL_IN_ONE: lambda question: memory.recall(question, k=HITS, scope=next(somewhere)),
        names.LATTICE_RECALL: lambda question: lattice_recall(
            memory, question, k=HITS, scope=next(somewhere), lattice=LATTICE
        ),
    }
    questions = rig.texts.questions(WARM_UP_QUESTIONS + QUESTIONS)
    for way, ask in ways.items():
        taken = sorted([_asked_ms(ask, question) for question in questions][WARM_UP_QUESTIONS:])
        figures = {P50: statistics.median(taken), P99: taken[len(taken) * 99 // 100]}
        for figure, value in figures.items():
            rig.figures.note(Ours.name, names.in_scopes(rig.scale, embedder, f"{way}, {figure}"), value)


def _asked_ms(ask: Callable[[str], object], question: str) -> float:
    began = time.perf_counter()
    ask(question)
    return 1000 * (time.perf_counter() - began)
