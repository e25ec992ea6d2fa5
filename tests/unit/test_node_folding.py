"""When the fold begins: at once for those who wait, after the acknowledgement, or with whatever follows soon."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from veridical.node.folding import COMMANDS_TO_LINGER_FOR, FoldPort, FoldSchedule


class Engine:
    """What the schedule asks of its engine, played by the test; every index is one command."""

    def __init__(self) -> None:
        self.folded: list[int] = []
        self.is_awaited = False
        self.is_acknowledging = False
        port = FoldPort(self.folded.append, lambda: self.is_awaited, lambda: self.is_acknowledging, lambda index: index)
        self.schedule = FoldSchedule(port)

    async def until_folded(self) -> None:
        async with asyncio.timeout(5):
            while not self.folded:  # noqa: ASYNC110 (the linger has to pass)
                await asyncio.sleep(0.001)


def with_engine(play: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await play(Engine())

    asyncio.run(run())


def test_what_somebody_waits_for_is_folded_at_once() -> None:
    """A caller or a read that waits ends the lingering, also when it comes later."""

    async def play(engine: Engine) -> None:
        engine.schedule.committed(3)
        assert engine.folded == []
        engine.is_awaited = True
        engine.schedule.look()
        assert engine.folded == [3]

    with_engine(play)


def test_single_writes_are_gathered() -> None:
    """What is committed while the fold lingers goes in the same transaction, once."""

    async def play(engine: Engine) -> None:
        engine.schedule.committed(1)
        engine.schedule.committed(2)
        await engine.until_folded()
        engine.schedule.look()
        assert engine.folded == [2]

    with_engine(play)


def test_a_round_that_is_worth_a_transaction_does_not_linger() -> None:
    """Lingering saves transactions, and a full one needs no saving."""

    async def play(engine: Engine) -> None:
        engine.schedule.committed(COMMANDS_TO_LINGER_FOR)
        assert engine.folded == [COMMANDS_TO_LINGER_FOR]

    with_engine(play)


def test_the_acknowledgement_goes_first() -> None:
    """While a write is on its way to the disk the fold waits, even when it is due; for a read it does not."""

    async def play(engine: Engine) -> None:
        engine.is_acknowledging = True
        engine.schedule.committed(COMMANDS_TO_LINGER_FOR)
        assert engine.folded == []
        engine.is_acknowledging = False
        engine.schedule.look()
        assert engine.folded == [COMMANDS_TO_LINGER_FOR]
        engine.is_acknowledging = engine.is_awaited = True
        engine.schedule.committed(COMMANDS_TO_LINGER_FOR + 1)
        assert engine.folded[-1] == COMMANDS_TO_LINGER_FOR + 1

    with_engine(play)
